package rewriter

import (
	"errors"
	"fmt"
	"io"
)

// Form is how a call site is rewritten, best first.
type Form uint8

const (
	// Left: the site stays as it is.
	Left Form = iota
	// Entry is a jmp rel32 to the trampoline over the start of a stub function.
	Entry
	// Call is a 4-byte nop and a call rel32 (or jmp rel32) over an adjacent mov and call.
	Call
	// Lea is lea trampoline(%rip),%reg over the mov; the call stays.
	Lea
	// Syscall is mov $nr,%rax; syscall over an adjacent mov and call.
	Syscall
)

var formNames = [...]string{"left", "entry", "call", "lea", "syscall"}

func (f Form) String() string {
	if int(f) >= len(formNames) {
		return fmt.Sprintf("form(%d)", uint8(f))
	}
	return formNames[f]
}

// MarshalText gives the word for the form, for JSON.
func (f Form) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// Patch is what happens to one site.
type Patch struct {
	Site   Site
	Form   Form
	Reason string // why this form; for Left, why the site stays
	// Vaddr and Offset are of the first byte changed; Before and After are as long as each other.
	Vaddr, Offset uint64
	Before, After []byte
}

// Edit is one run of bytes that changes in place.
type Edit struct {
	Offset uint64
	Old    []byte
	New    []byte // as long as Old
	Why    string // "call site", "e_entry", "program headers", "DT_INIT", …
}

// Options are the choices a caller has.
type Options struct {
	// Forms limits the forms used, for measurements and tests; empty means all.
	Forms []Form
}

// Plan is which bytes of a file would change. It is a value: nothing has been written.
type Plan struct {
	Patches  []Patch // one for each site, in vaddr order
	Edits    []Edit  // in ascending order of Offset, without overlap
	Size     int64   // of the result, in bytes
	Warnings []string

	tail []byte // what stands behind the original bytes
	file *elfFile
}

// Empty reports whether the plan changes nothing.
func (p *Plan) Empty() bool { return len(p.Edits) == 0 }

// LeftOver returns the patches whose site is live or unknown and stays: the findings.
func (p *Plan) LeftOver() []Patch {
	var left []Patch
	for _, q := range p.Patches {
		if q.Form == Left && (q.Site.Verdict == Unknown || q.Site.Verdict.Patchable()) {
			left = append(left, q)
		}
	}
	return left
}

// NewPlan decides what to do about each site of the report. It reads the file behind the
// report again, and returns an error only where that read fails.
func NewPlan(r *Report, o Options) (*Plan, error) { return nil, errors.New("TODO") }

// Apply returns the patched file as a stream of p.Size bytes, made from the original
// behind r as it is read; nothing is held in memory but what changes.
func (p *Plan) Apply(r io.ReaderAt) io.Reader { return nil }

// Verification is what Verify proved.
type Verification struct {
	Changed []Edit // every run of bytes that differs, and what it is
	Patches []Patch
}

// Verify rereads both files and proves that after is before with nothing but the planned
// bytes changed, and that no patchable site is left in it. The error names the first byte
// that differs and should not, or what is missing.
func Verify(before io.ReaderAt, beforeSize int64, after io.ReaderAt, afterSize int64, o Options) (*Verification, error) {
	return nil, errors.New("TODO")
}
