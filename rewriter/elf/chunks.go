// Reads the content of a segment piece by piece, or, if it is in memory, in place.

package elf

import (
	"bytes"
	"iter"
	"sync"
)

const (
	// ChunkSize is the size of a piece, in bytes: a quarter of a MiB remains in a core's second-level cache from
	// one use to the next.
	ChunkSize = 1 << 18
	// ChunkMargin is the number of bytes on both sides of a piece: the longest instruction, and more than any
	// reference or text extends around its hit.
	ChunkMargin = 32
)

// Memory is the content of a file in memory. It is not copied, and must not change.
type Memory []byte

// ReadAt implements io.ReaderAt.
func (m Memory) ReadAt(b []byte, off int64) (int, error) { return bytes.NewReader(m).ReadAt(b, off) }

// buffers are for the pieces of a segment: a scan of many files allocates one.
var buffers = sync.Pool{New: func() any { return new([ChunkSize]byte) }}

// view returns n bytes at offset off, which the caller has checked, and must not change the bytes: from memory,
// else in buf if it is long enough.
func (f *File) view(buf []byte, off, n uint64) []byte {
	if m, ok := f.R.(Memory); ok && off+n <= uint64(len(m)) {
		return m[off : off+n : off+n]
	}
	if uint64(len(buf)) < n {
		buf = make([]byte, n)
	}
	_, _ = f.ReadAt(buf[:n], int64(off))
	return buf[:n]
}

// EachChunk visits the content of the PT_LOADs that have all the flags of with and none of without, as Chunks does.
func (f *File) EachChunk(with, without uint32, visit func(p *Prog, b []byte, vaddr uint64, lo, hi int)) {
	for i := range f.Progs {
		p := &f.Progs[i]
		if p.Type != PTLoad || p.Filesz == 0 || p.Flags&with != with || p.Flags&without != 0 {
			continue
		}
		f.Chunks(p, func(b []byte, vaddr uint64, lo, hi int) { visit(p, b, vaddr, lo, hi) })
	}
}

// Chunks visits the file content of p piece by piece. visit gets the bytes, which it must not change, the vaddr of
// the first and the range of indices of this piece; each byte of the segment is in exactly one such range, with
// ChunkMargin bytes on both sides if the segment has them.
func (f *File) Chunks(p *Prog, visit func(b []byte, vaddr uint64, lo, hi int)) {
	buf := buffers.Get().(*[ChunkSize]byte)
	defer buffers.Put(buf)
	for pos := uint64(0); ; {
		n := min(ChunkSize, p.Filesz-pos)
		b := f.view(buf[:], p.Off+pos, n)
		if f.failed != nil {
			return
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
		if last {
			return
		}
		pos += n - 2*ChunkMargin
	}
}

// Indexes returns each index from lo to below hi at which b has a needle, also overlapping ones. The needle may
// end behind hi.
func Indexes(b []byte, lo, hi int, needle []byte) iter.Seq[int] {
	return func(yield func(int) bool) {
		end := min(hi+len(needle)-1, len(b))
		for i := lo; i < end; i++ {
			n := bytes.Index(b[i:end], needle)
			if n < 0 {
				return
			}
			if i += n; !yield(i) {
				return
			}
		}
	}
}
