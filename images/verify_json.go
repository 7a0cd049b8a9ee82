// Two JSON texts, member by member.

package images

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strconv"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/tidwall/gjson"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
)

// texts compares two JSON objects, except for some members. A duplicate key also counts as a
// difference, because parsers do not agree on which one to use.
func (v *Verified) texts(where string, want, got []byte, except ...string) error {
	if key := duplicateKey(gjson.ParseBytes(got)); key != "" {
		v.problem("%s: %s: there twice", where, key)
	}
	w, err := object(want, except)
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	g, err := object(got, except)
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	v.value(where, w, g)
	return nil
}

// object is a JSON object without some members, with OCI's names of media types, and numbers as they are written.
func object(raw []byte, except []string) (o map[string]any, err error) {
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	d.Decode(&o) // it can be decoded
	for _, key := range except {
		delete(o, key)
	}
	ociNames(o)
	return o, nil
}

// ociNames gives media types their OCI names, except in annotations.
func ociNames(value any) {
	switch value := value.(type) {
	case map[string]any:
		if t, ok := value["mediaType"].(string); ok {
			value["mediaType"] = string(media.OCIName(types.MediaType(t)))
		}
		for key, e := range value {
			if key != "annotations" {
				ociNames(e)
			}
		}
	case []any:
		for _, e := range value {
			ociNames(e)
		}
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

// value compares two JSON values: objects by their members, lists of objects by what their elements are about, or by
// their places.
func (v *Verified) value(where string, want, got any) {
	if reflect.DeepEqual(want, got) {
		return
	}
	w, g := members(want), members(got)
	if w == nil || g == nil {
		v.problem("%s: got %s, want %s", where, short(got), short(want))
		return
	}
	before := len(v.Problems)
	all := maps.Clone(w)
	maps.Copy(all, g)
	for _, k := range contents.SortedKeys(all) {
		a, wanted := w[k]
		b, there := g[k]
		switch {
		case !wanted:
			v.problem("%s: %s: got %s, want none", where, k, short(b))
		case !there:
			v.problem("%s: %s: missing, want %s", where, k, short(a))
		default:
			v.value(where+": "+k, a, b)
		}
	}
	if len(v.Problems) == before {
		v.problem("%s: another order", where)
	}
}

// members are those of an object, or of a list of objects: by the path or offset that each has, else by their places. nil
// for other values, and for lists in which two have the same.
func members(value any) map[string]any {
	if o, ok := value.(map[string]any); ok {
		return o
	}
	list, _ := value.([]any)
	if list == nil {
		return nil
	}
	all := map[string]any{}
	for n, e := range list {
		o, _ := e.(map[string]any)
		key := strconv.Itoa(n)
		if path, ok := o["path"].(string); ok {
			key = path
		} else if at := o["offset"]; at != nil {
			key = fmt.Sprint("offset ", at)
		}
		if o == nil || all[key] != nil {
			return nil
		}
		all[key] = e
	}
	return all
}

// short is the beginning of a long value.
func short(value any) string {
	raw, _ := json.Marshal(value)
	const most = 300 // bytes
	if len(raw) <= most {
		return string(raw)
	}
	return string(bytes.ToValidUTF8(raw[:most], nil)) + "…"
}
