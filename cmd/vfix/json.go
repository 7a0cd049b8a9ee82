// The JSON that --format json prints; docs/json.md and docs/schema.json describe it, and a test
// holds them together. A result's own type says in its tags how it is printed; a verb adds what
// only its output has. Rules: an address is a string in hex, a size or offset is a number of
// bytes; a list is never null; what is not known is "".

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"time"

	"vfix.dev/vfix/cmd/vfix/screen"
)

// schemaVersion changes when a field changes its meaning or goes away; new fields do not
// change it.
const schemaVersion = 1

type jsonDocument struct {
	Schema int    `json:"schema"`
	Verb   string `json:"verb"`
	DryRun bool   `json:"dry_run"`
}

func document(verb string) jsonDocument { return jsonDocument{Schema: schemaVersion, Verb: verb} }

func hex(vaddr uint64) string { return fmt.Sprintf("%#x", vaddr) }

// list makes the empty list of what may be nil.
func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// json prints a value of a struct type; each list in it that is nil is an empty one.
func (o *output) json(v any) error {
	p := reflect.New(reflect.TypeOf(v))
	p.Elem().Set(reflect.ValueOf(v))
	fill(p.Elem())
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(p.Interface())
	text := b.String()
	if screen.PlainASCII(os.Getenv) { // names stay what they are
		text = screen.InASCII(text)
	}
	io.WriteString(o.Stdout, text)
	return err
}

// fill makes empty lists of nil ones, in place. Bytes are not a list.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fill(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() && v.Type().Field(i).Tag.Get("json") != "-" {
				fill(f)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		if v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		for i := range v.Len() {
			fill(v.Index(i))
		}
	}
}

// timeIf is a time in JSON, "" if it is not known.
func timeIf(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339)
}

// hexIf is an address, "" for one that is not known.
func hexIf(vaddr uint64, known bool) string {
	if !known {
		return ""
	}
	return hex(vaddr)
}
