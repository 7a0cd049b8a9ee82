// The bundle's config.json: how it is read, and how mounts and a hook are added with all else kept byte for byte.

package ociruntime

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// spec is the part of a bundle's config.json that is read, and the names of known other members:
// opencontainers/runtime-spec 1.3, config.md and config-linux.md. The tag known lists members that do not change
// which files the container sees.
type spec struct {
	_           struct{} `known:"ociVersion hostname domainname solaris windows zos freebsd"`
	raw         []byte
	Root        specRoot          `json:"root"`
	Process     specProcess       `json:"process"`
	Mounts      []specMount       `json:"mounts"`
	Annotations map[string]string `json:"annotations"`
	Hooks       specHooks         `json:"hooks"`
	Linux       specLinux         `json:"linux"`
	idMap       string            // both mappings as text, "" for none
	unknown     []string          // members that are neither read nor known
}

type specLinux struct {
	_           struct{}        `known:"timeOffsets sysctl resources cgroupsPath netDevices rootfsPropagation maskedPaths readonlyPaths intelRdt memoryPolicy personality"`
	Seccomp     specSeccomp     `json:"seccomp"`
	Devices     []specDevice    `json:"devices"`
	UIDMappings []idMapping     `json:"uidMappings"`
	GIDMappings []idMapping     `json:"gidMappings"`
	MountLabel  string          `json:"mountLabel"`
	Namespaces  []specNamespace `json:"namespaces"`
}

type specSeccomp struct {
	_            struct{} `known:"defaultAction defaultErrnoRet architectures flags listenerMetadata syscalls"`
	ListenerPath string   `json:"listenerPath"` // of an agent, which answers system calls
}

// specDevice is a device node. In a user namespace runtimes bind what is at that path of this machine.
type specDevice struct {
	_    struct{} `known:"type major minor fileMode uid gid"`
	Path string   `json:"path"`
}

type specRoot struct {
	Path     string `json:"path"`
	Readonly bool   `json:"readonly"`
}

type specProcess struct {
	_            struct{} `known:"terminal consoleSize user args commandLine cwd env rlimits noNewPrivileges apparmorProfile oomScoreAdj scheduler selinuxLabel ioPriority execCPUAffinity"`
	Capabilities struct {
		_        struct{} `known:"effective inheritable permitted ambient"`
		Bounding []string `json:"bounding"`
	} `json:"capabilities"`
}

type specNamespace struct {
	Type string `json:"type"`
	Path string `json:"path"` // of an existing namespace
}

