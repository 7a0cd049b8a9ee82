// Sources that can be read only once: stdin and named pipes. They are kept in a temporary file and read from there.

package sources

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/term"

	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// isStdin are the names of stdin. A path is opened again if it is a file; of a pipe or a socket only the
// descriptor is sure to be readable.
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

// ReadOnce reports whether a SOURCE is a stream, which is gone when it has been read.
func ReadOnce(source string) bool {
	ref, err := media.ParseRef(source)
	return err == nil && (isStream(ref) || isStdin(ref.Name) || strings.HasPrefix(ref.Name, "/dev/fd/") || strings.HasPrefix(ref.Name, "/proc/self/fd/"))
}

func openStream(ctx context.Context, ref media.Ref, o media.Options) (*media.Source, error) {
	file, err := keepStream(ctx, ref.Name, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", streamName(ref.Name), err)
	}
	at := ref
	at.Name = file
	src, err := openRef(ctx, at, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", streamName(ref.Name), errors.Join(err, os.Remove(file)))
	}
	src.Ref.Name = ref.Name
	for _, l := range src.Levels {
		l.Ref.Name = ref.Name
	}
	closeFile := src.Close
	src.Close = func() error { return errors.Join(closeFile(), os.Remove(file)) }
	return src, nil
}

func streamName(name string) string {
	if name == media.Stdin {
		return "stdin"
	}
	return name
}

// keepStream copies a stream to a temporary file. It waits for the stream's writer no longer than ctx lasts.
func keepStream(ctx context.Context, name string, o media.Options) (file string, err error) {
	temp, err := os.CreateTemp("", atomicfile.TempPrefix+"*-"+streamBase(name))
	if err != nil {
		return "", err
	}
	type result struct {
		n   int64
		err error
	}
	done := make(chan result, 1)
	task := o.Progress.Start("read", streamName(name), -1)
	go func() {
		w := &blob.HoleWriter{W: temp, Room: blob.NewRoom(blob.Temp.Limit())}
		err := copyStream(ctx, w, name, task)
		done <- result{w.N, errors.Join(err, temp.Truncate(w.N))}
	}()
	var r result
	select {
	case r = <-done:
		task.Done()
	case <-ctx.Done():
		r.err = context.Cause(ctx)
	}
	if r.err == nil && r.n == 0 {
		r.err = hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "empty: nothing was written to it"),
			"pipe an image into vfix: docker save IMAGE | vfix scan -; stdin can be read once")
	}
	if r.err = errors.Join(r.err, temp.Close()); r.err != nil {
		return "", errors.Join(r.err, os.Remove(temp.Name()))
	}
	return temp.Name(), nil
}

// streamBase is how the file with a stream's content is called.
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
