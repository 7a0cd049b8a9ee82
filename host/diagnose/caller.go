// Who called the page. The page's functions begin with a system call, so at the fault the
// stack pointer still points to the return address, and the call precedes it.

package diagnose

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"vfix.dev/vfix/internal/packages"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

// Options say what a diagnosis may look at, and how its fixes are worded.
type Options struct {
	// Root has the files of the system that the program ran in; nil: none are looked at.
	Root fs.FS
	// RootName is what the user typed for Root: IMAGE says that it is an image. "" is this
	// machine.
	RootName string
	IsImage  bool

	// Callers returns the files of Root that call a function of the page, for crashes that
	// leave no trace of the caller; nil: nobody knows.
	Callers func(function string) ([]string, error)
	// Resolve finds out more of a container that a description is about: whether it ran on this machine, and what its
	// image has; nil: nobody knows. done gives back what o needs.
	Resolve func(e *Exited, o *Options) (done func())
	// HasCommand reports whether this machine has a program; nil: by PATH.
	HasCommand func(name string) bool
	// Output is the destination that a rebuild of Root needs here, as words; nil for the default.
	Output []string

	elsewhere bool // Root is another container's, whose paths mean nothing here
}

// tailReach is how far behind the start of a function a tail jump to the page is looked for,
// in bytes: such a function is a stub.
const tailReach = 64

// findCaller fills in c.Caller from the core's stack.
func (c *Crash) findCaller(co *core, f *facts, o Options) {
	ret, ok, err := co.word(f.rsp)
	var short *damagedError
	switch {
	case errors.As(err, &short):
		c.note("the caller is not known: the core file is truncated before the stack")
		return
	case err != nil:
		c.note("the caller is not known: the stack: %v", err)
		return
	case !ok:
		c.note("the caller is not known: the core has no memory at the stack pointer %#x", f.rsp)
		return
	}
	c.Caller = &Caller{Return: ret}
	switch {
	case f.filesErr != nil:
		c.note("the caller's file is not known: %v", f.filesErr)
		return
	case f.mappings == nil:
		c.note("the caller's file is not known: the core has no list of the mapped files (a kernel before 3.7)")
		return
	}
	m, err := co.moduleAt(f, ret)
	if err != nil {
		c.note("the caller's file: %v", err)
	}
	if m == nil {
		c.note("the return address %#x is in no file: the caller may be code made at run time", ret)
		return
	}
	k := c.Caller
	k.Module, k.Offset, k.Vaddr, k.BuildID = m.path, ret-m.base, m.vaddr, m.buildID
	c.readModule(m, o)
}

// note adds what could not be found out.
func (c *Crash) note(format string, a ...any) { c.Notes = append(c.Notes, fmt.Sprintf(format, a...)) }

// readModule looks into the caller's file, if it is available and the same.
func (c *Crash) readModule(m *module, o Options) {
	where := o.RootName
	if where == "" {
		where = "this machine"
	}
	if o.Root == nil {
		c.note("%s: not looked at", m.path)
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
	switch {
	case !ok:
		c.note("%s on %s is another file: %s", m.path, where, why)
		return
	case place.Skipped != nil:
		c.note("%s on %s: %s", m.path, where, place.Skipped)
		return
	case place.Call == nil:
		// Somebody rebuilt or patched it and kept the build ID.
		c.note("%s on %s is another file: it has no call before %#x", m.path, where, place.Vaddr)
		return
	case why == "":
		c.note("%s on %s is taken for the file that crashed: nothing in the core says so", m.path, where)
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

// findSite finds the reference to the page whose call it was, and what vfix does about it.
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
