// The JSON of findings: what scan and patch print, and what rebuild, verify and hotfix have in
// it.

package main

import (
	"fmt"
	"slices"

	"vfix.dev/vfix/cmd/vfix/tables"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/rewriter"
)

type jsonFindings struct {
	jsonDocument
	Results []jsonSource `json:"results"`
}

type jsonSource struct {
	Source   string `json:"source"`
	Digest   string `json:"digest"`
	Platform string `json:"platform,omitempty"`
	// Verdict is of the source as it was read, of patch, rebuild and hotfix as they leave it; Complete
	// says whether everything was examined.
	Verdict  contents.Verdict `json:"verdict"`
	Complete bool             `json:"complete"`
	Summary  jsonSummary      `json:"summary"`
	Files    []jsonFile       `json:"files"`
	Unopened []jsonPassed     `json:"not_examined"`
	Hazards  []jsonHazard     `json:"hazards"`
	Loads    *jsonLoads       `json:"loads,omitempty"`
}

type jsonLoads struct {
	Root     string   `json:"root"`
	Examined []string `json:"examined"`
	Missing  []string `json:"missing"`
	Opens    []string `json:"opens"`
}

type jsonSummary struct {
	ELFFiles  int   `json:"elf_files"`
	ExecBytes int64 `json:"exec_bytes"`
	Sites     int   `json:"sites"`
	Patched   int   `json:"patched"`
	LeftOver  int   `json:"left_over"`
	Covered   int   `json:"covered"`
	Dormant   int   `json:"dormant"`
	Benign    int   `json:"benign"`
}

type jsonFile struct {
	Path       string       `json:"path"`
	Links      []string     `json:"links"`
	Size       int64        `json:"size"`
	Layer      string       `json:"layer"`
	LayerIndex int          `json:"layer_index"`
	Libc       string       `json:"libc"`
	Static     bool         `json:"static"`
	Object     bool         `json:"object"`
	Injected   string       `json:"injected"`
	NewSize    int64        `json:"new_size"`
	Covered    string       `json:"covered"`
	Warnings   []string     `json:"warnings"`
	Sites      []jsonSite   `json:"sites"`
	Fix        *jsonFileFix `json:"fix,omitempty"`
}

type jsonSite struct {
	Vaddr    string       `json:"vaddr"`
	Offset   uint64       `json:"offset"`
	Kind     string       `json:"kind"`
	Function string       `json:"function"`
	Symbol   string       `json:"symbol"`
	Member   string       `json:"member"`
	Verdict  string       `json:"verdict"`
	Evidence string       `json:"evidence"`
	Form     string       `json:"form"`
	Reason   string       `json:"reason"`
	Change   *jsonChange  `json:"change,omitempty"`
	Listing  *jsonListing `json:"listing,omitempty"`
	// Ignored is set where an ignore file has the site.
	Ignored *contents.Ignored `json:"ignored,omitempty"`
}

type jsonChange struct {
	Vaddr  string `json:"vaddr"`
	Offset uint64 `json:"offset"`
	Before string `json:"before"`
	After  string `json:"after"`
}

type jsonListing struct {
	Before []jsonInstruction `json:"before"`
	After  []jsonInstruction `json:"after"`
}

type jsonInstruction struct {
	Vaddr   string `json:"vaddr"`
	Bytes   string `json:"bytes"`
	Text    string `json:"text"`
	Changed bool   `json:"changed"`
}

type jsonHazard struct {
	Kind    string `json:"kind"`
	Path    string `json:"path"`
	Layer   string `json:"layer"`
	Version string `json:"version"`
	Means   string `json:"means"`
	Do      string `json:"do"`
}

type jsonPassed struct {
	Path   string `json:"path"`
	Layer  string `json:"layer"`
	Reason string `json:"reason"`
	Unread bool   `json:"unread"`
}

func findingsJSON(d tables.Deed, opts printOptions, all []*contents.Findings) jsonFindings {
	doc := jsonFindings{jsonDocument: document("patch"), Results: []jsonSource{}}
	switch d {
	case tables.Scanned:
		doc.Verb = "scan"
	case tables.Planned:
		doc.DryRun = true
	}
	for _, f := range all {
		verdict := f.Verdict()
		if d != tables.Scanned {
			verdict = f.Remaining()
		}
		doc.Results = append(doc.Results, sourceJSON(f, verdict, opts.explain))
	}
	return doc
}

