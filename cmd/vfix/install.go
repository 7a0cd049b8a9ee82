// The verbs install and uninstall, and their options.

package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/host/install"
)

// InstallOptions are the choices of vfix install and vfix uninstall.
type InstallOptions struct {
	printOptions
	install.Options
}

func newInstallCommand(out *output, e engine) *cobra.Command {
	var opts InstallOptions
	var check bool
	engines := append(texts(install.Engines), install.Auto)
	cmd := &cobra.Command{
		Use:   "install [options] ENGINE",
		Short: "Make vfix a runtime of this machine's container engine",
		Long: `Fix a machine instead of its images: unmodified legacy images start through
vfix-runtime, which wraps the engine's own runtime. Copies this program and
vfix-runtime, which is part of it, to /usr/local/bin and writes the
configuration of ENGINE:

  docker      "runtimes" in /etc/docker/daemon.json; the rest is not changed.
              Then: docker run --runtime=vfix IMAGE
  podman      /etc/containers/containers.conf.d/99-vfix.conf.
              Then: podman run --runtime=vfix IMAGE
  containerd  /etc/containerd/config.toml, versions 1 to 4. With containerd 2 a
              separate file, if the configuration imports a directory.
  crio        /etc/crio/crio.conf.d/99-vfix.conf
  k3s, rke2   config-v3.toml.d, or a template, below /var/lib/rancher
  k0s         /etc/k0s/containerd.d/vfix.toml
  auto        whichever of the last five is installed: for a Kubernetes node

The last five are for Kubernetes: pods select the runtime by a RuntimeClass,
which vfix prints. The new runtime is like the default one except for its
program; the cgroup driver is the same. deploy/kubernetes has a DaemonSet that
runs this command on every node.

With --hook, podman and CRI-O start every container with vfix-runtime as an OCI
hook, and there is no runtime to select: a file in
/usr/share/containers/oci/hooks.d names the hook. Rootless podman does not read
that directory. 'vfix help how-it-works' compares the two.

The changes are shown on stderr before anything is written; with --dry-run, they
are only shown, on stdout. The original files are kept in /var/lib/vfix-install,
and 'vfix uninstall' restores them. Running install again changes only what is
not up to date. If a run was killed, the next one completes it.

With --check, nothing is installed. The command lists what is installed, checks
that the engine's configuration names it, and runs a container with a tiny
legacy program through the installed runtime, without a network. It removes
everything that it created.

No daemon is restarted. The command that makes the engine read the change is
printed on stdout.`,
		Example: `  vfix install docker --dry-run                show what would change
  vfix install docker                          then run the printed command
  vfix install podman --runtime crun           wrap crun instead of runc
  vfix install containerd --fail-closed        refuse unpatched containers
  vfix install --check                         check the installation
  vfix install containerd --root /host         in a DaemonSet`,
		Annotations: exits(`  0  success, or nothing to do
  1  error: everything written before it is restored   2  usage error
  3  --check found a problem`),
		ValidArgs: engines,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case check && len(args) == 0:
				return nil
			case len(args) == 0:
				return usagef("install", "no ENGINE given: want one of %s", strings.Join(engines, ", "))
			case len(args) > 1:
				return usagef("install", "%d ENGINEs given, want 1: %s", len(args), strings.Join(args, " "))
			}
			return oneOf("install", "ENGINE", args[0], engines)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if check {
				return runCheck(cmd, opts, args, out, e)
			}
			return runInstall(opts, args[0], out, e)
		},
	}
	f := cmd.Flags()
	f.StringVar(&opts.Name, "name", install.DefaultName, "`NAME` of the runtime in the engine")
	f.StringVar(&opts.Runtime, "runtime", "", "wrap this `RUNTIME`, a name or a path (default: the engine's default runtime, then runc, then crun)")
	f.StringVar(&opts.Config, "config", "", "configuration `FILE` of the engine; for k3s and rke2 a directory (default: see above)")
	f.StringVar(&opts.Prefix, "prefix", install.DefaultPrefix, "install the program in `DIR`/bin")
	f.StringVar(&opts.Program, "program", "", "install this `FILE`, a static vfix for linux/amd64 (default: the running one)")
	f.BoolVar(&opts.Default, "default-runtime", false, "make it the default for containers that name no runtime")
	f.BoolVar(&opts.FailClosed, "fail-closed", false, "refuse to start unpatched containers; otherwise they start unpatched")
	f.BoolVar(&opts.OptIn, "opt-in", false, "patch only containers with the annotation dev.vfix.enable=true")
	f.BoolVar(&opts.Fallback, "fallback", false, "also give each container libvfix.so: see 'vfix help fallback'")
	f.BoolVar(&opts.Hook, "hook", false, "podman and crio: patch all containers by an OCI hook, without a runtime to select")
	f.BoolVar(&opts.Force, "force", false, "continue if the engine is not found, or if another runtime of that name is replaced")
	f.BoolVar(&check, "check", false, "install nothing: check what is installed, for ENGINE or for all")
	opts.addShared(cmd)
	words(cmd, "runtime", []string{"runc", "crun"})
	return cmd
}

