// The diagnosis of a core file, from its registers to the caller of the page.

package diagnose

import (
	"fmt"
	"io"
	"path"
	"strings"

	"vfix.dev/vfix/internal/textutil"
	"vfix.dev/vfix/rewriter/find"
)

// The signals that the page raises, and the codes of a siginfo (asm-generic/siginfo.h). The kernel sends siKernel
// without an address.
const (
	sigabrt  = 6
	sigsegv  = 11
	sigsys   = 31
	siUser   = 0 // and below: sent by a process
	siKernel = 0x80
)

// signals are the names of the signals that end a program with a core (signal(7)).
var signals = map[int]string{
	3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", sigabrt: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL",
	sigsegv: "SIGSEGV", 24: "SIGXCPU", 25: "SIGXFSZ", sigsys: "SIGSYS",
}

func signalName(n int) string {
	if s, ok := signals[n]; ok {
		return s
	}
	return fmt.Sprintf("signal %d", n)
}

// Core diagnoses a core file. It returns an error if the file is not of a 64-bit x86-64 program, or if it ends
// before the registers. A core that is truncated later is diagnosed as far as possible.
func Core(input string, r io.ReaderAt, o Options) (*Result, error) {
	co, err := openCore(input, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", input, err)
	}
	f, err := co.readNotes()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", input, err)
	}
	c := &Crash{Program: f.name, Count: 1, Confidence: Certain}
	if f.pid > 0 {
		c.PIDs = []int{f.pid}
	}
	if at, ok := f.aux(atExecfn); ok {
		c.Path = co.text(at, page) // PATH_MAX
	}
	f.undoReturn()
	caught := co.caught(f)
	c.judgeCore(co, f)
	if caught {
		c.note("the program handled the SIGSEGV before it ended: these are the registers that the kernel saved for its handler")
	}
	if c.Kind == Call || c.Kind == Filtered {
		c.findCaller(co, f, o)
	}
	c.Next = o.coreCommand(c, f)
	return &Result{Input: input, Crashes: []*Crash{c}}, nil
}

// undoReturn sets the registers back to a call that a seccomp filter refused: before the signal the kernel returns from
// it (emulate_vsyscall), and the siginfo has its address (si_call_addr).
func (f *facts) undoReturn() {
	if f.signal == sigsys && f.siginfo && functionAt(f.addr) != "" && !inPage(f.rip) {
		f.rip, f.rsp = f.addr, f.rsp-8
	}
}

// judgeCore sets Kind, Function and Verdict from the registers, the signal and the mappings. Source: the kernel's
// arch/x86/entry/vsyscall/vsyscall_64.c (emulate_vsyscall) and arch/x86/mm/fault.c.
func (c *Crash) judgeCore(co *core, f *facts) {
	code, addr := 1, f.rip // without NT_SIGINFO (kernels before 3.7) the fault is assumed to be at the instruction
	if f.siginfo {
		code, addr = f.code, f.addr
	}
	mapped := co.segmentAt(find.PageVaddr+1) != nil
	c.Function = functionAt(f.rip)
	called := c.Function != "" && f.signal == sigsegv && code > siUser && (addr == f.rip || code == siKernel)
	const slot = 0x400 // bytes of a function in the page
	refusedCall := functionAt(f.rip &^ (slot - 1))
	other := func(format string, a ...any) { c.Kind, c.Function, c.Verdict = Other, "", fmt.Sprintf(format, a...) }
	switch {
	case f.signal == 0:
		c.Kind, c.Verdict = None, "this is a snapshot of a running process: no signal is recorded"
	case called && !mapped:
		c.called(Call, c.Function)
	case called && mapped:
		other("%s called %s() in the vsyscall page with a pointer or a stack that is not writable: the kernel served the call", c.who(), c.Function)
	case f.signal == sigsys && refusedCall != "":
		c.called(Filtered, refusedCall)
	case f.signal == sigsegv && code > siUser && code != siKernel && inPage(addr) && !inPage(f.rip):
		c.Kind, c.Function, c.Confidence = Read, "", Uncertain
		c.Verdict = fmt.Sprintf("the instruction at %#x of %s read the vsyscall page as data", f.rip, c.who())
		c.note(readNote)
	case f.signal == sigsegv && code <= siUser:
		other("a process sent SIGSEGV to %s", c.who())
	default:
		other("%s ended by %s at %#x, which is not a call of the vsyscall page", c.who(), signalName(f.signal), f.rip)
	}
}

