// The facts of a crash: its kind, its source, who called the page, and the commands that fix it.

package diagnose

import (
	"fmt"
	"strings"

	"vfix.dev/vfix/rewriter/patch"
	"vfix.dev/vfix/rewriter/x86"
)

// Kind is the kind of a crash, by its cause.
type Kind string

// The kinds of crash.
const (
	Call           Kind = "call"     // of a function of the page, which the kernel does not serve
	Filtered       Kind = "filtered" // a call that the kernel served: the emulation applies the seccomp filter (vsyscall_64.c, secure_computing)
	Read           Kind = "read"     // a read or write of the page as data
	Trap           Kind = "trap"     // a call that a tracer saw trapped; the trace does not show whether the kernel then served it
	Misaligned     Kind = "misaligned"
	BadPointer     Kind = "bad-pointer" // a call that the kernel served, with an argument that could not be written
	BadStack       Kind = "bad-stack"   // a call that the kernel served, with a stack that could not be read
	OutOfMemory    Kind = "out-of-memory"
	OpenSSLSHA     Kind = "openssl-sha" // in OpenSSL's code for the SHA extensions of processors
	ExecFormat     Kind = "exec-format"
	MissingLoader  Kind = "missing-loader"
	MissingLibrary Kind = "missing-library"
	Affected       Kind = "affected" // no crash, but an image that calls the page
	Schema1        Kind = "schema1"
	Other          Kind = "other"   // a crash outside the page
	Unknown        Kind = "unknown" // a crash at an unknown place
	None           Kind = "none"    // no crash, but a snapshot of a running process
)

// kinds are the properties of the kinds. In the texts, WHO stands for the program that crashed, FUNCTION for a
// function of the page, and MAYBE for "probably" if the confidence is Likely. A kind without a verdict has the
// verdict of Other.
var kinds = map[Kind]struct {
	vsyscall, fixable bool // the page is the cause; vfix fixes it
	title, verdict    string
}{
	Call: {true, true, "MAYBEa call to FUNCTION in the vsyscall page, which is not mapped",
		"WHO MAYBEcrashed because it called FUNCTION in the vsyscall page, which its kernel does not serve"},
	Filtered: {true, true, "a call to FUNCTION in the vsyscall page, refused by a seccomp filter",
		"WHO MAYBEcrashed because a seccomp filter refused its call of FUNCTION in the vsyscall page"},
	Trap: {true, true, "a call to FUNCTION in the vsyscall page", "WHO calls FUNCTION in the vsyscall page: a kernel with vsyscall=none kills it there"},
	Read: {true, false, "a read of the vsyscall page", "WHO crashed because it read the vsyscall page, which vfix cannot fix"},

	Misaligned:     {title: "no vsyscall crash: a jump into the vsyscall page, but not to one of its functions"},
	BadPointer:     {title: "no vsyscall crash: FUNCTION in the vsyscall page was given a bad pointer"},
	BadStack:       {title: "no vsyscall crash: FUNCTION in the vsyscall page was called on a bad stack"},
	OutOfMemory:    {title: "no vsyscall crash: it used more memory than its limit", verdict: "the vsyscall page is not the cause: the kernel killed WHO, because it used more memory than its limit"},
	OpenSSLSHA:     {title: "no vsyscall crash: a bug of OpenSSL 1.0.2 on this processor"},
	ExecFormat:     {title: "no vsyscall crash: a program that this kernel does not run", verdict: notStartedVerdict},
	MissingLoader:  {title: "no vsyscall crash: the loader of the program is missing", verdict: notStartedVerdict},
	MissingLibrary: {title: "no vsyscall crash: a library of the program is missing or too old", verdict: notStartedVerdict},
	Affected:       {vsyscall: true, title: "calls the vsyscall page"},
	Schema1:        {title: "no crash: an image with a schema 1 manifest", verdict: "there was no crash: the engine refuses the image's manifest, which has schema 1"},
	Other:          {title: "no vsyscall crash"},
	Unknown:        {title: "a crash with an unknown cause", verdict: "the cause is unknown"},
	None:           {title: "no crash", verdict: "there was no crash"},
}

const notStartedVerdict = "the vsyscall page is not the cause: the program could not be started"

// Vsyscall reports whether the vsyscall page is the cause of such a crash.
func (k Kind) Vsyscall() bool { return kinds[k].vsyscall }

// Fixable reports whether vfix fixes the cause.
func (k Kind) Fixable() bool { return kinds[k].fixable }

// Title returns the kind of the crash in a few words.
func (c *Crash) Title() string {
	switch {
	case c.Kind == Call && c.Function == "":
		return "probably a call to the vsyscall page, which is not mapped"
	case c.Source == ImageScan && c.Kind == Unknown:
		return "not fully examined"
	case c.Source == ImageScan && c.Kind == None:
		return "does not call the vsyscall page"
	}
	return c.words(kinds[c.Kind].title)
}

