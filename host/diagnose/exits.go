// Reports of shells, compose, systemd and others about the end of a program, with an exit status or a signal but
// not the place; and the backtraces of systemd-coredump and debuggers, which have the place.

package diagnose

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"vfix.dev/vfix/internal/lazy"
	"vfix.dev/vfix/rewriter/find"
)

// The other signals that reports name in words, besides SIGSEGV, SIGSYS and SIGKILL (signal(7)).
const (
	sigill, sigtrap, sigabrt, sigbus, sigfpe = 4, 5, 6, 7, 8
)

// signalWords are the words of strsignal(3) and systemd's short names for the signals of a crash.
var signalWords = map[string]int{
	"segmentation fault": sigsegv, "segmentation violation": sigsegv, "bad system call": sigsys, "aborted": sigabrt, "killed": sigkill,
	"bus error": sigbus, "illegal instruction": sigill, "floating point exception": sigfpe,
	"segv": sigsegv, "sys": sigsys, "abrt": sigabrt, "kill": sigkill, "bus": sigbus, "ill": sigill, "fpe": sigfpe, "trap": sigtrap,
}

// calmSignals are words for signals that end a program but are not raised by a crash.
var calmSignals = lazy.Regexp(`(?i)^(?:terminated|term|hangup|hup|interrupt|int|quit|pipe|alrm|usr[12])$`)

// endPattern is one way to report how a program ended. Its groups: status is an exit status, signal a number or a
// word, name the name of a container, wait a status of wait(2), unit a unit of systemd, program a path or a
// command line.
type endPattern struct {
	about string
	expr  func() *regexp.Regexp
}

// endPatterns are tried in this order. Sources: docker compose ("exited with code"), docker and buildkit's build
// errors, systemd (service.c, "Main process exited"), upstart (job_process.c), the kernel (kernel/exit.c,
// "Attempted to kill init!"), bash (jobs.c), Go's os/exec, Python's subprocess, kubelet and Docker events.
var endPatterns = []endPattern{
	{"compose", lazy.Regexp(`^(?:\S+\s+\|\s+)?(?:[Cc]ontainer )?(?P<name>[A-Za-z0-9][\w.-]*) exited with code (?P<status>\d+)`)},
	{"systemd", lazy.Regexp(`(?P<unit>[\w@.\\:-]+\.(?:service|scope|socket|mount|swap)): \w+ process exited, code=(?:dumped|killed), status=(?P<signal>\d+)`)},
	{"systemd", lazy.Regexp(`(?P<unit>[\w@.\\:-]+\.(?:service|scope|socket|mount|swap)): \w+ process exited, code=exited, status=(?P<status>\d+)`)},
	{"systemd status", lazy.Regexp(`(?:Main PID|Process): \d+ (?:\((?P<program>[^)]+)\) |ExecStart=(?P<exec>\S+).*)?\(?code=(?:dumped|killed), (?:signal|status)=(?P<signal>[A-Z]+|\d+)`)},
	{"upstart", lazy.Regexp(`\binit: (?P<unit>\S+) [\w-]+ process \(\d+\) (?:killed by (?P<signal>[A-Z]+) signal|terminated with status (?P<status>\d+))`)},
	{"ps", lazy.Regexp(`\bExited \((?P<status>\d+)\)`)},
	{"event", lazy.Regexp(`container die .*\bexitCode=(?P<status>\d+)(?:.*\bname=(?P<name>[\w.-]+))?`)},
	{"init", lazy.Regexp(`Kernel panic - not syncing: Attempted to kill (?P<program>\w+)! exitcode=0x(?P<wait>[0-9a-f]{8})`)},
	{"build", lazy.Regexp(`(?:returned a non-zero code|did not complete successfully: exit code): (?P<status>\d+)`)},
	{"status", lazy.Regexp(`(?i)\b(?:exit(?:ed)?(?: with)?(?: a)?(?: non-zero)?[ -]?(?:status|code)|exitcode|process (?:has )?exited with(?: status)?)["']?(?: of|:|=)?\s*["']?(?P<status>\d{2,3})\b`)},
	{"subprocess", lazy.Regexp(`died with <Signals\.SIG(?P<signal>[A-Z]+): \d+>`)},
	{"signal", lazy.Regexp(`(?i)\b(?:terminated|killed|ended|exited|died) (?:by|with|on|due to) signal[: ]+(?:SIG)?(?P<signal>[A-Z]+\b|\d+)`)},
	{"os/exec", lazy.Regexp(`\bsignal: (?P<signal>segmentation (?:fault|violation)|bad system call|aborted|killed|bus error|illegal instruction)`)},
	{"shell", lazy.Regexp(`(?:^|: |\s)(?:\d+ )?(?P<signal>Segmentation fault|Bad system call|Aborted|Illegal instruction|Bus error|Floating point exception)(?:\s+\(core dumped\))?(?:\s+(?P<program>\S.*))?$`)},
}

