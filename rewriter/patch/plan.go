// The plan: which bytes of a file change, and which sites remain unchanged.

package patch

import (
	"cmp"
	"fmt"
	"slices"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/shim"
)

// Form is how a call site is rewritten.
type Form uint8

const (
	// Left: the site does not change.
	Left Form = iota
	// Entry is a jmp rel32 to the trampoline over the start of a stub function.
	Entry
	// Lea is lea trampoline(%rip),%reg over the instruction that loads the register; the call does not change.
	Lea
	// Imm is the trampoline's own address instead of the page's, in a store into the frame, or a jump to such code.
	Imm
	// Syscall is mov $nr,%rax; syscall over an adjacent mov and call.
	Syscall
)

var formNames = [...]string{"left", "entry", "lea", "imm", "syscall"}

func (f Form) String() string { return formNames[f] }

// MarshalText returns the word for the form in JSON.
func (f Form) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// Patch is the planned change of one site.
type Patch struct {
	Site   find.Site
	Form   Form
	Reason Reason // why this form; for Left, why the site does not change
	// Vaddr and Offset are of the first changed byte; Before and After have the same length.
	Vaddr, Offset uint64
	Before, After []byte
	// Listing is the code around the site; nil unless Options.Explain requests it.
	Listing *find.Explanation
}

// callSite is the Why of an edit of a call site.
const callSite = "call site"

// Edit is one range of bytes that changes in place.
type Edit struct {
	Offset uint64
	Old    []byte
	New    []byte // as long as Old
	Why    string // "call site", "e_entry", "program headers", "DT_INIT", …
}

// Options are the options of a plan.
type Options struct {
	// Dormant also patches dormant sites in a file in which nothing else is patched: for kernels without a vDSO, and
	// programs that do not find it.
	Dormant bool
	// Explain adds its listing to each patch, as the file may not be available later.
	Explain bool
	// Fixes are the fixes to make.
	Fixes []find.Fix
}

// Plan determines which bytes of a file would change. It is only a value: nothing has been written.
type Plan struct {
	Patches  []Patch // one for each site, in vaddr order
	Edits    []Edit  // in ascending order of Offset, without overlap
	Size     int64   // of the result, in bytes
	Warnings []string
	// Consequences are the functions that no longer work after the patch, one line each.
	Consequences []string
	Notes        []string // facts for users, one line each
	// Redirect is the report's redirect with its planned change; nil if it was not requested.
	Redirect *find.Redirect
	Tail     []byte // the bytes behind the original ones
	aside    []byte // code in the injected page for some sites
	file     *file
}

// Empty reports whether the plan changes nothing.
func (p *Plan) Empty() bool { return len(p.Edits) == 0 }

// LeftOver returns the patches of live or unknown sites that do not change: the findings.
func (p *Plan) LeftOver() []Patch {
	var left []Patch
	for _, q := range p.Patches {
		if q.Form == Left && q.Site.Verdict.Finding() {
			left = append(left, q)
		}
	}
	return left
}

// NewPlan plans the change of each site of the report. It reads the report's file again, and returns an error only
// if that read fails.
func NewPlan(r *find.Report, o Options) (*Plan, error) {
	p := newPlan(r, o)
	if o.Explain {
		p.explainAll()
	}
	if p.file != nil && p.file.Err() != nil {
		return nil, p.file.Err()
	}
	return p, nil
}

func newPlan(r *find.Report, o Options) *Plan {
	f := fileOf(r)
	p := &Plan{file: f}
	if f == nil {
		return p
	}
	wanted := r.Redirect != nil && slices.Contains(o.Fixes, r.Redirect.Fix)
	p.Size = int64(f.Size)
	if wanted {
		redirect := *r.Redirect
		f.ProveRedirect(&redirect)
		p.Redirect = &redirect
	}
	needRoom := wanted && p.Redirect.Reason == ""
	for i := range r.Sites {
		q := Patch{Site: r.Sites[i]}
		if o.Dormant && f.Type == elf.TypeExec {
			f.ProveGoWord(&q.Site)
		}
		q.Form, q.Reason = choose(&q.Site, r.Go)
		p.Patches = append(p.Patches, q)
	}
	if !o.Dormant && !needRoom {
		p.leaveDormant()
	}
	needRoom = needRoom || p.usesSegment()
	var place room
	var why error
	switch {
	case f.was != nil:
		why = roomError("vfix has patched the file already: patch the original")
	case needRoom:
		place, why = f.findRoom()
	}
	if why != nil {
		for i := range p.Patches {
			q := &p.Patches[i]
			q.Form, q.Reason = withoutRoom(&q.Site, q.Form, q.Reason, why.Error())
		}
	}
	p.encodeAll(place)
	switch {
	case !wanted || p.Redirect.Reason != "":
	case why != nil:
		p.Redirect.Reason = why.Error()
	default:
		p.redirect(place.vaddr)
	}
	if p.usesSegment() {
		p.addSegment(place)
	}
	sortEdits(p.Edits)
	if why := p.overlap(); why != "" {
		left := leaveAll(f, r, why)
		if left.Redirect = p.Redirect; wanted {
			left.Redirect.After, left.Redirect.Reason = nil, Reason{Cause: Damaged, Detail: why}.String()
		}
		return left
	}
	return p
}

