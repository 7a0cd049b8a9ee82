// The confined process.

package examiner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

// Main is the confined process, started as Name with the fixes to make: it examines the file that is its input, and
// answers. It returns its exit status. The file is a copy: the process has no descriptor of a container's file, nor those
// that the engine left open.
func Main() int {
	var fixes []find.Fix
	for _, name := range os.Args[1:] {
		fixes = append(fixes, find.Fix(name))
	}
	var a answer
	err := errors.Join(unix.CloseRange(uint(syscall.Stderr+1), math.MaxUint32, 0), confine(maxMemory, maxCPU))
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

// hook is called with the file; nil except in tests, which take the process over.
var hook func(f io.ReaderAt, size int64)

// examine scans a file and plans its patch.
func examine(f *os.File, fixes []find.Fix) (found Finding, err error) {
	fi, err := f.Stat()
	if err != nil {
		return found, err
	}
	if hook != nil {
		hook(f, fi.Size())
	}
	r, err := patch.Scan(f, fi.Size())
	if err != nil {
		return found, err
	}
	if r.Skipped.MayCall() {
		return found, fmt.Errorf("not examined: %s", r.Skipped)
	}
	p, err := patch.NewPlan(r, patch.Options{Fixes: fixes})
	if err != nil {
		return found, err
	}
	found = Finding{Edits: p.Edits, Tail: p.Tail, Static: r.Static}
	left := p.LeftOver()
	if len(left) > 0 {
		found.Left = fmt.Sprintf("call sites left: %d, the first at vaddr %#x: %s", len(left), left[0].Site.Vaddr, left[0].Reason)
	}
	switch {
	case slices.Contains(fixes, r.Fixed):
		found.Fix = r.Fixed
	case p.Redirected():
		found.Fix = p.Redirect.Fix
	case p.Redirect != nil:
		found.Left = fmt.Sprintf("not fixed (%s): %s; ", p.Redirect.Fix, p.Redirect.Reason) + found.Left
	case p.Empty() && len(left) == 0 && r.Packed != "":
		return found, fmt.Errorf("not examined: %s", r.Packed)
	}
	return found, nil
}
