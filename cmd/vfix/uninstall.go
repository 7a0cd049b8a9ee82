// The verb uninstall, and its options: those that it shares with install.

package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/host/install"
)

func newUninstallCommand(out *output, e engine) *cobra.Command {
	var opts InstallOptions
	cmd := &cobra.Command{
		Use:   "uninstall [options] [ENGINE]",
		Short: "Take back what vfix install did",
		Long: `Puts back, to the byte, each file that 'vfix install' changed, and removes what
it made: for one ENGINE, or for all. Of a file that somebody changed since, only
vfix's part is taken out, with a warning. What another engine still needs stays.

While containers run that were started through vfix-runtime, nothing is changed:
the engine needs it to stop and remove them, and they are named. With --force, a
link to the real runtime takes its place.

No daemon is touched. On stdout stands what to type so that it sees the change.`,
		Example: `  vfix uninstall --dry-run      what would change
  vfix uninstall docker         then type what it prints`,
		Annotations: exits(`  0  done, or nothing to do
  1  an error: what was written before it is put back   2  usage`),
		ValidArgs: installEngines(),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("uninstall", "%d ENGINEs given, want 1 at most: %s", len(args), strings.Join(args, " "))
			}
			if len(args) == 1 {
				return oneOf("uninstall", "ENGINE", args[0], installEngines())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runUninstall(cmd.Context(), opts, strings.Join(args, ""), out, e)
		},
	}
	cmd.Flags().BoolVar(&opts.Force, "force", false, "even while containers run that were started through vfix-runtime: it leads to the real runtime then")
	opts.addShared(cmd)
	return cmd
}

func runUninstall(ctx context.Context, opts InstallOptions, name string, out *output, e engine) error {
	if err := opts.check("uninstall"); err != nil {
		return err
	}
	opts.Engine = install.Engine(name)
	opts.Show = out.showInstall(opts)
	done, err := e.uninstall(opts.Options)
	if err != nil {
		return err
	}
	return finishInstall(ctx, "uninstall", opts, done, out, e)
}