// leaveDormant leaves the sites of a file that has only dormant ones to patch.
func (p *Plan) leaveDormant() {
	changes := func(q Patch) bool { return q.Form != Left && q.Site.Verdict == find.Live }
	if slices.ContainsFunc(p.Patches, changes) {
		return
	}
	for i := range p.Patches {
		if q := &p.Patches[i]; q.Form != Left {
			q.Form, q.Reason = Left, Reason{Cause: Unneeded}
		}
	}
}

// leaveAll returns a plan that changes nothing.
func leaveAll(f *file, r *find.Report, why string) *Plan {
	p := &Plan{file: f, Size: int64(f.Size)}
	for _, s := range r.Sites {
		q := Patch{Site: s, Reason: Reason{Cause: Damaged, Detail: why}}
		if !s.Called {
			q.Reason = Reason{Cause: ByVerdict, Evidence: s.Reason}
		}
		p.Patches = append(p.Patches, q)
	}
	return p
}

// encodeAll sets the bytes of each patch and adds their edits. A site out of reach of the trampolines gets the
// form for a file without room.
func (p *Plan) encodeAll(place room) {
	for i := range p.Patches {
		q := &p.Patches[i]
		if q.Form == Left {
			continue
		}
		vaddr, code, err := p.encode(&q.Site, q.Form, place.vaddr)
		if err != nil {
			q.Form, q.Reason = withoutRoom(&q.Site, q.Form, q.Reason, err.Error())
			if q.Form == Left {
				continue
			}
			vaddr, code, _ = p.encode(&q.Site, q.Form, place.vaddr) // a system call
		}
		off, ok := p.file.Offset(vaddr, uint64(len(code)))
		if !ok {
			q.Form, q.Reason = Left, Reason{Cause: OverEnd}
			continue
		}
		q.Vaddr, q.Offset, q.Before, q.After = vaddr, off, p.file.Bytes(off, uint64(len(code))), code
		p.Edits = append(p.Edits, Edit{Offset: off, Old: q.Before, New: code, Why: callSite})
	}
}

// usesSegment reports whether a patch leads to a trampoline.
func (p *Plan) usesSegment() bool {
	return p.Redirected() || slices.ContainsFunc(p.Patches, func(q Patch) bool { return q.Form != Left && q.Form != Syscall })
}

// addSegment adds the injected segment, its program header, its hooks and its section header.
func (p *Plan) addSegment(place room) {
	f := p.file
	off := elf.PageUp(f.Size)
	h := f.planHooks(place.vaddr, shim.Injected())
	if !h.found {
		p.Warnings = append(p.Warnings, "nothing to hook at load (no entry, no DT_INIT, no relocated init_array): the patched sites make system calls")
	}
	p.Edits = append(p.Edits, h.edits...)
	p.editProgs(place, off)
	page := pageOf(codeFor(p.fix()), h, place.vaddr)
	used := asideStart() + copy(page[asideStart():], p.aside)
	u := f.planUnwinding(place.vaddr, elf.PageSize-used)
	if u.tail != nil {
		copy(page[elf.PageSize-len(u.tail):], u.tail)
		p.Edits = append(p.Edits, u.table)
	}
	state := make([]byte, shim.SegmentSize-elf.PageSize)
	if p.Redirected() {
		copy(state[shim.Injected().String-elf.PageSize:], p.Redirect.Text)
	}
	p.Tail = slices.Concat(make([]byte, off-f.Size), page, state)
	p.addSections(place, &u, off)
	p.Size = int64(f.Size) + int64(len(p.Tail))
}

func sortEdits(edits []Edit) {
	slices.SortFunc(edits, func(a, b Edit) int { return cmp.Compare(a.Offset, b.Offset) })
}

// overlap returns two edits that overlap, in words, "" for none: two fields of a hostile file may share their
// bytes.
func (p *Plan) overlap() string {
	table, size := p.file.PhOff, uint64(len(p.file.Progs))*elf.PhdrSize
	for _, e := range p.Edits {
		if e.Why == callSite && e.Offset < table+size && e.Offset+uint64(len(e.New)) > table {
			return fmt.Sprintf("%s at offset %#x overlaps the program headers", e.Why, e.Offset)
		}
	}
	for i := 1; i < len(p.Edits); i++ {
		a, b := p.Edits[i-1], p.Edits[i]
		if a.Offset+uint64(len(a.New)) > b.Offset {
			return fmt.Sprintf("%s at offset %#x overlaps %s at offset %#x", a.Why, a.Offset, b.Why, b.Offset)
		}
	}
	return ""
}
