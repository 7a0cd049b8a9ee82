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
	"strings"

	"vfix.dev/vfix/internal/hinterr"
)

// The changes that vfix made to a machine are recorded in a directory of their own, with a copy of each file that
// it replaced, called by its hash.
const (
	stateDir    = "var/lib/vfix-install"
	stateFile   = stateDir + "/state.json"
	stateSchema = 1
)

type state struct {
	Schema int      `json:"schema"`
	Files  []record `json:"files"`
	Dirs   []string `json:"dirs"` // directories that vfix made, outermost first
}

// kind is how vfix's part of a file is found again after somebody else changed the file.
type kind string

const (
	program kind = "program" // all of it is vfix's, until somebody changes it
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

func (t *tree) loadState() *state {
	s := &state{Schema: stateSchema}
	data := t.read(stateFile).bytes()
	if data == nil {
		return s
	}
	if err := json.Unmarshal(data, s); err != nil {
		t.refuse(hinterr.ErrDamaged, "it records the changes of vfix; the original files are next to it, named by their sha256",
			"/%s: %v", stateFile, err)
		return s
	}
	if s.Schema != stateSchema {
		t.refuse(hinterr.ErrUnsupported, "another version of vfix wrote it: use that one", "/%s: schema %d, want %d", stateFile, s.Schema, stateSchema)
	}
	for _, r := range s.Files {
		if !fs.ValidPath(r.Path) || r.Before != "" && !isHash(r.Before) {
			t.refuse(hinterr.ErrDamaged, "", "/%s: file %q, hash %q", stateFile, r.Path, r.Before)
		}
	}
	for _, d := range s.Dirs {
		if !fs.ValidPath(d) {
			t.refuse(hinterr.ErrDamaged, "", "/%s: directory %q", stateFile, d)
		}
	}
	return s
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
func (s *state) engines() (all []Engine) {
	for _, e := range Engines {
		if slices.ContainsFunc(s.Files, func(r record) bool { return slices.Contains(r.Engines, e) }) {
			all = append(all, e)
		}
	}
	return all
}

// saveState writes the record, or removes it with its directory if there is nothing to record.
func (t *tree) saveState(s *state) {
	var next *content
	if len(s.Files) > 0 || len(s.Dirs) > 0 {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		t.failed(enc.Encode(s))
		next = fresh(b.Bytes(), 0o600)
	}
	if now := t.read(stateFile); next == nil || hashOf(now) != hashOf(next) {
		t.write(stateFile, next)
	}
}

// backup keeps a copy of what a file holds.
func (t *tree) backup(c *content) {
	if c == nil || c.link != "" {
		return
	}
	name := path.Join(stateDir, hashOf(c))
	if old, err := t.load(name); err != nil || hashOf(old) != hashOf(c) {
		t.write(name, fresh(c.data, 0o600))
	}
}

// before returns the content before vfix wrote the file, nil if there was none.
func (t *tree) before(r *record) *content {
	switch {
	case r.Before == "":
		return nil
	case r.Link != "":
		return &content{link: r.Link}
	}
	name := path.Join(stateDir, r.Before)
	c := t.read(name)
	if hashOf(c) != r.Before {
		t.refuse(hinterr.ErrDamaged, fmt.Sprintf("remove vfix's part from /%s by hand, then remove /%s", r.Path, stateDir),
			"/%s: the copy of the original /%s is missing or damaged", name, r.Path)
		return nil
	}
	c.meta = r.Meta
	return c
}

// tidy removes the copies that no record names, and the directory with the last of them.
func (t *tree) tidy(s *state) {
	for _, name := range t.names(stateDir) {
		used := slices.ContainsFunc(s.Files, func(r record) bool { return r.Before == name })
		if isHash(name) && !used || strings.HasPrefix(name, tempPrefix) {
			t.write(path.Join(stateDir, name), nil)
		}
	}
	if len(s.Files) == 0 && len(s.Dirs) == 0 {
		t.removeDir(stateDir)
	}
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

// lockState creates the state directory and locks it for this process. The previous holder of the lock may
// remove the directory: then it is made again.
func (t *tree) lockState() (unlock func()) {
	for {
		made := t.missing(stateDir)
		t.makeDirs(append(made, stateDir))
		t.made = append(t.made, made...)
		d, err := t.root.Open(stateDir)
		if t.failed(unlessGone(err)) {
			return func() {}
		}
		if err != nil {
			continue
		}
		switch err := lock(d); {
		case errors.Is(err, ErrBusy):
			t.failed(hinterr.With(err, "wait for the other 'vfix install' or 'vfix uninstall' to end"))
		case err != nil:
			t.failed(fmt.Errorf("/%s: %w", stateDir, err))
		}
		mine, err := d.Stat()
		t.failed(err)
		now, err := t.root.Lstat(stateDir)
		if t.failed(unlessGone(err)) || err == nil && os.SameFile(mine, now) {
			return func() { d.Close() }
		}
		d.Close()
	}
}
