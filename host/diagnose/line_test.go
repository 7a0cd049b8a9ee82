package diagnose

import (
	"strings"
	"testing"
)

// Lines from bug reports and from kernels in tests; the names are shortened.
func TestLines(t *testing.T) {
	const none = "vsyscall attempted with vsyscall=none ip:ffffffffff600400 cs:33 sp:7ffee8a01378 ax:ffffffffff600400 si:7ffee8a02e51 di:0"
	for _, c := range []struct {
		line     string
		kind     Kind
		function string
		program  string
		pid      int
		when     string
	}{
		{"bash[106] " + none, Call, "time", "bash", 106, ""},
		{"[    2.866376] bash[106] " + none, Call, "time", "bash", 106, "2.866376"},
		{"[  578.456176] sh[15402]: " + none, Call, "time", "sh", 15402, "578.456176"},
		{"[Sat Nov 21 21:18:04 2026] bash[106] " + none, Call, "time", "bash", 106, "Sat Nov 21 21:18:04 2026"},
		{"[    2.866376][  T106] bash[106] " + none, Call, "time", "bash", 106, "2.866376"},
		{"kernel: [  281.151742] docker-entrypoi[5982] " + none, Call, "time", "docker-entrypoi", 5982, "281.151742"},
		{"Dec 10 14:49:41 root6 kernel: [  135.380512] update-locale[1071] " + none, Call, "time", "update-locale", 1071, "Dec 10 14:49:41"},
		{"2026-11-21T21:18:04.5+00:00 host kernel: bash[1] " + none, Call, "time", "bash", 1, "2026-11-21T21:18:04.5+00:00"},
		{"6,1234,2866376,-;bash[106] " + none, Call, "time", "bash", 106, "2.866 s after boot"},
		{`6,1234,2866376,-;ba\x09sh[106] ` + none, Call, "time", "ba\tsh", 106, "2.866 s after boot"},
		{"<6>[    2.866376] bash[106] " + none, Call, "time", "bash", 106, "2.866376"},
		{"kern  :info  : [    2.866376] bash[106] " + none, Call, "time", "bash", 106, "2.866376"},
		{"kern:    info: [2026-01-02T03:04:05.6Z]: bash[7] " + none, Call, "time", "bash", 7, "2026-01-02T03:04:05.6Z"},
		{"[    2.866376] my prog [x][106] " + none, Call, "time", "my prog [x]", 106, "2.866376"},
		{"[    2.8] (sd-pam)[106] " + none, Call, "time", "(sd-pam)", 106, "2.8"},
		{"[1.5] x[9] misaligned vsyscall (exploit attempt or buggy program) -- look up the vsyscall kernel parameter if you need a workaround ip:ffffffffff600123 cs:33 sp:7ff0 ax:0 si:0 di:0", Misaligned, "", "x", 9, "1.5"},
		{"[1.5] x[9] vsyscall read attempt denied -- look up the vsyscall kernel parameter if you need a workaround ip:401000 cs:33 sp:7ff0 ax:0 si:0 di:0", Read, "", "x", 9, "1.5"},
		{"[1.5] x[9] vsyscall with bad stack (exploit attempt?) ip:ffffffffff600000 cs:33 sp:8 ax:0 si:0 di:0", BadStack, "gettimeofday", "x", 9, "1.5"},
		{"[1.5] x[9] vsyscall fault (exploit attempt?) ip:ffffffffff600800 cs:33 sp:7ff0 ax:0 si:0 di:1", BadPointer, "getcpu", "x", 9, "1.5"},
		{"[1.5] x[9] seccomp tried to change syscall nr or ip ip:ffffffffff600800 cs:33 sp:7ff0 ax:0 si:0 di:1", Filtered, "getcpu", "x", 9, "1.5"},
		{"[12636.9] sh[15808]: segfault at ffffffffff600400 ip ffffffffff600400 sp 00007ffedaca68d8 error 15", Call, "time", "sh", 15808, "12636.9"},
		{"sh[15808]: segfault at ffffffffff600000 rip ffffffffff600000 rsp 00007ffedaca68d8 error 14", Call, "gettimeofday", "sh", 15808, ""},
		{"x[9]: segfault at ffffffffff600000 ip 0000000000401000 sp 00007ffedaca68d8 error 5 in x[400000+2000]", Read, "", "x", 9, ""},
		{"x[9]: segfault at ffffffffff600100 ip ffffffffff600100 sp 00007ffedaca68d8 error 15 likely on CPU 0 (core 0, socket 0)", Misaligned, "", "x", 9, ""},
		{"systemd[1]: segfault at 10 ip 00007fc6465e0b41 sp 00007ffccd3249f0 error 6 in libc.so.6[7fc646565000+195000]", Other, "", "systemd", 1, ""},
		{"x[9]: segfault at 0 ip 0000000000000000 sp 00007ffccd3249f0 error 14 in x[0,400000+1000] likely on CPU 1 (core 1, socket 0)", Other, "", "x", 9, ""},
		{"[1.5] traps: bash[9] general protection fault ip:ffffffffff600400 sp:7ff0 error:0", Call, "time", "bash", 9, "1.5"},
		{"[1.5] traps: bash[9] general protection fault ip:7f12 sp:7ff0 error:0 in libc.so.6[7f00+1000]", Other, "", "bash", 9, "1.5"},
		{"traps: bash[9] general protection ip:7f12 sp:7ff0 error:0", Other, "", "bash", 9, ""},
		{`audit: type=1326 audit(1700000000.123:456): auid=0 uid=0 gid=0 ses=1 subj=unconfined pid=123 comm="bash" exe="/bin/bash" sig=31 arch=c000003e syscall=201 compat=0 ip=0xffffffffff600400 code=0x80000000`, Filtered, "time", "bash", 123, "1700000000.123"},
		{`type=SECCOMP msg=audit(1700000000.123:456): pid=123 comm="bash" exe="/bin/bash" sig=31 arch=c000003e syscall=59 compat=0 ip=0x7f1200 code=0x80000000`, Other, "", "bash", 123, "1700000000.123"},
		{`audit: type=1701 audit(1700000000.123:456): auid=0 uid=0 gid=0 ses=1 pid=123 comm="bash" exe="/bin/bash" sig=11 res=1`, Unknown, "", "bash", 123, "1700000000.123"},
		{"--- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0xffffffffff600400} ---", Call, "time", "", 0, ""},
		{"[pid  1234] --- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0xffffffffff600000} ---", Call, "gettimeofday", "", 1234, ""},
		{"1234  12:13:14 --- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0xffffffffff600000} ---", Call, "gettimeofday", "", 1234, ""},
		{"[pid  1234] [ffffffffff600400] --- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0xffffffffff600400} ---", Call, "time", "", 1234, ""},
		{"[0000000000401000] --- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0xffffffffff600400} ---", Read, "", "", 0, ""},
		{"--- SIGSEGV (Segmentation fault) @ ffffffffff600400 (ffffffffff600400) ---", Call, "time", "", 0, ""},
		{"--- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=NULL} ---", Other, "", "", 0, ""},
		{"--- SIGSEGV {si_signo=SIGSEGV, si_code=SI_USER, si_pid=1, si_uid=0} ---", Other, "", "", 0, ""},
		{"--- SIGSYS {si_signo=SIGSYS, si_code=SYS_SECCOMP, si_call_addr=0xffffffffff600400, si_syscall=__NR_time, si_arch=AUDIT_ARCH_X86_64} ---", Filtered, "time", "", 0, ""},
		{"81 12:03:04.567890123 0 bash (7) > page_fault addr=FFFFFFFFFF600400 ip=FFFFFFFFFF600400 error=14", Trap, "time", "bash", 7, "12:03:04.567890123"},
		{"bash     7 [000]    12.345678: exceptions:page_fault_user: address=0xffffffffff600400 ip=0xffffffffff600400 error_code=0x14", Trap, "time", "bash", 7, "12.345678"},
		{"my prog 7/9 [000] 12.345678:          1 exceptions:page_fault_user: address=0xffffffffff600400f ip=0xffffffffff600400f error_code=0x14", Trap, "time", "my prog", 7, "12.345678"},
		{"            bash-7       [000] d..1.    12.345678: page_fault_user: address=0xffffffffff600800 ip=0xffffffffff600800 error_code=0x14", Trap, "getcpu", "bash", 7, "12.345678"},
		{"            my-prog-7    (     7) [000] d..1    12.345678: page_fault_user: address=0xffffffffff600123 ip=0xffffffffff600123 error_code=0x14", Misaligned, "", "my-prog", 7, "12.345678"},
		{"bash 7 [000] 12.345678: exceptions:page_fault_user: address=0xffffffffff600400 ip=0x401000 error_code=0x5", Read, "", "bash", 7, "12.345678"},
	} {
		crashes, _, err := logged(t, c.line+"\n", Options{})
		if err != nil || len(crashes) != 1 {
			t.Errorf("%s: got %d crashes, %v", c.line, len(crashes), err)
			continue
		}
		got := crashes[0]
		if got.Kind != c.kind || got.Function != c.function || got.Program != c.program || pid(got) != c.pid || got.When != c.when {
			t.Errorf("%s:\ngot  %s %s %q %v at %q\nwant %s %s %q %d at %q", c.line, got.Kind, got.Function, got.Program, got.PIDs, got.When,
				c.kind, c.function, c.program, c.pid, c.when)
		}
		// A line does not name the image: no command is proposed that cannot be typed.
		if len(got.Fixes) > 0 || got.Kind.Fixable() && !strings.Contains(strings.Join(got.Notes, " "), "the image that it ran in is not known") {
			t.Errorf("%s: fixes %v, notes %v", c.line, got.Fixes, got.Notes)
		}
	}
}

