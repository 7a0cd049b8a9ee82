// dockerd's configuration: the runtime in daemon.json, and options on dockerd's command line
// that conflict with it.

package install

import (
	"bytes"

	"github.com/tailscale/hujson"
)

// dockerUnits may have options of dockerd that conflict with daemon.json.
var dockerUnits = []string{
	"etc/systemd/system/docker.service", "usr/lib/systemd/system/docker.service", "lib/systemd/system/docker.service",
	"etc/systemd/system/docker.service.d/*.conf", "etc/default/docker", "etc/sysconfig/docker",
}

// planDocker puts the runtime into daemon.json.
// https://docs.docker.com/reference/cli/dockerd/#daemon-configuration-file
func planDocker(p *planner) {
	set := []value{jsonValue(map[string]string{"path": p.runtimePath()}, "runtimes", p.Name)}
	if p.Default {
		set = append(set, jsonValue(p.Name, "default-runtime"))
	}
	p.dockerFlags()
	file := "/" + p.configPath()
	p.edit(p.configPath(), member, set, func(base []byte) []byte {
		d, err := parseMembers(file, base)
		if p.failed(err) {
			return nil
		}
		mine, _ := hujson.Parse(set[0].Value)
		if old := d.get(set[0].Path); old != nil && plain(old) != plain(&mine) && !p.Force {
			p.refuse(ErrConflict, "choose another name with --name, or --force to replace it", "%s: has another runtime %s already: %s", file, p.Name, plain(old))
		}
		next, err := addMembers(file, base, set)
		p.failed(err)
		return next
	})
	p.note("docker run --runtime=%s IMAGE", p.Name)
}

// dockerFlags refuses options on dockerd's command line that dockerd rejects if they are also in daemon.json
// ("specified both as a flag and in the configuration file").
func (p *planner) dockerFlags() {
	if p.Force {
		return
	}
	flags := []string{"--add-runtime"}
	if p.Default {
		flags = append(flags, "--default-runtime")
	}
	for _, pattern := range dockerUnits {
		for _, file := range p.glob(pattern) {
			data, _ := p.look(file) // an unreadable file is ignored
			for line := range bytes.Lines(data) {
				line = bytes.TrimSpace(line)
				for _, flag := range flags {
					if !bytes.HasPrefix(line, []byte("#")) && bytes.Contains(line, []byte(flag)) {
						p.refuse(ErrConflict, "move that option into daemon.json, or use --force", "/%s: gives dockerd %s; it does not start if daemon.json also sets this", file, flag)
					}
				}
			}
		}
	}
}
