// The output of install, its --check, and uninstall. See the rules in package screen.

package main

import (
	"fmt"
	"io"
	"strings"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/install"
)

// showInstall returns the function that shows the changes before they are made: on stderr, because stdout
// carries the next command.
func (o *output) showInstall(opts InstallOptions) func(*install.Result) {
	return func(r *install.Result) {
		if opts.DryRun || opts.json() {
			return
		}
		var b strings.Builder
		writeChanges(&b, o.Err.Paint, r.Changes)
		if b.Len() > 0 {
			o.Line(strings.TrimRight(b.String(), "\n"))
		}
	}
}

func (o *output) installed(verb string, opts InstallOptions, r *install.Result) error {
	for _, w := range r.Warnings {
		o.Warn("%s", w)
	}
	if opts.json() {
		return o.document(verb, opts.DryRun, *r)
	}
	switch {
	case len(r.Changes) == 0 && verb == "uninstall" && len(r.Engines) == 0:
		o.Note("nothing to do: vfix is not installed in %s", opts.Root)
	case len(r.Changes) == 0:
		o.Note("nothing to do: everything is up to date")
	case opts.DryRun:
		writeChanges(o.Stdout, o.Out.Paint, r.Changes)
		o.Note("dry run: nothing was written")
	default:
		o.Note("%s changed in %s", screen.Count(len(r.Changes), "file"), opts.Root)
	}
	if opts.DryRun {
		return nil
	}
	if len(r.Commands) > 0 {
		o.Note("to apply the change, run the command printed on stdout")
	}
	for _, c := range r.Commands {
		o.Result(c)
	}
	o.usage(r)
	return nil
}

// usage says how containers select the new runtime.
func (o *output) usage(r *install.Result) {
	for _, n := range r.Notes {
		o.Note("%s", n)
	}
	if r.RuntimeClass == "" {
		return
	}
	o.Note("pods select it with this RuntimeClass; create it with 'kubectl apply -f':")
	for line := range strings.Lines(r.RuntimeClass) {
		o.Line("  " + screen.Printable(strings.TrimRight(line, "\n")))
	}
}

// writeChanges lists changes: the difference of text files, one line for others.
func writeChanges(w io.Writer, c screen.Palette, changes []install.Change) {
	for _, ch := range changes {
		size := ""
		if ch.Diff == "" && ch.Size > 0 {
			size = ", " + screen.Size(int64(ch.Size))
		}
		if ch.Link != "" {
			size = " -> " + screen.Printable(ch.Link)
		}
		fmt.Fprintln(w, c.Bold(string(ch.Action)+" "+screen.Printable(ch.Path))+size)
		for line := range strings.Lines(ch.Diff) {
			line = strings.TrimRight(line, "\r\n")
			text := screen.Printable(strings.ReplaceAll(line, "\t", "        "))
			switch {
			case strings.HasPrefix(line, "+"):
				text = c.Green(text)
			case strings.HasPrefix(line, "-"):
				text = c.Red(text)
			}
			fmt.Fprintln(w, text)
		}
	}
}

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
	return finding("see 'vfix help nodes'", "%s with the installation", screen.Count(len(c.Problems), "problem"))
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
