// Reading the content of a segment piece by piece.

package elf

import (
	"sync"
)

const (
	// ChunkSize is how much of a segment is in memory at once, in bytes.
	// A quarter of a MiB stays in a core's second-level cache between read and search.
	ChunkSize = 1 << 18
	// ChunkMargin is how many bytes stand on both sides of what a piece answers for: the longest
	// instruction, and more than any reference extends around its hit.
	ChunkMargin = 16
)

// buffers are for one segment's pieces each: a scan of many files allocates one.
var buffers = sync.Pool{New: func() any { return new([ChunkSize]byte) }}

// Chunks reads the file content of p piece by piece. visit gets the bytes, the vaddr of the
// first and the range of indices that this piece answers for; each byte of the segment is
// in one such range, with ChunkMargin bytes on both sides where the segment has them.
func (f *File) Chunks(p *Prog, visit func(b []byte, vaddr uint64, lo, hi int)) error {
	buf := buffers.Get().(*[ChunkSize]byte)
	defer buffers.Put(buf)
	for pos := uint64(0); ; {
		n := min(ChunkSize, p.Filesz-pos)
		b := buf[:n]
		if err := f.ReadAt(b, p.Off+pos); err != nil {
			return err
		}
		lo, hi := 0, int(n)
		if pos > 0 {
			lo = ChunkMargin
		}
		last := pos+n == p.Filesz
		if !last {
			hi -= ChunkMargin
		}
		visit(b, p.Vaddr+pos, lo, hi)
		if last || n <= 2*ChunkMargin {
			return nil
		}
		pos += n - 2*ChunkMargin
	}
}