func pid(c *Crash) int {
	if len(c.PIDs) == 1 {
		return c.PIDs[0]
	}
	return 0
}

// Lines about other things, or without the parts that would give them a meaning.
func TestOtherLines(t *testing.T) {
	for _, line := range []string{
		"", "nothing", "[ 1.0] EXT4-fs (nvme0n1): mounted filesystem",
		"Code: Unable to access opcode bytes at 0xffffffffff6003d6.",
		"vsyscall attempted with vsyscall=none ip:ffffffffff600400",
		"bash[] vsyscall attempted with vsyscall=none ip:ffffffffff600400",
		"bash[-1] vsyscall attempted with vsyscall=none ip:ffffffffff600400",
		"bash[1] vsyscall attempted with vsyscall=none",
		"bash[1] vsyscall attempted with vsyscall=none ip:xyz",
		"bash[1]: segfault at", "bash[1]: segfault at zz ip 1 sp 2", "bash[1]: segfault at 1 error 4",
		"audit: type=1326 audit(1.2:3): pid=0 sig=31", "audit: type=1326 audit(1.2:3): pid=5 sig=0 ip=0x1 code=0x7ffc0000",
		"Command line: vsyscall=none",
		"12,1234,2866376,-;bash[106] vsyscall attempted with vsyscall=none ip:ffffffffff600400 cs:33 sp:7ff0 ax:0 si:0 di:0", // a program wrote it
		"<14>bash[106] vsyscall attempted with vsyscall=none ip:ffffffffff600400 cs:33 sp:7ff0 ax:0 si:0 di:0",
		"user  :info  : [    2.866376] bash[106] vsyscall attempted with vsyscall=none ip:ffffffffff600400 cs:33 sp:7ff0 ax:0 si:0 di:0",
		"bash 7 [000] 12.3: exceptions:page_fault_user: address=0x7f0012 ip=0x401000 error_code=0x4",
		"page_fault", "page_fault addr= ip=", "--- SIGCHLD {si_signo=SIGCHLD} ---", "--- SIGSEGV", "--- SIGSYS {} ---",
	} {
		if l, ok := parseLine(line); ok {
			t.Errorf("%q is taken for a crash: %+v", line, l)
		}
	}
}

