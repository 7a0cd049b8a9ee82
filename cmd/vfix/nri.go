// The verb nri: a plugin of containerd and CRI-O that adds vfix-runtime to containers as a hook.

package main

import (
	"context"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/host/nri"
)

func newNRICommand(out *output, _ engine) *cobra.Command {
	opts := nri.Options{Log: out.Note}
	cmd := newVerb("nri [options]", noArguments, func(ctx context.Context, _ []string) error {
		if err := opts.Check(); err != nil {
			return usagef("%v", err)
		}
		hook, err := embeddedProgram(nri.HookName)
		if err != nil {
			return err
		}
		return nri.Serve(ctx, opts, hook)
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
