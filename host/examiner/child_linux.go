// The confined process.

package examiner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

// maxExec is how many executable bytes of a file are examined.
const maxExec = 1 << 30

// Main is the confined process, started as Name with the fixes to make: it examines the file that is its input, and
// answers. It returns its exit status. The file is a copy: it has no descriptor of a container's file.
func Main() int {
	var fixes []find.Fix
	for _, name := range os.Args[1:] {
		fixes = append(fixes, find.Fix(name))
	}
	var a answer
	err := errors.Join(closeOthers(), confine(maxMemory, maxCPU))
	if a.Refused = err != nil; !a.Refused {
		a.Finding, err = examine(os.Stdin, fixes)
	}
	if err != nil {
		a.Error = clip(err.Error())
	}
	if json.NewEncoder(os.Stdout).Encode(a) != nil {
		return 1
	}
	return 0
}

// closeOthers closes all descriptors inherited from the engine. None of them is closed on exec, as all are that Go's
// runtime has opened in this process.
func closeOthers() error {
	list, err := os.ReadDir("/proc/self/fd")
	for _, d := range list {
		fd, _ := strconv.Atoi(d.Name())
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if fd > syscall.Stderr && err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
	return err
}

// hook is called with the file; nil except in tests, which take the process over.
var hook func(f io.ReaderAt, size int64)

// examine scans a file and plans its patch.
func examine(f *os.File, fixes []find.Fix) (found Finding, err error) {
	fi, err := f.Stat()
	if err != nil {
		return found, err
	}
	size := fi.Size()
	if hook != nil {
		hook(f, size)
	}
	r, err := patch.ScanWithin(f, size, maxExec)
	if err != nil {
		return found, err
	}
	if r.Skipped.MayCall() {
		return found, fmt.Errorf("not examined: %s", r.Skipped)
	}
	if slices.Contains(fixes, r.Fixed) {
		found.Fix = r.Fixed
	}
	wanted := r.Redirect != nil && slices.Contains(fixes, r.Redirect.Fix)
	matters := func(s find.Site) bool { return s.Verdict.Finding() }
	if !wanted && !slices.ContainsFunc(r.Sites, matters) {
		if r.Packed != "" {
			err = fmt.Errorf("not examined: %s", r.Packed)
		}
		return found, err
	}
	p, err := patch.NewPlan(r, patch.Options{Fixes: fixes})
	if err != nil {
		return found, err
	}
	found.Static = r.Static
	found.describe(p, wanted)
	if p.Empty() {
		return found, nil
	}
	return found, found.take(p, f, size, fixes)
}

// describe counts the changes of a plan, and says what stays.
func (f *Finding) describe(p *patch.Plan, wanted bool) {
	for _, q := range p.Patches {
		if q.Form != patch.Left {
			f.Sites++
		}
	}
	if left := p.LeftOver(); len(left) > 0 {
		f.Left = fmt.Sprintf("call sites left: %d, the first at vaddr %#x: %s", len(left), left[0].Site.Vaddr, left[0].Reason)
	}
	if wanted && p.Redirected() {
		f.Fix = p.Redirect.Fix
	} else if wanted {
		f.Left = fmt.Sprintf("not fixed (%s): %s; ", p.Redirect.Fix, p.Redirect.Reason) + f.Left
	}
	f.Left = clip(f.Left)
}

// take keeps what the plan changes, and proves that this makes the patched file.
func (f *Finding) take(p *patch.Plan, original io.ReaderAt, size int64, fixes []find.Fix) (err error) {
	for _, e := range p.Edits {
		f.Edits = append(f.Edits, Edit{int64(e.Offset), e.Old, e.New})
	}
	all := p.Apply(original)
	if _, err := io.CopyN(io.Discard, all, size); err != nil {
		return err
	}
	if f.Tail, err = io.ReadAll(all); err != nil {
		return err
	}
	changes := append(slices.Clone(f.Edits), Edit{Offset: size, New: f.Tail})
	_, err = patch.Verify(original, size, &patched{original, changes}, p.Size, patch.Options{Fixes: fixes})
	return err
}

// patched is a file with changes. The last one is behind its end.
type patched struct {
	original io.ReaderAt
	changes  []Edit
}

func (p *patched) ReadAt(b []byte, off int64) (int, error) {
	n, err := p.original.ReadAt(b, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, err
	}
	for _, c := range p.changes {
		from, to := max(c.Offset, off), min(c.Offset+int64(len(c.New)), off+int64(len(b)))
		if from < to {
			copy(b[from-off:], c.New[from-c.Offset:])
			n = max(n, int(to-off))
		}
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}
