// The JSON that --format json prints. The tags of the types of the results say how they are printed; a verb adds what
// only its output has. docs/schema.json is made from these types. Rules: an address is a string in hex, a size or
// offset is a number of bytes; a list is never null; what is not known is "".

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// schemaVersion changes when a member changes its meaning or goes away; new members do not change it.
const schemaVersion = 1

// document prints what a verb did: what every document begins with, and the members of v, a struct.
func (o *output) document(verb string, dry bool, v any) error {
	b, err := documentOf(verb, dry, v)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	_ = json.Indent(&text, b, "", "  ") // it has just been made
	fmt.Fprintln(o.Out, text.String())
	return nil
}

func documentOf(verb string, dry bool, v any) ([]byte, error) {
	head, err := compact(struct {
		Schema int    `json:"schema"`
		Verb   string `json:"verb"`
		DryRun bool   `json:"dry_run"`
	}{schemaVersion, verb, dry})
	if err != nil {
		return nil, err
	}
	members, err := compact(v)
	if err != nil {
		return nil, err
	}
	return slices.Concat(head[:len(head)-1], []byte{','}, members[1:]), nil
}

// compact is a value of a struct type as JSON; each list in it that is nil is an empty one.
func compact(v any) ([]byte, error) {
	p := reflect.New(reflect.TypeOf(v))
	p.Elem().Set(reflect.ValueOf(v))
	fill(p.Elem())
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(p.Interface())
	return bytes.TrimSpace(b.Bytes()), err
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

func hex(vaddr uint64) string { return fmt.Sprintf("%#x", vaddr) }
