// Where the verbs print: the rules of output are in package screen. And the JSON that --format json
// prints; docs/json.md and docs/schema.json describe it, and a test holds them together. A result's own type says in
// its tags how it is printed; a verb adds what only its output has. Rules: an address is a string in hex, a size or
// offset is a number of bytes; a list is never null; what is not known is "".

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"time"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/internal/hinterr"
)

// output prints the results of verbs, as text or JSON, and errors.
type output struct{ *screen.Output }

func newOutput(stdout, stderr io.Writer) *output {
	return &output{screen.New(stdout, stderr)}
}

// into has what work prints on stdout written to a file, which exists when the work is done, or has findings, and
// else is as it was; "" and - are stdout.
func (o *output) into(file string, work func() error) error {
	if file == "" || file == "-" {
		return work()
	}
	f, err := atomicfile.Create(file)
	if err != nil {
		return fmt.Errorf("-o %s: %w", file, err)
	}
	defer f.Discard()
	stdout, stream := o.Stdout, o.Out
	o.Stdout, o.Out = bufio.NewWriterSize(f, 64<<10), screen.Stream{}
	err = work()
	o.Stdout, o.Out, stdout = stdout, stream, o.Stdout
	if err != nil && !isOnly[*findingsError](err) {
		return err
	}
	if werr := errors.Join(stdout.Flush(), f.Commit()); werr != nil {
		return fmt.Errorf("-o %s: %w", file, werr)
	}
	o.Note("wrote %s", file)
	return err
}

// fail prints an error and what to do about it. Findings are a report, not an error.
func (o *output) fail(err error) {
	var found *findingsError
	if err == screen.ErrBrokenPipe || errors.As(err, &found) && found.printed {
		return
	}
	label := "error:"
	if found != nil {
		label = ""
	}
	if tried, is := errors.AsType[*hinterr.Tried](err); is {
		o.Say(label, o.Err.Paint.Red, tried.Head())
		for _, place := range tried.Places {
			o.Say("  tried:", o.Err.Paint.Dim, place.Error())
		}
	} else {
		o.Say(label, o.Err.Paint.Red, err.Error())
	}
	if hint := screen.HintOf(err, issues); hint != "" {
		o.Say("hint:", o.Err.Paint.Bold, hint)
	}
}

// schemaVersion changes when a field changes its meaning or goes away; new fields do not
// change it.
const schemaVersion = 1

func hex(vaddr uint64) string { return fmt.Sprintf("%#x", vaddr) }

// list makes the empty list of what may be nil.
func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// document prints what a verb did: what every document begins with, and the members of v, a struct.
func (o *output) document(verb string, dry bool, v any) error {
	b, err := documentOf(verb, dry, v)
	if err == nil {
		o.json(b)
	}
	return err
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

// json prints a JSON text.
func (o *output) json(compact []byte) {
	var b bytes.Buffer
	_ = json.Indent(&b, compact, "", "  ") // it has just been made
	fmt.Fprintln(o.Stdout, b.String())
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
