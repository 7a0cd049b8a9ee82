// Package ignore reads the file of findings that somebody decided to accept, and marks them. An entry has a reason and
// may have a date until which it holds. Only call sites that were examined can be accepted: unexamined files
// stay reported.
package ignore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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

// The members of a file, and of an entry. In a pattern * is any text, and ? any character.
var (
	ofFile  = []string{"ignore"}
	ofEntry = []string{
		"path",    // of a file in the source, without a leading slash
		"digest",  // of the image's manifest
		"site",    // FUNCTION@VADDR, such as time@0x4012ab
		"reason",  // required
		"expires", // YYYY-MM-DD, the last day
	}
)

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
	var doc yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(raw))
	if err := d.Decode(&doc); err != nil && err != io.EOF {
		return nil, err
	}
	if err := d.Decode(new(yaml.Node)); err != io.EOF {
		return nil, errors.New("more than one document")
	}
	r := &Rules{}
	for _, n := range doc.Content {
		file, err := members(n, ofFile)
		if err != nil {
			return nil, err
		}
		list := file["ignore"]
		if list == nil || list.Tag == null {
			continue
		}
		if list.Kind != yaml.SequenceNode {
			return nil, fmt.Errorf("line %d: \"ignore\": want a list of entries", list.Line)
		}
		for _, n := range list.Content {
			e, err := entryOf(n)
			if err != nil {
				return nil, err
			}
			r.entries = append(r.entries, e)
		}
	}
	return r, nil
}

// null is the tag of a missing value.
const null = "!!null"

// members are the values of a mapping that has no other members than known.
func members(n *yaml.Node, known []string) (map[string]*yaml.Node, error) {
	all := map[string]*yaml.Node{}
	if n.Kind != yaml.MappingNode && n.Tag != null {
		return nil, fmt.Errorf("line %d: want members, each one of: %s", n.Line, strings.Join(known, ", "))
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		switch {
		case !slices.Contains(known, name.Value):
			return nil, fmt.Errorf("line %d: %q: unknown, want one of: %s", name.Line, name.Value, strings.Join(known, ", "))
		case all[name.Value] != nil:
			return nil, fmt.Errorf("line %d: %q: given twice", name.Line, name.Value)
		}
		all[name.Value] = n.Content[i+1]
	}
	return all, nil
}

func entryOf(n *yaml.Node) (entry, error) {
	e := entry{line: n.Line}
	all, err := members(n, ofEntry)
	if err != nil {
		return e, err
	}
	text := map[string]string{}
	for name, value := range all {
		switch {
		case value.Kind != yaml.ScalarNode:
			return e, fmt.Errorf("line %d: %q: want text", value.Line, name)
		case value.Tag != null:
			text[name] = value.Value
		}
	}
	switch {
	case text["reason"] == "":
		return e, fmt.Errorf("line %d: no reason: say why this is accepted", n.Line)
	case text["path"] == "" && text["digest"] == "" && text["site"] == "":
		return e, fmt.Errorf("line %d: no path, digest or site: an entry for everything is not allowed", n.Line)
	}
	for name, to := range map[string]**regexp.Regexp{"path": &e.path, "digest": &e.digest, "site": &e.site} {
		if text[name] != "" {
			*to = patterns.Text(text[name])
		}
	}
	e.reason, e.until = text["reason"], text["expires"]
	if e.until != "" {
		last, err := time.Parse(day, e.until)
		if err != nil {
			return e, fmt.Errorf("line %d: expires: %q: want a day such as 2027-01-31", all["expires"].Line, e.until)
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
	return !slices.ContainsFunc(append([]string{f.Path}, f.Links...), func(name string) bool { return !matches(e.path, name) })
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