// The lines of one crash are one crash; the same crash of another process is counted.
func TestLog(t *testing.T) {
	log := `[ 1.0] booting
[ 2.1] bash[106] vsyscall attempted with vsyscall=none ip:ffffffffff600400 cs:33 sp:7ffe7feb5b78 ax:ffffffffff600400 si:0 di:0
[ 2.1] redis-server[107] vsyscall attempted with vsyscall=none ip:ffffffffff600000 cs:33 sp:7ffe7feb5b00 ax:ffffffffff600000 si:0 di:0
[ 2.2] bash[106]: segfault at ffffffffff600400 ip ffffffffff600400 sp 00007ffe7feb5b78 error 15 likely on CPU 0 (core 0, socket 0)
[ 2.2] Code: Unable to access opcode bytes at 0xffffffffff6003d6.
[ 2.3] audit: type=1701 audit(1700000000.123:456): auid=0 uid=0 gid=0 ses=1 pid=106 comm="bash" exe="/bin/bash" sig=11 res=1
[ 3.0] bash[206] vsyscall attempted with vsyscall=none ip:ffffffffff600400 cs:33 sp:7ffe7feb5b78 ax:ffffffffff600400 si:0 di:0
[ 4.0] other[9]: segfault at 10 ip 00007fc6465e0b41 sp 00007ffccd3249f0 error 6 in libc.so.6[7fc646565000+195000]
` + strings.Repeat("x", 3*maxLogLine) + "\n"
	crashes, lines, err := logged(t, log, Options{RootName: "redis:2.8.22", IsImage: true, Callers: libcCalls})
	if err != nil || lines != 9 || len(crashes) != 3 {
		t.Fatalf("got %d crashes in %d lines, %v", len(crashes), lines, err)
	}
	bash := crashes[0]
	if bash.Program != "bash" || bash.Executable != "/bin/bash" || len(bash.Lines) != 3 || bash.When != "2.1" || fixes(bash) != "vfix rebuild redis:2.8.22" {
		t.Errorf("bash: got %+v", bash)
	}
	if bash.Count != 2 || len(bash.PIDs) != 2 || bash.PIDs[1] != 206 {
		t.Errorf("bash: got %d crashes, of %v", bash.Count, bash.PIDs)
	}
	if other := crashes[2]; other.Kind != Other || !strings.Contains(other.Meaning, "libc.so.6") || len(other.Fixes) > 0 {
		t.Errorf("got %+v", other)
	}
}

