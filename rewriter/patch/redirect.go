// Names of files that mislead a program on some hosts. The one instruction that loads the name is redirected to a
// copy of it, behind the pointers of the state page, which the load hook may change.
//
//	before                                     after
//	48 8d 35 rel32  lea "/proc/cgroups",%rsi   48 8d 35 rel32  lea vfix_string,%rsi
//
// The copy in the file is the same text, so nothing changes on other hosts.

package patch

import (
	"bytes"
	"encoding/binary"

	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/shim"
)

// codeFor returns the injected code of a file with a fix, or without one.
func codeFor(fix find.Fix) []byte {
	if fix == find.JavaCgroups {
		return shim.JavaCode()
	}
	return shim.Code()
}

// Redirected reports whether the plan redirects a load to the copy.
func (p *Plan) Redirected() bool { return p.Redirect != nil && p.Redirect.After != nil }

// redirect plans the load of the copy in the state page of a segment at vaddr.
func (p *Plan) redirect(segment uint64) {
	r := p.Redirect
	to := segment + uint64(shim.Injected().String)
	if !inReach(r.Vaddr+find.RedirectLen, to) {
		r.Reason = "the injected segment is out of reach"
		return
	}
	r.After = binary.LittleEndian.AppendUint32(bytes.Clone(r.Before[:find.RedirectLen-4]), uint32(to-(r.Vaddr+find.RedirectLen)))
	p.Edits = append(p.Edits, Edit{Offset: r.Offset, Old: r.Before, New: r.After, Why: "reference to " + r.Text})
}

// fix returns the fix that the plan makes, "" for none.
func (p *Plan) fix() find.Fix {
	if p.Redirected() {
		return p.Redirect.Fix
	}
	return ""
}

// explainRedirect sets the listing.
func (p *Plan) explainRedirect() {
	r := p.Redirect
	if r == nil || r.Vaddr == 0 {
		return
	}
	e := p.listing(p.file.File, r.Vaddr, r.Vaddr+find.RedirectLen+explainAfter, "vfix_string")
	r.Listing = &e
}
