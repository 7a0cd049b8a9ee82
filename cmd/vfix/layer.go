// The verb layer: its options.

package main

import (
	"context"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images"
)

// LayerOptions are the choices of vfix layer.
type LayerOptions struct {
	workOptions
	dest    string
	program string
}

func newLayerCommand(out *output, e engine) *cobra.Command {
	var opts LayerOptions
	cmd := &cobra.Command{
		Use:  "layer [options]",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return runLayer(cmd.Context(), opts, out, e) },
	}
	f := cmd.Flags()
	f.StringVarP(&opts.dest, "output", "o", "", "write the layer to `DEST` (default: the local engine)")
	f.StringVar(&opts.program, "program", "", "include this `FILE` as vfix, a static linux/amd64 program (default: the running one)")
	f.BoolVar(&opts.read.Media.Insecure, "insecure", false, "allow plain HTTP and unverified TLS for registries")
	opts.printOptions.add(cmd)
	return cmd
}

func runLayer(ctx context.Context, opts LayerOptions, out *output, e engine) error {
	if opts.dest == "-" {
		return usagef("layer", "-o -: cannot write the layer to stdout, which is used for its name")
	}
	if err := opts.begin("layer", out); err != nil {
		return err
	}
	program, err := programFor("layer", "the layer needs", opts.program)
	if err != nil {
		return err
	}
	done, err := e.layer(ctx, images.LayerOptions{
		Media: opts.read.Media, Dest: opts.dest, Program: program, Version: buildVersion().Version, Shim: opts.read.Shim,
	})
	if err != nil {
		return err
	}
	return out.layered(opts, done)
}

// programFor is the path of the vfix to copy elsewhere: a static one for linux/amd64. what names the user of it.
func programFor(verb, what, named string) (string, error) {
	switch {
	case named != "":
		return named, nil
	case runtime.GOOS != "linux" || runtime.GOARCH != "amd64":
		return "", usagef(verb, "this vfix is for %s/%s and %s one for linux/amd64: name it with --program", runtime.GOOS, runtime.GOARCH, what)
	}
	return os.Executable()
}

// layered prints what is in the layer to stderr, its name to stdout.
func (o *output) layered(opts LayerOptions, done *images.Layered) error {
	o.Note("%s with %s", screen.Size(done.Size), strings.Join(done.Files, ", "))
	if opts.json() {
		return o.document("layer", false, *done)
	}
	o.Result(done.Reference)
	return nil
}
