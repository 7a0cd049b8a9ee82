// The state of a run over a list: one line of JSON for each image that was finished, on the disk
// before the next one is. A run that was killed has at most one line cut off, which the next run
// takes away. In a directory each part of the list has a file of its own, and reads all of them.

package batch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/jsonobject"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/internal/redact"
)

// state is an open state file. A nil one remembers nothing.
type state struct {
	f      *os.File
	unlock func()
	last   map[stateKey]stateLine
}

// stateKey is what makes an image of a list that image.
type stateKey struct{ source, dest string }

// stateLine is one line.
type stateLine struct {
	Schema     int       `json:"schema"`
	Source     string    `json:"source"`
	Dest       string    `json:"dest,omitempty"`
	Status     Status    `json:"status"`
	Time       time.Time `json:"time,omitzero"` // the later of two lines about an image counts
	BaseDigest string    `json:"base_digest,omitempty"`
	Options    string    `json:"options"`
	Stored     string    `json:"stored,omitempty"`
	Reference  string    `json:"reference,omitempty"`
	Digest     string    `json:"digest,omitempty"`
	Files      int       `json:"files,omitempty"`
	Patched    int       `json:"patched,omitempty"`
	LeftOver   int       `json:"left_over,omitempty"`
	LayerSize  int64     `json:"layer_size,omitempty"`
	Warnings   []string  `json:"warnings,omitempty"`
	Error      string    `json:"error,omitempty"`
}

const stateSchema = 1

// maxState is the largest state file, in bytes: a million lines and more.
const maxState = 1 << 30

// stateEnding is that of the state files in a directory.
const stateEnding = ".jsonl"

// openState opens the file, or makes it, and keeps other runs out. Where path is a directory, the
// file is the one of that part of the list, and what the other parts' files say is known, too.
func openState(ctx context.Context, path string, part Part, p progress.Reporter) (s *state, err error) {
	file := path
	var others []string
	if fi, err := os.Stat(path); err == nil && fi.IsDir() {
		file = filepath.Join(path, fmt.Sprintf("%d-of-%d%s", part.Index, max(part.Of, 1), stateEnding))
		if others, err = filepath.Glob(filepath.Join(path, "*"+stateEnding)); err != nil {
			return nil, fmt.Errorf("state directory %s: %w", path, err)
		}
	}
	s = &state{last: map[stateKey]stateLine{}}
	defer func() {
		if err != nil {
			err = fmt.Errorf("state file %s: %w", file, err)
		}
	}()
	if s.unlock, err = atomicfile.Lock(ctx, file, p); err != nil {
		return nil, err
	}
	if s.f, err = os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o666); err != nil {
		s.unlock()
		return nil, err
	}
	if err = s.readOwn(); err != nil {
		s.Close()
		return nil, err
	}
	for _, other := range others {
		if other == file {
			continue
		}
		if err := s.readOther(other); err != nil {
			s.Close()
			file = other
			return nil, err
		}
	}
	return s, nil
}

func (s *state) Close() {
	s.f.Close()
	s.unlock()
}

// readOwn reads all lines and puts the file's end behind the last whole one.
func (s *state) readOwn() error {
	whole, err := s.read(s.f)
	if err != nil {
		return err
	}
	if err := s.f.Truncate(whole); err != nil {
		return err
	}
	_, err = s.f.Seek(whole, io.SeekStart)
	return err
}

// readOther reads the file of another part, which may be written meanwhile.
func (s *state) readOther(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = s.read(f)
	return err
}

// read takes in all lines of a file that are whole, and says where the last of them ends.
func (s *state) read(f *os.File) (whole int64, err error) {
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !fi.Mode().IsRegular() || fi.Size() > maxState {
		return 0, hinterr.Damaged("want a regular file of at most %d bytes", maxState)
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return 0, err
	}
	end := bytes.LastIndexByte(data, '\n') + 1
	for n, line := range bytes.Split(data[:end], []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		var l stateLine
		if err := json.Unmarshal(line, &l); err != nil || l.Schema != stateSchema {
			return 0, hinterr.With(hinterr.Damaged("line %d is not one of a state file of this vfix", n+1), "name another file, or remove it")
		}
		key := stateKey{l.Source, l.Dest}
		if known, ok := s.last[key]; !ok || !l.Time.Before(known.Time) {
			s.last[key] = l
		}
	}
	if end == 0 && len(data) > 0 && !bytes.HasPrefix(data, []byte(`{"schema":1,"source":`)[:min(len(data), 21)]) {
		return 0, hinterr.With(hinterr.Damaged("not a state file"), "name another file: this one would be overwritten")
	}
	return int64(end), nil
}

// knows reports whether there is a line that done may go by.
func (s *state) knows(o Outcome, options string) bool {
	l, ok := s.last[stateKey{o.Source, o.Dest}]
	return ok && l.Status != StatusFailed && l.Options == options && l.BaseDigest != ""
}

// done finds what an earlier run made of the same base in the same way. A failure is tried
// again, and so is what has no digest to compare, and what went to a place that was not noted.
func (s *state) done(o Outcome, options string) (Outcome, bool) {
	if s == nil || !s.knows(o, options) {
		return o, false
	}
	l := s.last[stateKey{o.Source, o.Dest}]
	if l.BaseDigest != o.BaseDigest || l.Stored == "" && (l.Status == StatusDone || l.Dest != "") {
		return o, false
	}
	o.Status, o.Before, o.stored = l.Status, true, l.Stored
	o.Reference, o.Digest, o.LayerSize = l.Reference, l.Digest, l.LayerSize
	o.Files, o.Patched, o.LeftOver, o.Warnings = l.Files, l.Patched, l.LeftOver, l.Warnings
	return o, true
}

// add writes one line, and returns when it is on the disk.
func (s *state) add(o Outcome, options string) error {
	l := stateLine{
		Schema: stateSchema, Source: o.Source, Dest: o.Dest, Status: o.Status, Time: time.Now().UTC(),
		BaseDigest: o.BaseDigest, Options: options,
		Stored: o.stored, Reference: o.Reference, Digest: o.Digest, Files: o.Files, Patched: o.Patched, LeftOver: o.LeftOver,
		LayerSize: o.LayerSize, Warnings: o.Warnings,
	}
	if o.Err != nil {
		l.Error = redact.Redact(o.Err.Error())
	}
	raw, err := jsonobject.Encode(l)
	if err != nil {
		return err
	}
	if _, err := s.f.Write(append(raw, '\n')); err != nil {
		return err
	}
	return s.f.Sync()
}
