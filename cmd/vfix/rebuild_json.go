// The JSON of vfix rebuild.

package main

import (
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/records"
)

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
	Levels     []jsonLevel     `json:"levels,omitempty"`
}

// jsonLevel is what was done to the image for another level of x86-64.
type jsonLevel struct {
	Unchanged  bool          `json:"unchanged"`
	BaseDigest string        `json:"base_digest"`
	LayerSize  int64         `json:"layer_size"`
	Fallback   jsonFallback  `json:"fallback"`
	Packages   []jsonPackage `json:"packages"`
	Result     jsonSource    `json:"result"`
}

type jsonFallback struct {
	Mode    string   `json:"mode"`
	Library bool     `json:"library"`
	Trace   bool     `json:"trace"`
	Added   []string `json:"added"`
	Wrapped bool     `json:"entrypoint_wrapped"`
	Reasons []string `json:"reasons"`
}

type jsonPackage struct {
	Path      string `json:"path"`
	Manager   string `json:"manager"`
	Package   string `json:"package"`
	Database  string `json:"database"`
	Corrected bool   `json:"corrected"`
	Stale     bool   `json:"stale"`
}

type jsonSignature struct {
	Kind  string `json:"kind"`
	Where string `json:"where"`
}

func rebuiltJSON(opts RebuildOptions, r *images.Rebuilt) jsonRebuilt {
	doc := jsonRebuilt{
		jsonDocument: document("rebuild"),
		Reference:    r.Reference, Digest: r.Digest, Unchanged: r.Unchanged,
		BaseName: r.BaseName, BaseDigest: r.BaseDigest, LayerSize: r.LayerSize,
		Fallback: fallbackJSON(opts.fallback, &r.Findings.Fallback),
		Packages: packagesJSON(r.Packages), Signatures: signaturesJSON(r.Signatures), Provenance: list(r.Provenance), Warnings: list(r.Warnings),
		Result: sourceJSON(r.Findings, r.Findings.Remaining(), false),
	}
	for _, l := range r.Levels {
		doc.Levels = append(doc.Levels, jsonLevel{
			Unchanged: l.Unchanged, BaseDigest: l.BaseDigest, LayerSize: l.LayerSize,
			Fallback: fallbackJSON(opts.fallback, &l.Findings.Fallback), Packages: packagesJSON(l.Packages), Result: sourceJSON(l.Findings, l.Findings.Remaining(), false),
		})
	}
	doc.DryRun = opts.dryRun
	return doc
}

func fallbackJSON(mode string, f *contents.Fallback) jsonFallback {
	return jsonFallback{
		Mode: mode, Library: f.Library, Trace: f.Trace,
		Added: list(f.Added), Wrapped: f.Wrapped, Reasons: list(f.Reasons),
	}
}

func packagesJSON(all []records.Record) []jsonPackage {
	out := []jsonPackage{}
	for _, f := range all {
		out = append(out, jsonPackage(f))
	}
	return out
}

func signaturesJSON(all []images.Signature) []jsonSignature {
	out := []jsonSignature{}
	for _, s := range all {
		out = append(out, jsonSignature(s))
	}
	return out
}
