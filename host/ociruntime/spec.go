// Reading a bundle's config.json, and adding mounts to its text with all else kept byte for
// byte.

package ociruntime

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tidwall/gjson"
)

const specName = "config.json" // runtime-spec, bundle.md

// spec is what is read of a bundle's config.json. Source: opencontainers/runtime-spec,
// config.md and config-linux.md. Everything else of the file is not looked at.
type spec struct {
	raw         []byte
	json        gjson.Result // of raw
	top         []member
	mountsAt    member
	hasMounts   bool
	Root        specRoot
	Mounts      []specMount
	Annotations map[string]string
	UIDMappings []idMapping
	GIDMappings []idMapping
	MountLabel  string
	Namespaces  []specNamespace
	idMap       string // both mappings as text, "" for none
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

// parseSpec reads a config.json.
func parseSpec(raw []byte) (*spec, error) {
	if !json.Valid(raw) {
		return nil, errors.New("not JSON")
	}
	s := &spec{raw: raw, json: gjson.ParseBytes(raw)}
	var err error
	if s.top, err = members(s.json); err != nil {
		return nil, err
	}
	if _, err := s.decode(s.top, "root", &s.Root); err != nil {
		return nil, err
	}
	if s.Root.Path == "" {
		return nil, errors.New("no root.path")
	}
	if s.hasMounts, err = s.decode(s.top, "mounts", &s.Mounts); err != nil {
		return nil, err
	}
	s.mountsAt, _, _ = find(s.top, "mounts")
	if s.hasMounts && raw[s.mountsAt.start] != '[' && raw[s.mountsAt.start] != 'n' {
		return nil, errors.New("mounts: no array")
	}
	if _, err := s.decode(s.top, "annotations", &s.Annotations); err != nil {
		return nil, err
	}
	return s, s.linux()
}

// linux reads the platform's part.
func (s *spec) linux() error {
	m, ok, err := find(s.top, "linux")
	if err != nil || !ok || s.raw[m.start] != '{' {
		return err
	}
	all, err := members(s.value(m))
	if err != nil {
		return err
	}
	for name, to := range map[string]any{"namespaces": &s.Namespaces, "uidMappings": &s.UIDMappings, "gidMappings": &s.GIDMappings, "mountLabel": &s.MountLabel} {
		if _, err := s.decode(all, name, to); err != nil {
			return fmt.Errorf("linux: %w", err)
		}
	}
	if len(s.UIDMappings)+len(s.GIDMappings) > 0 {
		s.idMap = fmt.Sprint(s.UIDMappings, s.GIDMappings)
	}
	return nil
}

// value is the value of a member, which knows where it is.
func (s *spec) value(m member) gjson.Result {
	v := gjson.ParseBytes(s.raw[m.start:m.end])
	v.Index = m.start
	return v
}

// decode reads one member, and reports whether it is there.
func (s *spec) decode(all []member, name string, to any) (bool, error) {
	m, ok, err := find(all, name)
	if err != nil || !ok {
		return false, err
	}
	if s.raw[m.start] == '{' { // of those inside, each name once, too
		inner, err := members(s.value(m))
		if err != nil {
			return false, err
		}
		for _, i := range inner {
			if _, _, err := find(inner, i.name); err != nil && name != "annotations" {
				return false, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if err := json.Unmarshal(s.raw[m.start:m.end], to); err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	return true, nil
}

// withMounts is the config.json with mounts added behind the others, all else as it was,
// byte for byte. Mounts that stale says are of an earlier start are left out.
func (s *spec) withMounts(add []specMount, stale func(specMount) bool) ([]byte, error) {
	var texts [][]byte
	for _, m := range add {
		b, err := json.Marshal(m)
		if err != nil {
			return nil, err
		}
		texts = append(texts, b)
	}
	if !s.hasMounts || s.raw[s.mountsAt.start] != '[' {
		return s.withNewMounts(texts), nil
	}
	olds := elements(s.value(s.mountsAt))
	if len(olds) != len(s.Mounts) {
		return nil, fmt.Errorf("mounts: %d elements, or %d", len(olds), len(s.Mounts))
	}
	// The bytes in front of the first mount, the mounts kept with what is between them, and
	// what stands behind the last: only our own text is new.
	out := bytes.Clone(s.raw[:s.mountsAt.start+1])
	kept, end := 0, s.mountsAt.start+1
	for i, m := range olds {
		if !stale(s.Mounts[i]) {
			if kept == 0 && i > 0 {
				out = append(out, s.raw[m.start:m.end]...)
			} else {
				out = append(out, s.raw[end:m.end]...)
			}
			kept++
		}
		end = m.end
	}
	for _, t := range texts {
		if kept > 0 {
			out = append(out, ',')
		}
		out = append(out, t...)
		kept++
	}
	if len(olds) == 0 {
		end = s.mountsAt.end - 1 // the ]
	}
	return append(out, s.raw[end:]...), nil
}

// withNewMounts is for a config.json without an array of mounts.
func (s *spec) withNewMounts(texts [][]byte) []byte {
	if len(texts) == 0 {
		return s.raw
	}
	array := append(append([]byte("["), bytes.Join(texts, []byte(","))...), ']')
	if s.hasMounts { // null
		return bytes.Join([][]byte{s.raw[:s.mountsAt.start], array, s.raw[s.mountsAt.end:]}, nil)
	}
	open := s.json.Index + 1
	head := append(bytes.Clone(s.raw[:open]), `"mounts":`...)
	head = append(head, array...)
	return append(append(head, ','), s.raw[open:]...) // root is there, so something follows
}

// hasOwnMounts reports whether the container gets a mount namespace of its own: elsewhere, what is mounted for it would
// be others' too, and stay.
func (s *spec) hasOwnMounts() bool {
	return slices.Contains(s.Namespaces, specNamespace{Type: "mount"})
}

// containerRoot is the ids on this machine that root has inside.
func (s *spec) containerRoot() (uid, gid uint32) {
	return hostID(s.UIDMappings), hostID(s.GIDMappings)
}

func hostID(all []idMapping) uint32 {
	for _, m := range all {
		if m.ContainerID == 0 && m.Size > 0 {
			return m.HostID
		}
	}
	return 0
}
