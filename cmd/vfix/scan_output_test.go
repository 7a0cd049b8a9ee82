// scan's file, its exit status, what is ignored; colours and lines for who looks for a fault.

package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"vfix.dev/vfix/images/contents"
)

// -o has what stdout would have, and nothing is left where the work failed.
func TestScanIntoFile(t *testing.T) {
	t.Chdir(t.TempDir())
	plain := runLine(fake(patchable(), nil), "scan", "x")
	got := runLine(fake(patchable(), nil), "scan", "-o", "out.txt", "x")
	b, err := os.ReadFile("out.txt")
	if err != nil || string(b) != plain.stdout || got.stdout != "" || got.status != 3 {
		t.Errorf("got %v, %q, %+v, want %q", err, b, got, plain.stdout)
	}
	if !strings.Contains(got.stderr, "wrote out.txt") || !strings.Contains(got.stderr, "5 live or unknown call sites") {
		t.Errorf("stderr: %q", got.stderr)
	}
	for _, format := range []string{"json", "sarif"} {
		want := runLine(fake(patchable(), nil), "scan", "--format", format, "x")
		runLine(fake(patchable(), nil), "scan", "--format", format, "--output", "out.txt", "x")
		if b, _ := os.ReadFile("out.txt"); string(b) != want.stdout {
			t.Errorf("%s: got %q, want %q", format, b, want.stdout)
		}
	}
	if got := runLine(fake(patchable(), nil), "scan", "-o", "-", "x"); got.stdout != plain.stdout {
		t.Errorf("-o -: got %q", got.stdout)
	}
	before, _ := os.ReadFile("out.txt")
	if got := runLine(fake(nil, errors.New("broken")), "scan", "-o", "out.txt", "x"); got.status != 1 {
		t.Errorf("got %+v", got)
	}
	if after, _ := os.ReadFile("out.txt"); string(after) != string(before) {
		t.Errorf("a scan that failed changed the file: %q", after)
	}
	if runLine(fake(nil, errors.New("broken")), "scan", "-o", "new.txt", "x"); exists("new.txt") {
		t.Error("a scan that failed made the file")
	}
	if left, _ := os.ReadDir("."); len(left) != 1 {
		t.Errorf("left over: %v", left)
	}
	if got := runLine(fake(patchable(), nil), "scan", "-o", "no/such/dir", "x"); got.status != 1 || !strings.Contains(got.stderr, "no/such") {
		t.Errorf("got %+v", got)
	}
}

func exists(name string) bool { _, err := os.Lstat(name); return err == nil }

func TestExitCode(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		name string
		e    engine
		args []string
		want int
	}{
		{"findings", fake(patchable(), nil), []string{"--exit-code", "0"}, 0},
		{"findings, another", fake(patchable(), nil), []string{"--exit-code", "42"}, 42},
		{"nothing", fake(clean(), nil), []string{"--exit-code", "42"}, 0},
		{"incomplete", fake(unread(), nil), []string{"--exit-code", "0"}, 4},
		{"error", fake(nil, errors.New("broken")), []string{"--exit-code", "0"}, 1},
		{"no status", fake(patchable(), nil), []string{"--exit-code", "256"}, 2},
		{"no number", fake(patchable(), nil), []string{"--exit-code", "x"}, 2},
	} {
		if got := runLine(c.e, append([]string{"scan", "x"}, c.args...)...); got.status != c.want {
			t.Errorf("%s: got %d, want %d: %s", c.name, got.status, c.want, got.stderr)
		}
	}
}

// Accepted findings are shown as such in each format, and do not count; the others do not change.
func TestIgnoreFile(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte("ignore:\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) lineResult {
		return runLine(fake(patchable(), nil), append([]string{"scan", "x"}, args...)...)
	}
	write(".vfixignore.yaml", "- {path: '*', reason: a wheel, expires: 2999-01-01}\n- {path: bin/none, reason: r}")
	got := run()
	for _, want := range []string{"IGNORED", "a wheel (.vfixignore.yaml, line 2)", "2999-01-01", "NOT AFFECTED: 5 call sites ignored\n"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("no %q in %s", want, got.stdout)
		}
	}
	if got.status != 0 || !strings.Contains(got.stderr, ".vfixignore.yaml, line 3: matches no call site") {
		t.Errorf("got %d, %s", got.status, got.stderr)
	}
	if got := run("--format", "json"); got.status != 0 || strings.Count(got.stdout, `"reason": "a wheel"`) != 5 || !strings.Contains(got.stdout, `"verdict": "not-affected"`) {
		t.Errorf("json: got %+v", got)
	}
	if err := validate(t, schema(t), run("--format", "json").stdout); err != nil {
		t.Error(err)
	}
	if got := run("--format", "sarif"); got.status != 0 || strings.Count(got.stdout, `"justification": "a wheel (.vfixignore.yaml, line 2, until 2999-01-01)"`) != 5 {
		t.Errorf("sarif: got %+v", got)
	}
	write("other.yaml", "- {path: '*libpthread*', reason: r}\n- {path: '*libc-2*', reason: r, expires: 2020-01-01}")
	got = run("--ignore-file", "other.yaml")
	if got.status != 3 || !strings.Contains(got.stdout, "AFFECTED: 3 call sites in 1 file; vfix can fix all of them") || !strings.Contains(got.stderr, "other.yaml, line 3: expired after 2020-01-01: call sites that count again: 3") {
		t.Errorf("got %+v", got)
	}
	write("bad.yaml", "- {path: '*'}")
	if got := run("--ignore-file", "bad.yaml"); got.status != 1 || !strings.Contains(got.stderr, "bad.yaml: line 2: no reason") {
		t.Errorf("got %+v", got)
	}
	if got := run("--ignore-file", "none.yaml"); got.status != 1 || got.stdout != "" {
		t.Errorf("got %+v", got)
	}
	half := patchable()
	half.Passed = []contents.Passed{{Path: "root", Reason: "permission denied", Unread: true}}
	if got := runLine(fake(half, nil), "scan", "x"); got.status != 4 || !strings.Contains(got.stdout, "INCOMPLETE: 1 path could not be read") {
		t.Errorf("what was not examined is cleared: %+v", got)
	}
}

// --debug says what a SOURCE was opened as.
func TestDebug(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("x", []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, option := range []string{"-v", "--debug"} {
		if got := runLine(theEngine, "scan", option, "x"); !strings.Contains(got.stderr, "vfix: debug: x: opened as x x") {
			t.Errorf("%s: got %q", option, got.stderr)
		}
	}
	if got := runLine(theEngine, "scan", "x"); strings.Contains(got.stderr, "debug:") {
		t.Errorf("got %q", got.stderr)
	}
}

func TestColorOption(t *testing.T) {
	t.Chdir(t.TempDir())
	for when, want := range map[string]bool{"auto": false, "always": true, "never": false} {
		got := runLine(fake(patchable(), nil), "scan", "--color", when, "x")
		if strings.Contains(got.stdout, "\x1b[") != want || got.status != 3 {
			t.Errorf("--color %s: got %q", when, got.stdout)
		}
	}
	if got := runLine(fake(nil, errors.New("broken")), "scan", "--color=always", "x"); !strings.Contains(got.stderr, "\x1b[") {
		t.Errorf("got %q", got.stderr)
	}
	if got := runLine(fake(clean(), nil), "scan", "--color", "blue", "x"); got.status != 2 || !strings.Contains(got.stderr, "--color blue: want one of auto, always, never") {
		t.Errorf("got %+v", got)
	}
}
