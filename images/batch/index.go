// Where the line about each image is in the state files: a hash of the image's name and a place,
// in the order of the hashes. A million lines are 16 MiB here and some hundred in the files.

package batch

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"

	"github.com/tidwall/gjson"

	"vfix.dev/vfix/internal/hinterr"
)

// place is where the line about an image is: the number of its file, and the offset there.
type place struct{ hash, at uint64 }

// offsetBits is the number of bits of the offset in place.at; the file's number is above them.
const offsetBits = 48

func (p place) file() int     { return int(p.at >> offsetBits) }
func (p place) offset() int64 { return int64(p.at & (1<<offsetBits - 1)) }

// readAhead is how much of a file is read at once, in bytes.
const readAhead = 256 << 10

// stateBegins is how each line of a state file begins.
var stateBegins = []byte(fmt.Sprintf(`{"schema":%d,`, stateSchema))

// index takes in the lines of a file that are whole, and says where the last of them ends.
func (s *state) index(r *io.SectionReader, file int) (whole int64, err error) {
	s.known = slices.Grow(s.known, lineCount(r, r.Size()))
	in := bufio.NewReaderSize(r, readAhead)
	var long []byte
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, line...)
			line, err = in.ReadSlice('\n')
		}
		if len(long) > 0 {
			line = append(long, line...)
			long = long[:0]
		}
		if err == io.EOF {
			if begin := min(len(line), len(stateBegins)); whole == 0 && !bytes.Equal(line[:begin], stateBegins[:begin]) {
				return 0, hinterr.With(hinterr.Damaged("not a state file"), "name another file: this one would be overwritten")
			}
			return whole, nil
		}
		if err != nil {
			return 0, err
		}
		if len(line) > 1 {
			if !bytes.HasPrefix(line, stateBegins) || !gjson.ValidBytes(line) {
				return 0, hinterr.With(hinterr.Damaged("line %d is not a line of a state file of this version", n), "name another file, or remove it")
			}
			s.known = append(s.known, place{s.hash(keyOf(line)), uint64(file)<<offsetBits | uint64(whole)})
		}
		whole += int64(len(line))
	}
}

func (s *state) hash(k stateKey) uint64 { return maphash.Comparable(s.seed, k) }

// keyOf reads the members that come before "status".
func keyOf(line []byte) (k stateKey) {
	gjson.ParseBytes(line).ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "source":
			k.source = value.Str
		case "dest":
			k.dest = value.Str
		case "verb":
			k.verb = value.Str
		}
		return key.Str != "status"
	})
	return k
}

// settle sorts the known places, and keeps for each image the last line in each file and the latest
// of those of several files.
func (s *state) settle() error {
	slices.SortFunc(s.known, func(a, b place) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.at, b.at)) })
	kept := s.known[:0]
	for _, p := range s.known {
		last := len(kept) - 1
		if last < 0 || kept[last].hash != p.hash {
			kept = append(kept, p)
			continue
		}
		if kept[last].file() != p.file() {
			earlier, err := s.earlier(p, kept[last])
			if err != nil {
				return err
			}
			if earlier {
				continue
			}
		}
		kept[last] = p
	}
	s.known = kept
	return nil
}

// earlier compares the times of two lines.
func (s *state) earlier(a, b place) (bool, error) {
	first, err := s.line(a)
	if err != nil {
		return false, err
	}
	at := gjson.GetBytes(first, "time").Time()
	second, err := s.line(b)
	return at.Before(gjson.GetBytes(second, "time").Time()), err
}

// at finds the line about an image.
func (s *state) at(k stateKey) (place, bool) {
	n, ok := slices.BinarySearchFunc(s.known, s.hash(k), func(p place, hash uint64) int { return cmp.Compare(p.hash, hash) })
	if !ok {
		return place{}, false
	}
	return s.known[n], true
}

// line reads a line, without its end.
func (s *state) line(p place) ([]byte, error) {
	const most = 1 << 40 // no line ends there: the file does
	in := bufio.NewReader(io.NewSectionReader(s.files[p.file()], p.offset(), most))
	line, err := in.ReadBytes('\n')
	return bytes.TrimSuffix(line, []byte("\n")), err
}

// inFileOrder sorts by the place in the file.
func inFileOrder(all []place) []place {
	slices.SortFunc(all, func(a, b place) int { return cmp.Compare(a.at, b.at) })
	return all
}
