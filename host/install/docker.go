// docker: two members of daemon.json. Everything else in the file keeps its bytes and its order.
// https://docs.docker.com/reference/cli/dockerd/#daemon-configuration-file

package install

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

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
	if use == unused && now.Default == Name {
		use = selected
	}
	var patch []string // RFC 6902
	add := func(at, value string) {
		patch = append(patch, fmt.Sprintf(`{"op": "add", "path": %q, "value": %s}`, at, value))
	}
	remove := func(at string) { patch = append(patch, fmt.Sprintf(`{"op": "remove", "path": %q}`, at)) }
	_, known := now.Runtimes[Name]
	const runtime = `{"path": "` + RuntimePath + `"}`
	switch {
	case use != unused && now.Runtimes == nil:
		add("/runtimes", `{"`+Name+`":`+runtime+`}`)
	case use != unused:
		add("/runtimes/"+Name, runtime)
	case known && len(now.Runtimes) == 1:
		remove("/runtimes")
	case known:
		remove("/runtimes/" + Name)
	}
	if use == byDefault {
		add("/default-runtime", `"`+Name+`"`)
	} else if now.Default == Name {
		remove("/default-runtime")
	}
	err = doc.Patch([]byte("[" + strings.Join(patch, ", ") + "]"))
	empty := len(doc.Value.(*hujson.Object).Members) == 0 // nobody but vfix wrote something into it
	return Change{Path: e.config, Removed: empty, Text: string(doc.Pack())}, err
}
