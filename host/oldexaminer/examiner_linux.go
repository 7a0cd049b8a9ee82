// The caller's side.

package oldexaminer

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/rewriter/find"
)

// Examiner sends files to be examined. The confined process is started with the first file.
type Examiner struct {
	// Memory bounds the process, in bytes of data; Until is when it must be done.
	Memory int64
	Until  time.Time
	// Fixes are those that are made besides: nil for none.
	Fixes []find.Fix
	// Holds are the restrictions of the process, once it has been started.
	Holds []string

	process *os.Process
	socket  int
	buf     []byte
	refused error // why there can be no process
}

// ErrTime: the time was up.
var ErrTime = errors.New("time is up")

// Examine has the file at fd examined, of size bytes.
func (e *Examiner) Examine(fd int, size int64) (Finding, error) {
	a, err := e.ask(request{Size: size}, fd)
	f := a.Finding
	if err == nil && !e.believable(&f) {
		return Finding{}, errors.New("invalid answer from the confined process")
	}
	return f, err
}

func (e *Examiner) believable(f *Finding) bool {
	return f.Size >= 0 && f.Sites >= 0 && f.Stay >= 0 && len(f.Left) <= maxReason && (f.Stay == 0 || f.Left != "") &&
		(f.Left == "" || f.Stay > 0 || len(e.Fixes) > 0) && (f.Fix == "" || slices.Contains(e.Fixes, f.Fix))
}

// Patch has the patched copy of a file of size bytes, at original, written to the empty file at to,
// if it takes want bytes, as Examine has said.
func (e *Examiner) Patch(original int, size int64, to int, want int64) error {
	_, err := e.ask(request{Size: size, Want: want}, original, to)
	return err
}

func (e *Examiner) ask(r request, files ...int) (a answer, err error) {
	if e.start(); e.refused != nil {
		return a, e.refused
	}
	err = send(e.socket, r, files...)
	if err == nil {
		err = e.answer(&a)
	}
	if err != nil {
		return answer{}, e.ended(err)
	}
	if a.Error != "" {
		err = errors.New(clip(a.Error))
		if a.TooMuch {
			err = hinterr.Errorf(ErrTooMuch, "%w", err)
		}
	}
	return a, err
}

// answer waits for an answer until the time is up.
func (e *Examiner) answer(v any) error {
	left := time.Until(e.Until)
	if left <= 0 {
		return ErrTime
	}
	tv := unix.NsecToTimeval(max(left, time.Millisecond).Nanoseconds())
	if err := unix.SetsockoptTimeval(e.socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		return err
	}
	_, err := receive(e.socket, e.buf, v, 0)
	if errors.Is(err, unix.EAGAIN) {
		return ErrTime
	}
	return err
}

// ended says why the process gave no answer, and makes sure that it has ended.
func (e *Examiner) ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		// Its own exit, if it has ended by itself: not the SIGKILL of stop.
		state, werr := e.process.Wait()
		e.process = nil
		if werr == nil {
			err = fmt.Errorf("the confined process ended: %v", state)
		}
	}
	e.Close()
	return err
}

// start starts the process, unless it has been started.
func (e *Examiner) start() {
	if e.process != nil || e.refused != nil {
		return
	}
	if err := e.confined(); err != nil {
		e.Close()
		e.refused = fmt.Errorf("no confined process to examine it: %w", err)
	}
}

// confined starts the process and waits until it is confined.
func (e *Examiner) confined() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	e.socket = pair[0]
	e.buf = make([]byte, maxMessage)
	other := os.NewFile(uintptr(pair[1]), "socket")
	defer other.Close() // twice is harmless
	// Go would keep a descriptor of its control group open to watch the number of processors.
	attr := &os.ProcAttr{Env: []string{"GODEBUG=containermaxprocs=0", "GOMAXPROCS=1"}, Files: []*os.File{other, nil, nil}}
	e.process, err = os.StartProcess("/proc/self/exe", []string{Name}, attr)
	other.Close() // otherwise its end would not be noticed
	if err != nil {
		e.process = nil
		return err
	}
	if err := send(e.socket, bounds{Memory: e.Memory, Time: time.Until(e.Until), Fixes: e.Fixes}); err != nil {
		return err
	}
	var h hello
	if err := e.answer(&h); err != nil {
		return e.ended(err)
	}
	if h.Error != "" {
		return errors.New(clip(h.Error))
	}
	e.Holds = h.Holds
	return nil
}

// Close ends the process, if there is one.
func (e *Examiner) Close() {
	if e.buf != nil {
		unix.Close(e.socket)
		e.buf = nil
	}
	if e.process != nil {
		_ = e.process.Kill()
		_, _ = e.process.Wait()
		e.process = nil
	}
}
