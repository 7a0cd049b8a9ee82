// Reading a bundle's config.json, and adding mounts and a hook to its text with all else kept byte for byte.

package ociruntime

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

const specName = "config.json" // runtime-spec, bundle.md

// spec is what is read of a bundle's config.json. Source: opencontainers/runtime-spec,
// config.md and config-linux.md. Everything else of the file is not looked at.
type spec struct {
	raw         []byte
	Root        specRoot          `json:"root"`
	Mounts      []specMount       `json:"mounts"`
	Annotations map[string]string `json:"annotations"`
	Hooks       specHooks         `json:"hooks"`
	Linux       specLinux         `json:"linux"`
	idMap       string            // both mappings as text, "" for none
}

type specLinux struct {
	UIDMappings []idMapping     `json:"uidMappings"`
	GIDMappings []idMapping     `json:"gidMappings"`
	MountLabel  string          `json:"mountLabel"`
	Namespaces  []specNamespace `json:"namespaces"`
}

type specRoot struct {
	Path     string `json:"path"`
	Readonly bool   `json:"readonly"`
}

type specNamespace struct {
	Type string `json:"type"`
	Path string `json:"path"` // of one that is there already
}

type specMount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type,omitempty"`
	Source      string   `json:"source,omitempty"`
	Options     []string `json:"options,omitempty"`
}

type idMapping struct {
	ContainerID uint32 `json:"containerID"`
	HostID      uint32 `json:"hostID"`
	Size        uint32 `json:"size"`
}

// specHooks are the hooks that runtimes execute before the container's root is final, in this order (config.md,
// "POSIX-platform Hooks").
type specHooks struct {
	Prestart        []specHook `json:"prestart"`
	CreateRuntime   []specHook `json:"createRuntime"`
	CreateContainer []specHook `json:"createContainer"`
}

type specHook struct {
	Path    string   `json:"path"`
	Args    []string `json:"args,omitempty"`
	Timeout int      `json:"timeout,omitempty"` // seconds
}

// parseSpec reads a config.json.
func parseSpec(raw []byte) (*spec, error) {
	if !json.Valid(raw) {
		return nil, errors.New("not JSON")
	}
	s := &spec{raw: raw}
	doc, err := hujson.Parse(raw)
	if err != nil {
		return nil, err
	}
	if _, ok := doc.Value.(*hujson.Object); !ok {
		return nil, errors.New("no object")
	}
	if err := unambiguous(doc, reflect.TypeFor[spec]()); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, err
	}
	if s.Root.Path == "" {
		return nil, errors.New("no root.path")
	}
	if len(s.Linux.UIDMappings)+len(s.Linux.GIDMappings) > 0 {
		s.idMap = fmt.Sprint(s.Linux.UIDMappings, s.Linux.GIDMappings)
	}
	return s, nil
}

