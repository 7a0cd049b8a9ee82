// Sources that can be read only once, stdin and named pipes: they are copied to a temporary file and read from there.

package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/term"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
)

// isStream reports whether a ref names a file that can be read only once.
func isStream(ref Ref) bool {
	if ref.Transport != Plain && ref.Transport != DockerArchive && ref.Transport != OCIArchive {
		return false
	}
	fi, err := os.Stat(ref.Name)
	return ref.Name == Stdin || err == nil && fi.Mode()&fs.ModeNamedPipe != 0
}

// ReadOnce reports whether a SOURCE is a stream, which can be read only once.
func ReadOnce(source string) bool {
	ref, err := ParseRef(source)
	return err == nil && isStream(ref)
}

// openStream copies a stream to a file and opens that. It waits for the stream's writer until ctx ends.
func openStream(ctx context.Context, ref Ref, o Options) (src *Source, err error) {
	f, err := os.CreateTemp("", "vfix-")
	if err != nil {
		return nil, err
	}
	at, title, open := ref, ref.Name, openFile
	at.Name = f.Name()
	if title == Stdin {
		title = "stdin"
	}
	if !ref.Guessed {
		open = transports[ref.Transport].open
	}
	stdin, copied := os.Stdin, make(chan error, 1)
	go func() { copied <- copyStream(ctx, f, stdin, ref.Name, title, o) }()
	select {
	case err = <-copied:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err == nil {
		src, err = open(ctx, at, o)
	}
	if err != nil {
		os.Remove(at.Name)
		if errors.Is(err, ErrSeveral) && ref.Name == Stdin {
			err = hinterr.With(err, "%s; of stdin as %s:-:TAG or %s:-:TAG", hinterr.HintOf(err), DockerArchive, OCIArchive)
		}
		return nil, fmt.Errorf("%s: %w", title, err)
	}
	src.Ref.Name = ref.Name
	src.AtEnd(func() error { return os.Remove(at.Name) })
	return src, nil
}

const pipeHint = "pipe an image into vfix: docker save IMAGE | vfix scan -"

// copyStream copies stdin or a named pipe to a file, and closes that.
func copyStream(ctx context.Context, out, in *os.File, name, title string, o Options) error {
	defer out.Close()
	if name != Stdin {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	if term.IsTerminal(int(in.Fd())) {
		return hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "a terminal, not a file or a pipe"), pipeHint)
	}
	task := o.Progress.Start("read", title, -1)
	defer task.Done()
	n, err := blob.CopyTo(ctx, out, in, task)
	if err == nil && n == 0 {
		err = hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "empty: nothing was written to it"), pipeHint+"; stdin can be read once")
	}
	return err
}
