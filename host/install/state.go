// The record of what vfix changed on a machine, and the copies of the files that it replaced.

package install

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"vfix.dev/vfix/internal/hinterr"
)

// The changes that vfix made to a machine are recorded in a folder of their own, with a copy of each file that
// it replaced, called by its hash.
const (
	stateDir    = "var/lib/vfix-install"
	stateFile   = stateDir + "/state.json"
	stateSchema = 1
)

// state is the content of stateFile.
type state struct {
	Schema int      `json:"schema"`
	Files  []record `json:"files"`
	Dirs   []string `json:"dirs"` // folders that vfix made, outermost first
}

// kind is how vfix's part of a file is found again after somebody else changed the file.
type kind string

const (
	program kind = "program" // all of it is vfix's, and a change makes it somebody else's
	member  kind = "json"    // members of JSON objects
	block   kind = "block"   // lines between two comments
)

// record is one file that vfix wrote, or was about to write.
type record struct {
	Path    string   `json:"path"`
	Engines []Engine `json:"engines"` // those that it is for
	Name    string   `json:"name"`    // of the runtime
	Kind    kind     `json:"kind"`
	Before  string   `json:"before,omitempty"` // hash of what was there; "" is nothing
	Link    string   `json:"link,omitempty"`   // where a symlink was there, its target
	Meta    meta     `json:"meta"`             // of what was there
	After   string   `json:"after"`            // hash of what vfix wrote
	Set     []value  `json:"set,omitempty"`    // for a member: what was set
}

func (t *tree) loadState() (*state, error) {
	s := &state{Schema: stateSchema}
	c, err := t.read(stateFile, maxConfig)
	if err != nil || c == nil {
		return s, err
	}
	if err := json.Unmarshal(c.data, s); err != nil {
		return nil, hinterr.With(hinterr.Errorf(hinterr.ErrDamaged, "/%s: %v", stateFile, err),
			"it records what vfix changed here; beside it are copies of the files as they were, named by their sha256")
	}
	if s.Schema != stateSchema {
		return nil, hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "/%s: schema %d, want %d", stateFile, s.Schema, stateSchema),
			"another version of vfix wrote it: use that one")
	}
	for _, r := range s.Files {
		if !fs.ValidPath(r.Path) || r.Before != "" && !isHash(r.Before) {
			return nil, hinterr.Errorf(hinterr.ErrDamaged, "/%s: file %q, hash %q", stateFile, r.Path, r.Before)
		}
	}
	for _, d := range s.Dirs {
		if !fs.ValidPath(d) {
			return nil, hinterr.Errorf(hinterr.ErrDamaged, "/%s: directory %q", stateFile, d)
		}
	}
	return s, nil
}

func isHash(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size
}

// find returns the record of a file, nil for none.
func (s *state) find(name string) *record {
	if i := slices.IndexFunc(s.Files, func(r record) bool { return r.Path == name }); i >= 0 {
		return &s.Files[i]
	}
	return nil
}

// engines lists those that something is installed for.
func (s *state) engines() []Engine {
	var all []Engine
	for _, e := range Engines {
		if slices.ContainsFunc(s.Files, func(r record) bool { return slices.Contains(r.Engines, e) }) {
			all = append(all, e)
		}
	}
	return all
}

// encode is what stateFile holds for s.
func (s *state) encode() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	err := enc.Encode(s)
	return b.Bytes(), err
}

// saveState writes the record, or removes it with its folder if there is nothing to record.
func (t *tree) saveState(s *state) error {
	if len(s.Files) == 0 && len(s.Dirs) == 0 {
		return t.write(stateFile, nil)
	}
	data, err := s.encode()
	if err != nil {
		return err
	}
	if now, err := t.read(stateFile, maxConfig); err == nil && now != nil && bytes.Equal(now.data, data) {
		return nil
	}
	uid, gid := owner()
	return t.write(stateFile, &content{data: data, meta: meta{Mode: 0o600, UID: uid, GID: gid}})
}

// backup keeps a copy of what a file holds.
func (t *tree) backup(c *content) error {
	if c == nil || c.link != "" {
		return nil
	}
	name := path.Join(stateDir, hashOf(c))
	if old, err := t.read(name, maxProgram); err == nil && old != nil && hashOf(old) == hashOf(c) {
		return nil
	}
	uid, gid := owner()
	return t.write(name, &content{data: c.data, meta: meta{Mode: 0o600, UID: uid, GID: gid}})
}

// before returns what was there before vfix wrote the file, nil for nothing.
func (t *tree) before(r *record) (*content, error) {
	switch {
	case r.Before == "":
		return nil, nil
	case r.Link != "":
		return &content{link: r.Link}, nil
	}
	name := path.Join(stateDir, r.Before)
	c, err := t.read(name, maxProgram)
	if err != nil {
		return nil, err
	}
	if c == nil || hashOf(c) != r.Before {
		return nil, hinterr.With(hinterr.Errorf(hinterr.ErrDamaged, "/%s: the copy of /%s as it was is missing or damaged", name, r.Path),
			"take vfix's part out of /%s by hand, then remove /%s", r.Path, stateDir)
	}
	c.meta = r.Meta
	return c, nil
}

// tidy removes the copies that no record names, and the folder with the last of them.
func (t *tree) tidy(s *state) error {
	entries, err := fs.ReadDir(t.root.FS(), stateDir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	for _, e := range entries {
		name := e.Name()
		used := slices.ContainsFunc(s.Files, func(r record) bool { return r.Before == name })
		if isHash(name) && !used || len(name) > len(tempPrefix) && name[:len(tempPrefix)] == tempPrefix {
			if err := t.write(path.Join(stateDir, name), nil); err != nil {
				return err
			}
		}
	}
	if len(s.Files) == 0 && len(s.Dirs) == 0 {
		t.removeDir(stateDir)
	}
	return nil
}

// hashOf identifies what a file holds; "" is nothing.
func hashOf(c *content) string {
	if c == nil {
		return ""
	}
	data := c.data
	if c.link != "" {
		data = []byte("symlink to " + c.link)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// lockState takes the state folder, which it makes, for this process. The folder may be
// removed by whoever had it before: then it is made again.
func (t *tree) lockState() (func(), error) {
	for {
		made, err := t.missing(stateDir)
		if err != nil {
			return nil, err
		}
		if err := t.makeDirs(append(made, stateDir), 0o755); err != nil {
			return nil, err
		}
		t.made = append(t.made, made...)
		d, err := t.root.Open(stateDir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := lock(d); err != nil {
			d.Close()
			if errors.Is(err, ErrBusy) {
				return nil, hinterr.With(err, "wait for the other 'vfix install' or 'vfix uninstall' to end")
			}
			return nil, fmt.Errorf("/%s: %w", stateDir, err)
		}
		mine, err := d.Stat()
		if err != nil {
			d.Close()
			return nil, err
		}
		now, err := t.root.Lstat(stateDir)
		if err == nil && os.SameFile(mine, now) {
			return func() { d.Close() }, nil
		}
		d.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}
