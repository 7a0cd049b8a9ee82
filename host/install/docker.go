// docker: two members of daemon.json. Everything else in the file keeps its bytes and its order.
// https://docs.docker.com/reference/cli/dockerd/#daemon-configuration-file

package install

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/tailscale/hujson"

	"vfix.dev/vfix/internal/hinterr"
)

// member is daemon.json with or without the members. As long as vfix is the default, the runtime stays: docker goes on
// using it until it is restarted.
func member(t *tree, e engine, use usage) (file, error) {
	text, err := t.read(e.config)
	if err != nil {
		return file{}, err
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
		return file{}, hinterr.With(hinterr.Errorf(hinterr.ErrDamaged, "%s: %v", e.config, err), "correct it first: docker cannot read it either")
	}
	if use == byDefault && now.Default != "" && now.Default != Name {
		return file{}, hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%s: default-runtime is %s", e.config, now.Default),
			`remove that member, and write the program of that runtime to /etc/vfix/vfix.json: {"runtime": "PATH"}`)
	}
	const runtime = `{"path": "` + RuntimePath + `"}`
	f := file{path: e.config}
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
	if len(doc.Value.(*hujson.Object).Members) > 0 { // else nobody but vfix wrote something into it
		f.data = doc.Pack()
	}
	return f, err
}

// remove removes the member at a JSON pointer (RFC 6901).
func remove(doc *hujson.Value, at string) error {
	return doc.Patch(fmt.Appendf(nil, `[{"op": "remove", "path": %q}]`, at))
}

// set gives the member at a JSON pointer a value. A new member is laid out as the one before it.
func set(doc *hujson.Value, at, value string) error {
	if err := doc.Patch(fmt.Appendf(nil, `[{"op": "add", "path": %q, "value": %s}]`, at, value)); err != nil {
		return err
	}
	parent, name := path.Split(at)
	all := doc.Find(strings.TrimSuffix(parent, "/")).Value.(*hujson.Object).Members
	n := len(all) - 1
	if all[n].Name.Value.(hujson.Literal).String() != name || len(all[n].Value.BeforeExtra) > 0 {
		return nil // it is not new
	}
	all[n].Value.BeforeExtra = []byte(" ")
	all[n].Name.BeforeExtra = []byte("\n  ")
	if n > 0 {
		all[n].Name.BeforeExtra = all[n-1].Name.BeforeExtra
	}
	return nil
}
