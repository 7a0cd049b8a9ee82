// Setting and removing members of a JSON file without changing anything else in it, not even order or spaces.

package install

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"vfix.dev/vfix/internal/hinterr"
)

// value is one member that vfix sets: the names that lead to it and what it is.
type value struct {
	Path  []string        `json:"path"`
	Value json.RawMessage `json:"value"`
}

type document struct {
	file string
	tree hujson.Value
	unit string // of indentation
	eol  string
}

var byteOrderMarks = [][]byte{{0xef, 0xbb, 0xbf}, {0xff, 0xfe}, {0xfe, 0xff}}

// parseMembers parses a JSON file whose value is an object. Comments, and everything else that is not in RFC
// 8259, are refused: the engine would also refuse them.
func parseMembers(file string, data []byte) (*document, error) {
	for _, mark := range byteOrderMarks {
		if bytes.HasPrefix(data, mark) {
			return nil, hinterr.With(hinterr.Errorf(hinterr.ErrDamaged, "%s: begins with a byte order mark", file),
				"save it as UTF-8 without one")
		}
	}
	d := &document{file: file, unit: "  ", eol: "\n"}
	if bytes.Contains(data, []byte("\r\n")) {
		d.eol = "\r\n"
	}
	if len(bytes.TrimSpace(data)) == 0 {
		d.tree.Value = &hujson.Object{}
		d.tree.AfterExtra = []byte(d.eol)
		return d, nil
	}
	tree, err := hujson.Parse(data)
	if err != nil {
		return nil, hinterr.With(hinterr.Errorf(hinterr.ErrDamaged, "%s: %s", file, strings.TrimPrefix(err.Error(), "hujson: ")), "correct it, or move it away")
	}
	if !tree.IsStandard() {
		return nil, hinterr.With(hinterr.Errorf(hinterr.ErrDamaged, "%s: has comments or trailing commas, which JSON does not allow", file),
			"remove them: the engine that reads the file rejects them")
	}
	top, ok := tree.Value.(*hujson.Object)
	if !ok {
		return nil, hinterr.With(hinterr.Errorf(hinterr.ErrDamaged, "%s: not a JSON object", file), "correct it, or move it away")
	}
	d.tree = tree
	if len(top.Members) > 0 {
		before := string(top.Members[0].Name.BeforeExtra)
		if i := strings.LastIndexByte(before, '\n'); i >= 0 {
			d.unit = before[i+1:]
		}
	}
	return d, d.unique(top)
}

// unique refuses an object that has a name twice: engines differ in which of them counts.
func (d *document) unique(o *hujson.Object) error {
	seen := map[string]bool{}
	for _, m := range o.Members {
		name := nameOf(m)
		if seen[name] {
			return hinterr.With(hinterr.Errorf(hinterr.ErrDamaged, "%s: has %q twice", d.file, name), "remove one of them")
		}
		seen[name] = true
		if inner, ok := m.Value.Value.(*hujson.Object); ok {
			if err := d.unique(inner); err != nil {
				return err
			}
		}
	}
	return nil
}

// get returns the value that names lead to, nil for none.
func (d *document) get(names []string) *hujson.Value { return find(&d.tree, names...) }

// find returns the value below another one that names lead to, nil for none.
func find(v *hujson.Value, names ...string) *hujson.Value {
	pointer := "" // RFC 6901
	for _, name := range names {
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	}
	return v.Find(pointer)
}

// set sets a value to v; the objects on the way are made if they are missing.
func (d *document) set(v value) error {
	at, inline := &d.tree, false
	for depth, name := range v.Path {
		o, ok := at.Value.(*hujson.Object)
		if !ok {
			return hinterr.With(hinterr.Errorf(ErrConflict, "%s: %q is not an object", d.file, strings.Join(v.Path[:depth], ".")),
				"correct it, or move it away")
		}
		inline = inline || len(o.Members) > 0 && !bytes.Contains(o.Members[0].Name.BeforeExtra, []byte("\n")) // members on one line
		if at = find(at, name); at == nil {
			at = d.add(o, depth+1, name, inline)
		}
	}
	want, err := hujson.Parse(v.Value)
	if err == nil && plain(at) != plain(&want) {
		at.Value = d.layOut(want, len(v.Path), inline).Value
	}
	return err
}

