// Package ignore reads the file of findings that somebody decided to accept, and marks them. An entry has a reason and
// may have a date until which it holds. Only call sites that were examined can be accepted: what was not examined
// stays so.
package ignore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/patterns"
	"vfix.dev/vfix/rewriter/find"
)

// DefaultFile is read if it exists and no other is named.
const DefaultFile = ".vfixignore.yaml"

// maxFile is how large such a file may be, in bytes.
const maxFile = 1 << 20

// Rules are the entries of a file.
type Rules struct {
	Name    string // of the file
	entries []entry
}

// entry accepts the sites that all its patterns match; nil matches all.
type entry struct {
	line                 int
	path, digest, site   *regexp.Regexp
	reason               string
	expires              time.Time // the first moment at which it holds no longer; zero for never
	until                string    // the last day, as it was written
	matched, afterExpiry int
}

// written is an entry as it is in the file. In a pattern * is any text, and ? any character.
type written struct {
	Path    string `yaml:"path"`    // of a file in the source, without a leading slash
	Digest  string `yaml:"digest"`  // of the image's manifest
	Site    string `yaml:"site"`    // FUNCTION@VADDR, such as time@0x4012ab
	Reason  string `yaml:"reason"`  // required
	Expires string `yaml:"expires"` // YYYY-MM-DD, the last day
}

const day = "2006-01-02"

// Read reads a file.
func Read(name string) (*Rules, error) {
	raw, err := blob.ReadSmall(name, maxFile)
	if err != nil {
		return nil, err
	}
	r, err := parse(raw)
	if err != nil {
		return nil, hinterr.With(hinterr.Damaged("%s: %w", name, err), "see 'vfix help ignore-file' for the format")
	}
	r.Name = filepath.ToSlash(name)
	return r, nil
}

func parse(raw []byte) (*Rules, error) {
	var file struct {
		Ignore []yaml.Node `yaml:"ignore"`
	}
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && err != io.EOF {
		return nil, err
	}
	if err := d.Decode(new(yaml.Node)); err != io.EOF {
		return nil, errors.New("more than one document")
	}
	r := &Rules{}
	for i := range file.Ignore {
		e, err := entryOf(&file.Ignore[i])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", file.Ignore[i].Line, err)
		}
		r.entries = append(r.entries, e)
	}
	return r, nil
}

func entryOf(n *yaml.Node) (entry, error) {
	var w written
	e := entry{line: n.Line}
	raw, err := yaml.Marshal(n) // Node.Decode accepts unknown fields
	if err != nil {
		return e, err
	}
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	if err := d.Decode(&w); err != nil {
		return e, fmt.Errorf("not an entry with path, digest, site, reason and expires alone")
	}
	switch {
	case w.Reason == "":
		return e, errors.New("no reason: say why this is accepted")
	case w.Path == "" && w.Digest == "" && w.Site == "":
		return e, errors.New("no path, digest or site: an entry for everything is not allowed")
	}
	for _, p := range []struct {
		text string
		to   **regexp.Regexp
	}{{w.Path, &e.path}, {w.Digest, &e.digest}, {w.Site, &e.site}} {
		if p.text != "" {
			*p.to = patterns.Text(p.text)
		}
	}
	e.reason, e.until = w.Reason, w.Expires
	if w.Expires != "" {
		last, err := time.Parse(day, w.Expires)
		if err != nil {
			return e, fmt.Errorf("expires: %s: want a day such as 2027-01-31", strconv.Quote(w.Expires))
		}
		e.expires = last.AddDate(0, 0, 1)
	}
	return e, nil
}

func matches(p *regexp.Regexp, text string) bool { return p == nil || p.MatchString(text) }

// Apply marks the open call sites of findings that an entry accepts. Entries that have expired mark nothing, and
// get a warning if they would have.
func (r *Rules) Apply(f *contents.Findings, now time.Time) {
	for _, l := range f.All() {
		for i := range l.Files {
			r.applyTo(l, &l.Files[i], now)
		}
	}
	for i := range r.entries {
		if e := &r.entries[i]; e.afterExpiry > 0 {
			f.Warnings = append(f.Warnings, fmt.Sprintf("%s, line %d: expired after %s: call sites that count again: %d", r.Name, e.line, e.until, e.afterExpiry))
			e.afterExpiry = 0
		}
	}
}

func (r *Rules) applyTo(f *contents.Findings, file *contents.File, now time.Time) {
	for _, s := range file.Report.Sites {
		if s.Verdict != find.Unknown && !s.Verdict.Patchable() {
			continue
		}
		for i := range r.entries {
			e := &r.entries[i]
			if !matches(e.digest, f.Digest) || !matches(e.site, fmt.Sprintf("%s@%#x", s.Function, s.Vaddr)) || !e.matchesFile(file) {
				continue
			}
			if !e.expires.IsZero() && !now.Before(e.expires) {
				e.afterExpiry++
				continue
			}
			if file.Ignored == nil {
				file.Ignored = map[uint64]contents.Ignored{}
			}
			file.Ignored[s.Offset] = contents.Ignored{Reason: e.reason, Expires: e.until, By: fmt.Sprintf("%s, line %d", r.Name, e.line)}
			e.matched++
			break
		}
	}
}

// matchesFile reports whether all names of a file match: another name may be the one that is run.
func (e *entry) matchesFile(f *contents.File) bool {
	for _, name := range append([]string{f.Path}, f.Links...) {
		if !matches(e.path, name) {
			return false
		}
	}
	return true
}

// Unused gives the place of each entry that matched nothing so far.
func (r *Rules) Unused() (all []string) {
	for _, e := range r.entries {
		if e.matched == 0 {
			all = append(all, fmt.Sprintf("%s, line %d: matches no call site", r.Name, e.line))
		}
	}
	return all
}
