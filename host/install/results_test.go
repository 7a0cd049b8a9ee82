package install

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"vfix.dev/vfix/internal/hinterr"
)

var update = flag.Bool("update", false, "write testdata/results.txt again")

// rooted writes with ROOT for the name of a temporary directory.
type rooted struct {
	w    *strings.Builder
	root string
}

func (r rooted) Write(p []byte) (int, error) {
	r.w.WriteString(strings.ReplaceAll(string(p), r.root, "ROOT"))
	return len(p), nil
}

// All that install and uninstall return, and each text that they write, is as in testdata/results.txt.
func TestResults(t *testing.T) {
	var b strings.Builder
	show := func(what, root string, r *Result, err error) {
		b := rooted{&b, root}
		fmt.Fprintf(b, "==== %s\n", what)
		if err != nil {
			fmt.Fprintf(b, "error: %v\nhint: %s\n", err, hinterr.HintOf(err))
			return
		}
		fmt.Fprintln(b, r.Engines)
		for _, c := range r.Changes {
			fmt.Fprintf(b, "%s %s %s\n", c.Action, c.Path, c.Link)
			if c.Action == Create || c.Action == Replace {
				fmt.Fprint(b, c.Diff)
			}
		}
		fmt.Fprintf(b, "commands %q\nnotes %q\nwarnings %q\n%s", r.Commands, r.Notes, r.Warnings, r.RuntimeClass)
	}
	for _, e := range slices.Sorted(maps.Keys(machines)) {
		for i, o := range []Options{
			{},
			{Name: "other", Prefix: "/opt", Runtime: "/usr/bin/crun", FailClosed: true, OptIn: true, Fallback: true, Default: true},
			{Name: "crun"},
			{Hook: true},
			{Config: "/etc/elsewhere"},
		} {
			files := maps.Clone(machines[e].files)
			files["usr/bin/crun"] = "\x7fELF"
			root := machine(t, files)
			o.Engine, o.Root, o.Program, o.Name = e, root, testProgram(t), cmp.Or(o.Name, "vfix")
			r, err := Install(o)
			show(fmt.Sprint(e, " ", i), root, r, err)
			if err == nil {
				r, err = Uninstall(Options{Root: root})
				show(fmt.Sprint(e, " ", i, " removed"), root, r, err)
			}
		}
		root := machine(t, map[string]string{"usr/sbin/dockerd": "", "usr/bin/podman": ""})
		r, err := Install(options(t, e, root))
		show(string(e)+" elsewhere", root, r, err)
	}
	const name = "testdata/results.txt"
	if *update {
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(name); err != nil || b.String() != string(want) {
		t.Errorf("%v: got\n%s\nwant %s", err, b.String(), name)
	}
}
