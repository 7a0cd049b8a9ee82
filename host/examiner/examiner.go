// The result of an examination.

// Package examiner reads ELF files of images in a separate process that can do nothing else: it opens no file, makes no
// socket, runs as nobody, and its memory and time are bounded. An image may be made to attack its reader.
//
// Each file has a process of its own, which gets a private copy: whatever a file does to it, the next file is not
// concerned.
package examiner

import (
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

// Name is the name of the confined process (argv[0]).
const Name = "vfix-examiner"

// maxReason bounds what is said about one file, and maxAnswer an answer, in bytes. A patch adds about 16 KiB. Edits take
// more memory and cache than they take in an answer: more than maxEdits are no honest ones.
const (
	maxReason = 512
	maxAnswer = 256 << 10
	maxEdits  = maxAnswer / 64
)

// answer is the line of JSON that the process writes.
type answer struct {
	Finding
	Error   string `json:"error,omitempty"`
	Refused bool   `json:"refused,omitempty"` // it could not be confined
}

// Finding is the result of an examination. The zero value: nothing of interest. Nobody has checked it: whoever applies it
// compares the old bytes of the edits with the file.
type Finding struct {
	Edits []patch.Edit `json:"edits,omitempty"`
	Tail  []byte       `json:"tail,omitempty"` // appended to the file
	// Left says which live and unknown call sites stay, or why a fix cannot be made; "" for neither.
	Left   string `json:"left,omitempty"`
	Static bool   `json:"static,omitempty"` // a program that loads no library
	// Fix is the fix that the patch makes, or that the file has; "" for none.
	Fix find.Fix `json:"fix,omitempty"`
}

// Empty reports whether the patch changes nothing.
func (f *Finding) Empty() bool { return len(f.Edits) == 0 && len(f.Tail) == 0 }

// clip bounds what is said about one file.
func clip(s string) string { return s[:min(len(s), maxReason)] }