// add appends a member with an empty object as its value, and returns that.
func (d *document) add(o *hujson.Object, depth int, name string, inline bool) *hujson.Value {
	m := hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(name)}, Value: hujson.Value{BeforeExtra: []byte(" "), Value: &hujson.Object{}}}
	switch {
	case len(o.Members) > 1:
		m.Name.BeforeExtra = slices.Clone(o.Members[1].Name.BeforeExtra)
	case inline && len(o.Members) == 0:
		o.AfterExtra = nil
	case inline:
		m.Name.BeforeExtra = []byte(" ")
	default:
		m.Name.BeforeExtra = d.line(depth)
		if len(o.Members) == 0 {
			o.AfterExtra = d.line(depth - 1)
		}
	}
	o.Members = append(o.Members, m)
	return &o.Members[len(o.Members)-1].Value
}

// line begins a line at a depth.
func (d *document) line(depth int) hujson.Extra {
	return []byte(d.eol + strings.Repeat(d.unit, depth))
}

// layOut indents a value as the rest of the file is. v is at depth.
func (d *document) layOut(v hujson.Value, depth int, inline bool) hujson.Value {
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		return v
	}
	out := &hujson.Object{}
	for _, m := range o.Members {
		last := d.add(out, depth+1, nameOf(m), inline)
		last.Value = d.layOut(m.Value, depth+1, inline).Value
	}
	v.Value = out
	return v
}

func nameOf(m hujson.ObjectMember) string { return m.Name.Value.(hujson.Literal).String() }

// remove removes a member, and also the objects above it if they are then empty and keep does not ask for
// them.
func (d *document) remove(names []string, keep func(names []string) bool) {
	for ; len(names) > 0; names = names[:len(names)-1] {
		o, ok := d.get(names[:len(names)-1]).Value.(*hujson.Object)
		if !ok {
			return
		}
		o.Members = slices.DeleteFunc(o.Members, func(m hujson.ObjectMember) bool { return nameOf(m) == names[len(names)-1] })
		if len(o.Members) > 0 || keep(names[:len(names)-1]) {
			return
		}
	}
}

// plain is a value without spaces, for comparing.
func plain(v *hujson.Value) string {
	c := v.Clone()
	c.Minimize()
	return string(c.Pack())
}

func addMembers(file string, data []byte, set []value) ([]byte, error) {
	d, err := parseMembers(file, data)
	if err != nil {
		return nil, err
	}
	for _, v := range set {
		if err := d.set(v); err != nil {
			return nil, err
		}
	}
	return d.tree.Pack(), nil
}

// takeMembers removes the values that were set in a file: a value that is unchanged gets its former value, or
// is removed. One that was changed since belongs to somebody else, and its names are returned.
func takeMembers(file string, data, before []byte, set []value) (out []byte, changed []string, err error) {
	d, err := parseMembers(file, data)
	if err != nil {
		return nil, nil, err
	}
	was, err := parseMembers(file, before)
	if err != nil {
		return nil, nil, err
	}
	for _, v := range slices.Backward(set) {
		now := d.get(v.Path)
		if now == nil {
			continue
		}
		mine, err := hujson.Parse(v.Value)
		if err != nil {
			return nil, nil, err
		}
		old := was.get(v.Path)
		switch {
		case plain(now) != plain(&mine):
			changed = append(changed, strings.Join(v.Path, "."))
		case old != nil:
			now.Value = old.Clone().Value
		default:
			d.remove(v.Path, func(names []string) bool { return was.get(names) != nil })
		}
	}
	return d.tree.Pack(), changed, nil
}
