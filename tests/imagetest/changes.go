// JSON texts that are changed.

package imagetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
)

// EachChange calls f with each JSON text that differs in one thing from raw.
func EachChange(t testing.TB, raw []byte, f func(what string, changed []byte)) {
	var doc any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	emit := func(what string) {
		b := Must[[]byte](t)(json.Marshal(doc))
		b = bytes.ReplaceAll(bytes.ReplaceAll(b, []byte(`\u003c`), []byte("<")), []byte(`\u003e`), []byte(">"))
		f(what, bytes.ReplaceAll(b, []byte(`\u0026`), []byte("&")))
	}
	var walk func(path string, v any, set func(any))
	walk = func(path string, v any, set func(any)) {
		try := func(what string, other any) {
			set(other)
			emit(path + what)
			set(v)
		}
		switch v := v.(type) {
		case map[string]any:
			with := map[string]any{"x-new": "1"}
			for _, k := range slices.Sorted(maps.Keys(v)) {
				e := v[k]
				with[k] = e
				without := map[string]any{}
				for k2, e2 := range v {
					if k2 != k {
						without[k2] = e2
					}
				}
				try("."+k+" removed", without)
				walk(path+"."+k, e, func(n any) { v[k] = n })
			}
			try(".x-new", with)
		case []any:
			try("[more]", append(append([]any{}, v...), append(v, "x")[0]))
			for i, e := range v {
				try(fmt.Sprintf("[%d] removed", i), append(append([]any{}, v[:i]...), v[i+1:]...))
				walk(fmt.Sprintf("%s[%d]", path, i), e, func(n any) { v[i] = n })
			}
		case string:
			try("", v+"x")
			try(" emptied", "")
		case json.Number:
			n, _ := v.Int64()
			try("", n+1)
		case bool:
			try("", !v)
		default:
			try("", "x")
		}
	}
	walk("", doc, func(v any) { doc = v })
}
