// The verb version.

package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/embedded"
	"vfix.dev/vfix/shim"
)

// VersionOptions are the choices of vfix version.
type VersionOptions struct{ printOptions }

func newVersionCommand(out *output, _ engine) *cobra.Command {
	var opts VersionOptions
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print version and build information",
		Long: `Print the version, the commit it was built from, the Go version it was built
with, and the sizes of the code that vfix injects into patched files, of
libvfix.so, of vfix-trace and of vfix-runtime.`,
		Example: `  vfix version
  vfix version --format json`,
		Annotations: exits(`  0  success   2  usage error`),
		Args:        noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runVersion(cmd.Context(), opts, out)
		},
	}
	opts.addFormat(cmd)
	return cmd
}

func runVersion(_ context.Context, opts VersionOptions, out *output) error {
	if err := opts.check("version"); err != nil {
		return err
	}
	return out.build(opts, buildVersion())
}

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
