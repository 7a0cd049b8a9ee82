// The facts that decide how a program can be started on a kernel without the page.

package find

import (
	"io"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/origin"
)

// Program is what decides how a program can be started on a kernel without the page.
type Program struct {
	// Skipped is why the file is not for vfix, as
	// Report.Skipped; the other fields are then empty.
	Skipped *Skip
	// Interp is the loader that the file names (PT_INTERP), "" for a static program.
	Interp string
	// Static says that the file is a program without an interpreter.
	Static bool
	// Go says that the file was made by Go's own linker. Unlike Report.Go it is always
	// known.
	Go bool
	// RawSignals says that it is a dynamic program that sets up signals by system calls of
	// its own.
	RawSignals bool
}

// Inspect reads the headers of the size bytes behind r. Like Scan it errs where reading
// fails and nowhere else.
func Inspect(r io.ReaderAt, size int64) (*Program, error) {
	return reading(r, size, inspect)
}

func inspect(r io.ReaderAt, size int64) (*Program, error) {
	f, err := elf.Parse(r, size)
	if skip, err := elf.AsSkip(err); skip != nil || err != nil {
		return &Program{Skipped: skip}, err
	}
	p := &Program{Static: f.Static(), Interp: f.Interp()}
	if p.Go, err = origin.Go(f); err != nil {
		return nil, err
	}
	p.RawSignals, err = origin.RawSignals(f)
	return p, err
}
