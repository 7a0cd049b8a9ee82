// The caller of the page. The page's functions begin with a system call, so at the fault the stack pointer still
// points to the return address, and the call precedes it.

package diagnose

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/packages"
	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

// Options say what a diagnosis may examine, and how it words its fixes.
type Options struct {
	// Root has the files of the system that the program ran in; nil: no files are examined.
	Root fs.FS
	// RootName is what the user typed for Root, "" for this machine; IsImage reports that it is an image.
	RootName string
	IsImage  bool

	// Callers returns the files of Root that call a function of the page, for crashes that leave no trace of the
	// caller; nil: not available.
	Callers func(function string) ([]string, error)
	// Resolve finds the container of a description: whether it ran on this machine, and what its image has; nil:
	// not available.
	Resolve func(e *Exited, o *Options)
	// HasCommand reports whether this machine has a program; nil: search PATH.
	HasCommand func(name string) bool
	// Output is the destination, in words, for a rebuild of Root; nil: the default.
	Output []string

	elsewhere bool // Root belongs to another container, so the crash's paths do not apply to it
}

// tailReach is how far behind the start of a function to look for a tail jump to the page, in bytes: such
// functions are short stubs.
const tailReach = 64

// findCaller fills in c.Caller from the core's stack.
func (c *Crash) findCaller(co *core, f *facts, o Options) {
	var b [8]byte
	n, err := co.mem(b[:], f.rsp)
	switch {
	case errors.Is(err, hinterr.ErrDamaged):
		err = errors.New("the core file is truncated before the stack")
	case err != nil:
		err = fmt.Errorf("the stack: %w", err)
	case n < len(b):
		err = fmt.Errorf("the core has no memory at the stack pointer %#x", f.rsp)
	}
	if err != nil {
		c.note("the caller is not known: %v", err)
		return
	}
	ret := le.Uint64(b[:])
	c.Caller = &Caller{Return: ret}
	if err = f.filesErr; err == nil && f.mappings == nil {
		err = errors.New("the core has no list of the mapped files (a kernel before 3.7)")
	}
	if err != nil {
		c.note("the caller's file is not known: %v", err)
		return
	}
	m, err := co.moduleAt(f, ret)
	if err != nil {
		c.note("the caller's file: %v", err)
	}
	if m == nil {
		c.note("the return address %#x is not in a mapped file: the caller may be code that was generated at run time", ret)
		return
	}
	k := c.Caller
	k.Module, k.Offset, k.Vaddr, k.BuildID = m.path, ret-m.base, m.vaddr, m.buildID
	c.readModule(m, o)
}

// note adds a fact that could not be determined.
func (c *Crash) note(format string, a ...any) { c.Notes = append(c.Notes, fmt.Sprintf(format, a...)) }

// readModule examines the caller's file, if it is available and is the one that crashed.
func (c *Crash) readModule(m *module, o Options) {
	where := cmp.Or(o.RootName, "this machine")
	if o.Root == nil {
		c.note("%s: not examined", m.path)
		return
	}
	r, size, done, err := openFile(o.Root, m.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.note("%s is not on %s: no symbol, no disassembly", m.path, where)
		return
	case err != nil:
		c.note("%s on %s cannot be read: no symbol, no disassembly (%v)", m.path, where, err)
		return
	}
	defer done()
	place, err := find.Look(r, size, m.offset)
	if err != nil {
		c.note("%s on %s: %v", m.path, where, err)
		return
	}
	head := make([]byte, page)
	n, _ := r.ReadAt(head, 0)
	ok, why := m.same(head[:n], place.BuildID)
	if ok && place.Skipped != nil {
		c.note("%s on %s: %s", m.path, where, place.Skipped)
		return
	}
	if ok && place.Call == nil { // the file was rebuilt or patched and kept its build ID
		ok, why = false, fmt.Sprintf("it has no call before %#x", place.Vaddr)
	}
	if !ok {
		c.note("%s on %s is another file: %s", m.path, where, why)
		return
	}
	if why == "" {
		c.note("%s on %s is assumed to be the file that crashed: the core does not identify it", m.path, where)
	}
	k := c.Caller
	k.File, k.Vaddr, k.BuildID = m.path, place.Vaddr, place.BuildID
	if place.Symbol != "" {
		k.Symbol, k.Into = place.Symbol, place.Vaddr-place.Start
	}
	k.Lines = place.Lines
	c.findSite(r, size, place)
	if k.Package, err = packages.Owner(o.Root, m.path); err != nil {
		c.note("the package of %s: %v", m.path, err)
	}
}

// findSite finds the reference to the page that made the call, and the form in which vfix patches it.
func (c *Crash) findSite(r io.ReaderAt, size int64, place *find.Place) {
	report, err := patch.Scan(r, size)
	if err != nil {
		c.note("%s: %v", c.Caller.Module, err)
		return
	}
	c.Caller.Libc = report.Libc
	plan, err := patch.NewPlan(report, patch.Options{Explain: true})
	if err != nil {
		c.note("%s: %v", c.Caller.Module, err)
		return
	}
	for i := range plan.Patches {
		p := &plan.Patches[i]
		s := &p.Site
		if s.Function.String() != c.Function || s.Call == 0 {
			continue
		}
		direct := !s.Tail && s.Call+uint64(s.CallLen) == place.Vaddr
		tail := s.Tail && place.Target != 0 && s.Vaddr >= place.Target && s.Vaddr-place.Target < tailReach
		if direct || tail {
			c.Caller.Site, c.Caller.Tail = p, tail
			return
		}
	}
}

// page is how much of the start of a file is examined in memory, in bytes.
const page = 4096

// module is a mapped file. The kernel dumps the first page of each mapped ELF file (coredump_filter bit 4,
// core(5)), so the core has the build ID although it does not have the code.
type module struct {
	path string
	base uint64 // address of its first byte
	// offset is the offset in the file of the requested address.
	offset uint64
	// head is the first page as it is in memory, nil if the core does not have it.
	head []byte
	// vaddr is the requested address as a vaddr of the file; 0 if head does not have it.
	vaddr   uint64
	buildID string
}

// moduleAt returns the file that is mapped at addr, nil if no file is.
func (c *core) moduleAt(f *facts, addr uint64) (*module, error) {
	mappings := f.mappings
	for i := range mappings {
		m := &mappings[i]
		if addr < m.start || addr >= m.end {
			continue
		}
		mod := &module{path: m.path, base: m.start - m.offset, offset: addr - m.start + m.offset}
		nearest := uint64(0) // the address of the file's first byte, if it is below addr
		for j := range mappings {
			if n := &mappings[j]; n.path == m.path && n.offset == 0 && n.start <= addr && n.start >= nearest {
				nearest, mod.base = n.start, n.start
			}
		}
		return mod, c.readHead(mod, addr)
	}
	return nil, nil
}

// readHead sets vaddr and buildID from a module's headers in memory.
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

// same reports whether the file that begins with head, and has that build ID, is the mapped module; why is the
// evidence, or the difference.
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
	return false, "its first bytes differ from those of the crashed one"
}
