// config.json of a bundle, as far as it matters here (runtime-spec, config.md).

package node

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

type spec struct {
	Root        struct{ Path string }
	Annotations map[string]string
	Mounts      []struct {
		Destination, Type string
		Options           []string
	}
	volumes []string // where this machine's files are mounted, except those that engines make for each container
}

// readSpec reads a config.json. The path of its root is relative to the bundle.
func readSpec(path, bundle string) (*spec, error) {
	var s spec
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if s.Root.Path == "" {
		return nil, fmt.Errorf("%s: no root", path)
	}
	if !filepath.IsAbs(s.Root.Path) {
		s.Root.Path = filepath.Join(bundle, s.Root.Path)
	}
	s.findVolumes()
	return &s, nil
}

func (s *spec) findVolumes() {
	usual := []string{"/dev", "/proc", "/sys", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/run/.containerenv", "/run/secrets", "/etc/mtab"}
	for _, m := range s.Mounts {
		bind := m.Type == "bind" || slices.Contains(m.Options, "bind") || slices.Contains(m.Options, "rbind")
		at := filepath.Clean("/" + m.Destination)
		within := func(dir string) bool { return strings.HasPrefix(at+"/", dir+"/") }
		if bind && !slices.ContainsFunc(usual, within) {
			s.volumes = append(s.volumes, at)
		}
	}
}