// Memory remains small, however many crashes a log has.
func TestLogIsBounded(t *testing.T) {
	var b strings.Builder
	for i := range 3 * maxCrashes {
		b.WriteString("p" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676)) + "[5]: segfault at 10 ip 7f0 sp 7ff error 6\n")
	}
	crashes, lines, err := Log("log", strings.NewReader(b.String()), Options{})
	if err != nil || lines != 3*maxCrashes || len(crashes) != maxCrashes || len(crashes[maxCrashes-1].Notes) != 1 {
		t.Errorf("got %d crashes in %d lines, %v", len(crashes), lines, err)
	}
}

// strace names a process once, when it executes its program.
func TestStraceNames(t *testing.T) {
	crashes, _, err := logged(t, `129   execve("/usr/bin/sh", ["sh", "-c"], 0x7ffd /* 5 vars */) = 0
130   execve("/usr/local/bin/bash", ["bash", "-c", "true"], 0x5581 /* 5 vars */) = -1 ENOENT (No such file or directory)
130   execve("/usr/bin/bash", ["bash", "-c", "true"], 0x5581 /* 5 vars */) = 0
130   --- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0xffffffffff600000} ---
129   --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_KILLED, si_pid=130, si_uid=0, si_status=SIGSEGV} ---
`, Options{})
	if err != nil || len(crashes) != 1 || crashes[0].Program != "bash" || crashes[0].Executable != "/usr/bin/bash" || pid(crashes[0]) != 130 {
		t.Errorf("got %+v, %v", crashes, err)
	}
}
