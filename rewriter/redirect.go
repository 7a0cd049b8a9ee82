// Names of files that mislead a program on some hosts. The one instruction that loads the name is
// pointed at a copy of it behind the pointers of the state page, which the load hook may change.
//
//	before                                     after
//	48 8d 35 rel32  lea "/proc/cgroups",%rsi   48 8d 35 rel32  lea vfix_string,%rsi
//
// The copy is the same text in the file, so that nothing changes on any other host.

package rewriter

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
	"vfix.dev/vfix/shim"
)

// Fix names what is fixed besides calls of the page.
type Fix string

// JavaCgroups is the memory limit of JDKs that read /proc/cgroups to learn which version of control
// groups is in use, until JDK-8349988.
const JavaCgroups Fix = "java-cgroups"

// Fixes are all that there are.
var Fixes = []Fix{JavaCgroups}

// fix is what a file has that needs one, and the injected code that helps.
type fix struct {
	name   Fix
	soname string // of the files that are looked at
	text   string // the name that misleads the program
	unless string // what a file has that does not need the fix, and the injected code, too
	code   func() []byte
	calls  string // which system calls the hook adds
}

var fixes = []fix{{
	name: JavaCgroups, soname: "libjvm.so", text: "/proc/cgroups", unless: "/cgroup.controllers", code: shim.JavaCode,
	calls: "at load: open, read, fstatfs and close (/sys/fs/cgroup/cgroup.controllers, /proc/cgroups)",
}}

// Redirect is the reference to the name in a file that needs a fix.
type Redirect struct {
	Fix Fix
	// Vaddr and Offset are of the instruction; 0 where none can be changed. Before and After are
	// its bytes; After is nil until it is planned to change.
	Vaddr, Offset uint64
	Before, After []byte
	// Reason is why the file is not fixed; "" where it is or can be.
	Reason string
	// Listing is the code there; nil unless Options.Explain asked for it.
	Listing *Explanation
}

// leaLen is the length of lea disp32(%rip) with a 64-bit register: REX.W 8D ModRM disp32 (SDM).
const leaLen = 7

// wants reports whether the plan for a file is to have its fix.
func (o *Options) wants(r *Redirect, was *patchedFile) bool {
	return r != nil && (slices.Contains(o.Fixes, r.Fix) || was != nil && was.fix != nil && was.fix.name == r.Fix)
}

// Fixed is the fix that the file has already, "" for none.
func (r *Report) Fixed() Fix {
	if r.file == nil || r.file.was == nil || r.file.was.fix == nil {
		return ""
	}
	return r.file.was.fix.name
}

// findRedirect looks for what needs a fix; nil where nothing does.
func (f *file) findRedirect() (*Redirect, error) {
	n := slices.IndexFunc(fixes, func(r fix) bool { return r.soname == f.Soname() })
	if n < 0 {
		return nil, nil
	}
	k := &fixes[n]
	texts, err := f.FindText(k.text + "\x00")
	if err != nil || len(texts) == 0 {
		return nil, err
	}
	if others, err := f.FindText(k.unless); err != nil || len(others) > 0 {
		return nil, err
	}
	r := &Redirect{Fix: k.name}
	if len(texts) > 1 {
		r.Reason = fmt.Sprintf("%q is there %d times", k.text, len(texts))
		return r, nil
	}
	return r, f.findLoad(r, k, texts[0])
}

// findLoad finds what loads the address of a text, the only reference to it.
func (f *file) findLoad(r *Redirect, k *fix, text uint64) error {
	refs, data, err := f.References(text)
	switch {
	case err != nil:
		return err
	case data > 0:
		r.Reason = fmt.Sprintf("the address of %q is in data", k.text)
		return nil
	case len(refs) != 1:
		r.Reason = fmt.Sprintf("%d instructions refer to %q", len(refs), k.text)
		return nil
	}
	at := refs[0] - (leaLen - 4)
	off, ok := f.Offset(at, leaLen)
	b, err := f.Bytes(off, leaLen)
	if !ok || err != nil {
		return err
	}
	if b[0]&^4 != 0x48 || b[1] != 0x8d || b[2]&0xc7 != 5 || text != at+leaLen+elf.Signed(b[3:]) {
		r.Reason = fmt.Sprintf("the reference to %q at vaddr %#x is not a lea of 7 bytes", k.text, at)
		return nil
	}
	r.Vaddr, r.Offset, r.Before = at, off, b
	return nil
}

