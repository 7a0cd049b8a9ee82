// The output of vfix bench, what it refuses, and that its temporary directory goes.

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vfix.dev/vfix/host/bench"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/patch"
	"vfix.dev/vfix/images/source"
)

// benchEngine has made-up figures and directories.
func benchEngine() engine {
	return engine{
		bench: func(_ context.Context, o bench.Options) (all []bench.Figure, err error) {
			if o.Requests > 0 {
				return []bench.Figure{
					{Mode: bench.Original, Function: "SET", Value: 1000, Least: 900, Most: 1100, Ratio: 1}, {Mode: bench.Rebuilt, Function: "SET", Value: 2100, Ratio: 2.1},
					{Mode: bench.Original, Function: "GET", Absent: "it died"}, {Mode: bench.Rebuilt, Function: "GET", Value: 2200},
				}, nil
			}
			modes := []string{bench.VDSO, bench.Page}
			if o.Original != "" {
				modes = []string{bench.VDSO, bench.Rebuilt}
			}
			for _, function := range bench.Functions {
				for i, mode := range modes {
					ns := 1.5 * float64(1+i*i*i)
					all = append(all, bench.Figure{Function: function, Mode: mode, Value: ns, Least: ns / 2, Most: 2 * ns, Ratio: ns / 1.6})
				}
			}
			last := &all[len(all)-1]
			*last = bench.Figure{Function: last.Function, Mode: last.Mode, Absent: "a reason\x1b[31m"}
			return all, nil
		},
		unpack: func(_ context.Context, _, dir string, _ source.Options) error {
			return os.WriteFile(filepath.Join(dir, "file"), nil, 0o644)
		},
		patch: func(context.Context, []string, patch.Options) (*contents.Findings, error) { return patchable(), nil },
	}
}

func TestBench(t *testing.T) {
	for line, want := range map[string][]string{
		"bench":           {"NS PER CALL  TIME  TO VDSO  GETTIMEOFDAY  TO VDSO  GETCPU  TO VDSO\nvdso         1.50  0.94", "not measured: page: a reason"},
		"bench x":         {"image-rebuilt", "TO VDSO"},
		"bench --redis x": {"SET", "REQUESTS PER SECOND  SET   TO IMAGE  GET", "image-rebuilt        2100", "2.10", "not measured: image: it died"},
	} {
		got := runLine(benchEngine(), strings.Fields(line)...)
		if got.status != 0 || strings.Contains(got.stdout, "\x1b") {
			t.Errorf("vfix %s: %+v", line, got)
		}
		for _, w := range want {
			if !strings.Contains(got.stdout, w) {
				t.Errorf("vfix %s: no %q in:\n%s", line, w, got.stdout)
			}
		}
		if err := validate(t, runLine(benchEngine(), append(strings.Fields(line), "--format", "json")...).stdout); err != nil {
			t.Errorf("vfix %s: %#v", line, err)
		}
	}
	for line, want := range map[string]string{
		"bench x y": "2 images", "bench --redis": "needs an IMAGE", "bench --plot x.pdf": ".svg", "bench --redis x --plot x.svg": "--redis and --plot do not go together", "bench --rounds -1": "--rounds",
	} {
		if got := runLine(benchEngine(), strings.Fields(line)...); got.status != statusUsage || !strings.Contains(got.stderr, want) {
			t.Errorf("vfix %s: got %+v", line, got)
		}
	}
}

func TestBenchPlot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.svg")
	if got := runLine(benchEngine(), "bench", "--plot", file); got.status != 0 {
		t.Fatal(got.stderr)
	}
	b, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(b), "<svg") || !strings.Contains(string(b), "vsyscall=") || !strings.Contains(string(b), ", vfix ") {
		t.Errorf("%v, %.40q", err, b)
	}
}

// Nothing stays in the temporary directory, whatever fails.
func TestBenchCleansUp(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	e := benchEngine()
	e.bench = func(context.Context, bench.Options) ([]bench.Figure, error) {
		return nil, errors.New("it broke")
	}
	if got := runLine(e, "bench", "x"); got.status != statusError || !strings.Contains(got.stderr, "hint") {
		t.Errorf("got %+v", got)
	}
	e.unpack = func(context.Context, string, string, source.Options) error { return errors.New("no") }
	if got := runLine(e, "bench", "x"); got.status != statusError {
		t.Errorf("got %+v", got)
	}
	left, err := os.ReadDir(os.TempDir())
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
