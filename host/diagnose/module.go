// Which file is mapped at an address, and what its headers in memory say. The kernel dumps
// the first page of each mapped ELF file (coredump_filter bit 4, core(5)), so the build ID is
// in the core though the code is not.

package diagnose

import (
	"bytes"
	"fmt"

	"vfix.dev/vfix/rewriter/elf"
)

// page is how much of a file's start is looked at in memory, in bytes.
const page = 4096

// module is a file that is mapped.
type module struct {
	path string
	base uint64 // address of its first byte
	// offset is where in the file the address asked for is.
	offset uint64
	// head is its first page as it is in memory, nil where the core does not have it.
	head []byte
	// vaddr is of the address asked for, in the file; 0 if head does not say.
	vaddr   uint64
	buildID string
}

// moduleAt finds the file that is mapped at addr; nil without one.
func (c *core) moduleAt(f *facts, addr uint64) (*module, error) {
	mappings := f.mappings
	for i := range mappings {
		m := &mappings[i]
		if addr < m.start || addr >= m.end {
			continue
		}
		mod := &module{path: m.path, base: m.start - m.offset, offset: addr - m.start + m.offset}
		nearest := uint64(0) // where the file's first byte is mapped, below addr
		for j := range mappings {
			if n := &mappings[j]; n.path == m.path && n.offset == 0 && n.start <= addr && n.start >= nearest {
				nearest, mod.base = n.start, n.start
			}
		}
		return mod, c.readHead(mod, addr)
	}
	return nil, nil
}

// readHead fills in what the headers of a module in memory say.
func (c *core) readHead(m *module, addr uint64) error {
	head := make([]byte, page)
	n, err := c.mem(head, m.base)
	if err != nil {
		return err
	}
	head = head[:n]
	if n < ehdrSize || !bytes.HasPrefix(head, []byte("\x7fELF\x02\x01")) || le.Uint16(head[18:]) != emX8664 {
		return nil
	}
	m.head = head
	progs := headSegments(head)
	for _, p := range progs {
		if p.typ == ptLoad && m.offset >= p.off && m.offset-p.off < p.filesz {
			m.vaddr = p.vaddr + (m.offset - p.off)
		}
	}
	if m.vaddr == 0 {
		return nil
	}
	bias := addr - m.vaddr
	for _, p := range progs {
		if p.typ != ptNote || m.buildID != "" {
			continue
		}
		b := make([]byte, min(p.filesz, page))
		if n, err = c.mem(b, bias+p.vaddr); err != nil {
			return err
		}
		m.buildID = elf.BuildID(b[:n])
	}
	return nil
}

// headSegments returns the program headers in the first page of a file.
func headSegments(head []byte) []segment {
	off, n := le.Uint64(head[32:]), int(le.Uint16(head[56:]))
	if le.Uint16(head[54:]) != phdrSize || off >= uint64(len(head)) {
		return nil
	}
	var all []segment
	for b := head[off:]; n > 0 && len(b) >= phdrSize; b, n = b[phdrSize:], n-1 {
		all = append(all, parseSegment(b))
	}
	return all
}

// programName is the path of the program as it was executed.
func (c *core) programName(f *facts) string {
	if at, ok := f.aux(atExecfn); ok {
		return c.text(at, page) // PATH_MAX
	}
	return ""
}

// same reports whether the file that begins with head, and has that build ID, is the module
// that was mapped; why says how that is known, or what differs.
func (m *module) same(head []byte, buildID string) (ok bool, why string) {
	switch {
	case m.buildID != "" && buildID != "":
		if m.buildID == buildID {
			return true, "build ID " + buildID
		}
		return false, fmt.Sprintf("its build ID is %s, the crashed one's %s", buildID, m.buildID)
	case m.head == nil:
		return true, ""
	case bytes.Equal(head[:min(len(head), len(m.head))], m.head[:min(len(head), len(m.head))]):
		return true, "the same first bytes"
	}
	return false, "its first bytes are others than those of the crashed one"
}
