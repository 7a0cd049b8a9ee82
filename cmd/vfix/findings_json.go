// Findings as JSON: what scan and patch print, and what rebuild, verify and hotfix have in it.

package main

import (
	"fmt"
	"slices"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

type jsonFindings struct {
	// Results are the sources, in the order in which they were given.
	Results []jsonSource `json:"results"`
}

// jsonSource is what was found in a source.
type jsonSource struct {
	*contents.Findings
	// Verdict is about the source as it was read; of patch, rebuild and hotfix, about their result.
	Verdict contents.Verdict `json:"verdict"`
	// Complete says whether everything was examined and judged.
	Complete bool        `json:"complete"`
	Summary  jsonSummary `json:"summary"`
	// Files are those with call sites.
	Files []jsonFile `json:"files"`
}

// jsonSummary has the sums over all files.
type jsonSummary struct {
	ELFFiles  int   `json:"elf_files"`  // examined
	ExecBytes int64 `json:"exec_bytes"` // of code in them
	Sites     int   `json:"sites"`      // references to the page
	Patched   int   `json:"patched"`    // of them, or to be patched
	LeftOver  int   `json:"left_over"`  // call sites that remain
	Covered   int   `json:"covered"`    // of left_over, those that the fallback catches
	Dormant   int   `json:"dormant"`    // left, and used only without a vDSO
	Benign    int   `json:"benign"`     // left, and never called
}

// jsonFile is a file with call sites.
type jsonFile struct {
	*contents.File
	Libc     string     `json:"libc"`     // "glibc 2.13"
	Static   bool       `json:"static"`   // a program without a loader
	Injected string     `json:"injected"` // the format of an earlier patch, "" for none
	NewSize  int64      `json:"new_size"` // bytes, patched
	Warnings []string   `json:"warnings"`
	Sites    []jsonSite `json:"sites"`
	Fix      *jsonFix   `json:"fix,omitempty"` // with --fix
}

// jsonSite is a reference to the page.
type jsonSite struct {
	Vaddr    string      `json:"vaddr"`
	Offset   uint64      `json:"offset"` // in the file
	Kind     string      `json:"kind"`   // of instruction or data
	Function string      `json:"function"`
	Symbol   string      `json:"symbol"` // the function around it
	Verdict  string      `json:"verdict"`
	Evidence string      `json:"evidence"` // for the verdict
	Form     string      `json:"form"`     // of the patch, or left
	Reason   string      `json:"reason"`   // for the form
	Change   *jsonChange `json:"change,omitempty"`
}

// jsonChange is bytes that change, in hex.
type jsonChange struct {
	Vaddr  string `json:"vaddr"`
	Offset uint64 `json:"offset"` // in the file
	Before string `json:"before"`
	After  string `json:"after"`
}

// jsonFix is a change besides call sites.
type jsonFix struct {
	Kind   find.Fix    `json:"kind"`
	Reason string      `json:"reason"` // why the file is left, "" if it is fixed
	Change *jsonChange `json:"change,omitempty"`
}

func sourceJSON(f *contents.Findings, v contents.Verdict) jsonSource {
	s := jsonSource{
		Findings: f, Verdict: v, Complete: f.Complete(),
		Summary: jsonSummary{ELFFiles: f.ELFFiles, ExecBytes: f.ExecBytes, LeftOver: f.Sites().Left, Covered: f.Sites().Left - f.Uncovered().Left},
	}
	for i := range f.Files {
		file := &f.Files[i]
		out := jsonFile{
			File: file, Libc: file.Report.Libc, Static: file.Report.Static, Injected: file.Report.Injected, NewSize: file.Plan.Size,
			Warnings: slices.Concat(file.Plan.Warnings, file.Plan.Consequences, file.Plan.Notes), Fix: fixJSON(file.Plan.Redirect),
		}
		for n := range file.Plan.Patches {
			p := &file.Plan.Patches[n]
			s.Summary.count(p)
			out.Sites = append(out.Sites, siteJSON(p))
		}
		s.Files = append(s.Files, out)
	}
	return s
}

func (s *jsonSummary) count(p *patch.Patch) {
	s.Sites++
	switch {
	case p.Form != patch.Left:
		s.Patched++
	case p.Site.Verdict == find.Dormant:
		s.Dormant++
	case p.Site.Verdict == find.Benign:
		s.Benign++
	}
}

func siteJSON(p *patch.Patch) jsonSite {
	s := jsonSite{
		Vaddr: hex(p.Site.Vaddr), Offset: p.Site.Offset, Kind: p.Site.Kind.String(), Function: p.Site.Function.String(), Symbol: p.Site.Symbol,
		Verdict: p.Site.Verdict.String(), Evidence: p.Site.Reason.String(), Form: p.Form.String(), Reason: p.Reason.String(),
	}
	if p.Form != patch.Left {
		s.Change = &jsonChange{hex(p.Vaddr), p.Offset, fmt.Sprintf("%x", p.Before), fmt.Sprintf("%x", p.After)}
	}
	return s
}

// fixJSON is nil if no fix was requested, or the file needs none.
func fixJSON(d *find.Redirect) *jsonFix {
	if d == nil {
		return nil
	}
	r := &jsonFix{Kind: d.Fix, Reason: d.Reason}
	if d.After != nil {
		r.Change = &jsonChange{hex(d.Vaddr), d.Offset, fmt.Sprintf("%x", d.Before), fmt.Sprintf("%x", d.After)}
	}
	return r
}
