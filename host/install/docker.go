// docker: two members of daemon.json. Everything else in the file keeps its bytes and its order.
// https://docs.docker.com/reference/cli/dockerd/#daemon-configuration-file

package install

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tailscale/hujson"

	"vfix.dev/vfix/internal/hinterr"
)

// dockerChange is daemon.json with or without the members. As long as vfix is the default, the runtime stays: docker goes
// on using it until it is restarted.
func dockerChange(t *tree, e engine, use usage) (Change, error) {
	text, err := t.read(e.config)
	if err != nil {
		return Change{}, err
	}
	if len(bytes.TrimSpace(text)) == 0 { // as for dockerd, an empty object
		text = []byte("{\n}\n")
	}
	var now struct {
		Default  string `json:"default-runtime"`
		Runtimes map[string]any
	}
	doc, err := hujson.Parse(text)
	if err := cmp.Or(json.Unmarshal(text, &now), err); err != nil {
		return Change{}, hinterr.With(hinterr.Errorf(hinterr.ErrDamaged, "%s: %v", e.config, err), "correct it first: docker cannot read it either")
	}
	if use == byDefault && now.Default != "" && now.Default != Name {
		return Change{}, hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%s: default-runtime is %s", e.config, now.Default),
			`remove that member, and write the program of that runtime to /etc/vfix/vfix.json: {"runtime": "PATH"}`)
	}
	const runtime = `{"path": "` + RuntimePath + `"}`
	if use == unused && now.Default == Name {
		use = selected
	}
	_, known := now.Runtimes[Name]
	switch {
	case use != unused && now.Runtimes == nil:
		err = set(&doc, "/runtimes", `{"`+Name+`": `+runtime+`}`)
	case use != unused:
		err = set(&doc, "/runtimes/"+Name, runtime)
	case known && len(now.Runtimes) == 1:
		err = remove(&doc, "/runtimes")
	case known:
		err = remove(&doc, "/runtimes/"+Name)
	}
	if use == byDefault {
		err = errors.Join(err, set(&doc, "/default-runtime", `"`+Name+`"`))
	} else if now.Default == Name {
		err = errors.Join(err, remove(&doc, "/default-runtime"))
	}
	empty := len(doc.Value.(*hujson.Object).Members) == 0 // nobody but vfix wrote something into it
	return Change{Path: e.config, Removed: empty, Text: string(doc.Pack())}, err
}

// remove removes the member at a JSON pointer (RFC 6901).
func remove(doc *hujson.Value, at string) error {
	return doc.Patch(fmt.Appendf(nil, `[{"op": "remove", "path": %q}]`, at))
}

// set gives the member at a JSON pointer a value.
func set(doc *hujson.Value, at, value string) error {
	return doc.Patch(fmt.Appendf(nil, `[{"op": "add", "path": %q, "value": %s}]`, at, value))
}