type specMount struct {
	_           struct{} `known:"uidMappings gidMappings"`
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

// specHooks are the hooks that runtimes execute, in this order, before the container's root is final, before its
// program starts, and after that (config.md, "POSIX-platform Hooks").
type specHooks struct {
	_               struct{}   `known:"poststop"`
	Prestart        []specHook `json:"prestart"`
	CreateRuntime   []specHook `json:"createRuntime"`
	CreateContainer []specHook `json:"createContainer"`
	StartContainer  []specHook `json:"startContainer"`
	Poststart       []specHook `json:"poststart"`
}

type specHook struct {
	_       struct{} `known:"env"`
	Path    string   `json:"path"`
	Args    []string `json:"args,omitempty"`
	Timeout int      `json:"timeout,omitempty"` // seconds
}

func parseSpec(raw []byte) (*spec, error) {
	if !json.Valid(raw) {
		return nil, errors.New("not JSON")
	}
	if !utf8.Valid(raw) {
		return nil, errors.New("not UTF-8: runtimes interpret it differently")
	}
	s := &spec{raw: raw}
	if err := s.read(gjson.ParseBytes(raw), reflect.ValueOf(s).Elem(), ""); err != nil {
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

// read sets the fields of a struct from the members of an object. It returns an error if the object has a member
// twice, or in another case: runtimes differ in which one they use. at is the path of the object.
func (s *spec) read(v gjson.Result, to reflect.Value, at string) (err error) {
	if v.Type == gjson.Null {
		return nil
	}
	if !v.IsObject() {
		return errors.New("no object")
	}
	seen := map[string]bool{}
	v.ForEach(func(key, value gjson.Result) bool {
		member := key.Str
		if strings.ContainsFunc(key.Raw, func(r rune) bool { return r == '\\' || r > unicode.MaxASCII }) {
			// Decode as runtimes do: gjson decodes invalid UTF-8 differently.
			if err = json.Unmarshal([]byte(key.Raw), &member); err != nil {
				return false
			}
		}
		field, name := fieldOf(to, member)
		switch {
		case name == "":
			if known := to.Type().Field(0).Tag.Get("known"); !slices.Contains(strings.Fields(known), member) {
				s.unknown = append(s.unknown, at+member)
			}
			return true
		case seen[name] || member != name:
			err = fmt.Errorf("%q: given twice, or in another case: runtimes interpret it differently", name)
			return false
		case field.Kind() == reflect.Struct:
			err = s.read(value, field, at+name+".")
		case field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct && value.IsArray():
			value.ForEach(func(_, element gjson.Result) bool {
				one := reflect.New(field.Type().Elem()).Elem()
				err = s.read(element, one, at+name+".")
				field.Set(reflect.Append(field, one))
				return err == nil
			})
		default:
			if err = json.Unmarshal([]byte(value.Raw), field.Addr().Interface()); err == nil && strings.ContainsRune(fmt.Sprint(field), 0) {
				err = errors.New("has a NUL, where some runtimes stop reading")
			}
		}
		if seen[name] = true; err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		return err == nil
	})
	return err
}

// fieldOf returns the field of a struct that json.Unmarshal uses for a member, and its name in JSON.
func fieldOf(to reflect.Value, member string) (f reflect.Value, name string) {
	for i := range to.NumField() {
		if name, _, _ = strings.Cut(to.Type().Field(i).Tag.Get("json"), ","); name != "" && strings.EqualFold(name, member) {
			return to.Field(i), name
		}
	}
	return f, ""
}

// startOption is an option that only hooks added by vfix-runtime have: the start that they are part of.
const startOption = "--start-id"

// isAdded reports whether vfix-runtime has added a hook.
func isAdded(h specHook) bool { return isOwnHook(h) && slices.Contains(h.Args, startOption) }

// with returns the config.json with mounts after the others, and with hooks after those of their kinds, which may
// make mounts. It omits the mounts of an earlier start, according to stale, and its hooks; all else stays byte for
// byte, except for white space between them.
func (s *spec) with(add []specMount, hooks specHooks, stale func(specMount) bool) ([]byte, error) {
	text := s.raw
	for _, at := range []struct {
		kind     string
		old, add []specHook
	}{{"createRuntime", s.Hooks.CreateRuntime, hooks.CreateRuntime}, {"poststart", s.Hooks.Poststart, hooks.Poststart}} {
		if len(at.add) == 0 && !slices.ContainsFunc(at.old, isAdded) {
			continue
		}
		var err error
		if text, err = edit(text, []string{"hooks", at.kind}, at.add, isAdded); err != nil {
			return nil, err
		}
	}
	if len(add) == 0 && !slices.ContainsFunc(s.Mounts, stale) {
		return text, nil
	}
	return edit(text, []string{"mounts"}, add, stale)
}

// edit removes the elements of an array for which stale returns true, and appends others; it creates the array if
// needed.
func edit[T any](text []byte, path []string, add []T, stale func(T) bool) ([]byte, error) {
	at := gjson.ParseBytes(text)
	splice := func(start, end int, b []byte) ([]byte, error) {
		return slices.Concat(text[:start], b, text[end:]), nil
	}
	for i, name := range path {
		object, found := at, false
		object.ForEach(func(key, value gjson.Result) bool {
			found = key.Str == name
			at = value
			return !found
		})
		if found && (at.IsObject() || at.IsArray()) {
			continue
		}
		if len(add) == 0 {
			return text, nil
		}
		made, err := json.Marshal(add)
		for _, inner := range slices.Backward(path[i+1:]) {
			made = fmt.Appendf(nil, "{%q:%s}", inner, made)
		}
		switch {
		case err != nil:
			return nil, err
		case found: // null
			return splice(at.Index, at.Index+len(at.Raw), made)
		case len(object.Map()) > 0:
			made = append(made, ',')
		}
		return splice(object.Index+1, object.Index+1, fmt.Appendf(nil, "%q:%s", name, made))
	}
	if !at.IsArray() {
		return nil, fmt.Errorf("%s: not an array", strings.Join(path, "."))
	}
	var list []string
	at.ForEach(func(_, e gjson.Result) bool {
		var is T
		if json.Unmarshal([]byte(e.Raw), &is) != nil || !stale(is) {
			list = append(list, e.Raw)
		}
		return true
	})
	for _, a := range add {
		b, err := json.Marshal(a)
		if err != nil {
			return nil, err
		}
		list = append(list, string(b))
	}
	return splice(at.Index, at.Index+len(at.Raw), []byte("["+strings.Join(list, ",")+"]"))
}

// hasOwnMounts reports whether the container gets its own mount namespace: otherwise its mounts would also be
// visible elsewhere, and stay.
func (s *spec) hasOwnMounts() bool {
	return slices.Contains(s.Linux.Namespaces, specNamespace{Type: "mount"})
}

// containerRoot returns the IDs of the container's root on this machine.
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
