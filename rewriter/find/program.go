// The facts that decide how a program can be started on a kernel without the page.

package find

import (
	"io"

	"vfix.dev/vfix/rewriter/elf"
)

// Program is the facts that decide how a program can be started on a kernel without the page.
type Program struct {
	// Skipped is why the file was not examined, as in Report.Skipped; the other fields are then empty.
	Skipped *Skip
	// Interp is the loader of the file (PT_INTERP), "" for a static program.
	Interp string
	// Static reports that the file is a program without an interpreter.
	Static bool
	// Go reports that Go's own linker made the file. Unlike Report.Go it is always set.
	Go bool
	// RawSignals reports that the file is a dynamic program that sets up signals by its own system calls.
	RawSignals bool
}

// Inspect reads the headers of the file in r, which has size bytes. Like Scan, it returns an error only if a read
// fails.
func Inspect(r io.ReaderAt, size int64) (*Program, error) {
	f, err := elf.Parse(r, size)
	if skip, err := elf.AsSkip(err); skip != nil || err != nil {
		return &Program{Skipped: skip}, err
	}
	p := &Program{Static: f.Static(), Interp: f.Interp(), Go: madeByGo(f), RawSignals: rawSignals(f)}
	if f.Err() != nil {
		return nil, f.Err()
	}
	return p, nil
}