// unambiguous errs where an object that is read as a struct has one of its members twice, or in another case: runtimes
// do not agree on which one counts.
func unambiguous(v hujson.Value, as reflect.Type) error {
	switch at := v.Value.(type) {
	case *hujson.Array:
		if as.Kind() != reflect.Slice {
			return nil
		}
		for _, e := range at.Elements {
			if err := unambiguous(e, as.Elem()); err != nil {
				return err
			}
		}
	case *hujson.Object:
		if as.Kind() != reflect.Struct {
			return nil
		}
		seen := map[string]bool{}
		for _, m := range at.Members {
			field, name := fieldOf(as, nameOf(m))
			if name == "" {
				continue
			}
			if seen[name] || nameOf(m) != name {
				return fmt.Errorf("%q: written twice, or in another case: runtimes do not agree on what that means", name)
			}
			seen[name] = true
			if err := unambiguous(m.Value, field.Type); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// fieldOf is the field of a struct that json.Unmarshal takes for a member, and the name that it has in JSON.
func fieldOf(as reflect.Type, member string) (f reflect.StructField, name string) {
	for i := range as.NumField() {
		f = as.Field(i)
		if name, _, _ = strings.Cut(f.Tag.Get("json"), ","); name != "" && strings.EqualFold(name, member) {
			return f, name
		}
	}
	return f, ""
}

// nameOf is a member's name as runtimes decode it.
func nameOf(m hujson.ObjectMember) string { return m.Name.Value.(hujson.Literal).String() }

// with is the config.json with mounts behind the others, and a hook behind those of its kind, which may make mounts;
// nil for none. What stale says is of an earlier start is left out; all else is as it was, byte for byte.
func (s *spec) with(add []specMount, hook *specHook, stale func(specMount) bool, staleHook func(specHook) bool) ([]byte, error) {
	if len(add) == 0 && hook == nil && !slices.ContainsFunc(s.Mounts, stale) && !slices.ContainsFunc(s.Hooks.CreateRuntime, staleHook) {
		return s.raw, nil
	}
	doc, err := hujson.Parse(s.raw)
	if err != nil {
		return nil, err
	}
	changed, err := edit(&doc, []string{"mounts"}, add, stale)
	if err != nil {
		return nil, err
	}
	var hooks []specHook
	if hook != nil {
		hooks = []specHook{*hook}
	}
	hooked, err := edit(&doc, []string{"hooks", hooksAt}, hooks, staleHook)
	if err != nil || !changed && !hooked {
		return s.raw, err
	}
	return doc.Pack(), nil
}

// edit removes the elements of an array that stale says are, and appends others; the array is made if there is
// something to be put into it.
func edit[T any](doc *hujson.Value, path []string, add []T, stale func(T) bool) (changed bool, err error) {
	at := doc
	for i, name := range path {
		o, ok := at.Value.(*hujson.Object)
		if !ok { // null
			o = &hujson.Object{}
		}
		n := slices.IndexFunc(o.Members, func(m hujson.ObjectMember) bool { return nameOf(m) == name })
		if n < 0 {
			if len(add) == 0 {
				return false, nil
			}
			var made hujson.ValueTrimmed = &hujson.Object{}
			if i == len(path)-1 {
				made = &hujson.Array{}
			}
			n = 0
			o.Members = slices.Insert(o.Members, 0, hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(name)}, Value: hujson.Value{Value: made}})
		}
		at.Value = o
		at = &o.Members[n].Value
	}
	list, ok := at.Value.(*hujson.Array)
	if !ok { // null
		if len(add) == 0 {
			return false, nil
		}
		list = &hujson.Array{}
		at.Value = list
	}
	var kept []hujson.Value
	for _, e := range list.Elements {
		var is T
		if json.Unmarshal(e.Pack(), &is) == nil && stale(is) {
			continue
		}
		kept = append(kept, e)
	}
	if len(add) == 0 && len(kept) == len(list.Elements) {
		return false, nil
	}
	if len(kept) > 0 {
		kept[0].BeforeExtra = list.Elements[0].BeforeExtra
	} else {
		list.AfterExtra = nil
	}
	for _, a := range add {
		b, err := json.Marshal(a)
		if err != nil {
			return false, err
		}
		kept = append(kept, hujson.Value{Value: hujson.Literal(b)})
	}
	list.Elements = kept
	return true, nil
}

// hasOwnMounts reports whether the container gets a mount namespace of its own: elsewhere, what is mounted for it would
// be others' too, and stay.
func (s *spec) hasOwnMounts() bool {
	return slices.Contains(s.Linux.Namespaces, specNamespace{Type: "mount"})
}

// containerRoot is the ids on this machine that root has inside.
func (s *spec) containerRoot() (uid, gid uint32) {
	return hostID(s.Linux.UIDMappings), hostID(s.Linux.GIDMappings)
}

func hostID(all []idMapping) uint32 {
	for _, m := range all {
		if m.ContainerID == 0 && m.Size > 0 {
			return m.HostID
		}
	}
	return 0
}
