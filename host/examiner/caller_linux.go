// The caller's side.

package examiner

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
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

	process  *exec.Cmd
	private  *os.File // the copy of one file at a time, which the process has open for reading
	requests io.WriteCloser
	answers  *os.File
	lines    *bufio.Reader // of answers
	ready    bool          // it is confined
	refused  error         // why no process can be started
}

var (
	// ErrTime: the time was up.
	ErrTime = errors.New("time is up")
	// ErrRefused: no confined process can be started.
	ErrRefused = errors.New("no confined process")
)

// Examine examines the first size bytes of a file.
func (e *Examiner) Examine(file io.ReaderAt, size int64) (Finding, error) {
	if err := e.confined(); err != nil {
		return Finding{}, err
	}
	if err := e.copy(file, size); err != nil {
		return Finding{}, err
	}
	var a answer
	err := json.NewEncoder(e.requests).Encode(request{size, e.Fixes})
	if err == nil {
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

// copy makes the private copy, which nobody else can change.
func (e *Examiner) copy(file io.ReaderAt, size int64) error {
	if err := e.private.Truncate(0); err != nil {
		return err
	}
	n, err := filecopy.CopySparse(e.private, io.NewSectionReader(file, 0, size))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// answer waits for an answer until the time is up.
func (e *Examiner) answer() (a answer, err error) {
	if err := e.answers.SetReadDeadline(e.Until); err != nil {
		return a, err
	}
	line, err := e.lines.ReadSlice('\n')
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return a, ErrTime
	}
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(line, &a)
}

// ended stops a process that gave no valid answer, and says why.
func (e *Examiner) ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) {
		_ = e.process.Wait() // its own end, not the SIGKILL of Close
		err = fmt.Errorf("the confined process ended: %v", e.process.ProcessState)
	}
	e.Close()
	return err
}

// Start starts the process, if it does not run: it gets ready while the caller does other things.
func (e *Examiner) Start() {
	if e.process != nil || e.refused != nil {
		return
	}
	if err := e.start(); err != nil {
		e.refused = fmt.Errorf("%w: %w", ErrRefused, err)
	}
}

func (e *Examiner) start() (err error) {
	if e.private, err = os.CreateTemp(e.Dir, ".examined-"); err != nil {
		return err
	}
	readable, err := os.Open(e.private.Name())
	if err := errors.Join(err, os.Remove(e.private.Name())); err != nil {
		return err
	}
	defer readable.Close()
	answers, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer w.Close() // otherwise the end of the process would not be noticed
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{Name}, Stdout: w, ExtraFiles: []*os.File{readable}}
	// Go would keep a descriptor of its control group open to watch the number of processors, and send signals to its
	// threads, which the process may not.
	cmd.Env = []string{"GODEBUG=containermaxprocs=0,asyncpreemptoff=1", "GOMAXPROCS=1"}
	if e.requests, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	e.process, e.answers, e.lines = cmd, answers, bufio.NewReaderSize(answers, maxAnswer)
	return nil
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
		_ = e.process.Process.Kill()
		_ = e.process.Wait()
		e.answers.Close()
		e.private.Close()
		e.process, e.ready = nil, false
	}
}
