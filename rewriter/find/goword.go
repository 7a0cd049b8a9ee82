// The words of Go 1.1 to 1.15: addresses of the page in the runtime's data, called if the runtime has found no vDSO.
// A program that the kernel starts with other privileges than its caller's loses it, and calls the page.

package find

import (
	"bytes"

	"vfix.dev/vfix/rewriter/x86"
)

// The encodings of a load of the word, which call *%rax follows (runtime/sys_linux_amd64.s).
var (
	goLoadRel = []byte{0x48, 0x8b, 0x05}       // mov disp32(%rip),%rax
	goLoadAbs = []byte{0x48, 0x8b, 0x04, 0x25} // mov disp32,%rax
)

// ProveGoWord sets Called of a site in the data of a Go program if all code that refers to the word calls it. The
// runtime also has the address of the word in its table of the vDSO's functions, in data.
func (f *File) ProveGoWord(s *Site) {
	if s.Reason.Cause != GoData {
		return
	}
	refs, _ := f.References(s.Vaddr)
	calls := 0
	for _, ref := range refs {
		switch {
		case f.loadsAndCalls(ref):
			calls++
		case len(f.Sections) == 0 || f.codeSection(ref) != nil:
			return
		}
	}
	s.Called = calls > 0
}

// loadsAndCalls reports whether the 4 bytes at ref are the end of a load of rax, which a call through it follows.
func (f *File) loadsAndCalls(ref uint64) bool {
	at := ref - uint64(len(goLoadRel))
	if !bytes.Equal(f.Mem(at, uint64(len(goLoadRel))), goLoadRel) {
		at = ref - uint64(len(goLoadAbs))
		if !bytes.Equal(f.Mem(at, uint64(len(goLoadAbs))), goLoadAbs) {
			return false
		}
	}
	j := &judge{code: code{f: f}, fn: findFunctions(f, []Site{{Vaddr: at}})}
	call, _ := j.at(ref + 4)
	r, through := call.CallsThrough()
	return through && call.Calls() && r == x86.Rax && j.boundary(at)
}
