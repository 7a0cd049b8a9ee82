// The verb uninstall, and its options: those that it shares with install.

package main

import (
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/host/install"
)

func newUninstallCommand(out *output, e engine) *cobra.Command {
	var opts InstallOptions
	cmd := &cobra.Command{
		Use:   "uninstall [options] [ENGINE]",
		Short: "Undo vfix install",
		Long: `Restore, byte for byte, each file that 'vfix install' changed, and remove the
files it created: for one ENGINE, or for all. If a file was changed by others
since, only vfix's part is removed, with a warning. Files that another engine
still needs are kept, and so are the runtime's cache and its record of starts.

If containers that were started through vfix-runtime are running, vfix names
them and changes nothing: the engine needs vfix-runtime to stop and remove them.
With --force, a link to the real runtime replaces vfix-runtime.

Stopped containers of docker, podman or containerd (nerdctl) that use the
runtime are also named, and can still be started, unpatched: the runtime stays
in the engine's configuration, not as the default, and vfix-runtime becomes a
link to the real runtime. Create the containers again without it, then run the
command again to remove the rest. With --force, everything is removed at once,
and these containers no longer start.

No daemon is restarted. The command that makes the engine read the change is
printed on stdout.`,
		Example: `  vfix uninstall --dry-run      show what would change
  vfix uninstall docker         then run the printed command`,
		Annotations: exits(`  0  success, or nothing to do
  1  error: everything written before it is restored   2  usage error`),
		ValidArgs: installEngines(),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return oneOf("uninstall", "ENGINE", args[0], installEngines())
			}
			return atMost(1, "ENGINE")(cmd, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			return runUninstall(opts, strings.Join(args, ""), out, e)
		},
	}
	cmd.Flags().BoolVar(&opts.Force, "force", false, "continue while containers that were started through vfix-runtime are running; a link to the real runtime replaces vfix-runtime. Keep nothing for stopped ones")
	opts.addShared(cmd)
	return cmd
}

func runUninstall(opts InstallOptions, name string, out *output, e engine) error {
	opts.Engine = install.Engine(name)
	opts.Show = out.showInstall(opts)
	done, err := e.uninstall(opts.Options)
	if err != nil {
		return err
	}
	return out.installed("uninstall", opts, done)
}
