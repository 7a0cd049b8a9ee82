// External decompressors: igzip takes half the time of Go's.

package blob

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"vfix.dev/vfix/internal/hinterr"
)

const (
	// childDelay is how long a killed decompressor's input may still be read.
	childDelay = 5 * time.Second
	// smallStream is the minimal length of a gzip stream, in bytes, for which an external decompressor is started:
	// shorter ones take less time than starting a process.
	smallStream = 64 << 10
)

// gunzipCommand returns the external decompressor to run, nil for none. The variables that disable one are
// containerd's, and the same with vfix's own prefix.
func gunzipCommand() []string {
	for _, c := range []struct{ name, disable string }{{"igzip", "DISABLE_IGZIP"}, {"unpigz", "DISABLE_PIGZ"}} {
		if os.Getenv("VFIX_"+c.disable) != "" || os.Getenv("CONTAINERD_"+c.disable) != "" {
			continue
		}
		if path, err := exec.LookPath(c.name); err == nil {
			return []string{path, "-d", "-c"}
		}
	}
	return nil
}

// childReader is the output of an external decompressor.
type childReader struct {
	ctx    context.Context
	cancel context.CancelFunc
	cmd    *exec.Cmd
	out    io.ReadCloser
	stderr headBuffer
	source *CountingReader
	file   *os.File // its standard input, nil if it is fed
	behind []byte   // a buffer for follow
	done   bool
	err    error // of the child, once done
}

// startChild starts a decompressor of file or, if that is nil, of what in reads of source.
func startChild(ctx context.Context, argv []string, in *bufio.Reader, source *CountingReader, file *os.File) (*childReader, error) {
	ctx, cancel := context.WithCancel(ctx)
	c := &childReader{ctx: ctx, cancel: cancel, source: source, file: file}
	c.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.cmd.Stdin = in
	if file != nil {
		c.cmd.Stdin, c.behind = file, make([]byte, CopyBuffer)
	}
	c.cmd.Stderr = &c.stderr
	c.cmd.WaitDelay = childDelay
	// In a process group of its own: a terminal sends ^C to the whole foreground group, and a decompressor that ^C ends
	// looks like a damaged blob. vfix ends its children itself.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := c.cmd.StdoutPipe()
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	c.out = out
	return c, nil
}

func (c *childReader) Read(p []byte) (int, error) {
	if c.done {
		return 0, c.err
	}
	n, err := c.out.Read(p)
	if err == nil {
		return n, c.follow()
	}
	c.done = true
	c.err = c.wait()
	return n, c.err
}

// follow reads as far as the child has: both share the file's offset, and the bytes are still in memory.
func (c *childReader) follow() error {
	if c.file == nil {
		return nil
	}
	at, err := c.file.Seek(0, io.SeekCurrent)
	for err == nil && c.source.N < at {
		_, err = c.source.Read(c.behind[:min(at-c.source.N, CopyBuffer)])
	}
	if err == io.EOF {
		err = nil
	}
	return err
}

// wait gives io.EOF for a child that ended well, and otherwise the first cause: exec.Cmd reports how reading ended
// only if the child itself ended well.
func (c *childReader) wait() error {
	err := c.cmd.Wait()
	switch {
	case c.ctx.Err() != nil:
		return context.Cause(c.ctx)
	case c.source.Err != nil:
		return c.source.Err
	case err == nil:
		return io.EOF
	}
	if exit, is := errors.AsType[*exec.ExitError](err); is && exit.Exited() { // a signal says nothing about the input
		if text := strings.TrimSpace(string(c.stderr.b)); text != "" {
			return hinterr.Damaged("%s: %s", c.cmd.Path, strings.ReplaceAll(text, "\n", "; "))
		}
	}
	return fmt.Errorf("%s: %w", c.cmd.Path, err)
}

func (c *childReader) Close() error {
	c.cancel()
	if !c.done {
		c.done, c.err = true, errClosed
		c.cmd.Wait()
	}
	return nil
}

var errClosed = errors.New("read of a closed stream")

// headBuffer keeps the first bytes written to it, enough for an error message.
type headBuffer struct{ b []byte }

func (t *headBuffer) Write(p []byte) (int, error) {
	const limit = 512
	t.b = append(t.b, p[:min(len(p), limit-len(t.b))]...)
	return len(p), nil
}
