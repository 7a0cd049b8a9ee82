// The verb install: its options and those that it shares with uninstall.

package main

import (
	"context"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/host/install"
)

// InstallOptions are the choices of vfix install and vfix uninstall.
type InstallOptions struct {
	printOptions
	install.Options
	wait bool
}

func newInstallCommand(out *output, e engine) *cobra.Command {
	var opts InstallOptions
	cmd := &cobra.Command{
		Use:   "install [options] ENGINE",
		Short: "Make vfix a runtime of this machine's container engine",
		Long: `Fixes a machine instead of its images: legacy images start unmodified, by way of
vfix-runtime, which wraps the engine's own runtime. Copies this program to
/usr/local/bin and writes the configuration of the ENGINE:

  docker      "runtimes" in /etc/docker/daemon.json; nothing else in it changes.
              Then: docker run --runtime=vfix IMAGE
  podman      /etc/containers/containers.conf.d/99-vfix.conf.
              Then: podman run --runtime=vfix IMAGE
  containerd  /etc/containerd/config.toml, versions 1 to 4. With containerd 2 a
              file of its own, where the configuration imports a folder.
  crio        /etc/crio/crio.conf.d/99-vfix.conf
  k3s, rke2   config-v3.toml.d, or a template, below /var/lib/rancher
  k0s         /etc/k0s/containerd.d/vfix.toml
  auto        that of the last five which is here: for a Kubernetes node

The last five are for Kubernetes: pods choose the runtime by a RuntimeClass,
which vfix prints. The new runtime is like the default one in all but its
program, its cgroup driver too. deploy/kubernetes has a DaemonSet that runs this
verb on every node.

The difference is shown on stderr before anything is written; --dry-run shows it
on stdout and leaves it at that. What was there is kept in
/var/lib/vfix-install, and 'vfix uninstall' puts it back. Installing again
changes only what is not as it should be. A run that was killed is taken up by
the next.

No daemon is touched. On stdout stands what to type so that it sees the change.`,
		Example: `  vfix install docker --dry-run                what would change
  vfix install docker                          then type what it prints
  vfix install podman --runtime crun           wrap crun, not runc
  vfix install containerd --fail-closed        rather none than an unfixed one
  vfix install auto --root /host --wait        in a DaemonSet`,
		Annotations: exits(`  0  done, or nothing to do
  1  an error: what was written before it is put back   2  usage`),
		ValidArgs: append(installEngines(), install.Auto),
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usagef("install", "no ENGINE given: want one of %s", strings.Join(installEngines(), ", "))
			case len(args) > 1:
				return usagef("install", "%d ENGINEs given, want 1: %s", len(args), strings.Join(args, " "))
			}
			return oneOf("install", "ENGINE", args[0], append(installEngines(), install.Auto))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runInstall(cmd.Context(), opts, args[0], out, e)
		},
	}
	f := cmd.Flags()
	f.StringVar(&opts.Name, "name", install.DefaultName, "call the runtime `NAME`")
	f.StringVar(&opts.Runtime, "runtime", "", "wrap this `RUNTIME`, a name or a path (default: that of the engine's default runtime, else runc, else crun)")
	f.StringVar(&opts.Config, "config", "", "write this `FILE` of the engine's; for k3s and rke2 it is a folder (default: see above)")
	f.StringVar(&opts.Prefix, "prefix", install.DefaultPrefix, "put the program into bin in this `DIR`")
	f.StringVar(&opts.Program, "program", "", "install this `FILE`, a static vfix for linux/amd64 (default: the one that runs)")
	f.BoolVar(&opts.Default, "default-runtime", false, "have containers use it that name no runtime")
	f.BoolVar(&opts.FailClosed, "fail-closed", false, "do not start a container that vfix could not work on; otherwise it starts unfixed")
	f.BoolVar(&opts.OptIn, "opt-in", false, "fix only containers with the annotation dev.vfix.enable=true")
	f.BoolVar(&opts.Fallback, "fallback", false, "give each container libvfix.so too: see 'vfix help fallback'")
	f.BoolVar(&opts.Force, "force", false, "go on where the engine is not found here, or another runtime of that name is replaced")
	opts.addShared(cmd)
	words(cmd, "runtime", []string{"runc", "crun"})
	return cmd
}

// addShared declares what install and uninstall have in common.
func (o *InstallOptions) addShared(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.Root, "root", "/", "work on the machine whose root folder is `DIR`")
	f.BoolVar(&o.DryRun, "dry-run", false, "show what would be done, write nothing")
	f.BoolVar(&o.wait, "wait", false, "when done, stay until a signal comes: for a DaemonSet")
	o.addFormat(cmd)
}

func (o *InstallOptions) check(verb string) error {
	switch {
	case o.Root == "":
		return usagef(verb, "--root is empty: give the root folder of the machine")
	case o.wait && o.DryRun:
		return usagef(verb, "--wait stays when the work is done, and --dry-run does none: give one of them")
	}
	return o.printOptions.check(verb)
}

func runInstall(ctx context.Context, opts InstallOptions, name string, out *output, e engine) error {
	if err := opts.check("install"); err != nil {
		return err
	}
	if err := install.CheckName(opts.Name); err != nil {
		return usagef("install", "--name: %v", err)
	}
	if opts.Prefix == "" {
		return usagef("install", "--prefix is empty: give the folder whose bin the program goes to")
	}
	var err error
	if opts.Program, err = installedProgram(opts.Program); err != nil {
		return err
	}
	opts.Engine = install.Engine(name)
	opts.Show = out.showInstall(opts)
	done, err := e.install(opts.Options)
	if err != nil {
		return err
	}
	return finishInstall(ctx, "install", opts, done, out, e)
}

// finishInstall prints the result, and stays where that is wanted.
func finishInstall(ctx context.Context, verb string, opts InstallOptions, done *install.Result, out *output, e engine) error {
	if err := out.installed(verb, opts, done); err != nil || !opts.wait {
		return err
	}
	if err := out.flush(); err != nil {
		return err
	}
	out.note("done; waiting for a signal to end")
	e.stay(ctx)
	return nil
}

// installedProgram is the path of the vfix that is to be installed.
func installedProgram(named string) (string, error) {
	switch {
	case named != "":
		return named, nil
	case runtime.GOOS != "linux" || runtime.GOARCH != "amd64":
		return "", usagef("install", "this vfix is for %s/%s, and engines need one for linux/amd64: name it with --program", runtime.GOOS, runtime.GOARCH)
	}
	return os.Executable()
}

func installEngines() []string {
	var all []string
	for _, e := range install.Engines {
		all = append(all, string(e))
	}
	return all
}
