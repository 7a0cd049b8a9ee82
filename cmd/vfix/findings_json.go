// Findings as JSON: what scan and patch print, and what rebuild, verify and hotfix have in it.

package main

import (
	"fmt"
	"slices"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
	"vfix.dev/vfix/rewriter/x86"
)

type jsonFindings struct {
	Results []jsonSource `json:"results"`
}

// jsonSource is what was found in a source. Verdict is about the source as it was read; for patch, rebuild
// and hotfix, about their result; Complete says whether everything was examined.
type jsonSource struct {
	*contents.Findings
	Verdict  contents.Verdict `json:"verdict"`
	Complete bool             `json:"complete"`
	Summary  jsonSummary      `json:"summary"`
	Files    []jsonFile       `json:"files"`
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
	*contents.File
	Libc     string       `json:"libc"`
	Static   bool         `json:"static"`
	Object   bool         `json:"object"`
	Injected string       `json:"injected"`
	NewSize  int64        `json:"new_size"`
	Warnings []string     `json:"warnings"`
	Sites    []jsonSite   `json:"sites"`
	Fix      *jsonFileFix `json:"fix,omitempty"`
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

// findingsJSON is about sources with a verdict on each: as it was read, or after the work.
func findingsJSON(all []*contents.Findings, verdict func(*contents.Findings) contents.Verdict) (doc jsonFindings) {
	for _, f := range all {
		doc.Results = append(doc.Results, sourceJSON(f, verdict(f)))
	}
	return doc
}

func sourceJSON(f *contents.Findings, v contents.Verdict) jsonSource {
	s := jsonSource{
		Findings: f, Verdict: v, Complete: f.Complete(),
		Summary: jsonSummary{ELFFiles: f.ELFFiles, ExecBytes: f.ExecBytes, LeftOver: f.LeftOver(), Covered: coveredIn(f)},
	}
	for i := range f.Files {
		file := fileJSON(&f.Files[i])
		for _, site := range file.Sites {
			s.Summary.count(site)
		}
		s.Files = append(s.Files, file)
	}
	return s
}

func (s *jsonSummary) count(site jsonSite) {
	s.Sites++
	switch {
	case site.Form != patch.Left.String():
		s.Patched++
	case site.Verdict == find.Dormant.String():
		s.Dormant++
	case site.Verdict == find.Benign.String():
		s.Benign++
	}
}

func fileJSON(f *contents.File) jsonFile {
	out := jsonFile{
		File: f, Libc: f.Report.Libc, Static: f.Report.Static, Injected: f.Report.Injected,
		NewSize: f.Plan.Size, Warnings: slices.Concat(f.Plan.Warnings, f.Plan.Consequences, f.Plan.Notes),
		Fix: fixJSON(f.Plan.Redirect),
	}
	for i := range f.Plan.Patches {
		out.Sites = append(out.Sites, siteJSON(&f.Plan.Patches[i]))
	}
	return out
}

func siteJSON(p *patch.Patch) jsonSite {
	s := jsonSite{
		Vaddr: hex(p.Site.Vaddr), Offset: p.Site.Offset,
		Kind: p.Site.Kind.String(), Function: p.Site.Function.String(), Symbol: p.Site.Symbol,
		Verdict: p.Site.Verdict.String(), Evidence: p.Site.Reason.String(),
		Form: p.Form.String(), Reason: p.Reason.String(), Listing: listingJSON(p.Listing),
	}
	if p.Form != patch.Left {
		s.Change = &jsonChange{
			Vaddr: hex(p.Vaddr), Offset: p.Offset,
			Before: fmt.Sprintf("%x", p.Before), After: fmt.Sprintf("%x", p.After),
		}
	}
	return s
}

// listingJSON is nil if there was nothing to disassemble.
func listingJSON(e *find.Explanation) *jsonListing {
	if e == nil || len(e.Before) == 0 {
		return nil
	}
	return &jsonListing{Before: instructionsJSON(e.Before), After: instructionsJSON(e.After)}
}

func instructionsJSON(lines []x86.Line) (all []jsonInstruction) {
	for _, l := range lines {
		all = append(all, jsonInstruction{hex(l.Vaddr), fmt.Sprintf("%x", l.Bytes), l.Text, l.Changed})
	}
	return all
}

// jsonFileFix describes a plan's change beyond call sites.
type jsonFileFix struct {
	Kind    find.Fix     `json:"kind"`
	Reason  string       `json:"reason"`
	Change  *jsonChange  `json:"change,omitempty"`
	Listing *jsonListing `json:"listing,omitempty"`
}

// fixJSON is nil if no fix was requested, or the file needs none.
func fixJSON(d *find.Redirect) *jsonFileFix {
	if d == nil {
		return nil
	}
	r := &jsonFileFix{Kind: d.Fix, Reason: d.Reason, Listing: listingJSON(d.Listing)}
	if d.After != nil {
		r.Change = &jsonChange{Vaddr: hex(d.Vaddr), Offset: d.Offset, Before: fmt.Sprintf("%x", d.Before), After: fmt.Sprintf("%x", d.After)}
	}
	return r
}
