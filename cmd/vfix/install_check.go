// vfix install --check: what is installed, and whether a start works.

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/install"
)

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

// checked prints what was found.
func (o *output) checked(opts InstallOptions, c *install.Checked) error {
	if opts.json() {
		if err := o.document("install", false, *c); err != nil {
			return err
		}
	} else {
		o.checkedTable(c)
	}
	if len(c.Problems) == 0 {
		return nil
	}
	return &findingsError{msg: screen.Count(len(c.Problems), "problem") + " with the installation", hint: "see 'vfix help nodes'"}
}

func (o *output) checkedTable(c *install.Checked) {
	t := &screen.Table{Head: []string{"CHECK", "RESULT", "DETAILS"}, Right: -1}
	ok := func(good bool) string {
		if good {
			return "ok"
		}
		return "FAILED"
	}
	if c.Installed {
		t.Add([]string{"program", ok(c.Program != ""), c.Program + " " + c.Version})
	}
	for _, f := range c.Files {
		t.Add([]string{"file", ok(f.State != install.Gone), f.Path + ": " + string(f.State)})
	}
	for _, e := range c.Engines {
		t.Add([]string{string(e.Engine), ok(e.Names), e.Config})
	}
	switch {
	case c.Start != nil:
		t.Add([]string{"start", ok(c.Start.OK), fmt.Sprintf("a container with a legacy program, %.2f s", c.Start.Seconds)})
	case c.Installed:
		t.Add([]string{"start", "-", "not tried"})
	}
	if !t.Empty() {
		t.Write(o.Stdout, o.Out)
	}
	for _, p := range c.Problems {
		o.Warn("%s", p)
	}
}
