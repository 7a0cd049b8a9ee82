package rewriter

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Scan finds every reference to the vsyscall page in the size bytes behind r and decides
// what each is. It writes nothing. The error is of reading r alone: a file that is not for
// vfix, or damaged, comes back with Report.Skipped.
//
// The fields Libc, Go and RawSignals are filled in only where there is a site: nobody asks
// for them elsewhere, and looking for them costs more than the scan.
func Scan(r io.ReaderAt, size int64) (*Report, error) { return scanWith(r, size, scope{}) }

func scanWith(r io.ReaderAt, size int64, what scope) (*Report, error) {
	w := &watched{r: r}
	rep, err := scan(w, size, what)
	if err == nil {
		err = w.err
	}
	if err != nil {
		return nil, err
	}
	if rep.file != nil {
		rep.file.r = r
	}
	return rep, nil
}

// watched remembers the first read that failed. Where a look-up in a table fails, Scan goes
// on as if the table were not there; that must not turn an unreadable file into a verdict.
type watched struct {
	r   io.ReaderAt
	err error
}

func (w *watched) ReadAt(b []byte, off int64) (int, error) {
	n, err := w.r.ReadAt(b, off)
	if n < len(b) && w.err == nil {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		w.err = fmt.Errorf("read %d bytes at offset %d: %w", len(b), off, err)
	}
	return n, err
}

func scan(r io.ReaderAt, size int64, what scope) (*Report, error) {
	f, err := parseELF(r, size)
	if skip := (*skipError)(nil); errors.As(err, &skip) {
		return &Report{Skipped: skip.reason, Damaged: skip.damaged}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := f.checkLoads(); err != nil {
		return &Report{Skipped: err.Error(), Damaged: true}, nil
	}
	if err := what.within(f); err != nil {
		return &Report{Skipped: err.Error()}, nil
	}
	c := newCode(f)
	s := &search{f: f, code: c}
	if err := s.run(); err != nil {
		return nil, err
	}
	rep := &Report{ExecBytes: int64(s.bytes), Static: f.static(), file: f}
	_, rep.Injected = f.injected()
	if len(s.sites) == 0 {
		return rep, nil
	}
	if s.full() {
		return &Report{Skipped: damaged("%d or more references to the vsyscall page", maxSites).Error(), Damaged: true}, nil
	}
	return rep, rep.examine(c, s.sites)
}

// maxCover is how often the PT_LOADs of a file may cover it: an ordinary file's cover it
// once, and without a bound a small file could make much work.
const maxCover = 4

func (f *elfFile) checkLoads() error {
	var sum uint64
	for i := range f.progs {
		if p := &f.progs[i]; p.typ == ptLoad {
			if sum += p.filesz; sum > maxCover*f.size {
				return damaged("segments cover the file (%d bytes) more than %d times", f.size, maxCover)
			}
		}
	}
	return nil
}

// examine decides what the references found are.
func (r *Report) examine(c *code, sites []Site) error {
	slices.SortFunc(sites, func(a, b Site) int { return cmp.Compare(a.Vaddr, b.Vaddr) })
	sites = slices.CompactFunc(sites, func(a, b Site) bool { return a.Vaddr == b.Vaddr })
	fn, err := findFunctions(c.f, sites)
	if err != nil {
		return err
	}
	c.starts = fn.starts
	// One byte of opcode proves nothing: a push must begin where instructions do.
	sites = slices.DeleteFunc(sites, func(s Site) bool {
		return s.Kind == PushImm32 && !c.boundary(s.Vaddr)
	})
	if r.Go, err = c.f.isGo(); err != nil {
		return err
	}
	if r.RawSignals, err = c.f.rawSignals(); err != nil {
		return err
	}
	if r.Libc, err = libcOf(c.f); err != nil {
		return err
	}
	for i := range sites {
		judge(c, fn, r.Go, &sites[i])
		if sites[i].Kind == MovImm32 && sites[i].Verdict == Dormant && r.Libc == "" {
			r.Libc = "dietlibc" // an image base: see slot.go
		}
	}
	t, err := findTargets(c, sites)
	if err != nil {
		return err
	}
	for i := range sites {
		r.finish(c, fn, t, &sites[i])
	}
	if c.exhausted() {
		for i, s := range sites {
			sites[i] = Site{Vaddr: s.Vaddr, Offset: s.Offset, Len: s.Len, Kind: s.Kind, Function: s.Function, Reg: s.Reg,
				Symbol: s.Symbol, Verdict: Unknown, Reason: "too much code to follow in this file"}
		}
	}
	r.Sites = sites
	return nil
}

// finish fills in what the patch forms depend on.
func (r *Report) finish(c *code, fn *functions, t *targets, s *Site) {
	n, named := fn.names[s.Vaddr]
	s.Symbol = n.text
	if s.Calls == 0 || s.Kind == CallRel32 {
		return
	}
	s.Shared = t.shared(c, s)
	s.Stub = t.stub(c, s)
	s.ABI = !r.Go && fn.cFunction(n, named, s)
	after := s.Call + uint64(s.CallLen)
	switch {
	case s.Tail && s.ABI:
		s.Dead = uint16(deadCandidates)
	case !s.Tail:
		s.Dead = c.dead(after, s.ABI)
	}
}

// cFunction reports whether the function around s is called by the C convention only. That
// holds for what other objects may call, for the C library's public functions in static
// programs, and for a whole stub at the start of a function without a name, since a stub
// passes its caller's arguments on to a C function as they are. It is not assumed of any
// other local function: libpthread's lock functions are called from inline assembly that
// expects rdx, r8 and r9 unchanged.
func (fn *functions) cFunction(n name, named bool, s *Site) bool {
	if named {
		return fn.exported[n.start] || fn.public[n.start]
	}
	return s.Stub.Len != 0
}
