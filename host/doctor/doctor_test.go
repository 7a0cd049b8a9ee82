package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vfix.dev/vfix/host/probe"
	"vfix.dev/vfix/internal/kernellog"
)

func TestPage(t *testing.T) {
	ok, segv, sys := probe.Outcome{}, probe.Outcome{Signal: probe.SIGSEGV}, probe.Outcome{Signal: probe.SIGSYS}
	for _, c := range []struct {
		call, peek probe.Outcome
		p          page
		mode       Mode
		verdict    Verdict
		answer     string
		says       string // a detail
	}{
		{ok, segv, page{call: 336, syscall: 84, vdso: 1.7}, Xonly, Warn, "Old images run here, slowly: a vsyscall takes 336 ns, 198 times the vDSO's.", "336 ns by the page"},
		{ok, ok, page{call: 336}, Emulate, Warn, "Old images run here, slowly: a vsyscall takes 336 ns.", "readable at a fixed address"},
		{segv, segv, page{}, None, Fail, "Old images crash here", "boot option vsyscall=xonly"},
		{segv, segv, page{noEmulation: true, option: "xonly"}, None, Fail, "Old images crash here", "ignores vsyscall=xonly"},
		{segv, segv, page{noEmulation: true}, None, Fail, "Old images crash here", "no boot option helps"},
		{segv, segv, page{wsl: true}, None, Fail, "Old images crash here", ".wslconfig"},
		{sys, segv, page{}, Blocked, Fail, "exit status 159", ""},
	} {
		var check Check
		var r Report
		c.p.mode = pageMode(c.call, c.peek)
		judgePage(c.p, &check, &r)
		if r.Mode != c.mode || check.Verdict != c.verdict || !strings.Contains(r.Answer, c.answer) || !strings.Contains(strings.Join(check.Details, "\n"), c.says) || check.Do == "" {
			t.Errorf("%+v: got %+v, %+v", c.p, r, check)
		}
	}
}

// clocks are samples of each function in the vDSO, and whether it enters the kernel.
func clocks(entered float64, without ...string) (probe.Samples, map[string]float64) {
	t, e := probe.Samples{"syscall:monotonic": {160}}, map[string]float64{}
	for _, f := range functions {
		t["vdso:"+f], e["vdso:"+f] = []float64{20}, entered
	}
	for _, f := range without {
		delete(t, "vdso:"+f)
		delete(e, "vdso:"+f)
	}
	return t, e
}

func TestClocks(t *testing.T) {
	for _, c := range []struct {
		entered     float64
		without     []string
		source      string
		vdso, clock Verdict
		do          string
	}{
		{0, nil, "tsc", OK, OK, ""},
		{0, []string{"getcpu"}, "tsc", Warn, OK, "newer kernel"},
		{1, nil, "hpet", Fail, Fail, "clocksource=tsc"},
		{0, functions, "tsc", Fail, Warn, "remove vdso=0"},
	} {
		var vdso, clock Check
		samples, entered := clocks(c.entered, c.without...)
		judgeVDSO(&vdso, samples, entered, "0")
		judgeClock(&clock, c.source, []string{"hpet", "tsc"}, samples, entered)
		if vdso.Verdict != c.vdso || clock.Verdict != c.clock || !strings.Contains(vdso.Do+clock.Do, c.do) {
			t.Errorf("%+v: got %+v, %+v", c, vdso, clock)
		}
	}
}

func TestSeccompAndDentry(t *testing.T) {
	for filtered, want := range map[float64]Verdict{110: OK, 200: Warn} {
		var c Check
		if judgeSeccomp(&c, 100, filtered); c.Verdict != want || (c.Do != "") != (want != OK) {
			t.Errorf("%v: got %+v", filtered, c)
		}
	}
	for lookup, want := range map[float64]Verdict{500: OK, 2000: Warn, 5000: Fail} {
		var c Check
		if judgeDentry(&c, lookup, 100, 7); c.Verdict != want || (c.Do != "") != (want != OK) || !strings.Contains(c.Found, "; 7 are cached") {
			t.Errorf("%v: got %+v", lookup, c)
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
	quiet := []kernellog.Record{record("Linux version 6.1"), record("sh[1]: segfault at 0 ip 0000000000401000 sp 7ff0 error 4"), record("vfix-measure[2]" + call)}
	var c Check
	if judgeLog(&c, quiet, booted); c.Verdict != OK || c.Found != "no vsyscall crash since 2026-01-02 03:05:05" {
		t.Errorf("got %+v", c)
	}
	c = Check{}
	judgeLog(&c, append(quiet, record("bash[7]"+call), record("bash[7]: segfault at ffffffffff600400 ip ffffffffff600400 sp 7ff0 error 15"),
		record("model[8] vsyscall read attempt denied -- look up the vsyscall kernel parameter if you need a workaround ip:569228 cs:33 sp:7ff0")), booted)
	if c.Verdict != Warn || len(c.Details) != 2 || c.Details[0] != "2026-01-02 03:05:05  bash[7]  time()" || c.Details[1] != "2026-01-02 03:05:05  model[8]  read of the page" {
		t.Errorf("got %+v", c)
	}
}

// The files of a machine are read below its root, and a check that fails is skipped with the reason.
func TestMachine(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"proc/cmdline":    "root=/dev/sda vsyscall=none vsyscall=xonly -- vsyscall=emulate\n",
		"boot/config-6.1": "CONFIG_X86_64=y\n# CONFIG_X86_VSYSCALL_EMULATION is not set\n",
	} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m := &machine{root: root, measure: func(context.Context, []byte, ...string) (probe.Outcome, error) {
		return probe.Outcome{}, errors.New("no /proc")
	}}
	if got := m.bootOption("vsyscall"); got != "xonly" {
		t.Errorf("vsyscall=%s", got)
	}
	if !m.builtWithoutPage("6.1") || m.builtWithoutPage("6.2") {
		t.Error("the kernel's configuration")
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
