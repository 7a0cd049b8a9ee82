// What install and uninstall print. See the rules in output.go.

package main

import (
	"fmt"
	"io"
	"strings"

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
		writeChanges(&b, o.err.paint, r.Changes)
		if b.Len() > 0 {
			o.line(strings.TrimRight(b.String(), "\n"))
		}
	}
}

// installed prints what was done.
func (o *output) installed(verb string, opts InstallOptions, r *install.Result) error {
	for _, w := range r.Warnings {
		o.warn("%s", w)
	}
	if opts.json() {
		return o.json(installJSON(verb, opts.DryRun, r))
	}
	switch {
	case len(r.Changes) == 0 && verb == "uninstall" && len(r.Engines) == 0:
		o.note("nothing to do: vfix is not installed in %s", opts.Root)
	case len(r.Changes) == 0:
		o.note("nothing to do: everything is up to date")
	case opts.DryRun:
		writeChanges(o.stdout, o.out.paint, r.Changes)
		o.note("dry run: nothing was written")
	default:
		o.note("%s changed in %s", count(len(r.Changes), "file"), opts.Root)
	}
	if opts.DryRun {
		return nil
	}
	if len(r.Commands) > 0 {
		o.note("to apply the change, run the command printed on stdout")
	}
	for _, c := range r.Commands {
		o.result(c)
	}
	o.usage(r)
	return nil
}

// usage says how containers come to the new runtime.
func (o *output) usage(r *install.Result) {
	for _, n := range r.Notes {
		o.note("%s", n)
	}
	if r.RuntimeClass == "" {
		return
	}
	o.note("pods select it with this RuntimeClass; create it with 'kubectl apply -f':")
	for line := range strings.Lines(r.RuntimeClass) {
		o.line("  " + printable(strings.TrimRight(line, "\n")))
	}
}

// writeChanges lists changes: the difference of text files, one line for others.
func writeChanges(w io.Writer, c palette, changes []install.Change) {
	for _, ch := range changes {
		size := ""
		if ch.Diff == "" && ch.Size > 0 {
			size = ", " + humanSize(int64(ch.Size))
		}
		if ch.Link != "" {
			size = " -> " + printable(ch.Link)
		}
		fmt.Fprintln(w, c.bold(string(ch.Action)+" "+printable(ch.Path))+size)
		for line := range strings.Lines(ch.Diff) {
			line = strings.TrimRight(line, "\r\n")
			text := printable(strings.ReplaceAll(line, "\t", "        "))
			switch {
			case strings.HasPrefix(line, "+"):
				text = c.green(text)
			case strings.HasPrefix(line, "-"):
				text = c.red(text)
			}
			fmt.Fprintln(w, text)
		}
	}
}
