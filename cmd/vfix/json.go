package main

import (
	"fmt"
	"time"

	"vfix.dev/vfix/host/doctor"
	"vfix.dev/vfix/host/ociruntime"
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/rewriter"
	"vfix.dev/vfix/shim"
)

// The JSON that --format json prints; docs/json.md and docs/schema.json describe it, and a
// test holds them together. It is written down here and not with the engine's types, so
// that a change there cannot change it unseen. Rules: an address is a string in hex, a
// size or offset is a number of bytes; a list is never null; what is not known is "" .

// schemaVersion changes when a field changes its meaning or goes away; new fields do not
// change it.
const schemaVersion = 1

type jsonDocument struct {
	Schema int    `json:"schema"`
	Verb   string `json:"verb"`
	DryRun bool   `json:"dry_run"`
}

type jsonFindings struct {
	jsonDocument
	Results []jsonSource `json:"results"`
}

type jsonSource struct {
	Source   string       `json:"source"`
	Digest   string       `json:"digest"`
	Summary  jsonSummary  `json:"summary"`
	Files    []jsonFile   `json:"files"`
	Unopened []jsonPassed `json:"not_examined"`
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
	Path       string     `json:"path"`
	Links      []string   `json:"links"`
	Size       int64      `json:"size"`
	Layer      string     `json:"layer"`
	LayerIndex int        `json:"layer_index"`
	Libc       string     `json:"libc"`
	Static     bool       `json:"static"`
	Injected   string     `json:"injected"`
	NewSize    int64      `json:"new_size"`
	Covered    string     `json:"covered"`
	Warnings   []string   `json:"warnings"`
	Sites      []jsonSite `json:"sites"`
}

type jsonSite struct {
	Vaddr    string       `json:"vaddr"`
	Offset   uint64       `json:"offset"`
	Kind     string       `json:"kind"`
	Function string       `json:"function"`
	Symbol   string       `json:"symbol"`
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

type jsonPassed struct {
	Path   string `json:"path"`
	Layer  string `json:"layer"`
	Reason string `json:"reason"`
}

type jsonRebuilt struct {
	jsonDocument
	Reference  string          `json:"reference"`
	Digest     string          `json:"digest"`
	Unchanged  bool            `json:"unchanged"`
	BaseName   string          `json:"base_name"`
	BaseDigest string          `json:"base_digest"`
	LayerSize  int64           `json:"layer_size"`
	Fallback   jsonFallback    `json:"fallback"`
	Provenance []string        `json:"provenance"`
	Packages   []jsonPackage   `json:"packages"`
	Signatures []jsonSignature `json:"base_signatures"`
	Warnings   []string        `json:"warnings"`
	Result     jsonSource      `json:"result"`
}

type jsonSignature struct {
	Kind  string `json:"kind"`
	Where string `json:"where"`
}

type jsonPackage struct {
	Path      string `json:"path"`
	Manager   string `json:"manager"`
	Package   string `json:"package"`
	Database  string `json:"database"`
	Corrected bool   `json:"corrected"`
	Stale     bool   `json:"stale"`
}

type jsonBatch struct {
	jsonDocument
	Images  []jsonOutcome   `json:"images"`
	Summary jsonBatchCounts `json:"summary"`
}

type jsonOutcome struct {
	Line       int      `json:"line"`
	Source     string   `json:"source"`
	Dest       string   `json:"dest"`
	Status     string   `json:"status"`
	Before     bool     `json:"before"`
	Reference  string   `json:"reference"`
	Digest     string   `json:"digest"`
	BaseDigest string   `json:"base_digest"`
	Files      int      `json:"files"`
	Patched    int      `json:"patched"`
	LeftOver   int      `json:"left_over"`
	LayerSize  int64    `json:"layer_size"`
	Warnings   []string `json:"warnings"`
	Error      string   `json:"error"`
	Hint       string   `json:"hint"`
}

type jsonBatchCounts struct {
	Done       int `json:"done"`
	Unaffected int `json:"unaffected"`
	Failed     int `json:"failed"`
	NotRun     int `json:"not_run"`
}

type jsonFallback struct {
	Mode    string   `json:"mode"`
	Library bool     `json:"library"`
	Trace   bool     `json:"trace"`
	Added   []string `json:"added"`
	Wrapped bool     `json:"entrypoint_wrapped"`
	Reasons []string `json:"reasons"`
}

type jsonConverted struct {
	jsonDocument
	Source       string `json:"source"`
	SourceDigest string `json:"source_digest"`
	Reference    string `json:"reference"`
	Digest       string `json:"digest"`
	Layers       int    `json:"layers"`
}

type jsonLayered struct {
	jsonDocument
	Reference string   `json:"reference"`
	Digest    string   `json:"digest"`
	Contents  []string `json:"contents"`
	Size      int64    `json:"size"`
}

type jsonCache struct {
	jsonDocument
	Action  string           `json:"action"`
	Dir     string           `json:"dir"`
	Bytes   int64            `json:"bytes"`
	Entries []jsonCacheEntry `json:"entries"`
}

type jsonCacheEntry struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	Size int64  `json:"size"`
	Used string `json:"used"`
}

