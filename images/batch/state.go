// The state of a run over a list: one line of JSON for each image that was finished, on the disk
// before the next one is. A run that was killed has at most one line cut off, which the next run
// takes away. In a directory each part of the list has a file of its own, and a run reads all of them.
//
// A hash and the place of each line are kept in memory, sixteen bytes (index.go); the rest stays in
// the file. Lines that a later line about the same image replaces are removed when a run begins.

package batch

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/tidwall/gjson"

	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/images/outcome"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/jsonobject"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/internal/redact"
)

// state is an open state file.
type state struct {
	path   string
	files  []*os.File // this run's own, and those of other parts
	end    int64      // of the last whole line in this run's own
	unlock func()
	seed   maphash.Seed
	known  []place // in the order of hashes
}

// stateLine is one line. The part before the image's status is found without reading all of it.
type stateLine struct {
	Schema  int       `json:"schema"`
	Verb    string    `json:"verb,omitempty"` // "" for rebuild
	Time    time.Time `json:"time"`           // the later of two lines about an image counts
	Options string    `json:"options"`
	Stored  string    `json:"stored,omitempty"`
	Unread  int       `json:"unread,omitempty"`
	outcome.Image
}

const stateSchema = 1

// stateKey identifies an image of a list.
type stateKey struct{ verb, source, dest string }

// stateEnding is the extension of the state files in a directory.
const stateEnding = ".jsonl"

// openState opens the file, or makes it, and keeps other runs out. Where path is a directory, the
// file is the one of that part of the list, and the contents of the other parts' files are also known.
func openState(ctx context.Context, path string, part Part, p progress.Reporter) (s *state, err error) {
	s = newState(path)
	var others []string
	if fi, err := os.Stat(path); err == nil && fi.IsDir() {
		s.path = filepath.Join(path, fmt.Sprintf("%d-of-%d%s", part.Index, max(part.Of, 1), stateEnding))
		if others, err = filepath.Glob(filepath.Join(path, "*"+stateEnding)); err != nil {
			return nil, fmt.Errorf("state directory %s: %w", path, err)
		}
	}
	file := s.path
	defer func() {
		if err != nil {
			s.Close()
			s, err = nil, fmt.Errorf("state file %s: %w", file, err)
		}
	}()
	if s.unlock, err = atomicfile.Lock(ctx, file, p); err != nil {
		s.unlock = func() {}
		return s, err
	}
	if err = s.openOwn(); err != nil {
		return s, err
	}
	for _, other := range others {
		if other == s.path {
			continue
		}
		if file = other; ctx.Err() != nil {
			return s, context.Cause(ctx)
		}
		if err := s.read(other); err != nil {
			return s, err
		}
	}
	file = s.path
	return s, s.settle()
}

func newState(path string) *state {
	return &state{path: path, seed: maphash.MakeSeed(), unlock: func() {}}
}

// read takes in a file that somebody else may write meanwhile.
func (s *state) read(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	s.files = append(s.files, f)
	_, err = s.load(len(s.files) - 1)
	return err
}

func (s *state) Close() {
	for _, f := range s.files {
		f.Close()
	}
	s.unlock()
}

// openOwn opens this run's own file, removes lines that later ones replace, and truncates it
// after the last whole line.
func (s *state) openOwn() error {
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	s.files = []*os.File{f}
	whole, err := s.load(0)
	if err != nil {
		return err
	}
	if err := f.Truncate(whole); err != nil {
		return err
	}
	lines := len(s.known)
	if err := s.settle(); err != nil {
		return err
	}
	if whole >= minCompacted && lines-len(s.known) > lines/replacedShare {
		return s.compact()
	}
	s.end = whole
	return nil
}

// A file is rewritten from minCompacted bytes on, if more than one in replacedShare of its lines
// is replaced by a later one.
const (
	minCompacted  = 64 << 10
	replacedShare = 4
)

// compact rewrites the file with one line for each image.
func (s *state) compact() error {
	f, err := atomicfile.CreateNamed(s.path, atomicfile.HeldName)
	if err != nil {
		return err
	}
	defer f.Discard()
	w := bufio.NewWriterSize(f, readAhead)
	for _, p := range inFileOrder(s.known) {
		line, err := s.line(p)
		if err != nil {
			return err
		}
		w.Write(line)
		w.WriteByte('\n')
	}
	if err := w.Flush(); err != nil {
		return err
	}
	s.files[0].Close() // first: Windows replaces nothing that is open
	if err := f.Commit(); err != nil {
		return err
	}
	s.files, s.known = nil, s.known[:0]
	return s.openOwn()
}

// load takes in the lines of a file that are whole, and says where the last of them ends.
func (s *state) load(file int) (whole int64, err error) {
	f := s.files[file]
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !fi.Mode().IsRegular() {
		return 0, hinterr.Damaged("want a regular file")
	}
	return s.index(io.NewSectionReader(f, 0, fi.Size()), file)
}

// find gives the line about an image that was not a failure, was examined whole, and was made with these options.
func (s *state) find(k stateKey, options string) (l stateLine, ok bool, err error) {
	p, ok := s.at(k)
	if !ok {
		return l, false, nil
	}
	line, err := s.line(p)
	if err != nil {
		return l, false, fmt.Errorf("state file %s: %w", s.path, err)
	}
	if err := json.Unmarshal(line, &l); err != nil {
		return l, false, fmt.Errorf("state file %s: %w", s.path, err)
	}
	return l, l.Verb == k.verb && l.Source == k.source && l.Dest == k.dest && l.Status != outcome.Failed && l.Status != outcome.Incomplete && l.Options == options && l.BaseDigest != "", nil
}

// add writes one line, and returns when it is on the disk.
func (s *state) add(o outcome.Image, verb, options string) error {
	l := stateLine{Schema: stateSchema, Verb: verb, Time: time.Now().UTC(), Options: options, Stored: o.Stored, Unread: o.Unread, Image: o}
	l.Error, l.Hint = "", ""
	if o.Err != nil {
		l.Error = redact.Redact(o.Err.Error())
		if p, ok := s.at(stateKey{verb, o.Source, o.Dest}); ok { // what an earlier run wrote is still there
			line, err := s.line(p)
			if err != nil {
				return err
			}
			l.Stored = gjson.GetBytes(line, "stored").Str
		}
	}
	raw, err := jsonobject.Encode(l)
	if err != nil {
		return err
	}
	// A line that a full disk cut off has no end, and the next line takes its place: images that were under way
	// then may still be finished.
	f, raw := s.files[0], append(raw, '\n')
	if _, err := f.WriteAt(raw, s.end); err != nil {
		return err
	}
	s.end += int64(len(raw))
	return f.Sync()
}
