package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vfix.dev/vfix/host/probe"
	"vfix.dev/vfix/internal/kernellog"
)

// machineOf is a machine with these files, on which vfix-measure ends like this, by its first argument.
func machineOf(t *testing.T, files map[string]string, ends map[string]probe.Outcome) *machine {
	root := t.TempDir()
	for name, text := range files {
		if err := errors.Join(os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755), os.WriteFile(filepath.Join(root, name), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return &machine{root: root, ctx: t.Context(), measure: func(_ context.Context, _ []byte, args ...string) (probe.Outcome, error) { return ends[args[0]], nil }}
}

func TestPage(t *testing.T) {
	ok, segv, sys := probe.Outcome{}, probe.Outcome{Signal: probe.SIGSEGV}, probe.Outcome{Signal: probe.SIGSYS}
	for _, c := range []struct {
		call, peek probe.Outcome
		times      string
		wsl        string
		mode       Mode
		verdict    Verdict
		answer     string
		says       string // a detail
	}{
		{ok, segv, "page:time 336\nsyscall:time 84\nvdso:time 1.7", "", Xonly, Warn, "Old images run here, slowly: a vsyscall takes 336 ns, 198 times the vDSO's.", "336 ns by the page"},
		{ok, ok, "page:time 336", "", Emulate, Warn, "Old images run here, slowly: a vsyscall takes 336 ns.", "336 ns by the page"},
		{segv, segv, "", "", None, Fail, "Old images crash here", "boot option vsyscall=xonly makes"},
		{segv, segv, "", "-microsoft-standard", None, Fail, "Old images crash here", ".wslconfig"},
		{sys, segv, "", "", Blocked, Fail, "exit status 159", "a call: SIGSYS"},
	} {
		m := machineOf(t, map[string]string{"proc/sys/kernel/osrelease": "6.1" + c.wsl},
			map[string]probe.Outcome{"probe": c.call, "peek": c.peek, "time": {Stdout: []byte(c.times)}})
		var check Check
		var r Report
		err := checkPage(m, &check, &r)
		if err != nil || r.Mode != c.mode || check.Verdict != c.verdict || !strings.Contains(r.Answer, c.answer) || !strings.Contains(strings.Join(check.Details, "\n"), c.says) || check.Do == "" {
			t.Errorf("%+v: got %+v, %+v, %v", c, r, check, err)
		}
	}
}

// clocks are what vfix-measure prints of each function in the vDSO but some, each of which enters the kernel in so many
// of 100 calls.
func clocks(entered int, without []string) map[string]probe.Outcome {
	times, entries := "syscall:monotonic 160\n", ""
	for _, f := range functions {
		if !slices.Contains(without, f) {
			times += "vdso:" + f + " 20\n"
			entries += fmt.Sprintf("vdso:%s %d/100\n", f, entered)
		}
	}
	return map[string]probe.Outcome{"time": {Stdout: []byte(times)}, "entries": {Stdout: []byte(entries)}}
}

func TestClocks(t *testing.T) {
	for _, c := range []struct {
		entered     int
		without     []string
		source      string
		vdso, clock Verdict
		do          string
	}{
		{0, nil, "tsc", OK, OK, ""},
		{0, []string{"getcpu"}, "tsc", Warn, OK, "newer kernel"},
		{100, nil, "hpet", Fail, Fail, "clocksource=tsc"},
		{0, functions, "tsc", Fail, Warn, "without vdso=0"},
	} {
		m := machineOf(t, map[string]string{clockDir + "current_clocksource": c.source, clockDir + "available_clocksource": "hpet tsc"}, clocks(c.entered, c.without))
		var vdso, clock Check
		err := errors.Join(checkVDSO(m, &vdso, nil), checkClock(m, &clock, nil))
		if err != nil || vdso.Verdict != c.vdso || clock.Verdict != c.clock || !strings.Contains(vdso.Do+clock.Do, c.do) {
			t.Errorf("%+v: got %+v, %+v, %v", c, vdso, clock, err)
		}
	}
}

func TestSeccompAndDentry(t *testing.T) {
	for filtered, want := range map[float64]Verdict{110: OK, 200: Warn} {
		m := &machine{ctx: t.Context(), measure: func(_ context.Context, filter []byte, args ...string) (probe.Outcome, error) {
			ns := 100.0
			if filter != nil {
				ns = filtered
			}
			return probe.Outcome{Stdout: fmt.Appendf(nil, "syscall:time %v\n", ns)}, nil
		}}
		var c Check
		if err := checkSeccomp(m, &c, nil); err != nil || c.Verdict != want || (c.Do != "") != (want != OK) {
			t.Errorf("%v: got %+v, %v", filtered, c, err)
		}
	}
	for ns, want := range map[string]Verdict{"1e6": OK, "1e-6": Fail} { // of a system call
		m := machineOf(t, map[string]string{"proc/sys/fs/dentry-state": "1\t2\t3\t4\t7\t0\n"}, map[string]probe.Outcome{"time": {Stdout: []byte("syscall:time " + ns + "\n")}})
		var c Check
		if err := checkDentry(m, &c, nil); err != nil || c.Verdict != want || (c.Do != "") != (want != OK) || !strings.Contains(c.Found, "; 7 are cached") {
			t.Errorf("%v: got %+v, %v", ns, c, err)
		}
	}
	for calls, want := range map[float64]Verdict{5: OK, 20: Warn, 50: Fail} {
		if got := lookupVerdict(calls); got != want {
			t.Errorf("%v system calls: got %s", calls, got)
		}
	}
	if b, err := longFilter(); err != nil || len(b) != 8*(rules+2) || string(b[:8]) != "\x20\x00\x00\x00\x00\x00\x00\x00" {
		t.Errorf("the filter has %d bytes, %v", len(b), err)
	}
}

// Processes are counted, not lines, and vfix's own probes are not; an old crash fails no check.
func TestLog(t *testing.T) {
	const call = " vsyscall attempted with vsyscall=none ip:ffffffffff600400 cs:33 sp:7ff0 ax:0 si:0 di:0"
	booted := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	record := func(text string) kernellog.Record { return kernellog.Record{Text: text, At: time.Minute} }
	quiet := []kernellog.Record{record("Linux version 6.1"), record("sh[1]: segfault at 0 ip 0000000000401000 sp 7ff0 error 4"), record("vfix-measure[2]" + call), record("vfix-measure-li[3]" + call)}
	var c Check
	if judgeLog(&c, quiet, booted); c.Verdict != OK || c.Found != "no vsyscall crash since 2026-01-02 03:05:05" {
		t.Errorf("got %+v", c)
	}
	c = Check{}
	judgeLog(&c, append(quiet, record("bash[7]"+call), record("bash[7]: segfault at ffffffffff600400 ip ffffffffff600400 sp 7ff0 error 15"),
		record("model[8] vsyscall read attempt denied -- look up the vsyscall kernel parameter if you need a workaround ip:569228 cs:33 sp:7ff0")), booted)
	if c.Verdict != Warn || len(c.Details) != 2 || c.Details[0] != "2026-01-02 03:05:05  model[8]  read of the page" || c.Details[1] != "2026-01-02 03:05:05  bash[7]  time()" {
		t.Errorf("got %+v", c)
	}
}

// A check that fails is skipped with the reason.
func TestMachine(t *testing.T) {
	m := machineOf(t, nil, nil)
	m.measure = func(context.Context, []byte, ...string) (probe.Outcome, error) {
		return probe.Outcome{}, errors.New("no /proc")
	}
	r, err := m.examine(t.Context(), Options{Checks: []string{"clock", "vdso"}})
	if err != nil || len(r.Checks) != 2 || r.Checks[0].Verdict != Skipped || r.Checks[1].Found != "no /proc" || len(r.Failed()) != 0 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestLookUps(t *testing.T) {
	dir := t.TempDir()
	if s := lookUps(dir); s.Quiet("known") <= 0 || len(s) != 1 {
		t.Errorf("got %d samples, %v ns", len(s["known"]), s.Quiet("known"))
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
