// The confined process.

package oldexaminer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/jail"
	"vfix.dev/vfix/internal/packers"
	"vfix.dev/vfix/internal/sparse"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

// socket is the descriptor of the connection to the caller.
const socket = 0

// Main is the confined process, started as Name: it answers until the caller closes the connection. It returns
// its exit status.
func Main() int {
	if closeOthers() != nil {
		return 1
	}
	buf := make([]byte, maxMessage)
	var b bounds
	if _, err := receive(socket, buf, &b, 0); err != nil {
		return 1
	}
	holds, err := jail.Confine(jail.Bounds{Memory: b.Memory, Time: b.Time})
	h := hello{Holds: holds}
	if err != nil {
		h.Error = err.Error()
	}
	if send(socket, h) != nil || err != nil {
		return 1
	}
	for {
		var r request
		files, err := receive(socket, buf, &r, maxFiles)
		if err != nil {
			return 0 // the caller closed the connection
		}
		a := serve(&r, files, b.Fixes)
		for _, f := range files {
			f.Close()
		}
		if send(socket, a) != nil {
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

// maxFiles is how many files come with a request.
const maxFiles = 2

// serve carries out a request. A bug in vfix is also an answer.
func serve(r *request, files []*os.File, fixes []find.Fix) (a answer) {
	defer func() {
		if fault := recover(); fault != nil {
			a = answer{Error: clip(fmt.Sprintf("internal error: %v", fault))}
		}
	}()
	var err error
	switch len(files) {
	case 1:
		_, a.Finding, err = planOf(files[0], r.Size, fixes)
	case maxFiles:
		err = patchFile(files[0], r.Size, files[1], r.Want, fixes)
	default:
		err = fmt.Errorf("%d files", len(files))
	}
	if err != nil {
		a = answer{Error: clip(err.Error()), TooMuch: errors.Is(err, ErrTooMuch)}
	}
	return a
}

// planOf scans a file of size bytes; a nil plan says that it has no call site that can be
// patched, none that would have to be, and nothing that the fixes change.
func planOf(f io.ReaderAt, size int64, fixes []find.Fix) (p *patch.Plan, found Finding, err error) {
	r, err := patch.ScanWithin(f, size, maxExec)
	if err != nil {
		return nil, found, err
	}
	if r.Skipped.MayCall() {
		return nil, found, fmt.Errorf("%w: %s", ErrTooMuch, r.Skipped)
	}
	if has := r.Fixed; slices.Contains(fixes, has) {
		found.Fix = has
	}
	wanted := r.Redirect != nil && slices.Contains(fixes, r.Redirect.Fix)
	if !wanted && !slices.ContainsFunc(r.Sites, func(s find.Site) bool { return s.Verdict.Finding() }) {
		why, err := packers.Inside(f, size)
		if err == nil && why != "" {
			err = fmt.Errorf("%w: %s", ErrTooMuch, why)
		}
		return nil, found, err
	}
	if p, err = patch.NewPlan(r, patch.Options{Fixes: fixes}); err != nil {
		return nil, Finding{}, err
	}
	found.add(p, wanted)
	return p, found, nil
}

var errOther = errors.New("not the file that was examined")

// patchFile writes the patched copy of a file, which must have want bytes, and proves that it is one.
func patchFile(original io.ReaderAt, size int64, to *os.File, want int64, fixes []find.Fix) error {
	p, _, err := planOf(original, size, fixes)
	if err != nil {
		return err
	}
	if p == nil || p.Empty() || p.Size != want {
		return errOther
	}
	if _, err := sparse.Copy(to, p.Apply(original)); err != nil {
		return err
	}
	_, err = patch.Verify(original, size, to, want, patch.Options{Fixes: fixes})
	return err
}

// send sends one message, with files beside it.
func send(fd int, v any, files ...int) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var rights []byte
	if len(files) > 0 {
		rights = unix.UnixRights(files...)
	}
	for {
		err := unix.Sendmsg(fd, b, rights, nil, unix.MSG_NOSIGNAL)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// receive waits for one message, which may have up to most files beside it. The end of the other
// process is io.EOF.
func receive(fd int, buf []byte, v any, most int) ([]*os.File, error) {
	const fdSize = 4
	rights := make([]byte, unix.CmsgSpace(most*fdSize))
	var n, k, flags int
	var err error
	for {
		n, k, flags, _, err = unix.Recvmsg(fd, buf, rights, unix.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	switch {
	case err != nil:
		return nil, err
	case n == 0:
		return nil, io.EOF
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		return nil, fmt.Errorf("a message of more than %d bytes", len(buf))
	}
	var files []*os.File
	if k > 0 {
		messages, err := unix.ParseSocketControlMessage(rights[:k])
		if err != nil {
			return nil, err
		}
		for i := range messages {
			fds, err := unix.ParseUnixRights(&messages[i])
			if err != nil {
				return nil, err
			}
			for _, fd := range fds {
				files = append(files, os.NewFile(uintptr(fd), "image file"))
			}
		}
	}
	return files, json.Unmarshal(buf[:n], v)
}