// mention matches a word for SIGSEGV or SIGSYS, an exit status that means one, or the address of a function of the
// page. In a line of an unknown kind it does not prove a crash by the page, but it prevents the result "no crash".
// The last words are those of glibc and bash in German, French, Spanish, Italian, Portuguese, Dutch, Swedish,
// Polish, Turkish, Czech, Russian, Chinese, Japanese and Korean.
var mention = lazy.Regexp(`(?i)\bsig(?:nal)?[\s:=#.("]*(?:11|31|0xb)\b|EXIT_STATUS[\s:="]*(?:11|31)\b|exitcode\{.*\}\s*(?:139|159)\b|SIGSEGV|SIGSYS|\bSEGV\b|segmentation (?:fault|violation)|\bsegfault|bad system call|` +
	`(?:exit\w*|status|code|err\w*|\brc|return\w*)(?:[\s:=("'_]+(?:code|status|value|of|with|was|is|by)?)*(?:139|159|245|225|267|287|-11|-31)\b|^\s+(?:139|159)\s*$|\b(?:0:11|139:0)\b|ffffffffff600[048]00|` +
	`memory fault|core dumped|unexpected (?:fault address|signal during runtime)|AccessViolation|ExecMainStatus=(?:11|31)$|CrashLoopBackOff|back-off restarting|` +
	`Speicherzugriffsfehler|Erreur de segmentation|Violaci.n de segmento|Errore di segmentazione|Falha de segmenta|Segmentatiefout|Segmenteringsfel|Naruszenie ochrony pami|` +
	`Parçalama arızası|Bölütleme|do paměti \(SIGSEGV|Ошибка сегментирования|段错误|段錯誤|セグメンテーション違反|세그멘테이션|세그먼테이션`)

// unitResult is systemd's report that a unit failed, in the journal, systemctl status and systemctl show. Another
// line, or none, has the signal or the exit status.
var unitResult = lazy.Regexp(`(?:(\S+): Failed with result|Active: failed \(Result:|^(?:Exec\w+: )?Result=)\W*(?:core-dump|signal|exit-code|watchdog|start-limit\S*)\b|^ExecMainCode=3$|\bUnit (\S+) entered failed state`)

// endOf reads a line about the end of a program; crash reports that the end is a crash, ok that the line is about
// an end.
func endOf(text string) (e Exited, crash, ok bool) {
	for _, p := range endPatterns {
		m := matched(p.expr(), text)
		if len(m) == 0 {
			continue
		}
		e := Exited{Name: m["name"], Unit: m["unit"], NoTime: true, Elsewhere: true, Line: text}
		if words := strings.Fields(m["program"] + " " + m["exec"]); len(words) > 0 {
			e.Program = words[0]
		}
		switch {
		case e.Name != "":
			e.Label = "container " + e.Name
		case e.Unit != "":
			e.Label = "unit " + e.Unit
		}
		if s := m["status"]; s != "" {
			e.Status, _ = strconv.Atoi(s)
		} else if w, err := strconv.ParseUint(m["wait"], 16, 32); err == nil {
			if e.Status = int(w>>8) & 0xff; w&0x7f > 0 { // wait(2)
				e.Status = died + int(w&0x7f)
			}
		} else if n, err := strconv.Atoi(m["signal"]); err == nil {
			e.Status = died + n
		} else if n := signalWords[strings.ToLower(m["signal"])]; n > 0 {
			e.Status = died + n
		} else if m["signal"] != "" && !calmSignals().MatchString(m["signal"]) { // in unknown words
			return e, false, false
		}
		_, crash = signals[e.Signal()]
		return e, crash, true
	}
	return e, false, false
}

