// Package diagnose explains crashes: whether a call of the vsyscall page was the cause, and which command comes next.
//
// A core file is judged by its registers and memory. Texts (logs, traces, tables, error messages) and descriptions of
// containers are searched for facts by a few patterns; one table turns the facts into conclusions. No conclusion is
// certain without a core, or a line of the kernel and an image that makes this call.
package diagnose

import (
	"io/fs"

	"vfix.dev/vfix/internal/kernellog"
	"vfix.dev/vfix/rewriter/find"
)

// Kind is the kind of a conclusion.
type Kind string

// The kinds.
const (
	Call     Kind = "call"     // of a function of the page, which the kernel does not serve
	Filtered Kind = "filtered" // a call that the kernel served, and a seccomp filter refused (vsyscall_64.c, secure_computing)
	Affected Kind = "affected" // no crash: an image that calls the page
	Read     Kind = "read"     // a read of the page as data
	Mounts   Kind = "mounts"   // the host's libraries are mounted over the image's
	Unknown  Kind = "unknown"  // a SIGSEGV at an unknown place
	Other    Kind = "other"    // another cause
	Schema1  Kind = "schema1"  // no crash: an engine refuses an image's manifest of schema 1
	None     Kind = "none"     // no crash
)

// Page reports whether the page is the cause.
func (k Kind) Page() bool { return k == Call || k == Filtered || k == Affected }

// Open reports whether the cause is still to be found.
func (k Kind) Open() bool { return k == Read || k == Mounts || k == Unknown }

// Confidence is how sure a conclusion is.
type Confidence string

// The confidences.
const (
	Certain   Confidence = "certain"
	Likely    Confidence = "likely"
	Uncertain Confidence = "uncertain"
)

// Crash is one crash, or several of the same program and kind.
type Crash struct {
	Kind       Kind       `json:"kind"`
	Confidence Confidence `json:"confidence"`
	Verdict    string     `json:"verdict"` // one sentence
	// Program is the kernel's name of the process, up to 15 bytes; Path the path of the program; PIDs those of the
	// processes, up to maxPIDs.
	Program string `json:"program"`
	Path    string `json:"path"`
	PIDs    []int  `json:"pids"`
	Count   int    `json:"count"`
	// Function is the function of the page, "" if it is not known.
	Function string `json:"function"`
	// Container, Pod and Image are the names that the input has.
	Container string   `json:"container"`
	Pod       string   `json:"pod"`
	Image     string   `json:"image"`
	Status    int      `json:"status"`           // the exit status, 0 if it is not known
	Caller    *Caller  `json:"caller,omitempty"` // absent if it is not known
	Evidence  []string `json:"evidence"`
	Notes     []string `json:"notes"`
	Next      *Command `json:"next,omitempty"` // the command to type next; absent if there is none

	// What a text or a description reports beside that, before it is judged.
	fault   *kernellog.Fault // its place; nil if only the end is known
	traced  bool             // a debugger or tracer reported the place
	id      string           // of the container
	mounts  []string         // directories of the image's libraries over which those of the host are mounted
	cause   string           // another cause, "" for none
	running bool
	served  bool     // the kernel that it ran on serves the page
	kernel  []string // that kernel's messages of the time
}

// Command is a command to type, and what it does.
type Command struct {
	Command string `json:"command"`
	Why     string `json:"why"`
}

// Result is the diagnosis of one input.
type Result struct {
	Input   string   `json:"input"`
	Lines   int      `json:"lines"` // of a text, 0 for other inputs
	Crashes []*Crash `json:"crashes"`
}

// Options say what a diagnosis may examine.
type Options struct {
	// Root has the files of the system that the program ran in; nil: no files are examined. RootName is the name
	// that the user gave it, "" for this machine; IsImage reports that it is an image.
	Root     fs.FS
	RootName string
	IsImage  bool
	// Scan examines Root, by RootName, or an image that a local engine has, nil if it cannot; nil: not available.
	Scan func(name string) *Scanned
	// Here returns what this machine knows of the end of a container, by its ID or name: whether its kernel serves the
	// page, and its kernel's messages of that time; nil: not available.
	Here func(container string) (served bool, messages []string)
	// Output is the destination of a rebuild of an image, in words; nil: the default one.
	Output func(image string) []string
}

// Scanned is the part of an image's scan that a diagnosis needs.
type Scanned struct {
	// Live has the files with live call sites, by the function of the page.
	Live map[string][]string
	// Dormant reports call sites that a process uses only if it finds no vDSO.
	Dormant bool
	// Complete reports that every file was examined and that no reference to the page is unexplained.
	Complete bool
}

// calls reports whether a function is called; "" is any.
func (s *Scanned) calls(function string) bool {
	if s == nil || function == "" {
		return s != nil && len(s.Live) > 0
	}
	return len(s.Live[function]) > 0
}

// functionAt returns the name of the function of the page at an address, "" for none.
func functionAt(vaddr uint64) string {
	if f, ok := find.FunctionAt(vaddr); ok {
		return f.String()
	}
	return ""
}

// inPage reports whether an address is in the vsyscall page.
func inPage(vaddr uint64) bool {
	return vaddr >= find.PageVaddr && vaddr < find.PageVaddr+find.PageSize
}

const (
	maxPIDs     = 8
	maxEvidence = 4 // lines of each crash
)

// note adds a fact that could not be determined, or that matters for the next step.
func (c *Crash) note(text string) { c.Notes = append(c.Notes, text) }
