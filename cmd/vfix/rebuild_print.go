// The output of vfix rebuild: the table and the rest on stderr, the reference on stdout.

package main

import (
	"strings"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/records"
)

// rebuilt prints what rebuild did: the table on stderr, the reference on stdout.
func (o *output) rebuilt(opts RebuildOptions, source string, r *images.Rebuilt) error {
	for _, one := range append([]*images.Rebuilt{r}, r.Levels...) {
		o.rebuiltOne(opts, source, one)
	}
	for _, text := range r.Warnings {
		o.Warn("%s", text)
	}
	o.signatures(r, opts.to.DryRun)
	for _, where := range r.Provenance {
		o.Note("statement of provenance: %s", where)
	}
	switch {
	case r.Unchanged:
		o.Note("%s: %s", r.Findings.Source, nothingToPatch(r.Findings, opts.read.Rewriter.Fixes))
	case opts.to.DryRun:
		o.Note("dry run: nothing was written")
	default:
		for _, one := range append([]*images.Rebuilt{r}, r.Levels...) {
			if one.LayerSize > 0 {
				o.Note("wrote %s: %s plus one layer of %s", r.Reference, one.Findings.Name(), screen.Size(one.LayerSize))
			}
		}
	}
	if opts.json() {
		return o.document("rebuild", opts.to.DryRun, rebuiltJSON(opts, r))
	}
	o.Result(r.Reference)
	return nil
}

// rebuiltOne prints what was done to one image.
func (o *output) rebuiltOne(opts RebuildOptions, source string, r *images.Rebuilt) {
	o.warnings(r.Findings)
	o.consequences(r.Findings)
	if !o.Quiet && !opts.json() && (r.Findings.Affected() || len(r.Findings.Passed) > 0 || r.Findings.OpenSites() > 0) {
		writePatched(o.Stderr, o.Err, source, patching(opts.to.DryRun), r.Findings)
	}
	o.fallback(&r.Findings.Fallback, opts.to.DryRun)
	o.packages(r.Packages)
}

// packages says for each package and file that the package's record of it is of the old
// content, and what became of the record.
func (o *output) packages(all []records.Record) {
	for _, f := range all {
		name := f.Manager
		if f.Package != "" {
			name += " package " + f.Package
		}
		switch {
		case f.Stale:
			o.Note("%s: %s already differed from the package's checksum before the rebuild; record left as is", name, f.Path)
		case f.Corrected:
			o.Note("%s: updated the md5sum of %s", name, f.Path)
		case f.Manager == "dpkg":
			o.Note("%s: %s no longer matches its md5sum, so dpkg --verify will report it; --update-dpkg updates it", name, f.Path)
		default:
			o.Note("%s: %s no longer matches its recorded digest, so %s -V will report it; the record is signed and cannot be updated", name, f.Path, f.Manager)
		}
	}
}

// signatures says which signatures of the base do not hold for the result, and what to do.
func (o *output) signatures(r *images.Rebuilt, dry bool) {
	if len(r.Signatures) == 0 {
		return
	}
	for _, s := range r.Signatures {
		o.Note("the base has a %s (%s), which does not cover the result", s.Kind, s.Where)
	}
	switch {
	case dry:
	case strings.Contains(r.Reference, "@sha256:"):
		tool := "cosign"
		if strings.HasPrefix(r.Signatures[0].Kind, "notation") {
			tool = "notation"
		}
		o.Note("sign the result: %s sign %s", tool, r.Reference)
	default:
		o.Note("push the result, then sign it: cosign sign HOST/NAME@sha256:…")
	}
}

// fallback says what of the fallback a rebuild adds, and why the entrypoint is wrapped.
func (o *output) fallback(f *contents.Fallback, dry bool) {
	would := "is "
	if dry {
		would = "would be "
	}
	if len(f.Added) > 0 {
		o.Note("the fallback %sadded: %s", would, strings.Join(f.Added, ", "))
	}
	if !f.Wrapped {
		return
	}
	o.Note("the entrypoint %srun under %s; programs started by 'docker exec' or a health check are not", would, fallback.TracePath)
	for _, why := range f.Reasons {
		o.Note("a preload does not reach %s", why)
	}
}

type jsonRebuilt struct {
	*images.Rebuilt
	Fallback jsonFallback `json:"fallback"`
	Result   jsonSource   `json:"result"`
	Levels   []jsonLevel  `json:"levels,omitempty"`
}

// jsonLevel is what was done to the image for another level of x86-64.
type jsonLevel struct {
	Unchanged  bool             `json:"unchanged"`
	BaseDigest string           `json:"base_digest"`
	LayerSize  int64            `json:"layer_size"`
	Fallback   jsonFallback     `json:"fallback"`
	Packages   []records.Record `json:"packages"`
	Result     jsonSource       `json:"result"`
}

type jsonFallback struct {
	Mode string `json:"mode"`
	contents.Fallback
}

func rebuiltJSON(opts RebuildOptions, r *images.Rebuilt) jsonRebuilt {
	doc := jsonRebuilt{
		Rebuilt: r, Result: sourceJSON(r.Findings, r.Findings.Remaining()),
		Fallback: jsonFallback{string(opts.to.Fallback), r.Findings.Fallback},
	}
	for _, l := range r.Levels {
		doc.Levels = append(doc.Levels, jsonLevel{
			Unchanged: l.Unchanged, BaseDigest: l.BaseDigest, LayerSize: l.LayerSize,
			Fallback: jsonFallback{string(opts.to.Fallback), l.Findings.Fallback}, Packages: l.Packages, Result: sourceJSON(l.Findings, l.Findings.Remaining()),
		})
	}
	return doc
}
