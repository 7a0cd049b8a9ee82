// The verb nri: a plugin of containerd and CRI-O that adds vfix-runtime to containers as a hook. The plugin is
// a program of its own, which this one executes.

package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/host/nri"
)

func newNRICommand(*output, engine) *cobra.Command {
	var opts nri.Options
	cmd := newVerb("nri [options]", noArguments, func(ctx context.Context, _ []string) error {
		if err := opts.Check(); err != nil {
			return usagef("%v", err)
		}
		return startNRI(ctx, opts)
	})
	f := cmd.Flags()
	f.StringArrayVar(&opts.Namespaces, "namespace", nil, "only pods of namespaces that match `PATTERN`; repeatable")
	f.StringArrayVar(&opts.Images, "image", nil, "only images whose name, with or without the registry, matches `PATTERN`; repeatable")
	f.StringArrayVar(&opts.Labels, "label", nil, "only pods with the label `KEY[=PATTERN]`; repeatable")
	f.StringArrayVar(&opts.Annotations, "annotation", nil, "only pods with the annotation `KEY[=PATTERN]`; repeatable")
	f.StringVar(&opts.Dir, "hook-dir", nri.DefaultDir, "write the hook to `DIR`, which the engine sees under the same path")
	f.StringVar(&opts.Socket, "socket", nri.DefaultSocket, "the NRI `SOCKET` of the engine")
	return cmd
}

// startNRI executes the plugin in place of this process, unless a signal has ended it by then.
func startNRI(ctx context.Context, o nri.Options) error {
	plugin, err := embeddedProgram("vfix-nri")
	if err != nil {
		return err
	}
	hook, err := embeddedProgram("vfix-runtime")
	if err != nil {
		return err
	}
	// From here on a signal ends the process at once: a caught one would be lost when the plugin is executed.
	signal.Reset(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return nri.Start(o, plugin, hook)
}
