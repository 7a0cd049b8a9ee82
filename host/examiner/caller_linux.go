// The caller's side.

package examiner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"vfix.dev/vfix/internal/filecopy"
	"vfix.dev/vfix/rewriter/find"
)

// Examiner examines files, each in a confined process of its own.
type Examiner struct {
	Until time.Time  // when a file must be done
	Fixes []find.Fix // made beside the patches of call sites
	Dir   string     // for private copies of files
}

var (
	// ErrTime: the time was up.
	ErrTime = errors.New("time is up")
	// ErrRefused: no confined process can be started.
	ErrRefused = errors.New("no confined process")
)

// Examine examines the first size bytes of a file.
func (e *Examiner) Examine(file io.ReaderAt, size int64) (Finding, error) {
	private, err := e.copy(file, size)
	if err != nil {
		return Finding{}, err
	}
	defer private.Close()
	a, err := e.ask(private)
	switch {
	case err != nil:
		return Finding{}, err
	case a.Refused:
		return Finding{}, fmt.Errorf("%w: %s", ErrRefused, clip(a.Error))
	case a.Error != "":
		return Finding{}, errors.New(clip(a.Error))
	case len(a.Edits) > maxEdits:
		return Finding{}, fmt.Errorf("an answer with %d edits", len(a.Edits))
	case a.Fix != "" && !slices.Contains(e.Fixes, a.Fix):
		return Finding{}, fmt.Errorf("an answer with the fix %.20q", a.Fix)
	}
	a.Left = clip(a.Left)
	return a.Finding, nil
}

// copy makes a private copy without a name, which nobody else can change.
func (e *Examiner) copy(file io.ReaderAt, size int64) (*os.File, error) {
	private, err := os.CreateTemp(e.Dir, ".examined-")
	if err != nil {
		return nil, err
	}
	n, err := filecopy.CopySparse(private, io.NewSectionReader(file, 0, size))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	if err = errors.Join(err, os.Remove(private.Name())); err != nil {
		private.Close()
	}
	return private, err
}

// ask starts the process for a file, and waits for its answer until the time is up.
func (e *Examiner) ask(file *os.File) (a answer, err error) {
	ctx, end := context.WithDeadline(context.Background(), e.Until)
	defer end()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args, cmd.Stdin = []string{Name}, file
	for _, fix := range e.Fixes {
		cmd.Args = append(cmd.Args, string(fix))
	}
	// Go would keep a descriptor of its control group open to watch the number of processors, and send signals to its
	// threads, which the process may not.
	cmd.Env = []string{"GODEBUG=containermaxprocs=0,asyncpreemptoff=1", "GOMAXPROCS=1"}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return a, ErrTime
	case err != nil:
		return a, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	err = json.NewDecoder(io.LimitReader(out, maxAnswer)).Decode(&a)
	if ctx.Err() != nil {
		err = ErrTime
	} else if !errors.Is(err, io.EOF) {
		end() // whatever it still does
	}
	_ = cmd.Wait()
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("the confined process ended: %v", cmd.ProcessState)
	}
	return a, err
}
