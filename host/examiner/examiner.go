// The result of an examination.

// Package examiner reads ELF files of images in a separate process that can do nothing else: it opens no file, makes no
// socket, runs as nobody, and its memory and time are bounded. An image may be made to attack its reader.
//
// Each file has a process of its own, which gets a private copy: whatever a file does to it, the next file is not
// concerned.
package examiner

import (
	"errors"
	"fmt"
	"slices"

	"vfix.dev/vfix/rewriter/find"
)

// Name is the name of the confined process (argv[0]).
const Name = "vfix-examiner"

// maxReason bounds what is said about one file, and maxAnswer an answer, in bytes. A patch adds about 16 KiB.
const (
	maxReason = 512
	maxAnswer = 256 << 10
)

// answer is the line of JSON that the process writes.
type answer struct {
	Finding
	Error   string `json:"error,omitempty"`
	Refused bool   `json:"refused,omitempty"` // it could not be confined
}

// Edit is a range of bytes that changes in place.
type Edit struct {
	Offset int64  `json:"offset"`
	Old    []byte `json:"old"`
	New    []byte `json:"new"` // as long as Old
}

// Patch is how a file changes.
type Patch struct {
	Edits []Edit `json:"edits,omitempty"` // in ascending order, without overlap
	Tail  []byte `json:"tail,omitempty"`  // appended to the file
}

// Finding is the result of an examination. The zero value: nothing of interest.
type Finding struct {
	Patch
	Sites int `json:"sites,omitempty"` // call sites that the patch changes
	// Left says which live and unknown call sites stay, or why a fix cannot be made; "" for neither.
	Left   string `json:"left,omitempty"`
	Static bool   `json:"static,omitempty"` // a program that loads no library
	// Fix is the fix that the patch makes, or that the file has; "" for none.
	Fix find.Fix `json:"fix,omitempty"`
}

// Empty reports whether the patch changes nothing.
func (p *Patch) Empty() bool { return len(p.Edits) == 0 && len(p.Tail) == 0 }

// check returns an error for an answer that no intact process gives about a file of size bytes.
func (f *Finding) check(size int64, fixes []find.Fix) error {
	if f.Sites < 0 || len(f.Left) > maxReason || f.Fix != "" && !slices.Contains(fixes, f.Fix) {
		return errors.New("invalid answer from the confined process")
	}
	end := int64(0)
	for _, e := range f.Edits {
		n := int64(len(e.Old))
		if e.Offset < end || n == 0 || n > size || e.Offset > size-n || len(e.New) != len(e.Old) {
			return fmt.Errorf("patch: invalid edit of %d bytes at offset %#x in a file of %d bytes", n, e.Offset, size)
		}
		end = e.Offset + n
	}
	return nil
}

func clip(s string) string { return s[:min(len(s), maxReason)] }
