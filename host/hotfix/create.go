// The request that makes a container like another one, with patched files mounted.

package hotfix

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/jsonobject"
)

// createRequest is what makes a container like another (docker's API, ContainerCreate), made
// of what the engine says of that one, member by member: what vfix does not know of stays.
type createRequest struct {
	body []byte
	// more are the networks beyond the first: before API 1.44 create takes one.
	more []endpoint
}

// endpoint is a container's place in one network.
type endpoint struct {
	name   string
	config jsonobject.Object
}

// inspected is as much of a container's description as matters here.
type inspected struct {
	ID              string `json:"Id"`
	Config          jsonobject.Object
	HostConfig      jsonobject.Object
	Mounts          []inspectedMount
	NetworkSettings struct{ Networks map[string]jsonobject.Object }
}

type inspectedMount struct {
	Type, Name, Source, Destination string
	RW                              bool
}

// newCreateRequest makes the request for a container like the one described by raw, made of
// image, with the patched copies mounted in place of those in dir that it may have.
func newCreateRequest(raw json.RawMessage, image string, mounts []Mount, dir string) (*createRequest, error) {
	var old inspected
	if err := json.Unmarshal(raw, &old); err != nil {
		return nil, hinterr.Damaged("the engine's description of the container: %v", err)
	}
	if old.Config == nil || old.HostConfig == nil {
		return nil, hinterr.Damaged("the engine's description of the container has no configuration")
	}
	old.Config["Image"], _ = jsonobject.Encode(image)
	var mode string
	_ = json.Unmarshal(old.HostConfig["NetworkMode"], &mode) // "" if it is missing
	var uts string
	_ = json.Unmarshal(old.HostConfig["UTSMode"], &uts)
	// The engine fills these in from elsewhere and refuses them as options (runconfig,
	// validateNetMode).
	if strings.HasPrefix(mode, "container:") {
		delete(old.Config, "Hostname")
		delete(old.Config, "Domainname")
		delete(old.Config, "ExposedPorts")
	}
	if uts == "host" {
		delete(old.Config, "Hostname")
	}
	if err := addMounts(&old, mounts, dir); err != nil {
		return nil, fmt.Errorf("HostConfig: %w", err)
	}
	req := &createRequest{}
	body := old.Config
	var err error
	if body["HostConfig"], err = jsonobject.Encode(old.HostConfig); err != nil {
		return nil, err
	}
	first, more := endpoints(&old, mode)
	if first != nil {
		networking := map[string]any{"EndpointsConfig": map[string]any{first.name: first.config}}
		if body["NetworkingConfig"], err = jsonobject.Encode(networking); err != nil {
			return nil, err
		}
	}
	req.more = more
	req.body, err = jsonobject.Encode(body)
	return req, err
}

// addMounts adds the patched copies, and names the volumes without a name, so that the new
// container has the old one's and not new ones.
func addMounts(old *inspected, mounts []Mount, dir string) error {
	var binds []string
	if err := jsonobject.Edit(old.HostConfig, "Binds", func(b *[]string) error {
		*b = slices.DeleteFunc(*b, func(s string) bool { return bindIs(s, old.Mounts) })
		binds = *b
		return nil
	}); err != nil {
		return err
	}
	return jsonobject.Edit(old.HostConfig, "Mounts", func(all *[]jsonobject.Object) error {
		*all = slices.DeleteFunc(*all, func(m jsonobject.Object) bool {
			return text(m, "Type") == "bind" && isKept(text(m, "Source"), dir)
		})
		for _, v := range old.Mounts {
			if v.Type != "volume" || v.Name == "" || slices.ContainsFunc(binds, func(b string) bool { return bindTarget(b) == clean(v.Destination) }) {
				continue
			}
			if err := nameVolume(all, v); err != nil {
				return err
			}
		}
		for _, m := range mounts {
			one := jsonobject.Object{}
			one["Type"], _ = jsonobject.Encode("bind")
			one["Source"], _ = jsonobject.Encode(m.Source)
			one["Target"], _ = jsonobject.Encode(m.Target)
			one["ReadOnly"], _ = jsonobject.Encode(true)
			*all = append(*all, one)
		}
		return nil
	})
}

// nameVolume mounts a volume by its name: in the mount that is there for its place,
// else in one that is added. An empty one is not filled from the image again.
func nameVolume(all *[]jsonobject.Object, v inspectedMount) error {
	for _, m := range *all {
		if clean(text(m, "Target")) == clean(v.Destination) {
			m["Source"], _ = jsonobject.Encode(v.Name)
			return nil
		}
	}
	one := jsonobject.Object{}
	one["Type"], _ = jsonobject.Encode("volume")
	one["Source"], _ = jsonobject.Encode(v.Name)
	one["Target"], _ = jsonobject.Encode(v.Destination)
	one["ReadOnly"], _ = jsonobject.Encode(!v.RW)
	one["VolumeOptions"], _ = jsonobject.Encode(map[string]any{"NoCopy": true})
	*all = append(*all, one)
	return nil
}

func text(m jsonobject.Object, key string) string {
	var s string
	_ = json.Unmarshal(m[key], &s) // "" for what is missing or no text
	return s
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

// endpointKeys are what a user can say of a container's place in a network; the rest of it
// is what the engine made of that.
var endpointKeys = []string{"IPAMConfig", "Links", "Aliases", "DriverOpts", "GwPriority", "MacAddress"}

// endpoints are the container's networks: the first is the one of its network mode.
func endpoints(old *inspected, mode string) (*endpoint, []endpoint) {
	if strings.HasPrefix(mode, "container:") || mode == "host" || mode == "none" {
		return nil, nil // these say it all
	}
	var first *endpoint
	var more []endpoint
	for _, name := range contents.SortedKeys(old.NetworkSettings.Networks) {
		n := old.NetworkSettings.Networks[name]
		e := endpoint{name, cleanEndpoint(n, old.ID)}
		isFirst := name == mode || text(n, "NetworkID") == mode && mode != "" ||
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

func cleanEndpoint(n jsonobject.Object, id string) jsonobject.Object {
	out := jsonobject.Object{}
	for _, key := range endpointKeys {
		switch raw := n[key]; string(raw) {
		case "", "null", `""`, "{}", "[]", "0":
		default:
			out[key] = raw
		}
	}
	// Engines before 25 list the container's own short ID among the aliases.
	_ = jsonobject.Edit(out, "Aliases", func(a *[]string) error {
		*a = slices.DeleteFunc(*a, func(s string) bool { return len(s) == shortID && strings.HasPrefix(id, s) })
		return nil
	})
	if raw := string(out["Aliases"]); raw == "[]" || raw == "null" {
		delete(out, "Aliases")
	}
	return out
}

// shortID is how many digits of an ID docker shows.
const shortID = 12
