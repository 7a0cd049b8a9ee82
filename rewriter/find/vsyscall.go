// The vsyscall page and its three functions.

package find

// PageVaddr is where the kernel maps the vsyscall page, PageSize its length in bytes.
// Source: VSYSCALL_ADDR in the kernel's arch/x86/include/uapi/asm/vsyscall.h.
const (
	PageVaddr = 0xffffffffff600000
	PageSize  = 0x1000
)

// Function is one of the three functions of the vsyscall page.
type Function uint8

// The functions, in the order of their addresses in the page.
const (
	Gettimeofday Function = iota
	Time
	Getcpu
)

// Functions lists all three in the order of their addresses.
var Functions = [...]Function{Gettimeofday, Time, Getcpu}

// functionInfo is the table at the start of the kernel's vsyscall_emu_64.S. It has offsets in the page instead of
// addresses: vfix's own binary must not refer to the page, or vfix would report it.
var functionInfo = [...]struct {
	name    string
	offset  uint32
	syscall uint32
}{
	Gettimeofday: {"gettimeofday", 0, 96},
	Time:         {"time", 0x400, 201},
	Getcpu:       {"getcpu", 0x800, 309},
}

// FunctionAt returns the function whose entry is at vaddr; ok is false for all other addresses.
func FunctionAt(vaddr uint64) (f Function, ok bool) {
	for _, f := range Functions {
		if uint64(functionInfo[f].offset) == vaddr-PageVaddr {
			return f, true
		}
	}
	return 0, false
}

// Vaddr returns the entry of the function in the vsyscall page.
func (f Function) Vaddr() uint64 { return PageVaddr + uint64(functionInfo[f].offset) }

// Syscall returns the number of the equivalent system call. Source: the kernel's
// arch/x86/entry/syscalls/syscall_64.tbl.
func (f Function) Syscall() uint32 { return functionInfo[f].syscall }

func (f Function) String() string { return functionInfo[f].name }

// MarshalText returns the name of the function for JSON.
func (f Function) MarshalText() ([]byte, error) { return []byte(f.String()), nil }