// proveLoad gives a redirect a reason where nothing proves that its bytes are an instruction. It reads much
// of the file: a scan leaves it to the plan.
func (f *file) proveLoad(r *Redirect) (err error) {
	if r.Reason != "" {
		return nil
	}
	r.Reason, err = f.unproved(&Site{Vaddr: r.Vaddr, Offset: r.Offset, Len: leaLen, Kind: LeaDisp32})
	if r.Reason != "" {
		r.Vaddr, r.Offset, r.Before = 0, 0, nil
	}
	return err
}

// unproved says why the instruction at a site may be none, "" where it is proved to be one.
func (f *file) unproved(s *Site) (string, error) {
	c, sites := newCode(f), []Site{*s}
	fn, err := c.locate(sites)
	if err != nil {
		return "", err
	}
	b := c.holder(fn, s.Vaddr)
	t, err := findTargets(c, fn, sites)
	if err != nil {
		return "", err
	}
	at := fmt.Sprintf("the bytes at vaddr %#x ", s.Vaddr)
	switch {
	case c.exhausted():
		return "too much code to follow in this file", nil
	case b == nil:
		return at + "may be data: no known code reaches them", nil
	case f.Mappings(s.Offset) > 1:
		return at + "are mapped at two addresses", nil
	case !b.begins(s.Vaddr, uint64(s.Len)):
		return at + "are a part of another instruction", nil
	case t.inside(s.Vaddr+1, s.Vaddr+uint64(s.Len)):
		return at + "may be entered in the middle", nil
	}
	return "", nil
}

// Redirected reports whether the plan points a load at the copy.
func (p *Plan) Redirected() bool { return p.Redirect != nil && p.Redirect.After != nil }

// redirect plans the load at the copy in the state page of a segment at vaddr.
func (p *Plan) redirect(segment uint64) {
	r := p.Redirect
	to := segment + uint64(shim.Injected().String)
	if !inReach(r.Vaddr+leaLen, to) {
		r.Reason = "the injected segment is out of reach"
		return
	}
	r.After = binary.LittleEndian.AppendUint32(bytes.Clone(r.Before[:leaLen-4]), uint32(to-(r.Vaddr+leaLen)))
	p.Edits = append(p.Edits, Edit{Offset: r.Offset, Old: r.Before, New: r.After, Why: "reference to " + fixOf(r.Fix).text})
}

func fixOf(name Fix) *fix {
	return &fixes[slices.IndexFunc(fixes, func(r fix) bool { return r.name == name })]
}

// code is the injected code that the plan needs.
func (p *Plan) code() []byte {
	if p.Redirected() {
		return fixOf(p.Redirect.Fix).code()
	}
	return shim.Code()
}

// state is what the state page has behind its pointers: the copy, or zeros.
func (p *Plan) state() []byte {
	b := make([]byte, stateText)
	if p.Redirected() {
		copy(b, fixOf(p.Redirect.Fix).text)
	}
	return b
}

// stateText is the room for a name in the state page, with the zero that ends it.
const stateText = 16

// explainRedirect fills in the listing.
func (p *Plan) explainRedirect() error {
	r := p.Redirect
	if r == nil || r.Vaddr == 0 {
		return nil
	}
	before, err := p.file.Mem(r.Vaddr, leaLen+explainAfter)
	if err != nil {
		return err
	}
	b, a := x86.Listing(before, p.patched(before, r.Offset), r.Vaddr)
	r.Listing = &Explanation{Before: b}
	if p.Redirected() {
		nameTrampoline(a, p.file, "vfix_string")
		r.Listing.After = a
	}
	return nil
}
