// The state file of a run over a list: one line of JSON for each image that was finished,
// on the disk before the next one is. A run that was killed has at most one line cut off,
// which the next run takes away.

package batch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

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
	Schema     int      `json:"schema"`
	Source     string   `json:"source"`
	Dest       string   `json:"dest,omitempty"`
	Status     Status   `json:"status"`
	BaseDigest string   `json:"base_digest,omitempty"`
	Options    string   `json:"options"`
	Reference  string   `json:"reference,omitempty"`
	Digest     string   `json:"digest,omitempty"`
	Files      int      `json:"files,omitempty"`
	Patched    int      `json:"patched,omitempty"`
	LeftOver   int      `json:"left_over,omitempty"`
	LayerSize  int64    `json:"layer_size,omitempty"`
	Warnings   []string `json:"warnings,omitempty"`
	Error      string   `json:"error,omitempty"`
}

const stateSchema = 1

// maxState is the largest state file, in bytes: a million lines and more.
const maxState = 1 << 30

// openState opens the file, or makes it, and keeps other runs out.
func openState(ctx context.Context, path string, p progress.Reporter) (s *state, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("state file %s: %w", path, err)
		}
	}()
	s = &state{last: map[stateKey]stateLine{}}
	if s.unlock, err = atomicfile.Lock(ctx, path, p); err != nil {
		return nil, err
	}
	if s.f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666); err != nil {
		s.unlock()
		return nil, err
	}
	if err = s.read(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *state) Close() {
	s.f.Close()
	s.unlock()
}

// read reads all lines and puts the file's end behind the last whole one.
func (s *state) read() error {
	fi, err := s.f.Stat()
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() || fi.Size() > maxState {
		return hinterr.Damaged("want a regular file of at most %d bytes", maxState)
	}
	data, err := io.ReadAll(s.f)
	if err != nil {
		return err
	}
	whole := bytes.LastIndexByte(data, '\n') + 1
	for n, line := range bytes.Split(data[:whole], []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		var l stateLine
		if err := json.Unmarshal(line, &l); err != nil || l.Schema != stateSchema {
			return hinterr.With(hinterr.Damaged("line %d is not one of a state file of this vfix", n+1), "name another file, or remove it")
		}
		s.last[stateKey{l.Source, l.Dest}] = l
	}
	if whole == 0 && len(data) > 0 && !bytes.HasPrefix(data, []byte(`{"schema":1,"source":`)[:min(len(data), 21)]) {
		return hinterr.With(hinterr.Damaged("not a state file"), "name another file: this one would be overwritten")
	}
	if err := s.f.Truncate(int64(whole)); err != nil {
		return err
	}
	_, err = s.f.Seek(int64(whole), io.SeekStart)
	return err
}

// done finds what an earlier run made of the same base in the same way. A failure is tried
// again, and so is what has no digest to compare.
func (s *state) done(o Outcome, options string) (Outcome, bool) {
	if s == nil {
		return o, false
	}
	l, ok := s.last[stateKey{o.Source, o.Dest}]
	if !ok || l.Status == StatusFailed || l.Options != options || o.BaseDigest == "" || l.BaseDigest != o.BaseDigest {
		return o, false
	}
	o.Status, o.Before = l.Status, true
	o.Reference, o.Digest, o.LayerSize = l.Reference, l.Digest, l.LayerSize
	o.Files, o.Patched, o.LeftOver, o.Warnings = l.Files, l.Patched, l.LeftOver, l.Warnings
	return o, true
}

// add writes one line, and returns when it is on the disk.
func (s *state) add(o Outcome, options string) error {
	l := stateLine{
		Schema: stateSchema, Source: o.Source, Dest: o.Dest, Status: o.Status, BaseDigest: o.BaseDigest, Options: options,
		Reference: o.Reference, Digest: o.Digest, Files: o.Files, Patched: o.Patched, LeftOver: o.LeftOver,
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
