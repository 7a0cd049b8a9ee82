// Lines of a list that mean the same, found without keeping the list in memory: a first pass
// keeps a hash of each line and DEST, a second one compares those whose hash occurs twice.

package batch

import (
	"bytes"
	"hash/maphash"
	"io"
	"slices"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/outcome"
)

// same is what is known of lines that mean the same.
type same struct {
	again map[int]bool         // lines that are there before
	clash map[int]outcome.Item // lines whose DEST an earlier line has, and that line
	seed  maphash.Seed
	dests []uint64 // hashes of what is written to, in order
}

// prepare checks the whole list and counts its lines.
func (l *List) prepare() error {
	s := &same{again: map[int]bool{}, clash: map[int]outcome.Item{}, seed: maphash.MakeSeed()}
	guess := lineCount(l.f, l.size)
	lines := make([]uint64, 0, guess)
	if l.o.Template != "" {
		s.dests = make([]uint64, 0, guess)
	}
	err := l.read(func(i outcome.Item) error {
		l.count(i, 1)
		lines = append(lines, s.line(i))
		if key := l.destOf(i); key != "" {
			s.dests = append(s.dests, maphash.String(s.seed, key))
		}
		return nil
	})
	if err != nil {
		return err
	}
	l.same = s
	return l.lookClosely(s, twice(lines), twice(s.dests))
}

func (l *List) count(i outcome.Item, n int) {
	l.all += n
	if l.o.Part.has(i) {
		l.part += n
	}
}

// lineCount guesses how many lines a file has, from its beginning; a few more are better than a
// few less.
func lineCount(f io.ReaderAt, size int64) int {
	head := make([]byte, min(size, readAhead))
	n, _ := f.ReadAt(head, 0)
	lines := int64(bytes.Count(head[:n], []byte("\n"))) + 1
	const spare = 16 // one in so many
	return int(lines*size/int64(max(n, 1))) * (spare + 1) / spare
}

func (s *same) line(i outcome.Item) uint64 {
	return maphash.Comparable(s.seed, [2]string{i.Source, i.Dest})
}

// twice finds the values that occur more than once; it sorts all.
func twice(all []uint64) map[uint64]bool {
	found := map[uint64]bool{}
	slices.Sort(all)
	for n := 1; n < len(all); n++ {
		if all[n] == all[n-1] {
			found[all[n]] = true
		}
	}
	return found
}

// lookClosely compares the lines and DESTs whose hash another one has.
func (l *List) lookClosely(s *same, lines, dests map[uint64]bool) error {
	if len(lines) == 0 && len(dests) == 0 {
		return nil
	}
	seen, first := map[[2]string]bool{}, map[string]outcome.Item{}
	return l.read(func(i outcome.Item) error {
		if lines[s.line(i)] {
			if seen[[2]string{i.Source, i.Dest}] {
				s.again[i.Line] = true
				l.count(i, -1)
				return nil
			}
			seen[[2]string{i.Source, i.Dest}] = true
		}
		key := l.destOf(i)
		if key == "" || !dests[maphash.String(s.seed, key)] {
			return nil
		}
		if other, ok := first[key]; ok {
			s.clash[i.Line] = other
		} else {
			first[key] = i
		}
		return nil
	})
}

// destOf is the destination of a line, the same for all ways to write it; "" if that is not known
// before the SOURCE is open, or is the SOURCE's own matter.
func (l *List) destOf(i outcome.Item) string {
	dest := i.Dest
	if dest == "" && l.o.Template != "" {
		if ref, err := media.ParseRef(i.Source); err == nil && (ref.Transport == media.Registry || ref.Transport == media.Daemon) {
			dest, _ = fillTemplate(l.o.Template, ref)
		}
	}
	key, err := destKey(dest)
	if err != nil {
		return ""
	}
	return key
}

// claims are the DESTs of lines that the list alone does not show, by hash: the line that goes there.
type claims map[uint64]int

// goesTo finds the other line that goes where i does; c are the claims so far, and get this one.
func (l *List) goesTo(key string, i outcome.Item, c claims) (other outcome.Item, taken bool, err error) {
	if other, taken := l.same.clash[i.Line]; taken {
		return other, true, nil
	}
	if l.destOf(i) == key {
		return outcome.Item{}, false, nil
	}
	hash := maphash.String(l.same.seed, key)
	line := c[hash]
	_, listed := slices.BinarySearch(l.same.dests, hash)
	if !listed && (line == 0 || line == i.Line) {
		c[hash] = i.Line
		return outcome.Item{}, false, nil
	}
	err = l.every(func(o outcome.Item) error {
		if o.Line != i.Line && !taken && (o.Line == line || listed && l.destOf(o) == key) {
			other, taken = o, true
		}
		return nil
	})
	return other, taken, err
}
