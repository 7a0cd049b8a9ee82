// containerd and the Kubernetes distributions that contain it: a file in a directory that its configuration imports.
// https://github.com/containerd/containerd/blob/main/docs/cri/config.md

package install

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/pelletier/go-toml/v2"

	"vfix.dev/vfix/internal/hinterr"
)

// criPlugin is the plugin that has the runtimes, by the version of the configuration (containerd, docs/PLUGINS.md and
// version/config). A file without a version, such as that of docker's packages, has version 1; version 4 moved only the
// server's own tables.
var criPlugin = map[int]string{
	0: "cri",
	1: "cri",
	2: "io.containerd.grpc.v1.cri",
	3: "io.containerd.cri.v1.runtime",
	4: "io.containerd.cri.v1.runtime",
}

// firstMerge is the first version whose imported files are merged member by member: up to containerd 1.7 a file's table
// of a plugin replaces that of the files before it (containerd issue 5837).
const firstMerge = 3

// runtimeTable is the runtime as a table of TOML; %[1]q is the plugin, %[2]t whether systemd manages the cgroups. A pod's
// annotations reach a runtime only by pod_annotations.
const runtimeTable = `[plugins.%[1]q.containerd.runtimes.` + Name + `]
runtime_type = "io.containerd.runc.v2"
pod_annotations = ["dev.vfix.*"]
[plugins.%[1]q.containerd.runtimes.` + Name + `.options]
BinaryName = "` + RuntimePath + `"
SystemdCgroup = %[2]t
`

// builtIn is the runtime that containerd 1 has only as long as the configuration names no other (containerd issue 7982).
const builtIn = `[plugins.%q.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
`

// containerdConfig is the part of a configuration that matters here.
type containerdConfig struct {
	Version int
	Imports []string
	Plugins map[string]struct {
		Containerd struct {
			DefaultRuntime string `toml:"default_runtime_name"`
			Runtimes       map[string]struct {
				Options struct{ SystemdCgroup bool }
			}
		}
	}
}

// containerdChange is a file with the runtime, like the default one: above all it has the same cgroup driver. Without a
// directory that the engine imports, the runtime belongs into the engine's own configuration.
func containerdChange(t *tree, e engine, use usage) (Change, error) {
	text, err := t.read(e.config)
	if err != nil {
		return Change{}, err
	}
	if text == nil && e.name != "containerd" && use != unused {
		return Change{}, hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "%s: not found", e.config), "start %s first: it writes this file", e.name)
	}
	c, empty := containerdConfig{}, len(bytes.TrimSpace(text)) == 0
	if empty { // containerd has its defaults
		c.Version = 2 // all containerds since 1.3 read it
	}
	if err := toml.Unmarshal(text, &c); err != nil {
		return Change{}, hinterr.With(hinterr.Errorf(hinterr.ErrDamaged, "%s: %v", e.config, err), "correct it first: containerd cannot read it either")
	}
	plugin := criPlugin[c.Version]
	if plugin == "" {
		return Change{}, hinterr.Errorf(hinterr.ErrUnsupported, "%s: version %d; vfix knows 1 to 4", e.config, c.Version)
	}
	merged := c
	for _, pattern := range c.Imports {
		names, _ := filepath.Glob(t.at(e.absolute(pattern)))
		for _, name := range names {
			imported, _ := os.ReadFile(name)
			_ = toml.Unmarshal(imported, &merged) // containerd names a file that it cannot read
		}
	}
	cri := merged.Plugins[plugin].Containerd
	like, known := cri.Runtimes[cmp.Or(cri.DefaultRuntime, "runc")]
	change := Change{Path: c.importedFile(e), Removed: use == unused}
	change.Text = fmt.Sprintf(runtimeTable, plugin, like.Options.SystemdCgroup)
	version := fmt.Sprintf("version = %d\n\n", c.Version)
	if change.Path != "" {
		change.Text = "# Written by 'vfix install'; 'vfix uninstall' removes it.\n" + version + change.Text
		return change, nil
	}
	change.Path, change.ByHand = e.config, true
	if empty {
		change.Text = version + change.Text
	}
	if !known && c.Version < firstMerge {
		change.Text += fmt.Sprintf(builtIn, plugin)
	}
	return change, nil
}

// importedFile is a path in the directory that a configuration imports, "" if it imports none.
func (c containerdConfig) importedFile(e engine) string {
	if e.name == "k0s" {
		return "/etc/k0s/containerd.d/vfix.toml"
	}
	for _, pattern := range c.Imports {
		dir, name := path.Split(pattern)
		if c.Version < firstMerge || name != "*.toml" {
			continue
		}
		return path.Join(e.absolute(dir), "99-vfix.toml")
	}
	return ""
}

// absolute is a path of the engine's configuration, which may be relative to its directory.
func (e engine) absolute(name string) string {
	if path.IsAbs(name) {
		return name
	}
	return path.Join(path.Dir(e.config), name)
}
