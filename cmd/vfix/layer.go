// The verb layer: its options.

package main

import (
	"context"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images"
)

func newLayerCommand(out *output, e engine) *cobra.Command {
	var opts workOptions
	var o images.LayerOptions
	cmd := newVerb("layer [options]", noArguments, func(ctx context.Context, _ []string) (err error) {
		switch {
		case o.Dest == "-":
			return usagef("-o -: cannot write the layer to stdout, which is used for its name")
		case o.Program == "" && (runtime.GOOS != "linux" || runtime.GOARCH != "amd64"):
			return usagef("this vfix is for %s/%s and the layer needs one for linux/amd64: name it with --program", runtime.GOOS, runtime.GOARCH)
		case o.Program == "":
			if o.Program, err = os.Executable(); err != nil {
				return err
			}
		}
		o.Media, o.Version, o.Shim = opts.read.Media, buildVersion().Version, opts.read.Shim
		done, err := e.layer(ctx, o)
		if err != nil {
			return err
		}
		out.Note("wrote %s: %s, %s", done.Reference, screen.Count(len(done.Files), "file"), screen.Size(done.Size))
		out.Note("for the lines of the Dockerfile: vfix help dockerfiles")
		return out.show(false, *done, func(screen.Stream) { out.Result(done.Reference) })
	})
	f := cmd.Flags()
	f.StringVarP(&o.Dest, "output", "o", "", "write the layer to `DEST` (default: the local engine)")
	f.StringVar(&o.Program, "program", "", "include this `FILE` as vfix, a static linux/amd64 program (default: the running one)")
	f.BoolVar(&opts.read.Media.Insecure, "insecure", false, "allow plain HTTP and unverified TLS for registries")
	opts.add(cmd, out)
	return cmd
}
