// Lists of images: how they are read and split.

package batch

import (
	"bufio"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/outcome"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/utf8text"
)

// maxLine is the longest line of a list, in bytes: no name of an image or path is longer.
const maxLine = 64 << 10

// List is a list of images in a file, which each pass reads again: it needs only some bytes of
// memory a line. A line is SOURCE or SOURCE DEST, separated by spaces or tabs. Empty lines are
// ignored, and so is a comment, which begins with a # at the start of a line or after a space.
// A duplicate line counts once.
type List struct {
	o    ListOptions
	f    *os.File
	temp bool  // f is a copy
	size int64 // bytes, when it was opened: what is appended later is another list
	same *same

	all, part int // lines that count, and those of them that are in the part
}

// ListOptions say how to process a list.
type ListOptions struct {
	Template string         // makes the DEST of an image that the list has none for
	Part     Part           // of the list that is worked at
	First    *regexp.Regexp // lines whose SOURCE it matches come first; nil: no order
}

// OpenList opens a list and looks for errors in it. A source that cannot be read twice is copied to a
// temporary file.
func OpenList(name string, o ListOptions) (*List, error) {
	in := os.Stdin
	if name != "-" {
		var err error
		if in, err = os.Open(name); errors.Is(err, fs.ErrNotExist) {
			return nil, hinterr.With(err, "name a file with one image a line: see 'vfix help lists'")
		} else if err != nil {
			return nil, err
		}
	}
	l := &List{o: o, f: in}
	fi, err := in.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		l.f, err = copied(in)
		l.temp = true
		in.Close()
		if err == nil {
			fi, err = l.f.Stat()
		}
	}
	if err == nil {
		l.size = fi.Size()
		err = l.prepare()
	}
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return l, nil
}

// copied copies a stream to a temporary file.
func copied(in io.Reader) (*os.File, error) {
	f, err := blob.TempFile()
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(f, in)
	return f, err
}

func (l *List) Close() {
	if l.temp {
		blob.RemoveTemp(l.f)
		return
	}
	l.f.Close()
}

// Count is how many lines of the list are in the part.
func (l *List) Count() int { return l.part }

// All is how many lines the list has.
func (l *List) All() int { return l.all }

// Each calls f for the lines of the part, in the order of the list, until it errs.
func (l *List) Each(f func(outcome.Item) error) error {
	return l.every(func(i outcome.Item) error {
		if !l.o.Part.has(i) {
			return nil
		}
		return f(i)
	})
}

// inTurn is Each in the order of the work.
func (l *List) inTurn(f func(outcome.Item) error) error {
	if l.o.First == nil {
		return l.Each(f)
	}
	for _, first := range []bool{true, false} {
		err := l.Each(func(i outcome.Item) error {
			if l.o.First.MatchString(i.Source) != first {
				return nil
			}
			return f(i)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// every calls f for the lines that count, whatever part they are in.
func (l *List) every(f func(outcome.Item) error) error {
	return l.read(func(i outcome.Item) error {
		if l.same != nil && l.same.again[i.Line] {
			return nil
		}
		return f(i)
	})
}

// read calls f for each line that has a SOURCE, until it errs.
func (l *List) read(f func(outcome.Item) error) error {
	sc := bufio.NewScanner(utf8text.Reader(io.NewSectionReader(l.f, 0, l.size)))
	sc.Buffer(nil, maxLine)
	line := 0
	for sc.Scan() {
		line++
		i, err := parseLine(sc.Text())
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		if i.Source == "" {
			continue
		}
		i.Line = line
		if err := f(i); err != nil {
			return err
		}
	}
	if err := sc.Err(); err != nil {
		return fmt.Errorf("line %d: %w", line+1, err)
	}
	return nil
}

// parseLine splits a line; an empty one has no SOURCE.
func parseLine(text string) (outcome.Item, error) {
	var i outcome.Item
	words := strings.Fields(text)
	for n, w := range words {
		if strings.HasPrefix(w, "#") {
			words = words[:n]
			break
		}
	}
	switch len(words) {
	case 0:
		return i, nil
	case 1:
		i.Source = words[0]
	case 2:
		i.Source, i.Dest = words[0], words[1]
		if _, err := media.ParseRef(i.Dest); err != nil {
			return i, err
		}
	default:
		return i, hinterr.With(fmt.Errorf("%d words, want SOURCE or SOURCE DEST", len(words)),
			"a list cannot contain paths with spaces")
	}
	_, err := media.ParseRef(i.Source)
	return i, err
}

// Part is one of the parts of a list, the first being 0; the zero value is all of it.
type Part struct{ Index, Of int }

// has reports whether a line is in the part. A hash of the line decides, so that adding or
// removing a line moves no other one.
func (p Part) has(i outcome.Item) bool {
	if p.Of < 2 {
		return true
	}
	h := fnv.New64a()
	io.WriteString(h, i.Source+" "+i.Dest)
	return h.Sum64()%uint64(p.Of) == uint64(p.Index)
}
