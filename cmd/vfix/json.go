// The JSON that --format json prints; docs/json.md and docs/schema.json describe it, and a test
// holds them together. It is written down here and not with the engine's types, so that a
// change there cannot change it unseen: what several verbs print in this file, the rest in
// <verb>_json.go. Rules: an address is a string in hex, a size or offset is a number of bytes;
// a list is never null; what is not known is "".

package main

import (
	"encoding/json"
	"fmt"
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

// json prints one value.
func (o *output) json(v any) error {
	enc := json.NewEncoder(o.Stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// hexIf is an address, "" for one that is not known.
func hexIf(vaddr uint64, known bool) string {
	if !known {
		return ""
	}
	return hex(vaddr)
}
