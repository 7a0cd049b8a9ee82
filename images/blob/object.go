// Edits of the JSON of configs and manifests: the members that are not edited keep their bytes.

package blob

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"vfix.dev/vfix/internal/hinterr"
)

// Object is a JSON object whose members keep their bytes.
type Object map[string]json.RawMessage

// Set sets members to values that always encode: texts, numbers, digests.
func (m Object) Set(members map[string]any) {
	for key, value := range members {
		m[key], _ = EncodeJSON(value)
	}
}

// Edit decodes a member into v, has f change v, and encodes it again. key is its name; A.B is B in the object A.
func Edit[T any](m Object, key string, f func(*T) error) error {
	if outer, inner, nested := strings.Cut(key, "."); nested {
		return Edit(m, outer, func(o *Object) error { return Edit(*o, inner, f) })
	}
	if m == nil {
		return hinterr.Damaged("%s: null where an object should be", key)
	}
	var v T
	if raw, ok := m[key]; ok {
		if err := json.Unmarshal(raw, &v); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	if err := f(&v); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	raw, err := EncodeJSON(v)
	m[key] = raw
	return err
}

// EncodeJSON is json.Marshal without its escapes for HTML: kept text must stay as it is.
func EncodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// AddStrings adds to a member that is an object; an empty text removes.
func AddStrings(m Object, key string, more map[string]string) error {
	return Edit(m, key, func(o *Object) error {
		if *o == nil {
			*o = Object{}
		}
		for k, v := range more {
			if delete(*o, k); v != "" {
				o.Set(map[string]any{k: v})
			}
		}
		return nil
	})
}
