// The kind of a crash from its addresses. Source: the kernel's arch/x86/entry/vsyscall/vsyscall_64.c
// (emulate_vsyscall) and arch/x86/mm/fault.c.

package diagnose

import (
	"fmt"

	"vfix.dev/vfix/rewriter/find"
)

// The codes of a siginfo that are used here (asm-generic/siginfo.h). The kernel sends siKernel without an address.
const (
	siKernel = 0x80
	siUser   = 0 // and below: sent by a process
)

// slotSize is the size of each function's slot in the page, in bytes.
const slotSize = 0x400

// inPage reports whether an address lies in the vsyscall page.
func inPage(vaddr uint64) bool {
	return vaddr >= find.PageVaddr && vaddr < find.PageVaddr+find.PageSize
}

// evidence has the facts of a crash before it is judged.
type evidence struct {
	signal, code int
	fault, ip    uint64
	// stack reports that the stack pointer points to readable memory.
	stack bool
	page  pageState
}

// pageState reports whether the process had the page, as far as the input itself has it.
type pageState string

const (
	pageUnknown pageState = ""
	pageMapped  pageState = "mapped"
	pageAbsent  pageState = "not mapped"
)

// judge fills in Kind, Function and Meaning from the evidence of a signal.
func (c *Crash) judge(e evidence) {
	f, entry := find.FunctionAt(e.ip)
	// With vsyscall=native (until Linux 5.2), the system call is an instruction of the page, behind its function's
	// address.
	slot, inSlot := find.FunctionAt(e.ip &^ (slotSize - 1))
	switch {
	case e.signal == 0:
		c.Kind, c.Meaning = None, "No signal is recorded: this is a snapshot of a process that had not crashed."
	case e.signal == sigsegv && e.code <= siUser:
		c.Kind, c.Meaning = Other, SignalName(e.signal)+" was sent by a process, not by the kernel. This is not a vsyscall crash."
	case e.signal == sigsys && inSlot:
		c.called(Filtered, slot)
	case e.signal != sigsegv:
		c.outside(e.signal, e.ip, "")
		if inPage(e.ip) {
			c.Meaning = fmt.Sprintf("It ended by %s at %#x in the vsyscall page. The page does not raise that signal.", SignalName(e.signal), e.ip)
		}
	case entry && e.code == siKernel && !e.stack:
		c.called(BadStack, f)
	case entry && e.page == pageAbsent && (e.fault == e.ip || e.code == siKernel):
		// A general protection fault has no address: with LASS, si_addr is 0.
		c.called(Call, f)
	case entry && e.page == pageMapped && (e.fault == e.ip || e.code == siKernel):
		// The kernel served the call and failed: on current kernels (seen on 6.18), a bad pointer is a SIGSEGV
		// without an address.
		c.called(BadPointer, f)
	case entry && e.code == siKernel:
		c.Kind, c.Function = Unknown, f.String()
		c.Meaning = fmt.Sprintf("It ended by SIGSEGV at %#x, %v() in the vsyscall page, and the signal has no address. Either the kernel does not serve the page and the processor has LASS, "+
			"or the kernel served it and the argument pointed to no writable memory. Nothing here says which.", e.ip, f)
		c.note("a core file that the kernel wrote shows whether the process had the page; the kernel's log has 'vsyscall attempted' or 'vsyscall fault'")
	case entry && e.fault == e.ip:
		c.called(Call, f)
	case entry:
		c.called(BadPointer, f)
		c.Meaning += fmt.Sprintf(" The address is %#x.", e.fault)
	case inPage(e.ip):
		c.misaligned(e.ip)
	case inPage(e.fault) && e.code != siKernel:
		c.read(e.fault, e.ip)
	default:
		c.outside(e.signal, e.ip, "")
	}
}

// outside describes a crash elsewhere, in the file where if that is known.
func (c *Crash) outside(signal int, ip uint64, where string) {
	if where != "" {
		where = " in " + where
	}
	c.Kind = Other
	c.Meaning = fmt.Sprintf("It ended by %s at %#x%s, outside the vsyscall page. This is not a vsyscall crash.", SignalName(signal), ip, where)
}

// overStack is the largest distance of a fault from the stack pointer for a full stack, in bytes: a function's
// variables.
const overStack = 64 << 10

// lowest is the lowest address that programs can map on common systems (vm.mmap_min_addr).
const lowest = 64 << 10

// fullStack adds a note if the address shows that the stack was full.
func (c *Crash) fullStack() {
	if c.Kind == Other && c.Signal == sigsegv && c.Known.Fault && c.Known.SP && c.Fault >= lowest && c.Fault < c.SP+page && c.SP-min(c.SP, c.Fault) <= overStack {
		c.note("the address is at the stack pointer: probably the stack is full, as in an endless recursion; 'ulimit -s' is its limit")
	}
}

// called sets a kind that is a call of a function of the page.
func (c *Crash) called(k Kind, f find.Function) {
	c.Kind, c.Function = k, f.String()
	const other = "This crash has another cause, which vfix does not fix."
	c.Meaning = fmt.Sprintf("%#x is %v() in the vsyscall page, a fixed address that glibc up to 2.13 calls. ", f.Vaddr(), f) + map[Kind]string{
		Call:       "This kernel does not serve the page (vsyscall=none, or built without it), so the call is a SIGSEGV.",
		Filtered:   fmt.Sprintf("The kernel served it, and the seccomp filter of the process refused system call %d there: a SIGSYS.", f.Syscall()),
		BadStack:   "The stack pointer pointed to no memory, so that the kernel could not return from it. " + other,
		BadPointer: "The kernel served it, and the argument points to no writable memory. " + other,
		Trap:       "The kernel trapped the call. On a kernel that serves the page this costs time; on one that does not (vsyscall=none), the program crashes.",
	}[k]
}

func (c *Crash) misaligned(ip uint64) {
	c.Kind = Misaligned
	c.Meaning = fmt.Sprintf("%#x is in the vsyscall page and none of its functions, which are at %#x, %#x and %#x. "+
		"No program calls it on purpose: this crash has another cause (a bad jump), which vfix does not fix.",
		ip, find.Gettimeofday.Vaddr(), find.Time.Vaddr(), find.Getcpu.Vaddr())
}

func (c *Crash) read(fault, ip uint64) {
	c.Kind = Read
	c.Meaning = fmt.Sprintf("The instruction at %#x reads or writes %#x in the vsyscall page as data, which kernels without vsyscall=emulate do not allow. "+
		"vfix fixes calls to the page, not reads of it; a kernel with vsyscall=emulate serves both.", ip, fault)
}
