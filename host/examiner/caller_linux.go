// The caller's side.

package examiner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/filecopy"
	"vfix.dev/vfix/rewriter/find"
)

// Examiner examines files. The confined process is started with the first one, or before by Start.
type Examiner struct {
	Until time.Time  // when a file must be done
	Fixes []find.Fix // made beside the patches of call sites
	Dir   string     // for private copies of files

	process *os.Process
	socket  int
	ready   bool  // it is confined
	refused error // why no process can be started
}

var (
	// ErrTime: the time was up.
	ErrTime = errors.New("time is up")
	// ErrRefused: no confined process can be started.
	ErrRefused = errors.New("no confined process")
)

// Examine examines the first size bytes of a file.
func (e *Examiner) Examine(file io.ReaderAt, size int64) (Finding, error) {
	private, err := e.private(file, size)
	if err != nil {
		return Finding{}, err
	}
	defer private.Close()
	if err := e.confined(); err != nil {
		return Finding{}, err
	}
	var a answer
	if err = send(e.socket, request{size, e.Fixes}, int(private.Fd())); err == nil {
		a, err = e.answer()
	}
	if err == nil {
		err = a.check(size, e.Fixes)
	}
	switch {
	case err != nil:
		return Finding{}, e.ended(err)
	case a.Error != "":
		return Finding{}, errors.New(clip(a.Error))
	}
	return a.Finding, nil
}

// private returns a copy that nobody else can change: a file without a name, open for reading alone.
func (e *Examiner) private(file io.ReaderAt, size int64) (*os.File, error) {
	w, err := os.CreateTemp(e.Dir, ".examined-")
	if err != nil {
		return nil, err
	}
	defer w.Close()
	if err := os.Remove(w.Name()); err != nil {
		return nil, err
	}
	n, err := filecopy.CopySparse(w, io.NewSectionReader(file, 0, size))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", w.Fd()))
}

// answer waits for an answer until the time is up.
func (e *Examiner) answer() (a answer, err error) {
	tv := unix.NsecToTimeval(max(time.Until(e.Until), time.Millisecond).Nanoseconds())
	if err := unix.SetsockoptTimeval(e.socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		return a, err
	}
	_, err = receive(e.socket, &a)
	if errors.Is(err, unix.EAGAIN) {
		err = ErrTime
	}
	return a, err
}

// ended stops a process that gave no valid answer, and says why.
func (e *Examiner) ended(err error) error {
	if e.process != nil && (errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET)) {
		// Its own end, not the SIGKILL of Close.
		if state, werr := e.process.Wait(); werr == nil {
			err = fmt.Errorf("the confined process ended: %v", state)
		}
	}
	e.Close()
	return err
}

// Start starts the process, if it does not run: it gets ready while the caller does other things.
func (e *Examiner) Start() {
	if e.process != nil || e.refused != nil {
		return
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		e.refused = fmt.Errorf("%w: %w", ErrRefused, err)
		return
	}
	e.socket = pair[0]
	other := os.NewFile(uintptr(pair[1]), "socket")
	// Go would keep a descriptor of its control group open to watch the number of processors.
	attr := &os.ProcAttr{Env: []string{"GODEBUG=containermaxprocs=0", "GOMAXPROCS=1"}, Files: []*os.File{other, nil, nil}}
	e.process, err = os.StartProcess("/proc/self/exe", []string{Name}, attr)
	other.Close() // otherwise its end would not be noticed
	if err != nil {
		unix.Close(e.socket)
		e.process, e.refused = nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
}

// confined waits until the process is confined.
func (e *Examiner) confined() error {
	if e.Start(); e.ready || e.refused != nil {
		return e.refused
	}
	a, err := e.answer()
	if err == nil && a.Error != "" {
		err = errors.New(clip(a.Error))
	}
	if err != nil {
		e.refused = fmt.Errorf("%w: %w", ErrRefused, e.ended(err))
	}
	e.ready = err == nil
	return e.refused
}

// Close ends the process, if there is one.
func (e *Examiner) Close() {
	if e.process != nil {
		unix.Close(e.socket)
		_ = e.process.Kill()
		_, _ = e.process.Wait()
		e.process, e.ready = nil, false
	}
}
