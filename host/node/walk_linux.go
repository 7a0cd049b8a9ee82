// Names in a directory and below it, in pieces and within bounds: an image is hostile.

package node

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// bounds limit the work of one start: what is left of each.
type bounds struct {
	time           time.Duration
	until          time.Time
	entries, files int
	few            int // entries of a container's own, which hardly delay a look at its layers
	written        int64
}

var defaultBounds = bounds{time: maxTime, entries: maxEntries, files: maxFiles, few: 10000, written: maxWritten}

// extend leaves time for a few entries, whatever a look at the layers has taken.
func (b *bounds) extend() {
	b.entries = max(b.entries, b.few)
	if least := time.Now().Add(time.Second); b.until.Before(least) {
		b.until = least
	}
}

// errBound: one of the bounds is reached.
var errBound = errors.New("over a bound of vfix")

// entry counts a directory entry.
func (b *bounds) entry() error {
	b.entries--
	switch {
	case b.entries < 0:
		return fmt.Errorf("%w: too many files and directories", errBound)
	case time.Now().After(b.until):
		return fmt.Errorf("%w: more than %v", errBound, b.time)
	}
	return nil
}

// visitor gets one entry: its directory, its name there, and its name below the first directory.
type visitor func(dir int, base, name string, kind fs.FileMode) error

// walk visits everything below a directory: base in at, which is depth directories below the first one, and called name
// there.
func (b *bounds) walk(at int, base, name string, depth int, visit visitor) error {
	if depth > maxDepth {
		return fmt.Errorf("%w: /%s: more than %d directories inside one another", errBound, name, maxDepth)
	}
	fd, err := openAt(at, base, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil && depth == 0 {
		return fmt.Errorf("/%s: %w", name, err)
	}
	if err != nil {
		return unread(name, err)
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	for {
		const piece = 256 // entries
		entries, err := dir.ReadDir(piece)
		for _, e := range entries {
			if err := b.entry(); err != nil {
				return err
			}
			below := path.Join(name, e.Name())
			if err := visit(fd, e.Name(), below, e.Type()); err != nil {
				return err
			}
			if e.IsDir() {
				if err := b.walk(fd, e.Name(), below, depth+1, visit); err != nil {
					return err
				}
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("/%s: %w", name, err)
		}
	}
}

// unread is what an error of a file or directory means for a walk: nothing if it is gone, forbidden, or of another mount;
// such are left out. Others end the walk: what is there is not known.
func unread(name string, err error) error {
	for _, out := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV, unix.EACCES, unix.EPERM} {
		if errors.Is(err, out) {
			return nil
		}
	}
	return fmt.Errorf("/%s: %w", name, err)
}
