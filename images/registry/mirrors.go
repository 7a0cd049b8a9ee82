// Mirrors of Docker Hub, as docker uses them: "registry-mirrors" of its daemon.json. For reads, they are tried in
// order before the Hub itself; if one does not have the content or does not answer, the next one is tried. Source:
// docker, "Registry as a pull through cache".

package registry

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"vfix.dev/vfix/images/blob"
)

// daemonConfigs returns the paths of the configuration of docker's engine: this user's, and root's.
func daemonConfigs() []string {
	var all []string
	if config, err := os.UserConfigDir(); err == nil {
		all = append(all, filepath.Join(config, "docker", "daemon.json"))
	}
	return append(all, "/etc/docker/daemon.json")
}

// HubMirrors returns the hosts of the first configuration with mirrors. It ignores an unreadable configuration,
// which must not keep vfix from reading an image.
func HubMirrors(files []string) []string {
	for _, path := range files {
		raw, err := blob.ReadSmall(path, blob.MaxManifest)
		if err != nil {
			continue
		}
		var c struct {
			Mirrors []string `json:"registry-mirrors"`
		}
		if json.Unmarshal(raw, &c) != nil || len(c.Mirrors) == 0 {
			continue
		}
		var hosts []string
		for _, m := range c.Mirrors {
			if u, err := url.Parse(m); err == nil && u.Host != "" && strings.Trim(u.Path, "/") == "" {
				hosts = append(hosts, u.Host)
			}
		}
		return hosts
	}
	return nil
}

// Places returns the places of an image in the order to try: the mirrors of its registry, then the registry.
func (r *Network) Places(n name.Reference) []name.Reference {
	var all []name.Reference
	if n.Context().RegistryStr() == name.DefaultRegistry {
		for _, host := range r.mirrors() {
			text := host + "/" + n.Context().RepositoryStr()
			if _, ok := n.(name.Digest); ok {
				text += "@" + n.Identifier()
			} else {
				text += ":" + n.Identifier()
			}
			if m, err := name.ParseReference(text, NameOptions(r.o.Insecure)...); err == nil {
				all = append(all, m)
			}
		}
	}
	return append(all, n)
}
