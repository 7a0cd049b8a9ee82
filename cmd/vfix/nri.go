// The verb nri: a plugin of containerd and CRI-O that adds vfix-runtime to containers as a hook. The plugin is
// a program of its own, which this one executes.

package main

import (
	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/embedded"
	"vfix.dev/vfix/host/nri"
	"vfix.dev/vfix/host/policy"
)

func newNRICommand(_ *output, e engine) *cobra.Command {
	var opts nri.Options
	cmd := &cobra.Command{
		Use:   "nri [options]",
		Short: "Patch the pods of a node as a plugin of containerd or CRI-O",
		Long: `Connect to the Node Resource Interface (NRI) of containerd 2 or CRI-O 1.30 and
later, and add vfix-runtime as an OCI hook to each selected container of a pod.
The hook patches the container's files before its program starts, as the runtime
that 'vfix install' configures does. Pods need no RuntimeClass, and the engine's
configuration and the engine itself stay as they are. If the plugin ends,
containers keep running, and new ones start unpatched.

deploy/kubernetes/nri.yaml runs it on every node: see 'vfix help kubernetes'.

A container gets the hook if all of these agree:
  1. the options below: each one that is given must match
  2. the node's policy, the file of --vfix-config: with opt_in, only pods with
     the annotation dev.vfix.enable=true; with fail_closed and without
     allow_disable, pods cannot opt out
  3. the pod: dev.vfix.enable=false leaves it as it is
Not hooked are containers of the RuntimeClass vfix, which needs no hook, and of
Kata Containers, whose guest a hook does not reach.

With --audit, no container is changed. One line is printed for each image that
runs on the node, and a summary every day and at the end: which images would be
patched, and so need a rebuild. This needs the node's process IDs, and the
capabilities SYS_PTRACE and DAC_READ_SEARCH.

In PATTERN, * matches any text and ? one character; !PATTERN excludes. A message
for each container that is patched, opts out or fails goes to stderr.`,
		Example: `  vfix nri --audit                                   only report
  vfix nri --namespace 'legacy-*'                    pods of some namespaces
  vfix nri --image '*/redis:2.*' --image '*centos:6*'
  vfix nri --label vfix=on --namespace '!kube-system'`,
		Annotations: exits(`  0  ended by SIGTERM or SIGINT (if the engine restarts, vfix waits for it)
  1  the hook cannot be installed   2  usage error`),
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			if err := opts.Check(); err != nil {
				return usagef("nri", "%v", err)
			}
			return e.nri(opts)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&opts.Namespaces, "namespace", nil, "only pods of namespaces that match `PATTERN`; repeatable")
	f.StringArrayVar(&opts.Images, "image", nil, "only images whose name, with or without the registry, matches `PATTERN`; repeatable")
	f.StringArrayVar(&opts.Labels, "label", nil, "only pods with the label `KEY[=PATTERN]`; repeatable")
	f.StringArrayVar(&opts.Annotations, "annotation", nil, "only pods with the annotation `KEY[=PATTERN]`; repeatable")
	f.BoolVar(&opts.Audit, "audit", false, "report which images would be patched, and change nothing")
	f.StringVar(&opts.Config, "vfix-config", policy.ConfigFile, "the node's policy: a `FILE` as of 'vfix runtime'; it need not exist")
	f.StringVar(&opts.Dir, "hook-dir", nri.DefaultDir, "write the hook and its configuration to `DIR`, which the engine sees under the same path")
	f.StringVar(&opts.Socket, "socket", nri.DefaultSocket, "the NRI `SOCKET` of the engine")
	return cmd
}

// startNRI executes the plugin in place of this process.
func startNRI(o nri.Options) error {
	plugin, err := embedded.Program(embedded.NRI)
	if err != nil {
		return err
	}
	hook, err := embedded.Program(embedded.Runtime)
	if err != nil {
		return err
	}
	return nri.Start(o, plugin, hook)
}
