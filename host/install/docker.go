// dockerd's configuration: the runtime in daemon.json, and options on dockerd's command line
// that conflict with it.

package install

import (
	"bytes"

	"github.com/tailscale/hujson"

	"vfix.dev/vfix/internal/hinterr"
)

// dockerUnits may have options of dockerd that conflict with daemon.json.
var dockerUnits = []string{
	"etc/systemd/system/docker.service", "usr/lib/systemd/system/docker.service", "lib/systemd/system/docker.service",
	"etc/systemd/system/docker.service.d/*.conf", "etc/default/docker", "etc/sysconfig/docker",
}

// planDocker puts the runtime into daemon.json.
// https://docs.docker.com/reference/cli/dockerd/#daemon-configuration-file
func planDocker(p *planner) error {
	set := []value{jsonValue(map[string]string{"path": p.runtimePath()}, "runtimes", p.Name)}
	if p.Default {
		set = append(set, jsonValue(p.Name, "default-runtime"))
	}
	if err := p.dockerFlags(); err != nil {
		return err
	}
	file := "/" + p.configPath()
	p.text(p.configPath(), member, set, func(base []byte) ([]byte, error) {
		d, err := parseMembers(file, base)
		if err != nil {
			return nil, err
		}
		mine, _ := hujson.Parse(set[0].Value)
		if old := d.get(set[0].Path); old != nil && plain(old) != plain(&mine) && !p.Force {
			return nil, hinterr.With(hinterr.Errorf(ErrConflict, "%s: has another runtime %s already: %s", file, p.Name, plain(old)),
				"choose another name with --name, or --force to replace it")
		}
		return addMembers(file, base, set)
	})
	p.note("docker run --runtime=%s IMAGE", p.Name)
	return nil
}

// dockerFlags refuses options on dockerd's command line that it does not take beside the same
// ones in daemon.json ("specified both as a flag and in the configuration file").
func (p *planner) dockerFlags() error {
	flags := []string{"--add-runtime"}
	if p.Default {
		flags = append(flags, "--default-runtime")
	}
	for _, pattern := range dockerUnits {
		files, err := p.glob(pattern)
		if err != nil {
			return err
		}
		for _, file := range files {
			data, err := p.readText(file)
			if err != nil {
				continue // what cannot be read says nothing
			}
			for line := range bytes.Lines(data) {
				line = bytes.TrimSpace(line)
				for _, flag := range flags {
					if len(line) == 0 || line[0] == '#' || !bytes.Contains(line, []byte(flag)) || p.Force {
						continue
					}
					return hinterr.With(hinterr.Errorf(ErrConflict, "/%s: gives dockerd %s, and with that in daemon.json too it does not start", file, flag),
						"move that option into daemon.json, or use --force")
				}
			}
		}
	}
	return nil
}
