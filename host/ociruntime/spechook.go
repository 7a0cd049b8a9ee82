// The hook in a config.json, with all else kept byte for byte.

package ociruntime

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"
)

// specHook is an OCI hook (runtime-spec, config.md, "POSIX-platform Hooks").
type specHook struct {
	Path    string   `json:"path"`
	Args    []string `json:"args,omitempty"`
	Timeout int      `json:"timeout,omitempty"` // seconds
}

const (
	hooksAt = "createRuntime"
	// handedBy is the option that a hook of vfix-runtime's has, and no other: which runtime it was called for.
	handedBy = "--runtime"
)

// withHook is a config.json with a hook behind the others of its kind, which may make mounts, in place of an earlier
// one of this program; nil for none.
func withHook(text []byte, self string, hook *specHook) ([]byte, error) {
	all := gjson.ParseBytes(text)
	value := func(m member) gjson.Result {
		v := gjson.ParseBytes(text[m.start:m.end])
		v.Index = m.start
		return v
	}
	top, err := members(all)
	if err != nil {
		return nil, err
	}
	hooks, has, err := find(top, "hooks")
	if err != nil {
		return nil, err
	}
	var kinds, list []member
	if has && text[hooks.start] == '{' {
		if kinds, err = members(value(hooks)); err != nil {
			return nil, err
		}
	}
	kind, hasKind, err := find(kinds, hooksAt)
	if err != nil {
		return nil, err
	}
	if hasKind && text[kind.start] == '[' {
		list = elements(value(kind))
	}
	var kept [][]byte
	for _, m := range list {
		var h specHook
		// Hooks are programs of the node: none but its owner can name this one.
		if json.Unmarshal(text[m.start:m.end], &h) != nil || h.Path != self || !slices.Contains(h.Args, handedBy) {
			kept = append(kept, text[m.start:m.end])
		}
	}
	if hook == nil && len(kept) == len(list) {
		return text, nil
	}
	if hook != nil {
		b, err := json.Marshal(hook)
		if err != nil {
			return nil, err
		}
		kept = append(kept, b)
	}
	array := "[" + string(bytes.Join(kept, []byte(","))) + "]"
	named := `"` + hooksAt + `":` + array
	splice := func(start, end int, b string) ([]byte, error) {
		return bytes.Join([][]byte{text[:start], []byte(b), text[end:]}, nil), nil
	}
	switch {
	case hasKind:
		return splice(kind.start, kind.end, array)
	case len(kinds) > 0:
		return splice(hooks.start+1, hooks.start+1, named+",")
	case has: // {}, or null
		return splice(hooks.start, hooks.end, "{"+named+"}")
	}
	return splice(all.Index+1, all.Index+1, `"hooks":{`+named+"},") // root is there, so something follows
}
