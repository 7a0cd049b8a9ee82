// Sources that can be read only once, stdin and named pipes. They are copied to a temporary file and read from
// there.

package sources

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/term"

	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// isStdin reports whether a name means stdin. A path to a file is opened again; for a pipe or a socket only the
// descriptor is certain to be readable.
func isStdin(name string) bool {
	return name == media.Stdin || name == "/dev/stdin" || name == "/dev/fd/0" || name == "/proc/self/fd/0"
}

// isStream reports whether a ref names a file that can be read only once.
func isStream(ref media.Ref) bool {
	switch ref.Transport {
	case media.Plain, media.DockerArchive, media.OCIArchive, media.SIF:
	default:
		return false
	}
	if ref.Name == media.Stdin {
		return true
	}
	fi, err := os.Stat(ref.Name)
	if err != nil {
		return false
	}
	m := fi.Mode()
	return m&fs.ModeNamedPipe != 0 || isStdin(ref.Name) && !m.IsRegular()
}

// ReadOnce reports whether a SOURCE is a stream, which can be read only once.
func ReadOnce(source string) bool {
	ref, err := media.ParseRef(source)
	return err == nil && (isStream(ref) || isStdin(ref.Name) || strings.HasPrefix(ref.Name, "/dev/fd/") || strings.HasPrefix(ref.Name, "/proc/self/fd/"))
}

func openStream(ctx context.Context, ref media.Ref, o media.Options) (src *media.Source, err error) {
	dir, remove, err := atomicfile.TempDir()
	if err != nil {
		return nil, err
	}
	at := ref
	at.Name = filepath.Join(dir, streamBase(ref.Name))
	if err = keepStream(ctx, ref.Name, at.Name, o); err == nil {
		if src, err = openRef(ctx, at, o); err != nil {
			err = aboutStream(err, at.Name, ref.Name)
		}
	}
	if err != nil {
		remove()
		return nil, fmt.Errorf("%s: %w", streamName(ref.Name), err)
	}
	src.Ref.Name = ref.Name
	for _, l := range src.Levels {
		l.Ref.Name = ref.Name
	}
	src.AtEnd(func() error { remove(); return nil })
	return src, nil
}

// copyError is an error about the copy of a stream, with the stream's name.
type copyError struct {
	error
	file, name string
}

func (e copyError) Error() string {
	return strings.ReplaceAll(e.error.Error(), e.file, streamName(e.name))
}
func (e copyError) Unwrap() error { return e.error }

// aboutStream puts the name of the stream into an error about its copy, and into the hint.
func aboutStream(err error, file, name string) error {
	hint := strings.ReplaceAll(hinterr.HintOf(err), file, name)
	if errors.Is(err, media.ErrSeveral) && name == media.Stdin {
		hint += fmt.Sprintf("; of stdin as %s:-:TAG or %s:-:TAG", media.DockerArchive, media.OCIArchive)
	}
	err = copyError{err, file, name}
	if hint == "" {
		return err
	}
	return hinterr.With(err, "%s", hint)
}

func streamName(name string) string {
	if name == media.Stdin {
		return "stdin"
	}
	return name
}

// keepStream copies a stream to a file. It waits for the stream's writer until ctx ends.
func keepStream(ctx context.Context, name, file string, o media.Options) error {
	temp, err := os.Create(file)
	if err != nil {
		return err
	}
	w := &blob.HoleWriter{W: temp, Room: blob.NewRoom(blob.Temp.Limit())}
	task := o.Progress.Start("read", streamName(name), -1)
	done := make(chan error, 1)
	go func() {
		err := copyStream(ctx, w, name, task)
		done <- errors.Join(err, temp.Truncate(w.N))
	}()
	select {
	case err = <-done:
		if task.Done(); err == nil && w.N == 0 {
			err = hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "empty: nothing was written to it"),
				"pipe an image into vfix: docker save IMAGE | vfix scan -; stdin can be read once")
		}
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return errors.Join(err, temp.Close())
}

// streamBase returns the name of the file for a stream's content.
func streamBase(name string) string {
	if isStdin(name) {
		return "stdin"
	}
	return name[strings.LastIndexByte(name, '/')+1:]
}

func copyStream(ctx context.Context, w *blob.HoleWriter, name string, task progress.Task) error {
	f := os.Stdin
	if !isStdin(name) {
		var err error
		if f, err = os.Open(name); err != nil {
			return err
		}
		defer f.Close()
	}
	if term.IsTerminal(int(f.Fd())) {
		return hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "a terminal, not a file or a pipe"), "pipe an image into vfix: docker save IMAGE | vfix scan -")
	}
	return w.Copy(blob.Reading{Ctx: ctx, Reader: f, T: task})
}
