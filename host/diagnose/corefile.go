// Core files: the ELF headers and the memory. Nothing in the file is trusted: offsets and sizes are checked against the
// file by reading it, and nothing is allocated by a claimed size. Sources: gABI chapters 4 and 5; the kernel's
// fs/binfmt_elf.c (elf_core_dump).

package diagnose

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"

	"vfix.dev/vfix/internal/binread"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/quote"
)

const (
	ehdrSize = 64
	phdrSize = 56
	shdrSize = 64

	etCore  = 4
	emX8664 = 62

	ptLoad, ptNote = 1, 4

	// pnXnum means that sh_info of the first section header has the number of program headers (elf.h, PN_XNUM).
	pnXnum = 0xffff
	// maxSegments is how many program headers are read. A process has at most 65,530 mappings unless
	// vm.max_map_count is raised.
	maxSegments = 1 << 20
	// headChunk is how many program headers are read at once.
	headChunk = 512
)

var le = binary.LittleEndian

// damaged returns the error of a core that contradicts itself or ends too early.
func damaged(format string, a ...any) error {
	return hinterr.With(hinterr.Damaged(format, a...), "write a complete core: check 'ulimit -c', the disk, and ProcessSizeMax= of systemd-coredump")
}

// refused returns the error of an undamaged input that vfix does not read.
func refused(text, hint string) error { return hinterr.With(errors.New(text), "%s", hint) }

type segment struct {
	typ           uint32
	off, vaddr    uint64
	filesz, memsz uint64
}

// core is the memory of a process in its core file.
type core struct {
	r     io.ReaderAt
	loads []segment // with or without content, by vaddr
	notes []segment
	// byKernel reports that the kernel wrote the core: a debugger writes section headers.
	byKernel bool
}

// openCore reads the headers of a core file; name is for hints.
func openCore(name string, r io.ReaderAt) (*core, error) {
	var h [ehdrSize]byte
	if err := binread.Full(r, h[:], 0, "the ELF header", damaged); err != nil {
		return nil, err
	}
	if err := checkHeader(name, h[:]); err != nil {
		return nil, err
	}
	phoff, shoff := le.Uint64(h[32:]), le.Uint64(h[40:])
	if size := le.Uint16(h[54:]); size != phdrSize {
		return nil, damaged("program headers of %d bytes, want %d", size, phdrSize)
	}
	n, sections := uint64(le.Uint16(h[56:])), le.Uint16(h[60:])
	c := &core{r: r, byKernel: sections == 0 || n == pnXnum && sections == 1}
	if n == pnXnum {
		var s [shdrSize]byte
		if err := binread.Full(r, s[:], shoff, "the section header with the number of segments", damaged); err != nil {
			return nil, err
		}
		n = uint64(le.Uint32(s[44:]))
	}
	if n == 0 || n > maxSegments {
		return nil, damaged("%d program headers, want 1 to %d", n, maxSegments)
	}
	if err := c.readSegments(phoff, n); err != nil {
		return nil, err
	}
	if len(c.notes) == 0 {
		return nil, damaged("no PT_NOTE: it has no registers")
	}
	sort.SliceStable(c.loads, func(i, j int) bool { return c.loads[i].vaddr < c.loads[j].vaddr })
	return c, nil
}

// checkHeader refuses all files except cores of 64-bit x86-64 programs.
func checkHeader(name string, h []byte) error {
	const classOf, dataOf, typeOf, machineOf = 4, 5, 16, 18
	machine := le.Uint16(h[machineOf:])
	switch {
	case string(h[:4]) != elfMagic:
		return refused("not an ELF file", "give a core file: 'coredumpctl dump -o FILE' writes one")
	case h[classOf] == 1:
		return refused("a 32-bit ELF file: the vsyscall page is for 64-bit programs, so it is not the cause of this crash", "use a debugger: gdb PROGRAM CORE")
	case h[classOf] != 2:
		return damaged("ELF class %d, want 2", h[classOf])
	case h[dataOf] != 1 || machine != emX8664:
		return refused(fmt.Sprintf("an ELF file for another processor (e_machine %d): only x86-64 has the vsyscall page", machine), "use a debugger for that processor: gdb PROGRAM CORE")
	case le.Uint16(h[typeOf:]) != etCore:
		return refused(fmt.Sprintf("an ELF file, but not a core file (e_type %d, want %d)", le.Uint16(h[typeOf:]), etCore), "'vfix scan "+quote.Path(name)+"' examines programs and libraries")
	}
	return nil
}

func (c *core) readSegments(phoff, n uint64) error {
	buf := make([]byte, headChunk*phdrSize)
	for i := uint64(0); i < n; i += headChunk {
		b := buf[:phdrSize*min(headChunk, n-i)]
		if phoff+i*phdrSize < phoff {
			return damaged("program headers at offset %#x", phoff)
		}
		if err := binread.Full(c.r, b, phoff+i*phdrSize, "the program headers", damaged); err != nil {
			return err
		}
		for ; len(b) > 0; b = b[phdrSize:] {
			switch s := parseSegment(b); s.typ {
			case ptLoad:
				c.loads = append(c.loads, s)
			case ptNote:
				c.notes = append(c.notes, s)
			}
		}
	}
	return nil
}

// parseSegment reads one program header.
func parseSegment(b []byte) segment {
	return segment{
		typ: le.Uint32(b), off: le.Uint64(b[8:]), vaddr: le.Uint64(b[16:]),
		filesz: le.Uint64(b[32:]), memsz: le.Uint64(b[40:]),
	}
}

// segmentAt returns the PT_LOAD that covers vaddr, nil for none.
func (c *core) segmentAt(vaddr uint64) *segment {
	i := sort.Search(len(c.loads), func(i int) bool { return c.loads[i].vaddr > vaddr }) - 1
	if i < 0 || vaddr-c.loads[i].vaddr >= c.loads[i].memsz {
		return nil
	}
	return &c.loads[i]
}

// mem fills b with the memory at vaddr that is in the core, and returns the number of bytes. It returns an error
// for memory that is missing because the file is truncated.
func (c *core) mem(b []byte, vaddr uint64) (int, error) {
	s := c.segmentAt(vaddr)
	if s == nil || vaddr-s.vaddr >= s.filesz {
		return 0, nil
	}
	d := vaddr - s.vaddr
	b = b[:min(uint64(len(b)), s.filesz-d)]
	if s.off+d < d {
		return 0, damaged("the memory at %#x is at offset %#x", vaddr, s.off)
	}
	return len(b), binread.Full(c.r, b, s.off+d, fmt.Sprintf("the memory at %#x", vaddr), damaged)
}

// text reads the NUL-terminated text at vaddr, up to most bytes; "" if the core does not have it.
func (c *core) text(vaddr uint64, most int) string {
	b := make([]byte, most)
	n, err := c.mem(b, vaddr)
	if err != nil {
		return ""
	}
	return binread.CString(b[:n])
}
