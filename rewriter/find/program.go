// The facts that decide how a program can be started on a kernel without the page.

package find

import (
	"io"

	"vfix.dev/vfix/rewriter/elf"
)

// Inspect reports how the program in r, which has size bytes, can be started: only Skipped, Interp, Static, Go and
// RawSignals. It returns an error only if a read fails.
func Inspect(r io.ReaderAt, size int64) (*Report, error) {
	f, err := elf.Parse(r, size)
	if skip, err := elf.AsSkip(err); skip != nil || err != nil {
		return &Report{Skipped: skip}, err
	}
	p := &Report{Static: f.Static(), Interp: f.Interp(), Go: madeByGo(f), RawSignals: rawSignals(f)}
	if f.Err() != nil {
		return nil, f.Err()
	}
	return p, nil
}
