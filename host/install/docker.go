// docker: two members of daemon.json. Everything else in the file keeps its bytes and its order.
// https://docs.docker.com/reference/cli/dockerd/#daemon-configuration-file

package install

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"vfix.dev/vfix/internal/hinterr"
)

const (
	runtimesMember = "runtimes"
	defaultMember  = "default-runtime"
)

func planDocker(t tree, e engine, use usage) (file, error) {
	text, err := t.read(e.config)
	if err != nil {
		return file{}, err
	}
	doc, err := parseDaemon(e.config, text)
	if err != nil {
		return file{}, err
	}
	top := doc.Value.(*hujson.Object)
	present := ""
	if v := doc.Find("/" + defaultMember); v != nil && v.Value.Kind() == '"' {
		present = v.Value.(hujson.Literal).String()
	}
	if use == byDefault && present != "" && present != Name {
		return file{}, hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%s: default-runtime is %s", e.config, present),
			`remove that member, and write the program of that runtime to /etc/vfix/vfix.json: {"runtime": "PATH"}`)
	}
	if doc.Find("/"+runtimesMember) == nil && use != unused {
		setMember(top, runtimesMember, "{}")
	}
	if v := doc.Find("/" + runtimesMember); v != nil {
		runtimes, ok := v.Value.(*hujson.Object)
		switch {
		case !ok:
			return file{}, damagedDaemon("%s: runtimes is not an object", e.config)
		case use != unused:
			setMember(runtimes, Name, `{"path": "`+RuntimePath+`"}`)
		case removeMember(runtimes, Name) && len(runtimes.Members) == 0:
			removeMember(top, runtimesMember)
		}
	}
	if use == byDefault {
		setMember(top, defaultMember, `"`+Name+`"`)
	} else if present == Name {
		removeMember(top, defaultMember)
	}
	f := file{path: e.config, wasDefault: present == Name}
	if len(top.Members) > 0 { // else nobody but vfix wrote something into it
		f.data = doc.Pack()
	}
	return f, nil
}

func damagedDaemon(format string, a ...any) error {
	return hinterr.With(hinterr.Errorf(hinterr.ErrDamaged, format, a...), "correct it first: docker cannot read it either")
}

// parseDaemon parses daemon.json. An empty file is an empty object, as for dockerd.
func parseDaemon(name string, text []byte) (doc hujson.Value, err error) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{\n}\n")
	}
	if doc, err = hujson.Parse(text); err != nil {
		return doc, damagedDaemon("%s: %s", name, strings.TrimPrefix(err.Error(), "hujson: "))
	}
	if !doc.IsStandard() {
		return doc, damagedDaemon("%s: comments or trailing commas, which JSON does not allow", name)
	}
	if _, ok := doc.Value.(*hujson.Object); !ok {
		return doc, damagedDaemon("%s: not a JSON object", name)
	}
	return doc, nil
}

func find(o *hujson.Object, name string) int {
	return slices.IndexFunc(o.Members, func(m hujson.ObjectMember) bool { return m.Name.Value.(hujson.Literal).String() == name })
}

// setMember gives a member a JSON value. A new one is laid out as the last member is.
func setMember(o *hujson.Object, name, text string) {
	value, err := hujson.Parse([]byte(text))
	if err != nil {
		panic(err) // not of constants
	}
	if i := find(o, name); i >= 0 {
		o.Members[i].Value.Value = value.Value
		return
	}
	value.BeforeExtra = []byte(" ")
	m := hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(name)}, Value: value}
	if n := len(o.Members); n > 0 {
		m.Name.BeforeExtra = slices.Clone(o.Members[n-1].Name.BeforeExtra)
	} else if bytes.Contains(o.AfterExtra, []byte("\n")) { // the braces are on two lines
		m.Name.BeforeExtra = []byte("\n  ")
	}
	o.Members = append(o.Members, m)
}

// removeMember removes a member and reports whether there was one.
func removeMember(o *hujson.Object, name string) bool {
	i := find(o, name)
	if i >= 0 {
		o.Members = slices.Delete(o.Members, i, i+1)
	}
	return i >= 0
}
