// Mirrors of Docker Hub, as docker knows them: "registry-mirrors" of its daemon.json. They are
// asked before the Hub itself, in their order, for reading; if one lacks something or does not
// answer, the next one is asked. Source: docker, "Registry as a pull through cache".

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

// daemonConfigs are where docker's engine has its configuration: of this user's, and root's.
func daemonConfigs() []string {
	var all []string
	if config, err := os.UserConfigDir(); err == nil {
		all = append(all, filepath.Join(config, "docker", "daemon.json"))
	}
	return append(all, "/etc/docker/daemon.json")
}

// HubMirrors are the hosts of the first configuration that names mirrors. A configuration
// that cannot be read is the engine's problem, and does not keep vfix from reading an image.
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

// Places are where an image is looked for: the mirrors of its registry, and then itself.
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
