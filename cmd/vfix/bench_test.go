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
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/patch"
	"vfix.dev/vfix/internal/hinterr"
)

// benchEngine has figures and directories made up.
func benchEngine() engine {
	figures := func(modes []bench.Mode) []bench.Figure {
		var all []bench.Figure
		for _, function := range bench.Functions {
			for i, m := range modes {
				ns := 1.5 * float64(1+i*i*i)
				all = append(all, bench.Figure{Function: function, Mode: m.Name, Nanoseconds: ns, Least: ns / 2, Most: 2 * ns, Ratio: ns / 1.5, PerSecond: 1e9 / ns})
			}
		}
		last := &all[len(all)-1]
		*last = bench.Figure{Function: last.Function, Mode: last.Mode, Absent: "a reason\x1b[31m"}
		return all
	}
	return engine{
		draw: drawFigures,
		benchHost: func(_ context.Context, o bench.Options) ([]bench.Figure, error) {
			o.Step(1, bench.VDSO)
			return figures(bench.Modes), nil
		},
		benchImage: func(context.Context, string, string, bench.Options) ([]bench.Figure, error) {
			return figures(bench.ImageModes), nil
		},
		benchRedis: func(context.Context, bench.RedisOptions) ([]bench.Redis, error) {
			l := []bench.Latency{{Percent: 50, Milliseconds: 0.5}, {Percent: 100, Milliseconds: 3}}
			return []bench.Redis{
				{Mode: bench.Original, Test: "SET", PerSecond: 1000, Least: 900, Most: 1100, Latencies: l},
				{Mode: bench.Rebuilt, Test: "SET", PerSecond: 2100, Least: 2000, Most: 2200, Latencies: l},
				{Mode: bench.Original, Test: "GET", Absent: "it died"},
				{Mode: bench.Rebuilt, Test: "GET", PerSecond: 2200, Least: 2200, Most: 2200, Latencies: l},
			}, nil
		},
		unpack: func(_ context.Context, _, dir string, _ media.Options) error {
			return os.WriteFile(filepath.Join(dir, "file"), nil, 0o644)
		},
		patch: func(context.Context, []string, patch.Options) (*contents.Findings, error) {
			return patchable(), nil
		},
	}
}

func TestBenchPrints(t *testing.T) {
	e := benchEngine()
	for line, want := range map[string][]string{
		"bench":           {"TIME", "GETCPU", "vdso", "1.50", "0.75 to 3.00", "667 M", "fallback-unhealed", "not here: a reason"},
		"bench x":         {"image-rebuilt", "TO VDSO"},
		"bench --redis x": {"SET", "2100", "2000 to 2200", "2.10", "not here: it died", "ANSWERED WITHIN MS", "0.5"},
	} {
		got := runLine(e, strings.Fields(line)...)
		if got.status != 0 {
			t.Errorf("vfix %s: status %d: %s", line, got.status, got.stderr)
		}
		for _, w := range want {
			if !strings.Contains(got.stdout, w) {
				t.Errorf("vfix %s: no %q in:\n%s", line, w, got.stdout)
			}
		}
		if strings.Contains(got.stdout, "\x1b") {
			t.Errorf("vfix %s: an escape sequence got through", line)
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
	missing := filepath.Join(t.TempDir(), "no", "x.svg")
	if got := runLine(benchEngine(), "bench", "--plot", missing); got.status != statusError || !strings.Contains(got.stderr, missing[:len(missing)-6]) {
		t.Errorf("a directory that is not there: status %d: %s", got.status, got.stderr)
	}
}

func TestBenchUsage(t *testing.T) {
	for line, want := range map[string]string{
		"bench x y":                    "2 images",
		"bench --redis":                "needs an IMAGE",
		"bench --plot x.pdf":           ".svg, .png",
		"bench --redis x --plot x.png": "does not work with --redis",
		"bench --rounds -1":            "--rounds",
		"bench --sample 0":             "--sample",
		"bench --redis x --requests 0": "--requests",
		"bench --format xml":           "xml",
	} {
		got := runLine(benchEngine(), strings.Fields(line)...)
		if got.status != statusUsage || !strings.Contains(got.stderr, want) {
			t.Errorf("vfix %s: status %d, want usage and %q: %s", line, got.status, want, got.stderr)
		}
	}
}

// TestBenchCleansUp: nothing stays in the temporary directory, whatever fails.
func TestBenchCleansUp(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	e := benchEngine()
	e.benchImage = func(context.Context, string, string, bench.Options) ([]bench.Figure, error) {
		return nil, errors.New("it broke")
	}
	if got := runLine(e, "bench", "x"); got.status != statusError || !strings.Contains(got.stderr, "hint") {
		t.Errorf("status %d: %s", got.status, got.stderr)
	}
	e.unpack = func(context.Context, string, string, media.Options) error { return hinterr.ErrNotFound }
	if got := runLine(e, "bench", "x"); got.status != statusError {
		t.Errorf("status %d: %s", got.status, got.stderr)
	}
	left, err := os.ReadDir(os.TempDir())
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
