// The JSON that --format json prints. The tags of the types of the results say how they are printed; a verb adds what
// only its output has. docs/schema.json is made from these types. Rules: an address is a string in hex, a size or
// offset is a number of bytes; a list is never null; what is not known is "".

package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/internal/textutil"
)

// schemaVersion changes when a member changes its meaning or goes away; new members do not change it.
const schemaVersion = 1

// emptyList matches the end of a line with a list that is nil: no other value is null, and no string ends like this.
var emptyList = textutil.LazyRegexp(`(?m): null(,?)$`)

// show prints what a verb did: with --format json what every document begins with, and the members of v, a struct; else
// the text.
func (o *output) show(dry bool, v any, text func(screen.Stream)) error {
	if !o.json {
		text(o.Out)
		return nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "{\n  \"schema\": %d,\n  \"verb\": %q,\n  \"dry_run\": %t,", schemaVersion, o.verb, dry)
	_, err := o.Out.Write(emptyList().ReplaceAll(b.Bytes()[1:], []byte(": []$1"))) // behind the brace that opens v
	return err
}

func hex(vaddr uint64) string { return fmt.Sprintf("%#x", vaddr) }
