// The verb pause: what the DaemonSets of deploy/kubernetes run when their work is done.

package main

import "github.com/spf13/cobra"

func newPauseCommand(_ *output, e engine) *cobra.Command {
	return &cobra.Command{
		Use:    "pause",
		Short:  "Do nothing until SIGTERM",
		Hidden: true,
		Long: `Do nothing until SIGTERM or SIGINT. A DaemonSet's pods must keep running: those
of deploy/kubernetes install in a container that ends, and then run this in one
without mounts and privileges.`,
		Example:     `  vfix pause`,
		Annotations: exits(`  0  ended by a signal   2  usage error`),
		Args:        atMost(0, "argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			e.stay(cmd.Context())
			return nil
		},
	}
}
