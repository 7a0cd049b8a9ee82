package kernellog

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestParseRecord(t *testing.T) {
	r, ok := ParseRecord("4,1234,61120441,-;ba\\x09sh[123] vsyscall attempted\n SUBSYSTEM=x\n")
	if !ok || r.Text != "ba\tsh[123] vsyscall attempted" || r.At != 61120441*time.Microsecond || r.When() != "61.120 s after boot" {
		t.Errorf("got %+v, %v", r, ok)
	}
	// Facility 1: a program wrote it, and may say what it likes.
	for _, bad := range []string{"12,1234,61120441,-;bash[123] vsyscall", "4,1234;x", "x,1,2;x", "4,1,x;x", "4,1,-2;x", "", ";", "text"} {
		if r, ok := ParseRecord(bad); ok {
			t.Errorf("%q: got %+v", bad, r)
		}
	}
	for text, want := range map[string]string{`a\x5cx41`: `a\x41`, `\x4`: `\x4`, `\xzz`: `\xzz`, `\x41\x42`: "AB"} {
		if got := unescape(text); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestStrip(t *testing.T) {
	for line, want := range map[string]Line{
		"a text: b\n": {"a text: b", "", false},
		"Nov 21 21:14:17 host kernel: [   61.120441] text":      {"text", "Nov 21 21:14:17", true},
		"Nov 21 2026 21:14:17 host kernel: text":                {"text", "Nov 21 2026 21:14:17", true},
		"2026-11-21T21:14:17+0000 host kernel: text":            {"text", "2026-11-21T21:14:17+0000", true},
		"kernel: [  281.151742] text":                           {"text", "281.151742", true},
		"[Sat Nov 21 21:14:17 2026] text":                       {"text", "Sat Nov 21 21:14:17 2026", true},
		"[    2.866376][  T106] text":                           {"text", "2.866376", true},
		"<6>[    2.866376] text":                                {"text", "2.866376", true},
		"kern  :info  : [    2.866376] text":                    {"text", "2.866376", true},
		"kern:    info: [2026-01-02T03:04:05.6Z]: text":         {"text", "2026-01-02T03:04:05.6Z", true},
		"6,1234,2866376,-;text":                                 {"text", "2.866 s after boot", true},
		"nov. 21 21:14:17 host kernel: text":                    {"text", "nov. 21 21:14:17", true},
		"Sa 2026-11-21 21:14:17 CET host kernel: text":          {"text", "Sa 2026-11-21 21:14:17 CET", true},
		"2026-11-21T21:14:17,120441+00:00 Web Content[5]: text": {"Web Content[5]: text", "2026-11-21T21:14:17,120441+00:00", true},
		"[Sat Nov 21 21:14:17 2026] Web Content[5]: text":       {"Web Content[5]: text", "Sat Nov 21 21:14:17 2026", true},
		"[ 1.5] my kernel: x[5]: segfault":                      {"my kernel: x[5]: segfault", "1.5", true}, // a program's name
		"[vsyscall] text":                                       {"[vsyscall] text", "", false},
		"1,2;3":                                                 {"1,2;3", "", false},
		"7,1,1000000,-;text":                                    {"text", "1.000 s after boot", true},
		"0,1,9223372036854775,-;text":                           {"text", "9223372036.855 s after boot", true},
		"0,1,9223372036854776,-;text":                           {"0,1,9223372036854776,-;text", "", false},
		"-1,1,1000000,-;text":                                   {"-1,1,1000000,-;text", "", false},
		"<7>text":                                               {"text", "", true},
		"[    2.866376][    C12] text":                          {"text", "2.866376", true},
		"[D12] text":                                            {"[D12] text", "", false},
		"[T] text":                                              {"[T] text", "", false},
		"[Tx.y] text":                                           {"[Tx.y] text", "", false},
		"[a.b] text":                                            {"[a.b] text", "", false},
		"[] text":                                               {"[] text", "", false},
		"[ 2.8 text":                                            {"[ 2.8 text", "", false},
		"[C1] text":                                             {"text", "C1", false},
	} {
		if got, ok := Strip(line); !ok || got != want {
			t.Errorf("%q: got %+v, %v, want %+v", line, got, ok, want)
		}
	}
	for _, line := range []string{"12,1,2,-;text", "8,1,2,-;text", "<8>text", "<14>[ 2.8] text", "user  :info  : [ 2.8] text", "Nov 21 21:14:17 host app[7]: text", "2026-11-21T21:14:17+0000 host app: text",
		"d\u00e9c. 21 21:14:17 host app[7]: text", "Sa 2026-11-21 21:14:17 CET host app[7]: text"} {
		if got, ok := Strip(line); ok {
			t.Errorf("%q: got %+v: a program wrote it", line, got)
		}
	}
}

func TestEvent(t *testing.T) {
	const ip = 0xffffffffff600400
	for line, want := range map[string]Event{
		"a[7] vsyscall attempted with vsyscall=none ip:ffffffffff600400 cs:33 sp:7ff0 ax:0": {
			Message: Attempted, Program: "a", PID: 7, Signal: syscall.SIGSEGV, IP: ip, SP: 0x7ff0, Fault: ip, KnownIP: true, KnownSP: true, KnownFault: true},
		"a[7]: segfault at 10 rip ffffffffff600400 rsp 00007ff0 error 14": { // 2.6
			Message: Segfault, Program: "a", PID: 7, Signal: syscall.SIGSEGV, IP: ip, SP: 0x7ff0, Fault: 0x10, KnownIP: true, KnownSP: true, KnownFault: true},
		"traps: a[7] general protection fault ip:ffffffffff600400 sp:7ff0 error:0 in x y[1+2]": {
			Message: Protection, Program: "a", PID: 7, Signal: syscall.SIGSEGV, IP: ip, SP: 0x7ff0, KnownIP: true, KnownSP: true, Where: "x y"},
		`audit: type=1326 audit(1.2:3): pid=7 comm="a b" exe="/bin/a" sig=31 ip=0xffffffffff600400 code=0x80000000`: {
			Message: Seccomp, Program: "a b", Exe: "/bin/a", When: "1.2", PID: 7, Signal: syscall.SIGSYS, IP: ip, KnownIP: true},
		`type=ANOM_ABEND msg=audit(1.2:3): pid=7 comm="a" exe="/bin/a" sig=11 res=1`: {
			Message: Abend, Program: "a", Exe: "/bin/a", When: "1.2", PID: 7, Signal: syscall.SIGSEGV},
		// The kernel's words in a program's name, and in a file's.
		"]: segfault at [7]: segfault at 10 ip ffffffffff600400 sp 7ff0 error 14": {
			Message: Segfault, Relayed: true, Program: "]: segfault at ", PID: 7, Signal: syscall.SIGSEGV, IP: ip, SP: 0x7ff0, Fault: 0x10, KnownIP: true, KnownSP: true, KnownFault: true},
		"a[7]: segfault at 10 ip ffffffffff600400 sp 7ff0 error 14 in b[8]: segfault at 1 ip 2 sp 3[1+2]": {
			Message: Segfault, Program: "a", PID: 7, Signal: syscall.SIGSEGV, IP: ip, SP: 0x7ff0, Fault: 0x10, KnownIP: true, KnownSP: true, KnownFault: true, Where: "b"},
		// A name has 15 bytes; more than that, or a colon, is text before it.
		"123456789012345[1]: segfault at 10 ip 1 sp 2 error 14": {
			Message: Segfault, Program: "123456789012345", PID: 1, Signal: syscall.SIGSEGV, IP: 1, SP: 2, Fault: 0x10, KnownIP: true, KnownSP: true, KnownFault: true},
		"1234567890 12345[1]: segfault at 10 ip 1 sp 2 error 14": {
			Message: Segfault, Relayed: true, Program: "12345", PID: 1, Signal: syscall.SIGSEGV, IP: 1, SP: 2, Fault: 0x10, KnownIP: true, KnownSP: true, KnownFault: true},
		"[ 1.5] my prog[1]: segfault at 10 ip 1 sp 2 error 14": {
			Message: Segfault, Program: "my prog", When: "1.5", PID: 1, Signal: syscall.SIGSEGV, IP: 1, SP: 2, Fault: 0x10, KnownIP: true, KnownSP: true, KnownFault: true},
		"[ 1.5] a:b|c[1]: segfault at 10 ip 1 sp 2 error 14": {
			Message: Segfault, Program: "a:b|c", When: "1.5", PID: 1, Signal: syscall.SIGSEGV, IP: 1, SP: 2, Fault: 0x10, KnownIP: true, KnownSP: true, KnownFault: true},
		"said a|b[1]: segfault at 10 ip 1 sp 2 error 14": {
			Message: Segfault, Relayed: true, Program: "a|b", PID: 1, Signal: syscall.SIGSEGV, IP: 1, SP: 2, Fault: 0x10, KnownIP: true, KnownSP: true, KnownFault: true},
		"123456789012345 [1]: segfault at 10 ip 1 sp 2 error 14": {
			Message: Segfault, Relayed: true, Program: "123456789012345 ", PID: 1, Signal: syscall.SIGSEGV, IP: 1, SP: 2, Fault: 0x10, KnownIP: true, KnownSP: true, KnownFault: true},
		`audit: type=1701 audit(1.2:3): pid=7 comm="a" sig=11`: {Message: Abend, Program: "a", When: "1.2", PID: 7, Signal: syscall.SIGSEGV},
		`node=x audit: type=1326 pid=7 sig=31 comm=61`:         {Message: Seccomp, Relayed: true, Program: "61", PID: 7, Signal: syscall.SIGSYS},
	} {
		if got, ok := Parse(line); !ok || got != want {
			t.Errorf("%s:\ngot  %+v, %v\nwant %+v", line, got, ok, want)
		}
	}
	for _, line := range []string{
		"a[0]: segfault at 10 ip 1 sp 2 error 14", "a[7]: general protection at 10 ip 1 sp 2", "a[7]: segfault at ip:1 sp:2", "a[7] vsyscall read attempt denied sp:2",
		"audit: type=1701 pid=0 sig=11", "audit: type=1326 pid=7 sig=0", "audit: type=1300 pid=7 sig=11", "audit: type=1326 comm=x",
	} {
		if got, ok := Parse(line); ok {
			t.Errorf("%s: got %+v", line, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("Nov 21 21:14:17 host kernel: [   61.120441] bash[123] vsyscall attempted with vsyscall=none ip:ffffffffff600400 cs:33")
	f.Add("4,1234,61120441,-;bash[123]: segfault at ffffffffff600400 ip ffffffffff600400 sp 0 error 15")
	f.Add("traps: a[1] general protection fault ip:ffffffffff600000 sp:0 error:0")
	f.Add(`audit: type=1326 audit(1.2:3): pid=123 comm="bash" exe="/bin/bash" sig=31 ip=0xffffffffff600400 code=0x80000000`)
	f.Fuzz(func(t *testing.T, line string) {
		e, ok := Parse(line)
		if ok && (e.PID <= 0 || e.Signal <= 0 || e.Message == 0) {
			t.Errorf("got %+v", e)
		}
		if !strings.Contains(line, "[") && !strings.Contains(line, "pid=") && ok {
			t.Errorf("no process in it: got %+v", e)
		}
	})
}

// A date of each day is a time, though T106 and C0 name a caller.
func TestDaysOfTheWeek(t *testing.T) {
	for _, day := range []string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"} {
		stamp := day + " Nov 26 14:38:43 2026"
		if l, ok := Strip("[" + stamp + "] eth0: up"); !ok || !l.Marked || l.When != stamp || l.Text != "eth0: up" {
			t.Errorf("%s: got %+v, %v", day, l, ok)
		}
	}
}