// words fills in a text of kinds.
func (c *Crash) words(text string) string {
	function, maybe := "a function", ""
	if c.Function != "" {
		function = c.Function + "()"
	}
	if c.Confidence == Likely {
		maybe = "probably "
	}
	return strings.NewReplacer("WHO", c.who(), "FUNCTION", function, "MAYBE", maybe).Replace(text)
}

// Source is the kind of input that a crash was read from.
type Source string

// The sources.
const (
	CoreFile  Source = "core"
	KernelLog Source = "kernel-log"
	TraceText Source = "trace"
	Process   Source = "process"
	// ContainerEnd is a container's exit status, with the kernel's log of that time.
	ContainerEnd Source = "container"
	// Message is the error of an engine, a runtime or a shell for a failed start.
	Message Source = "message"
	// Backtrace is a report of systemd-coredump or a debugger.
	Backtrace Source = "backtrace"
	// ImageScan is an image without a known crash.
	ImageScan Source = "image"
)

// Crash is one crash, or several in a log that differ only in their process.
type Crash struct {
	Input  string `json:"-"` // as the user named it
	Source Source `json:"source"`
	Kind   Kind   `json:"kind"`
	// Program is the kernel's name of the process, up to 15 bytes; Command the command line as far as it is known;
	// Executable the path of the program.
	Program    string `json:"program"`
	Command    string `json:"command"`
	Executable string `json:"executable"`
	PIDs       []int  `json:"pids"`   // of the processes, up to maxPIDs
	Count      int    `json:"count"`  // the number of crashes
	TID        int    `json:"tid"`    // of the thread, 0 if not known
	Signal     int    `json:"signal"` // 0 if not known
	When       string `json:"when"`
	// Fault is the address that could not be accessed, IP the address of the instruction, SP the stack pointer;
	// Known reports which of them are known.
	Fault    uint64    `json:"-"`
	IP       uint64    `json:"-"`
	SP       uint64    `json:"-"`
	Known    Known     `json:"-"`
	Function string    `json:"function"` // of the page: "time"; "" for none
	Page     pageState `json:"page"`
	Meaning  string    `json:"meaning"` // one or two sentences
	Caller   *Caller   `json:"-"`
	Fixes    []Fix     `json:"fixes"`
	Notes    []string  `json:"notes"` // facts that could not be determined, and why
	Lines    []string  `json:"log"`   // the lines of a log that report it, up to maxLines
	// Confidence is that of Kind, Verdict the answer in one sentence, Next the next command to type, nil if there
	// is none.
	Confidence Confidence `json:"-"`
	Verdict    string     `json:"verdict"`
	Next       *Fix       `json:"next"`

	because string // why the cause is not known, for Verdict
	storage string // where systemd-coredump keeps the core
}

const (
	maxPIDs  = 8
	maxLines = 4
)

// Known reports which addresses of a crash are known.
type Known struct{ Fault, IP, SP bool }

// Caller is the code that called the page.
type Caller struct {
	Return uint64 `json:"-"`      // the return address in the process
	Module string `json:"module"` // path of the file in the process, "" if no file is mapped there
	Offset uint64 `json:"offset"` // of the return address from the start of the module in memory
	Vaddr  uint64 `json:"-"`      // of the return address in the file; 0 if not known
	Symbol string `json:"symbol"` // "" if the function has no name
	Into   uint64 `json:"into"`   // bytes from the start of the function, if Symbol is set
	// BuildID is in hex, "" for none. File is the file that was examined, "" for none.
	BuildID string `json:"build_id"`
	File    string `json:"-"`
	Package string `json:"package"` // name and version, "" if no package database lists the file
	Libc    string `json:"libc"`    // as find.Report.Libc
	// Site is the reference to the page and how vfix patches it, nil if the file was not read or has no matching
	// reference.
	Site *patch.Patch `json:"-"`
	// Lines is the code before the return address, nil if the file was not read.
	Lines []x86.Line `json:"-"`
	// Tail reports that the function jumped to the page, so Return is in the caller of the function.
	Tail bool `json:"tail"`
}

// Fix is a command that fixes the cause.
type Fix struct {
	Command string `json:"command"`
	Why     string `json:"why"`
}

// signals are the names of the signals that end a program with a core (signal(7)).
var signals = map[int]string{
	3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL",
	11: "SIGSEGV", 24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
}

// The signals that the page raises, and the signal of a memory limit.
const (
	sigkill = 9
	sigsegv = 11
	sigsys  = 31
)

// SignalName returns the name of a signal, "signal N" for one that writes no core.
func SignalName(n int) string {
	if s, ok := signals[n]; ok {
		return s
	}
	return fmt.Sprintf("signal %d", n)
}
