package bench

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vfix.dev/vfix/host/probe"
)

func printed(text string) func(context.Context) (probe.Outcome, error) {
	return func(context.Context) (probe.Outcome, error) { return probe.Outcome{Stdout: []byte(text)}, nil }
}

func TestFigures(t *testing.T) {
	failed := 0
	figures, err := measure(t.Context(), 3, []candidate{
		calls(VDSO, "", printed("vdso:time 2\nvdso:gettimeofday 20\nvdso:getcpu absent\n")),
		calls(Libc, "this system", printed("time 3000e-3\ngettimeofday 15000e-3\ngetcpu 4000e-3\n")),
		calls(Patched, "this system", func(context.Context) (probe.Outcome, error) { return probe.Outcome{}, os.ErrNotExist }),
		calls(Page, "", func(context.Context) (probe.Outcome, error) {
			failed++
			return probe.Outcome{Signal: probe.SIGSEGV}, nil
		}),
	}, Functions, VDSO)
	if err != nil || failed != 1 {
		t.Fatalf("%v, %d calls of a mode that failed", err, failed)
	}
	got := map[string]Figure{}
	for _, f := range figures {
		got[f.Mode+" "+f.Function] = f
	}
	for name, want := range map[string]Figure{
		"vdso time":         {Value: 2, Least: 2, Most: 2, Ratio: 1},
		"libc time":         {Value: 3, Least: 3, Most: 3, Ratio: 1.5},
		"libc gettimeofday": {Value: 15, Least: 15, Most: 15, Ratio: 0.75},
		"libc getcpu":       {Value: 4, Least: 4, Most: 4},
		"vdso getcpu":       {Absent: "it has no such function"},
		"patched time":      {Absent: "this system has no glibc for x86-64 (/lib64/ld-linux-x86-64.so.2)"},
		"page time":         {Absent: "this kernel does not serve the vsyscall page: a call is SIGSEGV"},
	} {
		want.Mode, want.Function, _ = strings.Cut(name, " ")
		if got[name] != want {
			t.Errorf("%s: got %+v, want %+v", name, got[name], want)
		}
	}
	if _, err := measure(t.Context(), 1, []candidate{calls(Syscall, "", func(context.Context) (probe.Outcome, error) { return probe.Outcome{Signal: probe.SIGSYS}, nil })}, Functions, VDSO); err == nil || !strings.Contains(err.Error(), "seccomp") {
		t.Errorf("got %v", err)
	}
	if median([]float64{3, 1, 2}) != 2 || median([]float64{1, 2}) != 1.5 || median(nil) != 0 {
		t.Error("median")
	}
}

// Every mode on this host. Without a glibc or the page, the reasons are those.
func TestHost(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	o := Options{Rounds: 1, Sample: 500}
	figures, err := Run(t.Context(), o)
	if err != nil || len(figures) != 6*len(Functions) {
		t.Fatalf("%d figures, %v", len(figures), err)
	}
	for _, f := range figures {
		if f.Absent == "" && (f.Value <= 0 || f.Least > f.Value || f.Most < f.Value) || f.Mode == Syscall && f.Absent != "" {
			t.Errorf("got %+v", f)
		}
	}
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestRedisOutput(t *testing.T) {
	for _, text := range []string{
		"\"SET\",\"1000.50\"\n\"GET\",\"2000.00\"\n", // 2.8 to 6
		"\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"1000.50\",\"0.1\"\n\"GET\",\"2000.00\",\"0.2\"\n",
	} {
		if got, err := parseRedis([]byte(text)); err != nil || got["SET"] != 1000.5 || got["GET"] != 2000 {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "\"SET\",\"1\"\n", "\"SET\",\"x\"\n\"GET\",\"2\"\n", "Could not connect\n"} {
		if got, err := parseRedis([]byte(text)); err == nil {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

func TestRedisRoots(t *testing.T) {
	dir := t.TempDir()
	if _, err := prepare(dir, "redis-server"); err == nil || !strings.Contains(err.Error(), "the image has no /usr/local/bin/redis-server") {
		t.Errorf("got %v", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "usr/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "usr/bin/redis-server"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if name, err := prepare(dir, "redis-server"); err != nil || name != "/usr/bin/redis-server" {
		t.Fatalf("got %s, %v", name, err)
	}
}

func TestChart(t *testing.T) {
	var b strings.Builder
	figures := []Figure{{Function: "time", Mode: VDSO, Value: 2}, {Function: "time", Mode: Page, Value: 350}, {Function: "getcpu", Mode: Page, Absent: "no"}}
	if err := Chart(&b, "This host", figures); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg", "This host", "vdso", "1000 ns", "page"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s is not in the chart", want)
		}
	}
}
