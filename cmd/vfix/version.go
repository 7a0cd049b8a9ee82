// The verb version.

package main

import (
	"context"

	"github.com/spf13/cobra"
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
