// Examining the tar stream of a whole file system.

package contents

import (
	"context"
	"fmt"
	"io"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/progress"
)

// Exported examines a tar stream of a whole file system.
func (s *Session) Exported(ctx context.Context, stream io.Reader, title string) (_ *Scanned, err error) {
	task := progress.Start(s.Progress, "read", title, -1)
	defer task.Done()
	x := &examiner{S: s}
	defer x.Close()
	in := blob.Reading{Ctx: ctx, Reader: stream, T: task}
	idx := &layerIndex{Title: title}
	if idx.Entries, err = x.ReadEntries(ctx, in); err == nil {
		_, err = blob.CopyTo(ctx, io.Discard, in, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("its file system: %w", err)
	}
	t := NewTree()
	if err := t.Apply(idx, 0); err != nil {
		return nil, err
	}
	f, err := s.Findings(ctx, t)
	if err != nil {
		return nil, err
	}
	f.Source = title
	return f, nil
}
