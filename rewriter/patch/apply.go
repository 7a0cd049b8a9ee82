// The patched file as a stream, made from the original and a plan.

package patch

import (
	"bytes"
	"io"
)

// Apply returns the patched file as a stream of p.Size bytes, which reads the original from r; only changed bytes
// are in memory.
func (p *Plan) Apply(r io.ReaderAt) io.Reader {
	if p.file == nil {
		return io.NewSectionReader(r, 0, 1<<63-1)
	}
	var parts []io.Reader
	var at int64
	for _, e := range p.Edits {
		off := int64(e.Offset)
		parts = append(parts, io.NewSectionReader(r, at, off-at), bytes.NewReader(e.New))
		at = off + int64(len(e.New))
	}
	parts = append(parts, io.NewSectionReader(r, at, int64(p.file.Size)-at), bytes.NewReader(p.Tail))
	return io.MultiReader(parts...)
}
