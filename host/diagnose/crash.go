// The facts of a crash: its kind, its source, who called the page, and the commands that fix it.

package diagnose

import (
	"fmt"

	"vfix.dev/vfix/rewriter/patch"
	"vfix.dev/vfix/rewriter/x86"
)

// Kind is what a crash is.
type Kind string

// The kinds of crash.
const (
	// Call is a call of a function of the page where the kernel does not serve it.
	Call Kind = "call"
	// Filtered is a call that the kernel served, and a seccomp filter refused: the
	// emulation asks the filter (vsyscall_64.c, secure_computing).
	Filtered Kind = "filtered"
	// Read is a read or write of the page as data.
	Read Kind = "read"
	// Trap is a call that a tracer saw trapped; whether the kernel then served it is not in
	// the trace.
	Trap Kind = "trap"
	// Misaligned is a jump to an address in the page that is not one of its functions.
	Misaligned Kind = "misaligned"
	// BadPointer is a call that the kernel served, with an argument that could not be written.
	BadPointer Kind = "bad-pointer"
	// BadStack is a call that the kernel served, with a stack that could not be read.
	BadStack Kind = "bad-stack"
	// OutOfMemory is a process that was killed for its control group's limit.
	OutOfMemory Kind = "out-of-memory"
	// OpenSSLSHA is a crash in OpenSSL's code for the SHA extensions of processors.
	OpenSSLSHA Kind = "openssl-sha"
	// ExecFormat is a program that this kernel does not run.
	ExecFormat Kind = "exec-format"
	// MissingLoader is a program whose loader is not there.
	MissingLoader Kind = "missing-loader"
	// MissingLibrary is a program whose libraries are missing or too old.
	MissingLibrary Kind = "missing-library"
	// Affected is not a crash, but an image that calls the page.
	Affected Kind = "affected"
	// Schema1 is an image that an engine refuses for its manifest.
	Schema1 Kind = "schema1"
	// Other is a crash that has nothing to do with the page.
	Other Kind = "other"
	// Unknown is a crash of which nothing at hand says where it was.
	Unknown Kind = "unknown"
	// None is not a crash, but a snapshot of a running process.
	None Kind = "none"
)

// Vsyscall reports whether the vsyscall page is the cause of such a crash.
func (k Kind) Vsyscall() bool {
	return k == Call || k == Filtered || k == Read || k == Trap || k == Affected
}

// Fixable reports whether vfix fixes the cause.
func (k Kind) Fixable() bool { return k == Call || k == Filtered || k == Trap }

// Source is what a crash was read from.
type Source string

// The sources.
const (
	CoreFile  Source = "core"
	KernelLog Source = "kernel-log"
	TraceText Source = "trace"
	Process   Source = "process"
	// ContainerEnd is a container's exit status, and the kernel's log of its time.
	ContainerEnd Source = "container"
	// Message is what an engine, a runtime or a shell said of a start that failed.
	Message Source = "message"
	// Backtrace is a report of systemd-coredump or a debugger.
	Backtrace Source = "backtrace"
	// ImageScan is an image of which no crash is known.
	ImageScan Source = "image"
)

// Crash is one crash, or several of a log that are the same except for their process.
type Crash struct {
	Input  string `json:"-"` // as the user named it
	Source Source `json:"source"`
	Kind   Kind   `json:"kind"`
	// Program is the name the kernel knows the process by, up to 15 bytes; Command the
	// command line as far as it is known, Executable the path of the program.
	Program    string `json:"program"`
	Command    string `json:"command"`
	Executable string `json:"executable"`
	PIDs       []int  `json:"pids"`   // of the processes, up to maxPIDs
	Count      int    `json:"count"`  // how many crashes this is
	TID        int    `json:"tid"`    // of the thread, 0 if not known
	Signal     int    `json:"signal"` // 0 if not known
	When       string `json:"when"`
	// Fault is the address that could not be accessed, IP that of the instruction, SP the
	// stack pointer; Known says which of them are known.
	Fault    uint64 `json:"-"`
	IP       uint64 `json:"-"`
	SP       uint64 `json:"-"`
	Known    Known  `json:"-"`
	Function string `json:"function"` // of the page: "time"; "" for none
	// Page is whether the process had the page: "mapped", "not mapped", or "" for not known.
	Page    string   `json:"page"`
	Meaning string   `json:"meaning"` // one or two sentences
	Caller  *Caller  `json:"-"`
	Fixes   []Fix    `json:"fixes"`
	Notes   []string `json:"notes"` // what could not be found out, and why
	Lines   []string `json:"log"`   // the lines of a log that say it, up to maxLines
	// Confidence is how sure Kind is, Verdict the answer in one sentence, Next the one command to type, nil for none.
	Confidence Confidence `json:"-"`
	Verdict    string     `json:"verdict"`
	Next       *Fix       `json:"next"`

	because string // why nothing is known, for Verdict
	storage string // where systemd-coredump keeps the core
}

const (
	maxPIDs  = 8
	maxLines = 4
)

// Known says which addresses of a crash are known.
type Known struct{ Fault, IP, SP bool }

// Caller is who called the page.
type Caller struct {
	Return uint64 `json:"-"`      // the return address in the process
	Module string `json:"module"` // path of the file as the process knew it, "" if no file is mapped there
	Offset uint64 `json:"offset"` // of the return address from the start of the module in memory
	Vaddr  uint64 `json:"-"`      // of the return address in the file; 0 if not known
	Symbol string `json:"symbol"` // "" if nothing names the function
	Into   uint64 `json:"into"`   // bytes from the start of the function, where Symbol is set
	// BuildID is in hex, "" for none. File is the file that was read about it, "" for none.
	BuildID string `json:"build_id"`
	File    string `json:"-"`
	Package string `json:"package"` // name and version, "" if no database knows the file
	Libc    string `json:"libc"`    // as find.Report.Libc
	// Site is the reference to the page and what vfix does about it, nil where the file
	// was not read or has none that fits.
	Site *patch.Patch `json:"-"`
	// Lines is the code before the return address; nil where the file was not read.
	Lines []x86.Line `json:"-"`
	// Tail says that the function jumped to the page, so that Return is its caller's.
	Tail bool `json:"tail"`
}

// Fix is a command that fixes the cause.
type Fix struct {
	Command string `json:"command"`
	Why     string `json:"why"`
}

// signal names of the signals that a program dies by with a core; signal(7).
var signals = map[int]string{
	3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL",
	11: "SIGSEGV", 24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
}

// The signals that the page makes, and the one of a limit of memory.
const (
	sigkill = 9
	sigsegv = 11
	sigsys  = 31
)

// SignalName returns the name of a signal that writes a core, "signal N" for others.
func SignalName(n int) string {
	if s, ok := signals[n]; ok {
		return s
	}
	return fmt.Sprintf("signal %d", n)
}
