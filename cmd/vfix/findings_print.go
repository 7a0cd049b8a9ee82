// The tables of scan, patch, rebuild, verify and hotfix.

package main

import (
	"fmt"

	"vfix.dev/vfix/cmd/vfix/listing"
	"vfix.dev/vfix/cmd/vfix/tables"
	"vfix.dev/vfix/images/contents"
)

// findings prints what scan or patch found.
func (o *output) findings(d tables.Deed, opts printOptions, all ...*contents.Findings) error {
	for _, f := range all {
		o.warnings(f)
		if d != tables.Scanned {
			o.consequences(f)
		}
	}
	if opts.json() {
		return o.json(findingsJSON(d, all))
	}
	for i, f := range all {
		if i > 0 {
			fmt.Fprintln(o.Stdout)
		}
		if opts.explain {
			listing.Explain(o.Stdout, o.Out, f)
		}
		tables.Write(o.Stdout, o.Out, d, f)
	}
	return nil
}

// warnings prints what the rewriter has to say about files.
func (o *output) warnings(f *contents.Findings) {
	for _, text := range f.Warnings {
		o.Warn("%s", text)
	}
	for i := range f.Files {
		for _, text := range f.Files[i].Plan.Warnings {
			o.Warn("%s: %s", f.Files[i].Path, text)
		}
	}
}

// consequences prints what works no longer in files that are patched.
func (o *output) consequences(f *contents.Findings) {
	for i := range f.Files {
		for _, text := range f.Files[i].Plan.Consequences {
			o.Warn("%s: %s", f.Files[i].Path, text)
		}
	}
}
