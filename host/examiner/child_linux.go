// The confined process.

package examiner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/jail"
	"vfix.dev/vfix/internal/programs"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

// The bounds of the process: memory in bytes, and processor time. The largest programs of images take a tenth.
const (
	memory = 256 << 20
	cpu    = 60 * time.Second
)

// maxExec is how many executable bytes of a file are examined.
const maxExec = 1 << 30

// socket is the descriptor of the connection to the caller.
const socket = 0

// Main is the confined process, started as Name: it answers until the caller closes the connection. It returns its exit
// status.
func Main() int {
	if closeOthers() != nil {
		return 1
	}
	var hello answer
	err := jail.Confine(jail.Bounds{Memory: memory, Time: cpu})
	if err != nil {
		hello.Error = err.Error()
	}
	if send(socket, hello) != nil || err != nil {
		return 1
	}
	for {
		var r request
		f, err := receive(socket, &r)
		if err != nil || f == nil {
			return 0 // the caller closed the connection
		}
		a := serve(f, &r)
		f.Close()
		if err := send(socket, a); err != nil && send(socket, answer{Error: err.Error()}) != nil {
			return 0
		}
	}
}

// closeOthers closes all descriptors inherited from the engine except the socket. None of them is closed on exec, as
// all are that this process has opened: libraries read files before main, and Go's runtime keeps its epoll. The list is
// read by system calls alone, for which the runtime needs none.
func closeOthers() error {
	list, err := unix.Open("/proc/self/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(list)
	for b := make([]byte, 4<<10); ; {
		n, err := unix.ReadDirent(list, b)
		if n <= 0 {
			return err
		}
		_, _, names := unix.ParseDirent(b[:n], -1, nil)
		for _, name := range names {
			fd, _ := strconv.Atoi(name)
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); fd > unix.Stderr && err == nil && flags&unix.FD_CLOEXEC == 0 {
				unix.Close(fd)
			}
		}
	}
}

// hook is called with each file; nil except in tests, which take the process over.
var hook func(f io.ReaderAt, size int64)

// serve carries out a request. A bug in vfix is also an answer.
func serve(f *os.File, r *request) (a answer) {
	defer func() {
		if fault := recover(); fault != nil {
			a = answer{Error: clip(fmt.Sprintf("internal error: %v", fault))}
		}
	}()
	if hook != nil {
		hook(f, r.Size)
	}
	found, err := examine(f, r.Size, r.Fixes)
	if err != nil {
		return answer{Error: clip(err.Error())}
	}
	return answer{Finding: found}
}

// examine scans a file and plans its patch.
func examine(f io.ReaderAt, size int64, fixes []find.Fix) (found Finding, err error) {
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
		why, err := programs.PackedBy(f, size)
		if err == nil && why != "" {
			err = fmt.Errorf("not examined: %s", why)
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
	left := p.LeftOver()
	if f.Stay = len(left); f.Stay > 0 {
		f.Left = fmt.Sprintf("call sites left: %d, the first at vaddr %#x: %s", f.Stay, left[0].Site.Vaddr, left[0].Reason)
	}
	if wanted && p.Redirected() {
		f.Fix = p.Redirect.Fix
	} else if wanted {
		f.Left = fmt.Sprintf("not fixed (%s): %s; ", p.Redirect.Fix, p.Redirect.Reason) + f.Left
	}
	f.Left = clip(f.Left)
}

// take makes the patched file, proves that it is one, and keeps what differs.
func (f *Finding) take(p *patch.Plan, original io.ReaderAt, size int64, fixes []find.Fix) error {
	for _, e := range p.Edits {
		f.Edits = append(f.Edits, Edit{int64(e.Offset), e.Old, e.New})
	}
	if p.Size < size || p.Size-size > maxMessage {
		return fmt.Errorf("patch adds %d bytes", p.Size-size)
	}
	all := p.Apply(original)
	if _, err := io.CopyN(io.Discard, all, size); err != nil {
		return err
	}
	var err error
	if f.Tail, err = io.ReadAll(all); err != nil {
		return err
	}
	_, err = patch.Verify(original, size, &patched{original, size, &f.Patch}, p.Size, patch.Options{Fixes: fixes})
	return err
}

// patched reads the patched file: the original, with the bytes of the patch.
type patched struct {
	original io.ReaderAt
	size     int64
	*Patch
}

func (p *patched) ReadAt(b []byte, off int64) (n int, err error) {
	if off < p.size {
		if n, err = p.original.ReadAt(b[:min(int64(len(b)), p.size-off)], off); err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
		for _, e := range p.Edits {
			for i, c := range e.New {
				if at := e.Offset + int64(i) - off; at >= 0 && at < int64(n) {
					b[at] = c
				}
			}
		}
	}
	if at := off + int64(n) - p.size; at >= 0 && at < int64(len(p.Tail)) {
		n += copy(b[n:], p.Tail[at:])
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}
