// What vfix version prints.

package main

import (
	"cmp"
	"fmt"

	"vfix.dev/vfix/cmd/vfix/embedded"
	"vfix.dev/vfix/shim"
)

// build prints which vfix this is.
func (o *output) build(opts VersionOptions, b buildInfo) error {
	if opts.json() {
		return o.json(struct {
			jsonDocument
			buildInfo
			Library int   `json:"library_size"`
			Trace   int   `json:"trace_size"`
			Runtime int64 `json:"runtime_size"`
		}{document("version"), b, len(shim.Library()), len(shim.Trace()), embedded.Size(embedded.Runtime)})
	}
	from := cmp.Or(b.Commit, "not known")
	if b.Modified {
		from += " with changes"
	}
	fmt.Fprintf(o.Stdout, "vfix %s\ncommit    %s\nbuilt by  %s for %s\nshim      %d bytes\nfallback  libvfix.so %d bytes, vfix-trace %d bytes\n",
		b.Version, from, b.Go, b.Platform, b.Shim, len(shim.Library()), len(shim.Trace()))
	if size := embedded.Size(embedded.Runtime); size > 0 {
		fmt.Fprintf(o.Stdout, "runtime   vfix-runtime %d bytes, compressed\n", size)
	}
	return nil
}