// called concludes that the program called a function of the page.
func (c *Crash) called(kind Kind, function string) {
	c.Kind, c.Function = kind, function
	c.Verdict = fmt.Sprintf("%s called %s() in the vsyscall page, which its kernel does not serve", c.who(), function)
	if kind == Filtered {
		c.Verdict = fmt.Sprintf("a seccomp filter refused the call of %s() in the vsyscall page by %s", function, c.who())
	}
}

// who names the program for a sentence.
func (c *Crash) who() string {
	switch {
	case c.Program != "":
		return c.Program
	case c.Path != "":
		return path.Base(c.Path)
	}
	return "the program"
}

// The registers that the kernel saves on the stack for a signal handler (struct sigcontext_64): their distance
// from rip, in words; and the code segment of user programs and the flags that are always set (SDM 3.4.3).
const (
	savedFlags, savedCS, savedTrap, savedCR2 = 1, 2, 4, 6
	userCS, userFlags, allFlags              = 0x33, 0x202, 1<<22 - 1
	trapFault                                = 14 // a page fault, whose address is in cr2
	maxCaught                                = 1 << 20
)

// caught finds the call of the page whose SIGSEGV the program handled before it ended itself, in the first maxCaught
// bytes of the stack, and replaces the facts of the end with those of the call.
func (c *core) caught(f *facts) bool {
	s := c.segmentAt(f.rsp)
	if s == nil || f.signal != sigabrt && (f.signal != sigsegv || f.code > siUser || !f.siginfo) {
		return false
	}
	b := make([]byte, min(maxCaught, s.Vaddr+s.Memsz-f.rsp))
	n, _ := c.mem(b, f.rsp)
	word := func(i int) uint64 { return le.Uint64(b[8*i:]) }
	for i := 1; i+savedCR2 < n/8; i++ {
		flags := word(i + savedFlags)
		ofUser := word(i+savedCS)&0xffff == userCS && flags&userFlags == userFlags && flags <= allFlags
		if functionAt(word(i)) == "" || !ofUser {
			continue
		}
		f.rip, f.rsp, f.signal, f.siginfo, f.code, f.addr = word(i), word(i-1), sigsegv, true, siKernel, 0
		if word(i+savedTrap) == trapFault {
			f.code, f.addr = 1, word(i+savedCR2)
		}
		return true
	}
	return false
}

// coreCommand returns the next command for a core.
func (o *Options) coreCommand(c *Crash, f *facts) *Command {
	switch {
	case !c.Kind.Page() && !c.Kind.Open():
		return nil
	case o.RootName != "" && (c.Caller == nil || c.Caller.File != ""): // else it is not what the program ran in
		return o.fixRoot()
	case c.Caller == nil || c.Caller.File == "":
		return &Command{"vfix diagnose --root IMAGE CORE", "with the image or directory that the program ran in, to find the caller and what fixes it"}
	case path.Base(c.Caller.File) == path.Base(c.Path): // it was started by a relative path, most often
		return patchProgram(c.Caller.File)
	}
	words := append([]string{"vfix", "run"}, strings.Fields(f.args)...)
	return &Command{textutil.QuoteWords(words), "runs it here without changing a file; 'vfix patch -i " + textutil.QuotePath(c.Caller.File) + "' patches the library for all programs"}
}