func sourceJSON(f *contents.Findings, v contents.Verdict, explain bool) jsonSource {
	s := jsonSource{
		Source: f.Source, Digest: f.Digest, Platform: f.Platform, Verdict: v, Complete: f.Complete(), Files: []jsonFile{}, Unopened: []jsonPassed{}, Hazards: []jsonHazard{},
		Summary: jsonSummary{ELFFiles: f.ELFFiles, ExecBytes: f.ExecBytes, LeftOver: f.LeftOver(), Covered: tables.Covered(f)},
	}
	if l := f.Loads; l != nil {
		s.Loads = &jsonLoads{l.Root, list(l.Examined), list(l.Missing), list(l.Opens)}
	}
	for i := range f.Files {
		file := fileJSON(&f.Files[i], explain)
		for _, site := range file.Sites {
			s.Summary.count(site)
		}
		s.Files = append(s.Files, file)
	}
	for _, p := range f.Passed {
		s.Unopened = append(s.Unopened, jsonPassed{p.Path, p.Layer, p.Reason, p.Unread})
	}
	for _, h := range f.Hazards {
		s.Hazards = append(s.Hazards, jsonHazard{string(h.Kind), h.Path, h.Layer, h.Version, h.Means(), h.Do()})
	}
	return s
}

func (s *jsonSummary) count(site jsonSite) {
	s.Sites++
	switch {
	case site.Form != rewriter.Left.String():
		s.Patched++
	case site.Verdict == rewriter.Dormant.String():
		s.Dormant++
	case site.Verdict == rewriter.Benign.String():
		s.Benign++
	}
}

func fileJSON(f *contents.File, explain bool) jsonFile {
	out := jsonFile{
		Path: f.Path, Links: list(f.Links), Size: f.Size, Layer: f.Layer, LayerIndex: f.Index,
		Libc: f.Report.Libc, Static: f.Report.Static, Object: f.Report.Object, Injected: f.Report.Injected,
		NewSize: f.Plan.Size, Covered: f.Covered, Warnings: list(slices.Concat(f.Plan.Warnings, f.Plan.Consequences, f.Plan.Notes)), Sites: []jsonSite{},
		Fix: fixJSON(f.Plan.Redirect),
	}
	for i := range f.Plan.Patches {
		p := &f.Plan.Patches[i]
		site := siteJSON(p)
		if why, ok := f.Ignored[p.Site.Offset]; ok {
			site.Ignored = &why
		}
		if explain {
			site.Listing = listingJSON(p.Listing)
		}
		out.Sites = append(out.Sites, site)
	}
	return out
}

func siteJSON(p *rewriter.Patch) jsonSite {
	s := jsonSite{
		Vaddr: hex(p.Site.Vaddr), Offset: p.Site.Offset,
		Kind: p.Site.Kind.String(), Function: p.Site.Function.String(), Symbol: p.Site.Symbol, Member: p.Site.Member,
		Verdict: p.Site.Verdict.String(), Evidence: p.Site.Reason,
		Form: p.Form.String(), Reason: p.Reason,
	}
	if p.Form != rewriter.Left {
		s.Change = &jsonChange{
			Vaddr: hex(p.Vaddr), Offset: p.Offset,
			Before: fmt.Sprintf("%x", p.Before), After: fmt.Sprintf("%x", p.After),
		}
	}
	return s
}

// listingJSON is nil where there was nothing to disassemble.
func listingJSON(e *rewriter.Explanation) *jsonListing {
	if e == nil || len(e.Before) == 0 {
		return nil
	}
	return &jsonListing{Before: instructionsJSON(e.Before), After: instructionsJSON(e.After)}
}

func instructionsJSON(lines []rewriter.Line) []jsonInstruction {
	all := []jsonInstruction{}
	for _, l := range lines {
		all = append(all, jsonInstruction{hex(l.Vaddr), fmt.Sprintf("%x", l.Bytes), l.Text, l.Changed})
	}
	return all
}
