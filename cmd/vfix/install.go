// The verbs install and uninstall: their options and their output.

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/install"
)

func newInstallCommand(out *output, e engine) *cobra.Command {
	var o install.Options
	cmd := newInstaller("install [options] ENGINE", 1, &o, out, func() (*install.Result, error) {
		if o.Default && o.Engine != "docker" {
			return nil, usagef("--default-runtime is for docker: it does not work with %s", o.Engine)
		}
		var err error
		if o.Programs, err = programs(); err != nil {
			return nil, err
		}
		return e.install(o)
	})
	cmd.Flags().BoolVar(&o.Default, "default-runtime", false, "docker: also serve containers that select no runtime")
	return cmd
}

func newUninstallCommand(out *output, e engine) *cobra.Command {
	var o install.Options
	return newInstaller("uninstall [options] [ENGINE]", 0, &o, out, func() (*install.Result, error) {
		if o.Config != "" && o.Engine == "" {
			return nil, usagef("--config needs an ENGINE")
		}
		return e.uninstall(o)
	})
}

// newInstaller is what install and uninstall have in common: act does the work of a verb, and its result is printed.
func newInstaller(use string, least int, o *install.Options, out *output, act func() (*install.Result, error)) *cobra.Command {
	cmd := newVerb(use, arguments("ENGINE", least, 1), func(_ context.Context, args []string) error {
		o.Engine = strings.Join(args, "")
		switch {
		case o.Config != "" && !filepath.IsAbs(o.Config):
			return usagef("--config %s: want an absolute path, as the engine has it", o.Config)
		case o.Config != "" && (o.Engine == "podman" || o.Engine == "crio"):
			return usagef("--config is for docker and containerd: %s has a file of its own for the hook", o.Engine)
		}
		done, err := act()
		if err != nil {
			return err
		}
		err = out.show(o.DryRun, *done, func(screen.Stream) { out.installed(o.DryRun, done) })
		if err == nil && done.Stays {
			return finding("afterwards, run the same command again to remove the rest", "the runtime is still needed, and stays")
		}
		return err
	})
	cmd.ValidArgs = install.Engines()
	f := cmd.Flags()
	f.StringVar(&o.Config, "config", "", "configuration `FILE` of docker or containerd, if it is not at its usual place")
	f.StringVar(&o.Root, "root", "/", "work on the machine whose root directory is `DIR`")
	f.BoolVar(&o.DryRun, "dry-run", false, "show what would be done without writing anything")
	addFormat(cmd)
	return cmd
}

// programs are what install writes: this program, and the one that it carries.
func programs() (map[string][]byte, error) {
	runtime, err := embeddedProgram("vfix-runtime")
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile("/proc/self/exe")
	return map[string][]byte{"vfix": own, install.RuntimeName: runtime}, err
}

// installed prints what changed on stderr, and on stdout what to type or to add to a file. A dry run prints the changes
// on stdout.
func (o *output) installed(dryRun bool, r *install.Result) {
	if len(r.Changes) == 0 && !r.Stays {
		o.Note("nothing to do")
	}
	if len(r.Users) > 0 {
		o.Note("these containers need the runtime: %s", strings.Join(r.Users, ", "))
	}
	if dryRun {
		o.Note("dry run: nothing was written")
		r.Commands = nil
	}
	if len(r.Commands) > 0 {
		o.Note("these changes take effect with the systemctl command on stdout:")
	}
	for _, c := range r.Changes {
		o.changed(c, dryRun)
	}
	for _, c := range r.Commands {
		if c == "systemctl restart docker" {
			o.Warn("a restart of docker stops its containers, unless it has the option live-restore")
		}
		o.Result(c)
	}
}

// changed prints one change; of a dry run also the content. What a person must do comes last: stdout follows.
func (o *output) changed(c install.Change, dryRun bool) {
	line := "write " + c.Path + ", " + screen.Size(int64(c.Size))
	switch {
	case c.ByHand && c.Removed:
		line = "remove these lines from " + c.Path + ":"
	case c.ByHand:
		line = "add these lines to " + c.Path + ":"
	case c.Removed:
		line = "remove " + c.Path
	}
	if dryRun {
		o.Result(line)
	} else {
		o.Note("%s", line)
	}
	if dryRun || c.ByHand {
		for text := range strings.Lines(c.Text) {
			o.Result("  " + strings.TrimRight(strings.ReplaceAll(text, "\t", "    "), "\r\n"))
		}
	}
}