// The lines of systemd-coredump, coredumpctl info, gdb and other reporters.
var (
	dumped      = lazy.Regexp(`\bProcess (\d+) \(([^)]*)\) of user \d+ (?:dumped core|terminated abnormally)`)
	dumpPID     = lazy.Regexp(`^\s*PID: (\d+) \(([^)]*)\)`)
	dumpSignal  = lazy.Regexp(`^\s*Signal: (\d+)`)
	dumpExe     = lazy.Regexp(`^\s*Executable: (/.*)$`)
	dumpBoot    = lazy.Regexp(`^\s*Boot ID: ([0-9a-f]{32})\s*$`)
	dumpStorage = lazy.Regexp(`^\s*Storage: (/\S+) \(present\)`)
	gdbSignal   = lazy.Regexp(`(?:Program|Thread \d+ "[^"]*") (?:terminated|received) (?:with )?signal SIG([A-Z]+)`)
	gdbStop     = lazy.Regexp(`^0x([0-9a-f]{16}) in (.*)$`)
	frameZero   = lazy.Regexp(`^\s*#0\s+0x([0-9a-f]{4,16})\b\s*(.*)$`)
	frameOne    = lazy.Regexp(`^\s*#1\s+0x([0-9a-f]{4,16})\b\s*(.*)$`)
	// ownReport is the address of an instruction in the page in a program's report of its own crash: redis, the
	// JVM, Go, AddressSanitizer, valgrind, lldb.
	ownReport = lazy.Regexp(`(?i)(?:\b[re]?(?:pc|ip)\b[\s=:]*|inst\w+ at:?\s*|address:?\s+|^==\d+==\s+at\s+|frame #0:\s*)0x(f{10}600[0-9a-f]{3})\b`)
	inModule  = lazy.Regexp(`\(([^()\s]+) \+ 0x[0-9a-f]+\)|\bfrom (\S+)`)
)

// backtrace gathers a report about one process, over several lines.
type backtrace struct {
	open          bool
	pid, signal   int
	program, exe  string
	boot, storage string
	ip            uint64
	hasIP         bool
	where, caller string
	lines         []string
}

// reportLines are the lines of a report, except for frames: their meaning, and whether they begin a report.
var reportLines = []struct {
	expr   func() *regexp.Regexp
	begins bool
	take   func(b *backtrace, m []string)
}{
	{dumped, true, (*backtrace).process}, {dumpPID, true, (*backtrace).process},
	{gdbSignal, true, func(b *backtrace, m []string) { b.signal = signalWords[strings.ToLower(m[1])] }},
	{dumpSignal, false, func(b *backtrace, m []string) { b.signal, _ = strconv.Atoi(m[1]) }},
	{dumpExe, false, func(b *backtrace, m []string) { b.exe = m[1] }},
	{dumpBoot, false, func(b *backtrace, m []string) { b.boot = m[1] }},
	{dumpStorage, false, func(b *backtrace, m []string) { b.storage = m[1] }},
}

func (b *backtrace) process(m []string) { b.pid, _ = strconv.Atoi(m[1]); b.program = m[2] }

// line reads a line of a report; it returns false for other lines. The first frame of the first thread is the
// place of the crash.
func (b *backtrace) line(text string) (taken bool) {
	defer func() {
		if taken && len(b.lines) < maxLines {
			b.lines = append(b.lines, strings.TrimSpace(text))
		}
	}()
	for _, l := range reportLines {
		if m := l.expr().FindStringSubmatch(text); m != nil && (b.open || l.begins) {
			b.open = true
			l.take(b, m)
			return true
		}
	}
	m := frameZero().FindStringSubmatch(text)
	if m == nil {
		m = gdbStop().FindStringSubmatch(text)
	}
	if m == nil {
		if m = ownReport().FindStringSubmatch(text); m != nil {
			m = append(m, "")
		}
	}
	if m != nil && !b.hasIP {
		ip, err := strconv.ParseUint(m[1], 16, 64)
		if !b.open && !inPage(ip) || err != nil {
			return false
		}
		b.open, b.ip, b.hasIP, b.where = true, ip, true, moduleIn(m[2])
		return true
	}
	if m := frameOne().FindStringSubmatch(text); b.open && m != nil && b.caller == "" {
		b.caller = moduleIn(m[2])
		return true
	}
	return false
}

