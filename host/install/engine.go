// The engines that vfix can be installed for: the location of each, the files that it reads, and those that
// are planned for it.

package install

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// Engine is what reads the configuration.
type Engine string

const (
	Docker     Engine = "docker"
	Containerd Engine = "containerd"
	CRIO       Engine = "crio"
	Podman     Engine = "podman"
	K3s        Engine = "k3s"
	RKE2       Engine = "rke2"
	K0s        Engine = "k0s"
)

// Auto stands for the one engine that Kubernetes uses on the machine.
const Auto = "auto"

// Engines is all of them.
var Engines = []Engine{Docker, Containerd, CRIO, Podman, K3s, RKE2, K0s}

// engine describes how an engine is found, and the files that it reads.
type engine struct {
	// signs are files whose existence shows that the engine is installed.
	signs []string
	// config is the file that is written if the user names none.
	config string
	// commands make the engine read the new configuration; undo makes it notice the removal, if that needs
	// other commands.
	commands, undo []string
	// plan lists what to write.
	plan func(*planner)
	// cri: Kubernetes uses it, by way of a RuntimeClass.
	cri bool
}

var engines = map[Engine]engine{
	// https://docs.docker.com/reference/cli/dockerd/: a reload takes over runtimes and
	// default-runtime. It forgets none that is no longer there (seen with 20.10).
	Docker: {
		signs:    bins("dockerd"),
		config:   "etc/docker/daemon.json",
		commands: []string{"systemctl reload docker"},
		undo:     []string{"systemctl restart docker"},
		plan:     planDocker,
	},
	Containerd: {
		signs:    append(bins("containerd"), containerdConfig),
		config:   containerdConfig,
		commands: []string{"systemctl restart containerd"},
		plan:     planContainerd,
		cri:      true,
	},
	// A reload is documented as sufficient, but is not: the handler stays unknown to
	// RunPodSandbox (https://github.com/cri-o/cri-o/issues/10202). A restart leaves pods alone.
	CRIO: {
		signs:    append(bins("crio"), "etc/crio"),
		config:   "etc/crio/crio.conf.d/99-vfix.conf",
		commands: []string{"systemctl restart crio"},
		plan:     planCRIO,
		cri:      true,
	},
	// podman reads its configuration each time that it is run; only its API service stays.
	Podman: {
		signs:  bins("podman"),
		config: "etc/containers/containers.conf.d/99-vfix.conf",
		plan:   planPodman,
	},
	K3s: {
		signs:    append(bins("k3s"), "var/lib/rancher/k3s/agent"),
		config:   "var/lib/rancher/k3s/agent/etc/containerd",
		commands: []string{"systemctl restart k3s || systemctl restart k3s-agent"},
		plan:     planRancher,
		cri:      true,
	},
	RKE2: {
		signs:    append(bins("rke2"), "var/lib/rancher/rke2/agent"),
		config:   "var/lib/rancher/rke2/agent/etc/containerd",
		commands: []string{"systemctl restart rke2-server || systemctl restart rke2-agent"},
		plan:     planRancher,
		cri:      true,
	},
	K0s: {
		signs:    append(bins("k0s"), "etc/k0s/containerd.toml", "var/lib/k0s/bin"),
		config:   "etc/k0s/containerd.d/vfix.toml",
		commands: []string{"systemctl restart k0sworker || systemctl restart k0scontroller"},
		plan:     planK0s,
		cri:      true,
	},
}

// bins lists where programs are installed.
func bins(name string) (all []string) {
	for _, dir := range []string{"usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin", "opt/bin", "snap/bin"} {
		all = append(all, dir+"/"+name)
	}
	return all
}

// detect lists the engines that a root directory has.
func (t *tree) detect() (found []Engine) {
	for _, e := range Engines {
		if slices.ContainsFunc(engines[e].signs, t.exists) {
			found = append(found, e)
		}
	}
	return found
}

// auto chooses the engine of a Kubernetes node. A distribution with its own containerd takes precedence over
// a separate containerd.
func (t *tree) auto(root string) Engine {
	found := slices.DeleteFunc(t.detect(), func(e Engine) bool { return !engines[e].cri })
	own := slices.DeleteFunc(slices.Clone(found), func(e Engine) bool { return e == Containerd || e == CRIO })
	if len(own) > 0 {
		found = own
	}
	switch len(found) {
	case 0:
		t.refuse(ErrNoEngine, "name the engine: 'vfix install --help' lists them", "no engine that Kubernetes uses is found in %s", root)
	case 1:
		return found[0]
	default:
		t.refuse(ErrConflict, "name the one that it uses", "several engines that Kubernetes may use are found in %s: %v", root, found)
	}
	return ""
}

// planner collects the steps for one engine.
type planner struct {
	*tree
	Options
	engine
	steps  []step
	result *Result
	// wraps is the real runtime, as the user or the engine's configuration names it.
	wraps string
}

// runtimePath is where the engines find vfix-runtime.
func (p *planner) runtimePath() string { return "/" + path.Join(rel(p.Prefix), "bin", runtimeName) }

func (p *planner) configPath() string { return rel(cmp.Or(p.Config, p.engine.config)) }

// rel makes a path relative to the root directory.
func rel(name string) string { return strings.TrimLeft(path.Clean("/"+name), "/") }

// base returns what a file holds without vfix's part.
func (p *planner) base(name string) []byte {
	at := p.resolve(name)
	return p.without(at, p.read(at)).bytes()
}

// edit plans a configuration file: add makes its new content.
func (p *planner) edit(name string, k kind, set []value, add func(base []byte) []byte) {
	p.change(p.resolve(name), k, set, func(base *content) *content {
		next := fresh(nil, 0o644)
		if base != nil {
			if base.link != "" {
				p.refuse(ErrConflict, "", "/%s: a symlink that leads nowhere", name)
			}
			next.meta = base.meta
			next.meta.MTime = time.Time{} // it is changed now
		}
		next.data = add(base.bytes())
		return next
	})
}

// members plans a JSON file that gets values.
func (p *planner) members(name string, set []value) {
	p.edit(name, member, set, func(base []byte) []byte {
		next, err := addMembers("/"+name, base, set)
		p.failed(err)
		return next
	})
}

// jsonValue is a value to set; v always encodes.
func jsonValue(v any, names ...string) value {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // not of strings and booleans
	}
	return value{Path: names, Value: raw}
}

func (p *planner) warn(format string, a ...any) {
	p.result.Warnings = append(p.result.Warnings, fmt.Sprintf(format, a...))
}

func (p *planner) note(format string, a ...any) {
	p.result.Notes = append(p.result.Notes, fmt.Sprintf(format, a...))
}
