// Two JSON texts, member by member.

package images

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	"github.com/tidwall/gjson"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/jsonobject"
)

// texts compares two JSON objects, except for some members. A key that is there twice is a
// difference of its own: parsers do not agree on which one counts.
func (v *Verified) texts(where string, want, got []byte, except ...string) error {
	v.twice(where, got)
	var w, g jsonobject.Object
	if err := json.Unmarshal(want, &w); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	if err := json.Unmarshal(got, &g); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	for _, key := range except {
		delete(w, key)
		delete(g, key)
	}
	v.object(where, w, g)
	return nil
}

func (v *Verified) twice(where string, raw []byte) {
	if key := duplicateKey(gjson.ParseBytes(raw)); key != "" {
		v.problem("%s: %s: there twice", where, key)
	}
}

// duplicateKey returns a key that an object, or one in it, has twice, "" for none.
func duplicateKey(value gjson.Result) (key string) {
	if !value.IsObject() && !value.IsArray() {
		return ""
	}
	seen := map[string]bool{}
	value.ForEach(func(k, v gjson.Result) bool {
		if value.IsObject() && seen[k.Str] {
			key = k.Str
			return false
		}
		seen[k.Str] = true
		key = duplicateKey(v)
		return key == ""
	})
	return key
}

// object compares two JSON objects, member by member.
func (v *Verified) object(where string, want, got jsonobject.Object) {
	all := jsonobject.Object{}
	maps.Copy(all, want)
	maps.Copy(all, got)
	for _, k := range contents.SortedKeys(all) {
		w, g := want[k], got[k]
		switch {
		case w == nil:
			v.problem("%s: %s: got %s, want none", where, k, short(g))
		case g == nil:
			v.problem("%s: %s: missing, want %s", where, k, short(w))
		default:
			v.value(where+": "+k, w, g)
		}
	}
}

// short is the beginning of a long value.
func short(raw json.RawMessage) string {
	const most = 300 // bytes
	if len(raw) <= most {
		return string(raw)
	}
	return string(bytes.ToValidUTF8(raw[:most], nil)) + "…"
}

// value compares two JSON values: objects by their members, lists of files and of changes in files by
// what they are about.
func (v *Verified) value(where string, want, got json.RawMessage) {
	if sameJSON(want, got) {
		return
	}
	w, g := members(want), members(got)
	if w == nil || g == nil {
		v.problem("%s: got %s, want %s", where, short(got), short(want))
		return
	}
	before := len(v.Problems)
	v.object(where, w, g)
	if len(v.Problems) == before {
		v.problem("%s: another order", where)
	}
}

// members are those of an object, or of a list whose elements have a path or an offset each that no other
// has: by these. nil for other values.
func members(raw json.RawMessage) jsonobject.Object {
	var o jsonobject.Object
	if json.Unmarshal(raw, &o) == nil {
		return o
	}
	o = jsonobject.Object{}
	list := gjson.ParseBytes(raw)
	for _, e := range list.Array() {
		key := e.Get("path").Str
		if at := e.Get("offset"); key == "" && at.Exists() {
			key = "offset " + at.Raw
		}
		if !list.IsArray() || key == "" || o[key] != nil {
			return nil
		}
		o[key] = json.RawMessage(e.Raw)
	}
	return o
}

// sameJSON reports whether two texts are the same value: white space and the order of keys
// mean nothing.
func sameJSON(a, b []byte) bool {
	decode := func(raw []byte) (v any) {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		d.Decode(&v)
		return v
	}
	return reflect.DeepEqual(decode(a), decode(b))
}
