// The diagnosis of a core file, from its notes to the caller of the page.

package diagnose

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"vfix.dev/vfix/internal/quote"
	"vfix.dev/vfix/rewriter/find"
)

// inThePage is an address in the vsyscall page that is not one of its functions.
const inThePage = find.PageVaddr + 1

// page reports whether the process had the page: the kernel writes its own mapping of it as a segment, if it
// exists. Debuggers omit it; their cores have section headers, which the kernel writes only for very many segments
// (fs/binfmt_elf.c, fill_extnum_info).
func (c *core) page() pageState {
	switch {
	case c.segmentAt(inThePage) != nil:
		return pageMapped
	case c.byKernel:
		return pageAbsent
	}
	return pageUnknown
}

// Core diagnoses a core file. It returns an error if the file is not of a 64-bit x86-64 program, or if it ends
// before the registers. A core that is truncated later is diagnosed as far as possible.
func Core(input string, r io.ReaderAt, o Options) (*Crash, error) {
	co, err := openCore(input, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", input, err)
	}
	f, err := co.readNotes()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", input, err)
	}
	c := &Crash{
		Input: input, Source: CoreFile, Count: 1, TID: f.tid, Signal: f.signal,
		IP: f.rip, SP: f.rsp, Known: Known{IP: true, SP: true},
		Program: f.name, Command: strings.TrimRight(f.args, " "),
	}
	if at, ok := f.aux(atExecfn); ok {
		c.Executable = co.text(at, page) // PATH_MAX
	}
	if pid := f.pid; pid != 0 {
		c.PIDs = []int{pid}
	}
	args := co.arguments(f)
	if args != nil {
		c.Command = quote.Words(args)
	}
	if co.caught(f) {
		c.Signal, c.IP, c.SP = f.signal, f.rip, f.rsp
		c.note("the program caught a SIGSEGV before it ended: the registers are those that the kernel saved for its handler")
	}
	e := evidence{signal: f.signal, ip: f.rip, code: 1, fault: f.rip, stack: co.segmentAt(f.rsp) != nil, page: co.page()}
	if f.siginfo {
		e.code, e.fault = f.code, f.addr
		if f.signal == sigsegv && f.code > siUser && f.code != siKernel {
			c.Fault, c.Known.Fault = f.addr, true
		}
	} else if f.signal == sigsegv {
		c.note("no NT_SIGINFO (a kernel before 3.7): vfix assumes from the registers that the fault was at the instruction's own address")
	}
	c.judge(e)
	c.Page = e.page
	if f.filesErr != nil {
		c.note("the list of mapped files: %v", f.filesErr)
	}
	if c.Kind == Call || c.Kind == Filtered {
		c.findCaller(co, f, o)
	}
	c.fix(o, args)
	c.conclude(o)
	return c, nil
}

// The registers that the kernel saves on the stack for a signal handler (struct sigcontext_64): their distance
// from rip, in words; and the code segment of user programs and the flags that are always set (SDM 3.4.3).
const (
	savedFlags, savedCS, savedTrap, savedCR2 = 1, 2, 4, 6
	userCS, userFlags, allFlags              = 0x33, 0x202, 1<<22 - 1
	trapFault                                = 14 // a page fault, whose address is in cr2
	// maxCaught is how much of the stack is searched, in bytes.
	maxCaught = 1 << 20
)

// caught finds the call of the page whose SIGSEGV the program handled before it ended itself, and replaces the
// facts of the end with those of the call.
func (c *core) caught(f *facts) bool {
	s := c.segmentAt(f.rsp)
	if s == nil || f.signal != sigabrt && (f.signal != sigsegv || f.code > siUser) {
		return false
	}
	if _, ok := find.FunctionAt(f.rip); ok && f.signal == sigsegv { // the handler returned to the call
		f.code = siKernel
		return true
	}
	b := make([]byte, min(maxCaught, s.vaddr+s.memsz-f.rsp))
	n, _ := c.mem(b, f.rsp)
	word := func(i int) uint64 { return le.Uint64(b[8*i:]) }
	for i := 1; i+savedCR2 < n/8; i++ {
		flags := word(i + savedFlags)
		if _, ok := find.FunctionAt(word(i)); !ok || word(i+savedCS)&0xffff != userCS || flags&userFlags != userFlags || flags > allFlags {
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

const (
	atRandom = 25
	// maxArgs is how much of the stack is searched for the arguments, in bytes: before them are the name of the
	// platform and a gap of random length, up to 8191 bytes (arch/x86/kernel/process.c, arch_align_stack).
	maxArgs = 8192 + 4096
)

// arguments returns the command line from the stack, nil if the stack does not have it, or if NT_PRPSINFO
// truncated it. NT_PRPSINFO has its first 80 bytes, with a space at the end of each argument (fs/binfmt_elf.c,
// fill_psinfo). On the stack, the arguments follow the 16 random bytes of the auxiliary vector's AT_RANDOM, each
// with a NUL.
func (c *core) arguments(f *facts) []string {
	random, ok := f.aux(atRandom)
	if !ok || f.args == "" || len(f.args) >= psPsargsLen-1 {
		return nil
	}
	b := make([]byte, maxArgs)
	n, err := c.mem(b, random)
	if err != nil {
		return nil
	}
	at := bytes.Index(bytes.ReplaceAll(b[:n], []byte{0}, []byte{' '}), []byte(f.args))
	if at < 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b[at:at+len(f.args)]), "\x00"), "\x00")
}
