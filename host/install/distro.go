// The containerd of Kubernetes distributions that write its configuration themselves.

package install

import (
	"bytes"
	"fmt"
	"path"

	"vfix.dev/vfix/internal/hinterr"
)

// planK0s adds a file to the directory that k0s merges into its containerd's configuration.
// https://docs.k0sproject.io/stable/runtime/
func planK0s(p *planner) {
	const main, merged = "etc/k0s/containerd.toml", "run/k0s/containerd-cri.toml"
	if data := p.text(main); data != nil && !bytes.Contains(data, []byte("k0s_managed=true")) && !p.Force {
		p.refuse(hinterr.ErrUnsupported, "vfix install containerd --config /"+main, "/%s: is not managed by k0s, which then reads no /%s", main, path.Dir(p.configPath()))
	}
	h := handler{version: 2}
	if p.isContainerd2([]string{"var/lib/k0s/bin/containerd"}) {
		h.version = 3
	}
	h.like = p.model(p.parseTOML("/"+merged, p.text(merged)), h.version)
	p.criBlock(p.configPath(), h, true)
}

// planRancher adds the runtime to the containerd of k3s and RKE2, which write its
// configuration again at each start: from 1.36 on with the files of a directory, else from a
// template. https://docs.k3s.io/advanced#configuring-containerd
func planRancher(p *planner) {
	dir := p.configPath()
	file := path.Join(dir, "config.toml")
	made := p.text(file)
	if made == nil {
		p.refuse(ErrNoEngine, "start it once, so that it shows which containerd it has", "/%s: not there: %s has not been started yet", file, p.Engine)
		return
	}
	tree := p.parseTOML("/"+file, made)
	h := handler{cgroup: "{{ .SystemdCgroup }}", version: p.versionOf(file, tree)}
	own := map[int]string{2: "config", 3: "config-v3"}[h.version]
	if own == "" {
		p.refuse(hinterr.ErrUnsupported, "", "/%s: version %d; want 2 or 3", file, h.version)
		return
	}
	for _, pattern := range importsOf(file, tree) {
		if h.version == 3 && path.Base(path.Dir(pattern)) == own+".toml.d" {
			h.cgroup, h.like = "", p.model(tree, h.version)
			p.criBlock(path.Join(path.Dir(pattern), "99-vfix.toml"), h, true)
			return
		}
	}
	p.template(path.Join(dir, own+".toml.tmpl"), h)
}

// template plans a template of k3s. It is not TOML, so its result cannot be checked here.
func (p *planner) template(name string, h handler) {
	if p.Default {
		p.refuse(hinterr.ErrUnsupported, fmt.Sprintf("start %s with --default-runtime=%s, and omit --default-runtime here", p.Engine, p.Name),
			"/%s: a template; vfix cannot change the default runtime in it", name)
	}
	p.edit(name, block, nil, func(base []byte) []byte {
		if bytes.Contains(base, []byte(".runtimes."+p.Name+"]")) {
			p.refuse(ErrConflict, "choose another name with --name", "/%s: has another runtime %s already", name, p.Name)
		}
		if len(bytes.TrimSpace(base)) == 0 {
			base = []byte("{{ template \"base\" . }}\n")
		}
		return addBlock(base, p.Name, p.table(h))
	})
	if !p.exists(name) {
		p.warn("/%s: '{{ template \"base\" . }}' needs %s of September 2023 or later", name, p.Engine)
	}
}
