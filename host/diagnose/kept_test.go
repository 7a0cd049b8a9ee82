package diagnose

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/recorded"
)

// kept has all that was said about the inputs of a test, by its name.
var kept = map[string][]string{}

// keep records what is said about an input, in testdata/said.
func keep(t testing.TB, input string, r *Result, err error) {
	t.Helper()
	name := t.Name()
	if kept[name] == nil {
		t.Cleanup(func() {
			slices.Sort(kept[name])
			recorded.Text(t, "said/"+name, strings.Join(slices.Compact(kept[name]), ""))
			delete(kept, name)
		})
	}
	var w strings.Builder
	first := strings.Join(strings.Fields(input), " ")
	fmt.Fprintf(&w, "> %.120s\n", first)
	if err != nil {
		fmt.Fprintf(&w, "  error: %v\n  hint: %s\n", err, hinterr.HintOf(err))
	} else {
		putLine(&w, "  ", "lines", r.Lines, "understood", r.Understood, "unread", r.Unread, "first", r.UnreadLine, "containers", r.Containers)
		for _, c := range r.Crashes {
			keepCrash(&w, c)
		}
	}
	kept[name] = append(kept[name], w.String())
}

func keepCrash(w *strings.Builder, c *Crash) {
	fmt.Fprintf(w, "  %s, %s, %s: %s\n", c.Source, c.Kind, c.Confidence, c.Title())
	putLine(w, "    ", "program", c.Program, "command", c.Command, "executable", c.Executable, "processes", c.PIDs, "count", c.Count,
		"thread", c.TID, "signal", c.Signal, "when", c.When)
	putLine(w, "    ", "fault", c.Fault, "ip", c.IP, "sp", c.SP, "known", c.Known, "function", c.Function, "page", c.Page)
	putLine(w, "    ", "verdict", c.Verdict)
	putLine(w, "    ", "meaning", c.Meaning)
	if k := c.Caller; k != nil {
		putLine(w, "    caller ", "return", k.Return, "module", k.Module, "offset", k.Offset, "vaddr", k.Vaddr, "symbol", k.Symbol, "into", k.Into,
			"build", k.BuildID, "file", k.File, "package", k.Package, "libc", k.Libc, "tail", k.Tail)
		if k.Site != nil {
			fmt.Fprintf(w, "      site: %#x, %v\n", k.Site.Site.Vaddr, k.Site.Form)
		}
		for _, l := range k.Lines {
			fmt.Fprintf(w, "      code: %v\n", l)
		}
	}
	for _, f := range c.Fixes {
		fmt.Fprintf(w, "    fix: %s: %s\n", f.Command, f.Why)
	}
	if c.Next != nil {
		fmt.Fprintf(w, "    next: %s: %s\n", c.Next.Command, c.Next.Why)
	}
	for _, n := range c.Notes {
		fmt.Fprintf(w, "    note: %s\n", n)
	}
	for _, l := range c.Lines {
		fmt.Fprintf(w, "    log: %.80s\n", l)
	}
}

// putLine writes a line of names and their values, without those that are zero.
func putLine(w *strings.Builder, indent string, pairs ...any) {
	var words []string
	for n := 0; n < len(pairs); n += 2 {
		switch v := reflect.ValueOf(pairs[n+1]); {
		case v.IsZero():
		case v.Kind() == reflect.Uint64:
			words = append(words, fmt.Sprintf("%s: %#x", pairs[n], pairs[n+1]))
		default:
			words = append(words, fmt.Sprintf("%s: %+v", pairs[n], pairs[n+1]))
		}
	}
	if len(words) > 0 {
		fmt.Fprintf(w, "%s%s\n", indent, strings.Join(words, ", "))
	}
}

// diagnosedText is Text, whose result is recorded.
func diagnosedText(t testing.TB, input string, o Options) (*Result, error) {
	t.Helper()
	r, err := Text("input", strings.NewReader(input), o)
	keep(t, input, r, err)
	return r, err
}

// logged is Log, whose result is recorded.
func logged(t testing.TB, input string, o Options) ([]*Crash, int, error) {
	t.Helper()
	r, err := readLog("input", strings.NewReader(input), o)
	keep(t, input, r, err)
	if err != nil {
		return nil, 0, err
	}
	return r.Crashes, r.Lines, nil
}
