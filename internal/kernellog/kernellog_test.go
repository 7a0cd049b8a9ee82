package kernellog

import (
	"strings"
	"testing"
	"time"
)

func TestParseRecord(t *testing.T) {
	for line, want := range map[string]Record{
		"<4>[   61.120441] ba] sh[123] vsyscall attempted":       {"ba] sh[123] vsyscall attempted", 61120441 * time.Microsecond},
		"<6>[   61.120441][  T106] bash[123] vsyscall attempted": {"bash[123] vsyscall attempted", 61120441 * time.Microsecond}, // CONFIG_PRINTK_CALLER
		"<4>bash[123] vsyscall attempted":                        {"bash[123] vsyscall attempted", 0},
		"<4>bash[123] ip:1 [x] y":                                {"bash[123] ip:1 [x] y", 0},
	} {
		if r, ok := ParseRecord(line); !ok || r != want {
			t.Errorf("%s: got %+v, %v", line, r, ok)
		}
	}
	// Facility 1: a program wrote it, and may say what it likes.
	for _, bad := range []string{"<12>[   61.120441] bash[123] vsyscall", "<x>y", "<-1>x", "4,1", "", "<", "text"} {
		if r, ok := ParseRecord(bad); ok {
			t.Errorf("%q: got %+v", bad, r)
		}
	}
}

func TestFind(t *testing.T) {
	const ip = 0xffffffffff600400
	for line, want := range map[string]Fault{
		"a[7] vsyscall attempted with vsyscall=none ip:ffffffffff600400 cs:33 sp:7ff0 ax:0":                         {Message: Attempted, Program: "a", PID: 7, Signal: sigsegv, IP: ip, Addr: ip, HasAddr: true},
		"a[7]: segfault at 10 rip ffffffffff600400 rsp 00007ff0 error 14":                                           {Message: Segfault, Program: "a", PID: 7, Signal: sigsegv, IP: ip, Addr: 0x10, HasAddr: true}, // 2.6
		"a[7]: segfault at           (null) ip           (null) sp 00007ff0 error 14 in a[1+1]":                     {Message: Segfault, Program: "a", PID: 7, Signal: sigsegv, HasAddr: true},
		"traps: a[7] general protection fault ip:ffffffffff600400 sp:7ff0 error:0 in x y[1+2]":                      {Message: Protection, Program: "a", PID: 7, Signal: sigsegv, IP: ip},
		"a[7] vsyscall read attempt denied -- look up the vsyscall kernel parameter ip:10 cs:33 sp:7ff0":            {Message: ReadDenied, Program: "a", PID: 7, Signal: sigsegv, IP: 0x10},
		`audit: type=1326 audit(1.2:3): pid=7 comm="a b" exe="/bin/a" sig=31 ip=0xffffffffff600400 code=0x80000000`: {Message: Seccomp, Program: "a b", Path: "/bin/a", PID: 7, Signal: sigsys, IP: ip},
		`type=ANOM_ABEND msg=audit(1.2:3): pid=7 comm="a" exe="/bin/a" sig=11 res=1`:                                {Message: Abend, Program: "a", Path: "/bin/a", PID: 7, Signal: sigsegv},
		// A name has 15 bytes, maybe with spaces; more than that is text before it.
		"[ 1.5] Web Content[1]: segfault at 10 ip 1 sp 2 error 14": {Message: Segfault, Program: "Web Content", PID: 1, Signal: sigsegv, IP: 1, Addr: 0x10, HasAddr: true},
		"1234567890 12345[1]: segfault at 10 ip 1 sp 2 error 14":   {Message: Segfault, Program: "12345", PID: 1, Signal: sigsegv, IP: 1, Addr: 0x10, HasAddr: true},
		"<6>a[1]: segfault at 10 ip 1 sp 2 error 14":               {Message: Segfault, Program: "a", PID: 1, Signal: sigsegv, IP: 1, Addr: 0x10, HasAddr: true},
	} {
		if got, ok := Find(line); !ok || got != want {
			t.Errorf("%s:\ngot  %+v, %v\nwant %+v", line, got, ok, want)
		}
	}
	for _, line := range []string{
		"a[0]: segfault at 10 ip 1 sp 2 error 14", "a[7]: general protection at 10", "a[7]: segfault at ip:1 sp:2", "a[7] vsyscall read attempt denied sp:2",
		"audit: type=1701 pid=0 sig=11", "audit: type=1326 pid=7 sig=0", "audit: type=1300 pid=7 sig=11", "audit: type=1326 comm=x",
		"the message 'vsyscall attempted with vsyscall=none' means that the page is missing",
	} {
		if got, ok := Find(line); ok {
			t.Errorf("%s: got %+v", line, got)
		}
	}
}

func FuzzFind(f *testing.F) {
	f.Add("Nov 21 21:14:17 host kernel: [   61.120441] bash[123] vsyscall attempted with vsyscall=none ip:ffffffffff600400 cs:33")
	f.Add(`audit: type=1326 audit(1.2:3): pid=123 comm="bash" exe="/bin/bash" sig=31 ip=0xffffffffff600400 code=0x80000000`)
	f.Fuzz(func(t *testing.T, line string) {
		e, ok := Find(line)
		if ok && (e.PID <= 0 || e.Signal <= 0 || e.Message == 0) || ok && !strings.Contains(line, "[") && !strings.Contains(line, "pid=") {
			t.Errorf("got %+v", e)
		}
	})
}
