// The output and the exit status of vfix diagnose.

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"vfix.dev/vfix/cmd/vfix/crash"
	"vfix.dev/vfix/host/diagnose"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
	"vfix.dev/vfix/rewriter/x86"
)

type diagnoser = func(context.Context, []string, crash.Options) ([]*diagnose.Result, error)

func finds(crashes ...*diagnose.Crash) diagnoser {
	return func(_ context.Context, args []string, _ crash.Options) ([]*diagnose.Result, error) {
		return []*diagnose.Result{{Input: args[0], Crashes: crashes, Lines: 7, Understood: true}}, nil
	}
}

// called is a crash of which everything is known.
func called() *diagnose.Crash {
	p := patchOf(site(0x9f8b4, find.Time, find.Live, "reaches the call at 0x9f8bb"), patch.Entry, "the whole function is a stub")
	before, _ := x86.Listing(p.Before, p.Before, 0x9f8b4)
	p.Listing = &find.Explanation{Before: before}
	return &diagnose.Crash{
		Input: "core.106", Source: diagnose.CoreFile, Kind: diagnose.Call, Function: "time",
		Program: "bash", Executable: "/bin/bash", Command: "bash -c 'echo \x1b[31m up'", PIDs: []int{106}, Count: 1, TID: 106, Signal: 11,
		Fault: 0xffffffffff600400, IP: 0xffffffffff600400, SP: 0x7ffe7feb5b78, Known: diagnose.Known{Fault: true, IP: true, SP: true},
		Page: "not mapped", Meaning: "It called time() in the vsyscall page.",
		Caller: &diagnose.Caller{
			Return: 0x7f22da81919d, Module: "/lib/libc-2.13.so", Offset: 0x9f8bd, Vaddr: 0x9f8bd, Symbol: "time", Into: 13,
			BuildID: "93ac61ec", File: "/lib/libc-2.13.so", Package: "libc6 2.13-38", Libc: "glibc 2.13", Site: &p, Lines: before,
		},
		Fixes: []diagnose.Fix{{Command: "vfix rebuild redis:2.8.22", Why: "writes the derived image"}},
	}
}

// logged is the content of a line of a log.
func logged() *diagnose.Crash {
	return &diagnose.Crash{
		Input: "kern.log", Source: diagnose.KernelLog, Kind: diagnose.Call, Function: "time", Program: "sh", PIDs: []int{7, 8}, Count: 3,
		Signal: 11, IP: 0xffffffffff600400, Known: diagnose.Known{IP: true}, When: "2.5", Meaning: "It called time().",
		Lines: []string{"sh[7] vsyscall attempted"}, Notes: []string{"a note"},
	}
}

func elsewhere() *diagnose.Crash {
	return &diagnose.Crash{Input: "core", Source: diagnose.CoreFile, Kind: diagnose.Other, Count: 1, Signal: 6, Meaning: "It ended by SIGABRT. This is not a vsyscall crash."}
}

func diagnosed() map[string]diagnoser {
	return map[string]diagnoser{
		"called": finds(called()), "logged": finds(logged()), "other": finds(elsewhere()), "several": finds(elsewhere(), called()), "nothing": finds(),
		"unknown": finds(&diagnose.Crash{Input: "container web", Source: diagnose.ContainerEnd, Kind: diagnose.Unknown, Count: 1, Signal: 11, Meaning: "Nothing at hand says where."}),
	}
}

func TestDiagnose(t *testing.T) {
	for name, want := range map[string]struct {
		status int
		says   []string
	}{
		"called": {3, []string{"core.106: bash, pid 106: a call to time() in the vsyscall page, which is not mapped\n", "/lib/libc-2.13.so+0x9f8bd, in time+0xd",
			"libc6 2.13-38, glibc 2.13, build ID 93ac61ec", "call site at 0x9f8b4: live, vfix patches it in the entry form", "call *%rax", "\n  fix       vfix rebuild redis:2.8.22\n", `\x1b[31m`}},
		"logged":  {3, []string{"kern.log: sh, 3 times: ", "pids 7 8 …", "log       sh[7] vsyscall attempted", "note      a note"}},
		"other":   {0, []string{"core: a program: no vsyscall crash\n", "SIGABRT", "  help      'vfix help other-causes'"}},
		"several": {3, []string{"no vsyscall crash", "a call to time()"}},
		"unknown": {4, []string{"container web: a crash with an unknown cause"}},
		"nothing": {0, []string{"x: no crash in 7 lines\n"}},
	} {
		got := runLine(engine{diagnose: diagnosed()[name]}, "diagnose", "--progress", "quiet", "x")
		if got.status != want.status || (got.status == 3) != strings.Contains(got.stderr, "vsyscall crash") {
			t.Errorf("%s: got status %d, want %d: %s", name, got.status, want.status, got.stderr)
		}
		for _, s := range want.says {
			if !strings.Contains(got.stdout, s) {
				t.Errorf("%s: %q is not in\n%s", name, s, got.stdout)
			}
		}
		if strings.Contains(got.stdout, "\x1b") {
			t.Errorf("%s: a name of the core reaches the terminal", name)
		}
	}
}

// Lines that nobody understood, and a text without any that matters, clear nothing.
func TestDiagnoseUnread(t *testing.T) {
	for says, r := range map[string]*diagnose.Result{
		"x: incomplete: vfix does not understand 2 of 7 lines, such as 'web FATAL'": {Input: "x", Lines: 7, Unread: 2, UnreadLine: "web FATAL", Understood: true},
		"x: incomplete: vfix does not understand 1 of 9 lines":                      {Input: "x", Lines: 9, Unread: 1, Understood: true, Crashes: []*diagnose.Crash{elsewhere()}},
		"x: incomplete: nothing in it is about the end of a program":                {Input: "x", Lines: 7},
	} {
		e := engine{diagnose: func(context.Context, []string, crash.Options) ([]*diagnose.Result, error) {
			return []*diagnose.Result{r}, nil
		}}
		got := runLine(e, "diagnose", "x")
		if got.status != 4 || !strings.Contains(got.stderr, says) {
			t.Errorf("got status %d: %s, want 4: %s", got.status, got.stderr, says)
		}
		if got = runLine(e, "diagnose", "--format", "json", "x"); !strings.Contains(got.stdout, fmt.Sprintf(`"unread": %d`, r.Unread)) {
			t.Errorf("got %s", got.stdout)
		}
	}
}

// Readable inputs are reported beside the error of the others, and the error decides.
func TestDiagnoseError(t *testing.T) {
	e := engine{diagnose: func(ctx context.Context, args []string, o crash.Options) ([]*diagnose.Result, error) {
		all, _ := finds(called())(ctx, args, o)
		return all, errors.New("core.9: cut off")
	}}
	got := runLine(e, "diagnose", "core.9", "core.106")
	if got.status != 1 || !strings.Contains(got.stdout, "time()") || !strings.Contains(got.stderr, "vfix: error: core.9: cut off\n") {
		t.Errorf("got %+v", got)
	}
}