// addShared declares what install and uninstall have in common.
func (o *InstallOptions) addShared(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.Root, "root", "/", "work on the machine whose root directory is `DIR`")
	f.BoolVar(&o.DryRun, "dry-run", false, "show what would be done without writing anything")
	o.addFormat(cmd)
}

func runInstall(opts InstallOptions, name string, out *output, e engine) error {
	if err := install.CheckName(opts.Name); err != nil {
		return usagef("install", "--name: %v", err)
	}
	if err := checkHook(opts, name); err != nil {
		return err
	}
	var err error
	if opts.Program, err = programFor("install", "engines need", opts.Program); err != nil {
		return err
	}
	return opts.run("install", name, e.install, out)
}

// run does the work of a verb, and prints it.
func (o InstallOptions) run(verb, engine string, act func(install.Options) (*install.Result, error), out *output) error {
	o.Engine, o.Show = install.Engine(engine), out.showInstall(o)
	done, err := act(o.Options)
	if err != nil {
		return err
	}
	return out.installed(verb, o, done)
}

func runCheck(cmd *cobra.Command, opts InstallOptions, args []string, out *output, e engine) error {
	for _, name := range []string{"name", "runtime", "config", "prefix", "program", "default-runtime", "fail-closed", "opt-in", "fallback", "hook", "force", "dry-run"} {
		if cmd.Flags().Changed(name) {
			return usagef("install", "--check installs nothing: it does not work with --%s", name)
		}
	}
	if len(args) > 0 && args[0] != install.Auto {
		opts.Engine = install.Engine(args[0])
	}
	c, err := e.check(cmd.Context(), opts.Options)
	if err != nil {
		return err
	}
	return out.checked(opts, c)
}

// checkHook rejects options that need a runtime.
func checkHook(opts InstallOptions, name string) error {
	switch {
	case !opts.Hook:
		return nil
	case opts.Default:
		return usagef("install", "--hook adds no runtime: it does not work with --default-runtime")
	case opts.Runtime != "":
		return usagef("install", "--hook wraps no runtime: it does not work with --runtime")
	case slices.Contains(install.HookEngines, install.Engine(name)):
		return nil
	}
	return usagef("install", "--hook does not work with %s: want podman or crio", name)
}

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
		ValidArgs: texts(install.Engines),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return oneOf("uninstall", "ENGINE", args[0], texts(install.Engines))
			}
			return atMost(1, "ENGINE")(cmd, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			return opts.run("uninstall", strings.Join(args, ""), e.uninstall, out)
		},
	}
	cmd.Flags().BoolVar(&opts.Force, "force", false, "continue while containers that were started through vfix-runtime are running; a link to the real runtime replaces vfix-runtime. Keep nothing for stopped ones")
	opts.addShared(cmd)
	return cmd
}
