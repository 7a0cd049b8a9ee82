// Comparisons of file systems and of JSON texts, for verify.

package images

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"vfix.dev/vfix/images/contents"
)

// entries compares files by name: their types, metadata and contents.
func (v *Verified) entries(want, got map[string]*contents.Entry) {
	all := maps.Clone(want)
	maps.Copy(all, got)
	for _, name := range contents.SortedKeys(all) {
		title := "/" + name
		switch w, g := want[name], got[name]; {
		case g == nil:
			v.problem("%s: missing", title)
		case w == nil:
			v.problem("%s: vfix adds no such file", title)
		case w.Typeflag != g.Typeflag:
			v.problem("%s: another kind of file", title)
		case w.Linkname != g.Linkname:
			v.problem("%s: link: got %q, want %q", title, g.Linkname, w.Linkname)
		case g.Differs(w) != "":
			v.problem("%s: %s", title, g.Differs(w))
		case !reflect.DeepEqual(w.Sum, g.Sum):
			v.problem("%s: other content than vfix writes", title)
		}
	}
}

// same compares two JSON texts member by member, and names the members that differ.
func (v *Verified) same(where string, want, got []byte) error {
	var w, g map[string]any
	if err := errors.Join(json.Unmarshal(want, &w), json.Unmarshal(got, &g)); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	v.members(where, w, g)
	return nil
}

func (v *Verified) members(where string, want, got any) {
	w, isW := want.(map[string]any)
	g, isG := got.(map[string]any)
	switch {
	case reflect.DeepEqual(want, got):
		return
	case !isW || !isG:
		v.problem("%s: got %s, want %s", where, short(got), short(want))
		return
	}
	all := maps.Clone(w)
	maps.Copy(all, g)
	for _, k := range contents.SortedKeys(all) {
		v.members(where+": "+k, w[k], g[k])
	}
}

// short is the beginning of a long value.
func short(value any) string {
	const most = 200 // bytes
	raw, _ := json.Marshal(value)
	if len(raw) > most {
		return strings.ToValidUTF8(string(raw[:most]), "") + "…"
	}
	return string(raw)
}