func moduleIn(rest string) string {
	m := inModule().FindStringSubmatch(rest)
	if m == nil || m[1] == "n/a" {
		return ""
	}
	return cmp.Or(m[1], m[2])
}

// crash returns the crash of a report, nil if it has none.
func (b *backtrace) crash() *Crash {
	if !b.open || !b.hasIP && b.signal == 0 && b.pid == 0 {
		return nil
	}
	c := &Crash{Source: Backtrace, Count: 1, Program: b.program, Executable: b.exe, Signal: b.signal, IP: b.ip, Known: Known{IP: b.hasIP}, Lines: b.lines}
	c.Program = cmp.Or(c.Program, commOf(b.exe))
	if b.pid > 0 {
		c.PIDs = []int{b.pid}
	}
	signal := b.signal
	if signal == 0 && inPage(b.ip) {
		signal = sigsegv // only a seccomp filter makes the page raise another signal
	}
	c.Signal = signal
	switch {
	case !b.hasIP:
		c.unknownEnd(SignalName(signal))
		if signal == 0 {
			c.unknownEnd("a signal")
		}
	case signal == 0:
		c.Kind = Other
		c.Meaning = fmt.Sprintf("It crashed at %#x, outside the vsyscall page. This is not a vsyscall crash.", b.ip)
	default:
		e := evidence{signal: signal, code: siKernel, ip: b.ip, stack: true}
		if sameBoot(b.boot) {
			e.page = pageHere()
		}
		c.judge(e)
		c.Page = e.page
		if c.Kind == Unknown { // on a machine that serves the page, only a bad pointer crashes, which is rare
			c.called(Call, functionAt(b.ip))
			c.Confidence = Likely
			c.Meaning = fmt.Sprintf("It ended at %#x, %s() in the vsyscall page, a fixed address that glibc up to 2.13 calls. A kernel that does not serve the page (vsyscall=none) ends the program there; "+
				"one that serves it does so only if the argument points to no writable memory.", b.ip, c.Function)
		}
		if c.Kind == Other && b.where != "" {
			c.outside(signal, b.ip, b.where)
		}
	}
	if b.caller != "" && c.Kind.Vsyscall() {
		c.note("the caller is in %s", b.caller)
	}
	c.storage = b.storage
	return c
}

// unknownEnd sets the result for an end of which only the signal is known.
func (c *Crash) unknownEnd(signal string) {
	c.Kind = Unknown
	c.Meaning = fmt.Sprintf("It ended by %s. Nothing here says where, so the cause is not known.", signal)
}

// sharedLibrary is the loader's error for a library that is missing or too old (glibc, elf/dl-load.c and
// dl-version.c; musl, ldso/dynlink.c).
var sharedLibrary = lazy.Regexp("error while loading shared libraries: ([^:]+): (?:cannot open shared object file|wrong ELF class|cannot allocate)|" +
	"(\\S+): version `([^']+)' not found|Error loading shared library ([^:]+): No such file")

// missingLibrary describes a program whose libraries are missing or too old.
func missingLibrary(text string) *Crash {
	m := sharedLibrary().FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	c := &Crash{Kind: MissingLibrary, Source: Message, Count: 1, Lines: []string{text}}
	switch {
	case m[3] != "":
		c.Meaning = fmt.Sprintf("The program needs %s of %s, and the installed library is older.", m[3], strings.TrimSuffix(m[2], ":"))
	default:
		c.Meaning = fmt.Sprintf("The loader did not find %s, which the program needs.", m[1]+m[4])
	}
	return c
}

func functionAt(vaddr uint64) find.Function {
	f, _ := find.FunctionAt(vaddr)
	return f
}