type jsonVersion struct {
	jsonDocument
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Shim     int    `json:"shim_size"`
	Library  int    `json:"library_size"`
	Trace    int    `json:"trace_size"`
}

type jsonDoctor struct {
	jsonDocument
	Failed []string    `json:"failed"`
	Checks []jsonCheck `json:"checks"`
}

type jsonCheck struct {
	Name    string       `json:"name"`
	Verdict string       `json:"verdict"`
	Found   string       `json:"found"`
	Means   string       `json:"means"`
	Do      string       `json:"do"`
	Figures []jsonFigure `json:"figures"`
	Facts   []jsonFact   `json:"facts"`
	Lines   []string     `json:"lines"`
	Notes   []string     `json:"notes"`
}

type jsonFigure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

type jsonFact struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

func document(verb string) jsonDocument { return jsonDocument{Schema: schemaVersion, Verb: verb} }

func findingsJSON(d deed, opts printOptions, all []*images.Findings) jsonFindings {
	doc := jsonFindings{jsonDocument: document("patch"), Results: []jsonSource{}}
	switch d {
	case scanned:
		doc.Verb = "scan"
	case planned:
		doc.DryRun = true
	}
	for _, f := range all {
		doc.Results = append(doc.Results, sourceJSON(f, opts.explain))
	}
	return doc
}

func rebuiltJSON(opts RebuildOptions, r *images.Rebuilt) jsonRebuilt {
	doc := jsonRebuilt{
		jsonDocument: document("rebuild"),
		Reference:    r.Reference, Digest: r.Digest, Unchanged: r.Unchanged,
		BaseName: r.BaseName, BaseDigest: r.BaseDigest, LayerSize: r.LayerSize,
		Fallback: fallbackJSON(opts.fallback, &r.Findings.Fallback),
		Packages: packagesJSON(r.Packages), Signatures: signaturesJSON(r.Signatures), Provenance: list(r.Provenance), Warnings: list(r.Warnings),
		Result: sourceJSON(r.Findings, false),
	}
	doc.DryRun = opts.dryRun
	return doc
}

func signaturesJSON(all []images.Signature) []jsonSignature {
	out := []jsonSignature{}
	for _, s := range all {
		out = append(out, jsonSignature(s))
	}
	return out
}

func packagesJSON(all []images.PackageFile) []jsonPackage {
	out := []jsonPackage{}
	for _, f := range all {
		out = append(out, jsonPackage(f))
	}
	return out
}

func batchJSON(opts RebuildOptions, b *images.Batch) jsonBatch {
	doc := jsonBatch{jsonDocument: document("rebuild"), Images: []jsonOutcome{}, Summary: jsonBatchCounts{
		Done: b.Count(images.StatusDone), Unaffected: b.Count(images.StatusUnaffected),
		Failed: b.Count(images.StatusFailed), NotRun: b.Count(images.StatusNotRun),
	}}
	doc.DryRun = opts.dryRun
	for _, o := range b.Outcomes {
		why, hint := whyFailed(o)
		doc.Images = append(doc.Images, jsonOutcome{
			Line: o.Line, Source: o.Source, Dest: o.Dest, Status: string(o.Status), Before: o.Before,
			Reference: o.Reference, Digest: o.Digest, BaseDigest: o.BaseDigest,
			Files: o.Files, Patched: o.Patched, LeftOver: o.LeftOver, LayerSize: o.LayerSize,
			Warnings: list(o.Warnings), Error: why, Hint: hint,
		})
	}
	return doc
}

