// Shared by all engines: the programs vfix and vfix-runtime, and the runtime's own configuration.

package install

import (
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/internal/hinterr"
)

const (
	programName = "vfix"
	// runtimeName is that of the runtime: a program, or a link to vfix, which knows by it what to do.
	runtimeName = "vfix-runtime"
	// labelModel has the SELinux label that programs have.
	labelModel = "usr/bin/env"
)

// runtimeConfig is what vfix-runtime reads: engines give it no options.
var runtimeConfig = rel(policy.ConfigFile)

// fresh is a file of root's that is not there yet.
func (p *planner) fresh(mode os.FileMode) *content {
	uid, gid := owner()
	return &content{meta: meta{Mode: mode, UID: uid, GID: gid}}
}

// planProgram adds the items that all engines share: vfix, and the runtime.
func (p *planner) planProgram() error {
	data, err := readProgram(p.Program)
	if err != nil {
		return err
	}
	runtime, err := runtimeIn(data)
	if err != nil {
		return hinterr.With(hinterr.Errorf(hinterr.ErrDamaged, "%s: the vfix-runtime in it: %v", p.Program, err), "name a vfix for linux/amd64 with --program")
	}
	bin := path.Join(rel(p.Prefix), "bin")
	p.items = append(p.items,
		item{path: path.Join(bin, programName), kind: program, add: func(*content) (*content, error) { return p.program(data), nil }},
		item{path: path.Join(bin, runtimeName), kind: program, add: func(base *content) (*content, error) {
			if base != nil && base.link == "" {
				return nil, hinterr.With(hinterr.Errorf(ErrConflict, "/%s: not vfix's", path.Join(bin, runtimeName)), "choose another directory with --prefix")
			}
			if runtime == nil {
				return &content{link: programName}, nil
			}
			return p.program(runtime), nil
		}})
	return nil
}

// program is a program as it is installed.
func (p *planner) program(data []byte) *content {
	c := p.fresh(0o755)
	c.data, c.meta.Label = data, p.programLabel()
	return c
}

// planRuntime adds the item for the runtime's own configuration, if it has something to
// say.
func (p *planner) planRuntime() error {
	var set []value
	if p.wraps != "" {
		set = append(set, jsonValue(p.wraps, "runtime"))
	}
	for name, on := range map[string]bool{"fail_closed": p.FailClosed, "opt_in": p.OptIn, "fallback": p.Fallback} {
		if on {
			set = append(set, jsonValue(true, name))
		}
	}
	slices.SortFunc(set, func(a, b value) int { return slices.Compare(a.Path, b.Path) })
	if text, err := p.base(runtimeConfig); err != nil || len(set) == 0 && text == nil {
		return err
	} else if len(set) == 0 { // it must be right all the same
		return validPolicy(text)
	}
	if err := p.agreed(set); err != nil {
		return err
	}
	p.text(runtimeConfig, member, set, func(base []byte) ([]byte, error) {
		next, err := addMembers("/"+runtimeConfig, base, set)
		if err != nil {
			return nil, err
		}
		return next, validPolicy(next)
	})
	return nil
}

// validPolicy refuses what vfix-runtime would not take.
func validPolicy(text []byte) error {
	if _, err := policy.Parse(text); err != nil {
		return hinterr.With(hinterr.Errorf(hinterr.ErrDamaged, "/%s: %v", runtimeConfig, err), "correct it; 'vfix runtime check' reads it")
	}
	return nil
}

// agreed refuses a different setting for the runtime of another engine: there is one file.
func (p *planner) agreed(set []value) error {
	r := p.st.find(runtimeConfig)
	if r == nil || p.Force || !slices.ContainsFunc(r.Engines, func(e Engine) bool { return e != p.Engine }) {
		return nil
	}
	for _, old := range r.Set {
		for _, v := range set {
			if slices.Equal(old.Path, v.Path) && string(old.Value) != string(v.Value) {
				return hinterr.With(hinterr.Errorf(ErrConflict, "/%s: %s is %s for %s, and would become %s for all engines",
					runtimeConfig, strings.Join(v.Path, "."), old.Value, r.Engines[0], v.Value), "use --force if that is meant")
			}
		}
	}
	return nil
}

// checkRuntime warns where the real runtime is not found in the root.
func (p *planner) checkRuntime() error {
	names := []string{p.wraps}
	if p.wraps == "" {
		names = []string{"runc", "crun"}
	}
	for _, name := range names {
		if path.IsAbs(name) && p.exists(rel(name)) || !strings.Contains(name, "/") && slices.ContainsFunc(bins(name), p.exists) {
			return nil
		}
	}
	switch {
	case p.wraps == "" && p.cri:
		return nil // Kubernetes distributions bring their own, in the PATH of their containerd
	case p.Runtime != "" && !p.Force:
		return hinterr.With(hinterr.Errorf(ErrConflict, "runtime %s: not found in %s", p.Runtime, p.Root), "check the name, or use --force")
	case strings.Contains(p.wraps, "/") && !path.IsAbs(p.wraps):
		return hinterr.Errorf(hinterr.ErrUnsupported, "runtime %s: want a name or an absolute path", p.wraps)
	}
	p.warn("%s: not found in %s; vfix-runtime looks for it when a container starts", strings.Join(names, " or "), p.Root)
	return nil
}

// readProgram reads the vfix to install.
func readProgram(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxProgram+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if !isProgram(data) {
		return nil, hinterr.With(hinterr.Errorf(hinterr.ErrDamaged, "%s: not a Linux program", name), "name a vfix for linux/amd64 with --program")
	}
	return data, nil
}

// programLabel is the SELinux label that programs have in the root, "" if they have none.
func (p *planner) programLabel() string {
	at, err := p.resolve(labelModel)
	if err != nil {
		return ""
	}
	c, err := p.read(at, maxProgram)
	if c == nil || err != nil {
		return ""
	}
	return c.meta.Label
}

// runtimeClass is the Kubernetes object by which pods choose the runtime.
// https://kubernetes.io/docs/concepts/containers/runtime-class/
func runtimeClass(name string) string {
	return fmt.Sprintf("apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata:\n  name: %s\nhandler: %s\n", name, name)
}

// namedRuntime is the real runtime that a configuration of vfix-runtime names, "" for none.
func namedRuntime(text []byte) string {
	c, _ := policy.Parse(text)
	return c.Runtime
}
