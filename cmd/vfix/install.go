// The verbs install and uninstall: their options and their output.

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/install"
)

// InstallOptions are the choices of vfix install and vfix uninstall.
type InstallOptions struct {
	printOptions
	install.Options
}

func newInstallCommand(out *output, e engine) *cobra.Command {
	var opts InstallOptions
	cmd := &cobra.Command{
		Use:       "install [options] ENGINE",
		ValidArgs: install.Engines(),
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usagef("install", "no ENGINE given: want one of %s", strings.Join(install.Engines(), ", "))
			case len(args) > 1:
				return usagef("install", "%d ENGINEs given, want 1: %s", len(args), strings.Join(args, " "))
			}
			return oneOf("install", "ENGINE", args[0], install.Engines())
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if opts.Default && args[0] != "docker" {
				return usagef("install", "--default-runtime is for docker: it does not work with %s", args[0])
			}
			var err error
			if opts.Programs, err = programs(); err != nil {
				return err
			}
			return opts.run("install", args, e.install, out)
		},
	}
	cmd.Flags().BoolVar(&opts.Default, "default-runtime", false, "docker: also serve containers that select no runtime")
	opts.addShared(cmd)
	return cmd
}

// addShared declares what install and uninstall have in common.
func (o *InstallOptions) addShared(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.Config, "config", "", "configuration `FILE` of docker or containerd, if it is not at its usual place")
	f.StringVar(&o.Root, "root", "/", "work on the machine whose root directory is `DIR`")
	f.BoolVar(&o.DryRun, "dry-run", false, "show what would be done without writing anything")
	o.addFormat(cmd)
}

// programs are what install writes: this program, and the one that it carries.
func programs() (map[string][]byte, error) {
	runtime, err := embeddedProgram("vfix-runtime")
	if err != nil {
		return nil, err
	}
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile(path)
	return map[string][]byte{"vfix": own, install.RuntimeName: runtime}, err
}

// run does the work of a verb, and prints it.
func (o InstallOptions) run(verb string, engines []string, act func(install.Options) (*install.Result, error), out *output) error {
	o.Engine = strings.Join(engines, "")
	if o.Config != "" && o.Engine == "" {
		return usagef(verb, "--config needs an ENGINE")
	}
	done, err := act(o.Options)
	if err != nil {
		return err
	}
	if o.json() {
		err = out.document(verb, o.DryRun, *done)
	} else {
		out.installed(o, done)
	}
	if err == nil && done.Stays {
		return finding("then run 'vfix uninstall' again to remove the rest", "the runtime is still needed, and stays")
	}
	return err
}

func newUninstallCommand(out *output, e engine) *cobra.Command {
	var opts InstallOptions
	cmd := &cobra.Command{
		Use:       "uninstall [options] [ENGINE]",
		ValidArgs: install.Engines(),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return oneOf("uninstall", "ENGINE", args[0], install.Engines())
			}
			return arguments("ENGINE", 0, 1)(cmd, args)
		},
		RunE: func(_ *cobra.Command, args []string) error { return opts.run("uninstall", args, e.uninstall, out) },
	}
	opts.addShared(cmd)
	return cmd
}

// installed prints what changed on stderr, and on stdout what to type or to add to a file. A dry run prints the changes
// on stdout.
func (o *output) installed(opts InstallOptions, r *install.Result) {
	if len(r.Changes) == 0 && len(r.Blocks) == 0 && !r.Stays {
		o.Note("nothing to do")
	}
	for _, c := range r.Changes {
		o.changed(c, opts.DryRun)
	}
	if len(r.Users) > 0 {
		o.Note("these containers need the runtime: %s", strings.Join(r.Users, ", "))
	}
	for _, b := range r.Blocks {
		where := "add this to %s:"
		if b.Remove {
			where = "remove these lines from %s:"
		}
		o.Note(where, b.Path)
		for line := range strings.Lines(b.Text) {
			o.Result(strings.TrimRight(line, "\n"))
		}
	}
	if opts.DryRun {
		o.Note("dry run: nothing was written")
		return
	}
	where := ""
	if filepath.Clean(opts.Root) != "/" {
		where = ", on the machine whose root is " + opts.Root
	}
	if len(r.Commands) > 0 {
		o.Note("to apply the change, run the command on stdout%s", where)
	}
	for _, c := range r.Commands {
		o.Result(c)
	}
	if r.Try != "" {
		o.Note("try it: %s", r.Try)
		o.Note("what it did: tail -n 1 /var/lib/vfix/starts.jsonl")
	}
}

// changed prints one change; of a dry run also the content.
func (o *output) changed(c install.Change, dryRun bool) {
	line := "write " + screen.Printable(c.Path) + ", " + screen.Size(int64(c.Size))
	if c.Removed {
		line = "remove " + screen.Printable(c.Path)
	}
	if !dryRun {
		o.Note("%s", line)
		return
	}
	fmt.Fprintln(o.Stdout, line)
	for text := range strings.Lines(c.Text) {
		fmt.Fprintln(o.Stdout, "  "+screen.Printable(strings.TrimRight(strings.ReplaceAll(text, "\t", "    "), "\r\n")))
	}
}
