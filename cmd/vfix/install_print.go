// The output of install and uninstall. See the rules in package screen.

package main

import (
	"fmt"
	"io"
	"strings"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/install"
)

// showInstall returns what shows the changes before they are made: on stderr, for stdout
// carries what to type next.
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

// installed prints what was done.
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

// usage says how containers come to the new runtime.
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
