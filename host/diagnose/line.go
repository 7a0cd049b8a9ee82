// Lines of logs about a crash: the kernel's, and tracers'.

package diagnose

import (
	"vfix.dev/vfix/internal/kernellog"
	"vfix.dev/vfix/rewriter/find"
)

// logLine is what one line says.
type logLine struct {
	program, exe, when string
	pid                int
	signal             int
	kind               Kind
	fault, ip, sp      uint64
	known              Known
	where              string // the file that the kernel names behind "in"
	// fromTrace says that a tracer wrote the line, noIP that ip is taken from fault, sent that
	// a process sent the signal.
	fromTrace, noIP, sent bool
	// vague says that the line shows a crash and not its cause: another may.
	vague bool
	// relayed says that somebody may repeat the kernel's words.
	relayed bool
}

// meant is what the kernel's messages mean; those that are not here say no more than the
// address does.
var meant = map[kernellog.Message]Kind{
	kernellog.Attempted: Call, kernellog.Misaligned: Misaligned, kernellog.ReadDenied: Read,
	kernellog.BadStack: BadStack, kernellog.BadPointer: BadPointer, kernellog.Filtered: Filtered,
	kernellog.Protection: Other, kernellog.Seccomp: Other, kernellog.Abend: Other,
}

// parseLine takes a line of a log apart; ok is false for lines about something else.
func parseLine(line string) (l logLine, ok bool) {
	if e, ok := kernellog.Parse(line); ok {
		return fromKernel(e), true
	}
	return parseTrace(line)
}

// fromKernel judges a message of the kernel.
func fromKernel(e kernellog.Event) logLine {
	l := logLine{
		program: e.Program, exe: e.Exe, when: e.When, pid: e.PID, signal: int(e.Signal), kind: meant[e.Message],
		fault: e.Fault, ip: e.IP, sp: e.SP, known: Known{Fault: e.KnownFault, IP: e.KnownIP, SP: e.KnownSP},
		where: e.Where, vague: e.Message == kernellog.Abend, relayed: e.Relayed,
	}
	// On a processor with LASS a call of the page is a general protection fault.
	if _, ok := find.FunctionAt(l.ip); ok && e.Message == kernellog.Protection {
		l.kind = Call
	}
	return l
}
