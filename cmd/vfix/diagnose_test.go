// The output and the exit status of vfix diagnose.

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vfix.dev/vfix/host/diagnose"
	"vfix.dev/vfix/images/source"
)

func finds(crashes ...*diagnose.Crash) engine {
	return engine{diagnose: func(_ context.Context, args []string, _ crashOptions) ([]*diagnose.Result, error) {
		return []*diagnose.Result{{Input: args[0], Crashes: crashes, Lines: 7}}, nil
	}}
}

// called is a crash of which everything is known.
func called() *diagnose.Crash {
	return &diagnose.Crash{
		Kind: diagnose.Call, Confidence: diagnose.Certain, Verdict: "bash called time() in the vsyscall page, which its kernel does not serve",
		Function: "time", Program: "bash", Path: "/bin/bash\x1b[31m", PIDs: []int{106}, Count: 1, Status: 139, Container: "web", Pod: "p", Image: "redis:2.8.22",
		Caller:   &diagnose.Caller{Module: "/lib/libc-2.13.so", Offset: 0x9f8bd, Symbol: "time", BuildID: "93ac61ec", File: "/lib/libc-2.13.so", Libc: "glibc 2.13", Code: "0x9f8b4: mov $0xffffffffff600400,%rax; call *%rax"},
		Evidence: []string{"a   line"}, Notes: []string{"a note"},
		Next: &diagnose.Command{Command: "vfix rebuild redis:2.8.22", Why: "writes the image"},
	}
}

func TestDiagnose(t *testing.T) {
	other := &diagnose.Crash{Kind: diagnose.Other, Confidence: diagnose.Likely, Verdict: "not the vsyscall page", Count: 1}
	unknown := &diagnose.Crash{Kind: diagnose.Unknown, Confidence: diagnose.Uncertain, Verdict: "unknown", Count: 2}
	for name, c := range map[string]struct {
		e      engine
		status int
		says   []string
	}{
		"called": {finds(called()), 3, []string{"x: bash called time() in the vsyscall page, which its kernel does not serve (certain)\n",
			"\n  caller    /lib/libc-2.13.so+0x9f8bd in time, glibc 2.13, 93ac61ec\n", "\n  code      0x9f8b4: mov", "\n  evidence  a   line\n", "\n  note      a note\n",
			"\n  next      vfix rebuild redis:2.8.22\n            writes the image\n", `/bin/bash\x1b[31m, pid 106`}},
		"other":    {finds(other), 0, []string{"x: not the vsyscall page (likely)\n"}},
		"unknown":  {finds(unknown), 4, []string{"the cause of 2 crashes is not known"}},
		"several":  {finds(other, called()), 3, []string{"\n  next      vfix rebuild redis:2.8.22\n"}},
		"many":     {finds(other, other, other, other, other, other), 0, []string{"1 more are not shown"}},
		"nothing":  {finds(), 0, []string{"x: no crash found in 7 lines of text."}},
		"affected": {finds(&diagnose.Crash{Kind: diagnose.Affected, Confidence: diagnose.Certain, Count: 1}), 3, []string{"x: AFFECTED"}},
		"an error beside": {engine{diagnose: func(context.Context, []string, crashOptions) ([]*diagnose.Result, error) {
			return []*diagnose.Result{{Input: "x", Crashes: []*diagnose.Crash{called()}}}, errors.New("core.9: cut off")
		}}, 1, []string{"time()", "vfix: error: core.9: cut off\n"}},
	} {
		got := runLine(c.e, "diagnose", "x")
		if got.status != c.status || strings.Contains(got.stdout, "\x1b") {
			t.Errorf("%s: got status %d, want %d: %s", name, got.status, c.status, got.stderr)
		}
		for _, s := range c.says {
			if !strings.Contains(got.stdout+got.stderr, s) {
				t.Errorf("%s: %q is not in\n%s%s", name, s, got.stdout, got.stderr)
			}
		}
		if n := strings.Count(got.stdout+got.stderr, called().Next.Command); n > 1 {
			t.Errorf("%s: the next command is printed %d times", name, n)
		}
		if err := validate(t, runLine(c.e, "diagnose", "--format", "json", "x").stdout); err != nil {
			t.Errorf("%s: %#v", name, err)
		}
	}
}

// A line that was not quoted is one CRASH.
func TestDiagnoseUnquoted(t *testing.T) {
	got := runLine(finds(), "diagnose", "web-1", "exited", "with", "code", "139")
	if got.status != statusDone || !strings.HasPrefix(got.stdout, "web-1 exited with code 139: ") || got.stderr != "" {
		t.Errorf("got %+v", got)
	}
}

// Each kind of CRASH, without an engine.
func TestDiagnoseAll(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	if err := os.WriteFile(log, []byte("web-1 exited with code 139\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DOCKER_HOST", "unix://"+dir+"/none.sock")
	o := crashOptions{}
	o.scan.Media = source.Options{}.WithDefaults()
	all, err := diagnoseAll(t.Context(), []string{log, "bash[7]: segfault at 0 ip 401000 sp 7ffe error 4", "no-such-container", "oci:" + dir + "/none"}, o)
	if len(all) != 2 || all[0].Crashes[0].Kind != diagnose.Unknown || all[1].Crashes[0].Kind != diagnose.Other {
		t.Errorf("got %+v", all)
	}
	if all, err := diagnoseAll(t.Context(), []string{"dir:" + dir}, o); len(all) != 1 || all[0].Crashes[0].Kind != diagnose.Unknown {
		t.Errorf("a directory: got %+v, %v", all, err)
	}
	if err == nil || !strings.Contains(err.Error(), "no-such-container: neither a file nor a container or image") || !strings.Contains(err.Error(), "none") {
		t.Errorf("got %v", err)
	}
	o.root = dir
	if all, err = diagnoseAll(t.Context(), []string{log}, o); err != nil || all[0].Crashes[0].Next.Command != "vfix scan "+dir { // nothing in the directory was examined
		t.Errorf("got %+v, %v", all[0].Crashes[0], err)
	}
	o.root = filepath.Join(dir, "none")
	if _, err = diagnoseAll(t.Context(), []string{log}, o); err == nil {
		t.Error("a root that does not exist was accepted")
	}
}
