// The output of vfix rebuild: the table and the rest on stderr, the reference on stdout.

package main

import (
	"strings"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/fallback"
)

// rebuilt prints what rebuild did: the table on stderr, the reference on stdout.
func (o *output) rebuilt(opts RebuildOptions, source string, r *images.Rebuilt) error {
	f := r.Findings
	o.warnings(f)
	o.consequences(f)
	if !o.Quiet && !opts.json() && (f.Affected() || len(f.Passed) > 0 || f.OpenSites() > 0) {
		writePatched(o.Stderr, o.Err, source, opts.to.DryRun, f)
	}
	o.fallback(&f.Fallback, opts.to.DryRun)
	for _, text := range r.Warnings {
		o.Warn("%s", text)
	}
	for _, text := range r.Notes {
		o.Note("%s", text)
	}
	if r.Provenance != "" {
		o.Note("statement of provenance: %s", r.Provenance)
	}
	switch {
	case r.Unchanged:
		o.Note("%s: %s", source, nothingToPatch(f, opts.read.Rewriter.Fixes))
	case opts.to.DryRun:
		o.Note("dry run: nothing was written")
	default:
		o.Note("wrote %s: %s plus one layer of %s", r.Reference, source, screen.Size(r.LayerSize))
	}
	if opts.json() {
		return o.document("rebuild", opts.to.DryRun, rebuiltJSON(opts, r))
	}
	o.Result(r.Reference)
	return nil
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
}

type jsonFallback struct {
	Mode string `json:"mode"`
	contents.Fallback
}

func rebuiltJSON(opts RebuildOptions, r *images.Rebuilt) jsonRebuilt {
	return jsonRebuilt{
		Rebuilt: r, Result: sourceJSON(r.Findings, r.Findings.Remaining()),
		Fallback: jsonFallback{string(opts.to.Fallback), r.Findings.Fallback},
	}
}
