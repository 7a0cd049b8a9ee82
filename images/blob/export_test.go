package blob

import (
	"bufio"
	"context"
	"io"
)

// For the tests of this package alone.

type (
	ChildReader = childReader
	LayerStream = layerStream
)

func StartChild(ctx context.Context, argv []string, r io.Reader) (*ChildReader, error) {
	source := &CountingReader{R: r}
	return startChild(ctx, argv, bufio.NewReaderSize(source, CopyBuffer), source, nil)
}
