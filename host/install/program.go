// Shared by all engines: the programs vfix and vfix-runtime, and the runtime's own configuration.

package install

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/internal/carried"
	"vfix.dev/vfix/internal/hinterr"
)

const (
	programName = "vfix"
	// runtimeName is the name of the runtime: a program, or a link to vfix, which recognizes it.
	runtimeName = "vfix-runtime"
	// labelModel is a file with the SELinux label of programs.
	labelModel = "usr/bin/env"
)

// runtimeConfig is what vfix-runtime reads: engines give it no options.
var runtimeConfig = rel(policy.ConfigFile)

// planProgram plans what all engines share: vfix, and the runtime.
func (p *planner) planProgram() {
	const hint = "name a vfix for linux/amd64 with --program"
	data, err := readProgram(p.Program)
	switch {
	case p.failed(err):
		return
	case !isProgram(data):
		p.refuse(hinterr.ErrDamaged, hint, "%s: not a Linux program", p.Program)
		return
	}
	runtime, err := runtimeIn(data)
	if err != nil {
		p.refuse(hinterr.ErrDamaged, hint, "%s: the vfix-runtime in it: %v", p.Program, err)
	}
	bin := p.resolve(path.Join(rel(p.Prefix), "bin")) // a link there is itself meant, not what it leads to
	p.change(path.Join(bin, programName), program, nil, func(*content) *content { return p.program(data) })
	p.change(path.Join(bin, runtimeName), program, nil, func(base *content) *content {
		if base != nil && base.link == "" {
			p.refuse(ErrConflict, "choose another directory with --prefix", "/%s: not vfix's", path.Join(rel(p.Prefix), "bin", runtimeName))
		}
		if runtime == nil {
			return &content{link: programName}
		}
		return p.program(runtime)
	})
}

// program is a program as it is installed, with the SELinux label that programs have in the root.
func (p *planner) program(data []byte) *content {
	c := fresh(data, 0o755)
	if f, err := p.open(labelModel); err == nil {
		defer f.Close()
		if fi, err := f.Stat(); err == nil {
			if label := metaOf(f, fi).Attrs[labelXattr]; label != nil {
				c.meta.Attrs = map[string][]byte{labelXattr: label}
			}
		}
	}
	return c
}

// planRuntime plans the runtime's own configuration, if there is anything to configure.
func (p *planner) planRuntime() {
	var set []value
	for _, option := range []struct {
		name string
		on   bool
	}{{"fail_closed", p.FailClosed}, {"fallback", p.Fallback}, {"opt_in", p.OptIn}} {
		if option.on {
			set = append(set, jsonValue(true, option.name))
		}
	}
	if p.wraps != "" {
		set = append(set, jsonValue(p.wraps, "runtime"))
	}
	text := p.base(runtimeConfig)
	if len(set) > 0 {
		p.agreed(set)
		p.members(runtimeConfig, set)
		text = p.steps[len(p.steps)-1].next.bytes()
	}
	if text == nil || p.err != nil {
		return
	}
	c, err := policy.Parse(text)
	if err != nil { // vfix-runtime would reject it
		p.refuse(hinterr.ErrDamaged, "correct it; 'vfix runtime check' reads it", "/%s: %v", runtimeConfig, err)
	}
	if err := c.RefusesAll(); err != nil {
		p.warn("/%s: %v; %s", runtimeConfig, err, hinterr.HintOf(err))
	}
}

// agreed refuses a different setting for the runtime of another engine: there is one file.
func (p *planner) agreed(set []value) {
	r := p.old.find(runtimeConfig)
	if r == nil || p.Force || !slices.ContainsFunc(r.Engines, func(e Engine) bool { return e != p.Engine }) {
		return
	}
	for _, old := range r.Set {
		for _, v := range set {
			if slices.Equal(old.Path, v.Path) && string(old.Value) != string(v.Value) {
				p.refuse(ErrConflict, "use --force if that is meant", "/%s: %s is %s for %s, and would become %s for all engines",
					runtimeConfig, strings.Join(v.Path, "."), old.Value, r.Engines[0], v.Value)
			}
		}
	}
}

// checkRuntime warns if the real runtime is not found in the root.
func (p *planner) checkRuntime() {
	names := []string{p.wraps}
	if p.wraps == "" {
		names = []string{"runc", "crun"}
	}
	switch {
	case p.find(names) != "":
	case p.wraps == "" && p.cri: // Kubernetes distributions bring their own, in the PATH of their containerd
	case p.Runtime != "" && !p.Force:
		p.refuse(ErrConflict, "check the name, or use --force", "runtime %s: not found in %s", p.Runtime, p.Root)
	case strings.Contains(p.wraps, "/") && !path.IsAbs(p.wraps):
		p.refuse(hinterr.ErrUnsupported, "", "runtime %s: want a name or an absolute path", p.wraps)
	default:
		p.warn("%s: not found in %s; vfix-runtime looks for it when a container starts", strings.Join(names, " or "), p.Root)
	}
}

// find is the path in the root of the first runtime found, by path or name; "" if none is there.
func (t *tree) find(names []string) string {
	for _, name := range names {
		places := []string{rel(name)}
		if !strings.Contains(name, "/") {
			places = bins(name)
		} else if !path.IsAbs(name) {
			continue
		}
		if i := slices.IndexFunc(places, t.exists); i >= 0 {
			return "/" + places[i]
		}
	}
	return ""
}

// readProgram reads the vfix to install.
func readProgram(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return data, nil
}

// runtimeClass is the Kubernetes object by which pods choose the runtime.
// https://kubernetes.io/docs/concepts/containers/runtime-class/
func runtimeClass(name string) string {
	return fmt.Sprintf("apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata:\n  name: %s\nhandler: %s\n", name, name)
}

// runtimeIn returns the vfix-runtime that a vfix for linux/amd64 carries, of the same version; nil if it was
// built without one. A link to that vfix then does the same work, more slowly.
func runtimeIn(vfix []byte) ([]byte, error) {
	for _, p := range carried.In(vfix) {
		if p.Name != runtimeName {
			continue
		}
		program, err := p.Unpack(maxFile)
		if err == nil && !isProgram(program) {
			err = hinterr.Errorf(hinterr.ErrDamaged, "not a Linux program")
		}
		return program, err
	}
	return nil, nil
}

// isProgram reports whether a file is, by its head and size, one that can be installed.
func isProgram(data []byte) bool {
	return len(data) <= maxFile && bytes.HasPrefix(data, []byte("\x7fELF"))
}
