// The containerd of Kubernetes distributions that write its configuration themselves.

package install

import (
	"bytes"
	"errors"
	"io/fs"
	"path"

	"vfix.dev/vfix/internal/hinterr"
)

// planK0s adds a file to the folder that k0s merges into its containerd's configuration.
// https://docs.k0sproject.io/stable/runtime/
func planK0s(p *planner) error {
	const main, merged = "etc/k0s/containerd.toml", "run/k0s/containerd-cri.toml"
	data, err := p.readText(main)
	if err != nil {
		return err
	}
	if data != nil && !bytes.Contains(data, []byte("k0s_managed=true")) && !p.Force {
		return hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "/%s: is not managed by k0s, which then reads no /%s", main, path.Dir(p.configPath())),
			"vfix install containerd --config /%s", main)
	}
	h := handler{version: 2}
	if p.isContainerd2([]string{"var/lib/k0s/bin/containerd"}) {
		h.version = 3
	}
	if data, err = p.readText(merged); err == nil && data != nil {
		tree, err := parseTOML("/"+merged, data)
		if err != nil {
			return err
		}
		h.like = p.model(tree, h.version)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return p.addFile(p.configPath(), h)
}

// planRancher adds the runtime to the containerd of k3s and RKE2, which write its
// configuration again at each start: from 1.36 on with the files of a folder, else from a
// template. https://docs.k3s.io/advanced#configuring-containerd
func planRancher(p *planner) error {
	dir := p.configPath()
	made, err := p.readText(path.Join(dir, "config.toml"))
	if err != nil {
		return err
	}
	if made == nil {
		return hinterr.With(hinterr.Errorf(ErrNoEngine, "/%s/config.toml: not there: %s has not been started yet", dir, p.Engine),
			"start it once, so that it shows which containerd it has")
	}
	tree, err := parseTOML("/"+dir+"/config.toml", made)
	if err != nil {
		return err
	}
	h := handler{cgroup: "{{ .SystemdCgroup }}"}
	if h.version, err = versionOf(dir+"/config.toml", tree); err != nil {
		return err
	}
	own := map[int]string{2: "config", 3: "config-v3"}[h.version]
	if own == "" {
		return hinterr.Errorf(hinterr.ErrUnsupported, "/%s/config.toml: version %d; want 2 or 3", dir, h.version)
	}
	for _, pattern := range importsOf(dir+"/config.toml", tree) {
		if h.version == 3 && path.Base(path.Dir(pattern)) == own+".toml.d" {
			h.cgroup, h.like = "", p.model(tree, h.version)
			return p.addFile(path.Join(path.Dir(pattern), "99-vfix.toml"), h)
		}
	}
	return p.template(path.Join(dir, own+".toml.tmpl"), h)
}

// template adds an item for a template of k3s. It is not TOML, so that what comes out of it
// cannot be checked here.
func (p *planner) template(name string, h handler) error {
	text, err := h.text(p.Name, p.runtimePath())
	if err != nil {
		return err
	}
	if p.Default {
		return hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "/%s: a template; vfix cannot change the default runtime in it", name),
			"start %s with --default-runtime=%s, and omit --default-runtime here", p.Engine, p.Name)
	}
	p.text(name, block, nil, func(base []byte) ([]byte, error) {
		if bytes.Contains(base, []byte(".runtimes."+p.Name+"]")) {
			return nil, hinterr.With(hinterr.Errorf(ErrConflict, "/%s: has another runtime %s already", name, p.Name), "choose another name with --name")
		}
		if len(bytes.TrimSpace(base)) == 0 {
			base = []byte("{{ template \"base\" . }}\n")
		}
		return addBlock(base, p.Name, text), nil
	})
	if !p.exists(name) {
		p.warn("/%s: '{{ template \"base\" . }}' needs %s of September 2023 or later", name, p.Engine)
	}
	return nil
}
