// The verb nri: a plugin of containerd and CRI-O that adds vfix-runtime to containers as a hook. The plugin is
// a program of its own, which this one executes.

package main

import (
	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/embedded"
	"vfix.dev/vfix/host/nri"
)

func newNRICommand(_ *output, e engine) *cobra.Command {
	var opts nri.Options
	cmd := &cobra.Command{
		Use:   "nri [options]",
		Short: "Patch the pods of a node as a plugin of containerd or CRI-O",
		Long: `Connect to the Node Resource Interface (NRI) of containerd 2 or CRI-O 1.30 and
later, and add vfix-runtime as an OCI hook to each selected container of a pod.
The hook patches the container's files before its program starts. The engine's
configuration and the engine itself stay as they are. If the plugin ends,
containers keep running, and new ones start unpatched.

deploy/kubernetes/nri.yaml runs it on every node: see 'vfix help nodes'.

Every pod gets the hook unless the options below exclude it, or its annotation
dev.vfix.enable=false. The hook reads the node's /etc/vfix/vfix.json, if there
is one, and appends a line for each start to /var/lib/vfix/starts.jsonl on the
node. Containers of Kata Containers do not get it: a hook does not reach their
guest.

In PATTERN, * matches any text and ? one character; !PATTERN excludes. A message
for each container that gets the hook or opts out goes to stderr.`,
		Example: `  vfix nri --namespace 'legacy-*'                    pods of some namespaces
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
	f.StringVar(&opts.Dir, "hook-dir", nri.DefaultDir, "write the hook to `DIR`, which the engine sees under the same path")
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
