// The diagnosis of a core file, from its notes to the caller of the page.

package diagnose

import (
	"fmt"
	"io"

	"vfix.dev/vfix/internal/quote"
	"vfix.dev/vfix/rewriter/find"
)

// inThePage is an address in the vsyscall page that is not one of a function's: vfix itself has none of these.
const inThePage = find.PageVaddr + 1

// page says whether the process had the page: the kernel writes its own mapping of it as a segment, if there is
// one. Debuggers leave it out; their cores have section headers, which the kernel's have only beside very many
// segments (fs/binfmt_elf.c, fill_extnum_info).
func (c *core) page() pageState {
	switch {
	case c.segmentAt(inThePage) != nil:
		return pageMapped
	case c.byKernel:
		return pageAbsent
	}
	return pageUnknown
}

// Core diagnoses a core file. It errs if the file is not of a 64-bit x86-64 program, or
// is damaged so far that not even the registers are in it. A core that is cut off later is
// diagnosed as far as it goes.
func Core(input string, r io.ReaderAt, o Options) (*Crash, error) {
	co, err := openCore(r)
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
		Program: f.name, Command: f.args, Executable: co.programName(f),
	}
	if pid := f.pid; pid != 0 {
		c.PIDs = []int{pid}
	}
	args := co.arguments(f)
	if args != nil {
		c.Command = quote.Words(args)
	}
	e := evidence{signal: f.signal, ip: f.rip, code: 1, fault: f.rip, stack: co.segmentAt(f.rsp) != nil, page: co.page()}
	if f.siginfo {
		e.code, e.fault = f.code, f.addr
		if f.signal == sigsegv && f.code > siUser && f.code != siKernel {
			c.Fault, c.Known.Fault = f.addr, true
		}
	} else if f.signal == sigsegv {
		c.note("no NT_SIGINFO (a kernel before 3.7): that the fault was at the instruction's own address is taken from the registers")
	}
	c.judge(e)
	c.Page = string(e.page)
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
