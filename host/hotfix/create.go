// The request that makes a container like another one, with patched files mounted.

package hotfix

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/mountopts"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/jsonobject"
)

// object is a JSON object, whose numbers keep their digits.
type object = map[string]any

// createRequest is what makes a container like another (docker's API, ContainerCreate), made from the
// engine's description of that one, member by member: unknown members are kept.
type createRequest struct {
	body []byte
	// more are the networks beyond the first: before API 1.44 create takes one.
	more []endpoint
}

// endpoint is a container's place in one network.
type endpoint struct {
	name   string
	config object
}

// inspected is the part of a container's description that matters here.
type inspected struct {
	ID                 string `json:"Id"`
	Config, HostConfig object
	Mounts             []inspectedMount
	NetworkSettings    struct{ Networks map[string]object }
}

type inspectedMount struct {
	Type, Name, Source, Destination string
	RW                              bool
}

// newCreateRequest makes the request for a container like the one described by raw, made of
// image, with the patched copies mounted in place of those in dir that it may have.
func newCreateRequest(raw json.RawMessage, image string, mounts []mountopts.Mount, dir string) (*createRequest, error) {
	var old inspected
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&old); err != nil {
		return nil, hinterr.Damaged("the engine's description of the container: %v", err)
	}
	if old.Config == nil || old.HostConfig == nil {
		return nil, hinterr.Damaged("the engine's description of the container has no configuration")
	}
	mode := text(old.HostConfig["NetworkMode"])
	// The engine fills these in from elsewhere and refuses them as options (runconfig,
	// validateNetMode).
	if strings.HasPrefix(mode, "container:") {
		delete(old.Config, "Hostname")
		delete(old.Config, "Domainname")
		delete(old.Config, "ExposedPorts")
	}
	if old.HostConfig["UTSMode"] == "host" {
		delete(old.Config, "Hostname")
	}
	addMounts(&old, mounts, dir)
	body := old.Config
	body["Image"], body["HostConfig"] = image, old.HostConfig
	first, more := endpoints(&old, mode)
	if first != nil {
		body["NetworkingConfig"] = object{"EndpointsConfig": object{first.name: first.config}}
	}
	req := &createRequest{more: more}
	var err error
	req.body, err = jsonobject.Encode(body)
	return req, err
}

// addMounts adds the patched copies, and names the volumes without a name, so that the new
// container has the old one's and not new ones.
func addMounts(old *inspected, mounts []mountopts.Mount, dir string) {
	binds, _ := old.HostConfig["Binds"].([]any)
	binds = slices.DeleteFunc(binds, func(b any) bool { return bindIs(text(b), old.Mounts) })
	old.HostConfig["Binds"] = binds
	all, _ := old.HostConfig["Mounts"].([]any)
	all = slices.DeleteFunc(all, func(m any) bool {
		return member(m, "Type") == "bind" && isKept(member(m, "Source"), dir)
	})
	for _, v := range old.Mounts {
		if v.Type != "volume" || v.Name == "" || slices.ContainsFunc(binds, func(b any) bool { return bindTarget(text(b)) == clean(v.Destination) }) {
			continue
		}
		// In the existing mount for its target, else in a new one. An empty one is not filled from the image
		// again.
		if i := slices.IndexFunc(all, func(m any) bool {
			return member(m, "Target") != "" && clean(member(m, "Target")) == clean(v.Destination)
		}); i >= 0 {
			all[i].(object)["Source"] = v.Name
		} else {
			all = append(all, object{"Type": "volume", "Source": v.Name, "Target": v.Destination, "ReadOnly": !v.RW, "VolumeOptions": object{"NoCopy": true}})
		}
	}
	for _, m := range mounts {
		all = append(all, object{"Type": "bind", "Source": m.Source, "Target": m.Target, "ReadOnly": true})
	}
	old.HostConfig["Mounts"] = all
}

// text is a JSON string, "" for anything else.
func text(v any) string {
	s, _ := v.(string)
	return s
}

// member is a text in a JSON object, "" if it is missing.
func member(v any, key string) string {
	m, _ := v.(object)
	return text(m[key])
}

func clean(p string) string { return path.Clean("/" + p) }

// bindTarget is where a bind in the short form goes: SOURCE:TARGET[:OPTIONS], or TARGET.
func bindTarget(b string) string {
	parts := strings.Split(b, ":")
	if len(parts) == 1 {
		return clean(b)
	}
	return clean(parts[1])
}

// bindIs says that a bind in the short form is TARGET alone, of a volume without a name.
func bindIs(b string, mounts []inspectedMount) bool {
	return !strings.Contains(b, ":") && slices.ContainsFunc(mounts, func(m inspectedMount) bool {
		return m.Type == "volume" && clean(m.Destination) == clean(b)
	})
}

// endpointKeys are the settings of a container in a network that come from the user; the engine derives the
// rest from them.
var endpointKeys = []string{"IPAMConfig", "Links", "Aliases", "DriverOpts", "GwPriority", "MacAddress"}

// endpoints are the container's networks: the first is the one of its network mode.
func endpoints(old *inspected, mode string) (*endpoint, []endpoint) {
	if strings.HasPrefix(mode, "container:") || mode == "host" || mode == "none" {
		return nil, nil // these modes need nothing else
	}
	var first *endpoint
	var more []endpoint
	for _, name := range contents.SortedKeys(old.NetworkSettings.Networks) {
		n := old.NetworkSettings.Networks[name]
		e := endpoint{name, cleanEndpoint(n, old.ID)}
		isFirst := name == mode || member(n, "NetworkID") == mode && mode != "" ||
			name == "bridge" && (mode == "default" || mode == "")
		switch {
		case !isFirst:
			more = append(more, e)
		case len(e.config) > 0:
			first = &e
		}
	}
	return first, more
}

func cleanEndpoint(n object, id string) object {
	out := object{}
	for _, key := range endpointKeys {
		v := n[key]
		if aliases, ok := v.([]any); ok && key == "Aliases" {
			// Engines before 25 list the container's own short ID among the aliases.
			v = slices.DeleteFunc(aliases, func(a any) bool { return len(text(a)) == shortID && strings.HasPrefix(id, text(a)) })
		}
		if empty := []string{"", "map[]", "[]", "0"}; v != nil && !slices.Contains(empty, fmt.Sprint(v)) {
			out[key] = v
		}
	}
	return out
}

// shortID is how many digits of an ID docker shows.
const shortID = 12
