package blob

import (
	"bufio"
	"context"
	"io"
	"os/exec"
)

// ChildReader is an external decompressor.
type ChildReader = childReader

// StartChild starts one that reads r.
func StartChild(ctx context.Context, argv []string, r io.Reader) (*ChildReader, error) {
	source := &CountingReader{R: r}
	return startChild(ctx, argv, bufio.NewReaderSize(source, CopyBuffer), source, nil)
}

// Cmd is its process.
func (c *childReader) Cmd() *exec.Cmd { return c.cmd }