func fallbackJSON(mode string, f *images.Fallback) jsonFallback {
	return jsonFallback{
		Mode: mode, Library: f.Library, Trace: f.Trace,
		Added: list(f.Added), Wrapped: f.Wrapped, Reasons: list(f.Reasons),
	}
}

func convertJSON(c *images.Converted) jsonConverted {
	return jsonConverted{
		jsonDocument: document("convert"), Source: c.Source, SourceDigest: c.SourceDigest,
		Reference: c.Reference, Digest: c.Digest, Layers: c.Layers,
	}
}

func layerJSON(l *images.Layered) jsonLayered {
	return jsonLayered{
		jsonDocument: document("layer"),
		Reference:    l.Reference, Digest: l.Digest, Contents: list(l.Files), Size: l.Size,
	}
}

func cacheJSON(action string, c *ociruntime.Cached) jsonCache {
	doc := jsonCache{jsonDocument: document("cache"), Action: action, Dir: c.Dir, Bytes: c.Bytes(), Entries: []jsonCacheEntry{}}
	for _, e := range c.Entries {
		doc.Entries = append(doc.Entries, jsonCacheEntry{e.Key, kindOf(e), e.Size, e.Used.UTC().Format(time.RFC3339)})
	}
	return doc
}

func versionJSON(b buildInfo) jsonVersion {
	return jsonVersion{
		jsonDocument: document("version"), Version: b.Version, Commit: b.Commit, Modified: b.Modified,
		Go: b.Go, Platform: b.Platform, Shim: b.Shim, Library: len(shim.Library()), Trace: len(shim.Trace()),
	}
}

// shimSize is the size in bytes of the code that is injected.
func shimSize() int { return len(shim.Code()) }

func sourceJSON(f *images.Findings, explain bool) jsonSource {
	s := jsonSource{
		Source: f.Source, Digest: f.Digest, Files: []jsonFile{}, Unopened: []jsonPassed{},
		Summary: jsonSummary{ELFFiles: f.ELFFiles, ExecBytes: f.ExecBytes, LeftOver: f.LeftOver(), Covered: coveredSites(f)},
	}
	for i := range f.Files {
		file := fileJSON(&f.Files[i], explain)
		for _, site := range file.Sites {
			s.Summary.count(site)
		}
		s.Files = append(s.Files, file)
	}
	for _, p := range f.Passed {
		s.Unopened = append(s.Unopened, jsonPassed(p))
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

func fileJSON(f *images.File, explain bool) jsonFile {
	out := jsonFile{
		Path: f.Path, Links: list(f.Links), Size: f.Size, Layer: f.Layer, LayerIndex: f.Index,
		Libc: f.Report.Libc, Static: f.Report.Static, Injected: f.Report.Injected,
		NewSize: f.Plan.Size, Covered: f.Covered, Warnings: list(f.Plan.Warnings), Sites: []jsonSite{},
	}
	for i := range f.Plan.Patches {
		p := &f.Plan.Patches[i]
		site := siteJSON(p)
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
		Kind: p.Site.Kind.String(), Function: p.Site.Function.String(), Symbol: p.Site.Symbol,
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

func hex(vaddr uint64) string { return fmt.Sprintf("%#x", vaddr) }

// list makes the empty list of what may be nil.
func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func doctorJSON(r *doctor.Report) jsonDoctor {
	doc := jsonDoctor{jsonDocument: document("doctor"), Failed: list(r.Failed()), Checks: []jsonCheck{}}
	for _, c := range r.Checks {
		j := jsonCheck{
			Name: c.Name, Verdict: string(c.Verdict), Found: c.Found, Means: c.Means, Do: c.Do,
			Figures: []jsonFigure{}, Facts: []jsonFact{}, Lines: list(c.Lines), Notes: list(c.Notes),
		}
		for _, f := range c.Figures {
			j.Figures = append(j.Figures, jsonFigure(f))
		}
		for _, f := range c.Facts {
			j.Facts = append(j.Facts, jsonFact{f.Name, f.Value})
		}
		doc.Checks = append(doc.Checks, j)
	}
	return doc
}
