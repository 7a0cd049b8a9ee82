// CRI-O and podman read directories of files with parts of their configuration: vfix adds its own file there.

package install

import (
	"fmt"

	"github.com/pelletier/go-toml/v2"

	"vfix.dev/vfix/host/ociruntime"
	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/internal/hinterr"
)

// planCRIO: https://github.com/cri-o/cri-o/blob/main/docs/crio.conf.5.md. There is no
// allowed_annotations: CRI-O drops a handler that names an annotation that it does not know
// (pkg/config, ValidateRuntimeAllowedAnnotations), and hands on those of vfix anyway.
func planCRIO(p *planner) {
	body := ""
	if p.Default {
		body = fmt.Sprintf("[crio.runtime]\ndefault_runtime = %q\n\n", p.Name)
	}
	body += fmt.Sprintf("[crio.runtime.runtimes.%s]\nruntime_path = %q\nruntime_type = \"oci\"\n", p.Name, p.runtimePath())
	p.blockFile(p.configPath(), body, "crio", "runtime", "runtimes", p.Name, "runtime_path")
}

// planPodman: https://github.com/containers/common/blob/main/docs/containers.conf.5.md.
func planPodman(p *planner) {
	body := ""
	if p.Default {
		body = podmanDefault(p.Name)
	}
	body += fmt.Sprintf("[engine.runtimes]\n%s = [%q]\n", p.Name, p.runtimePath())
	p.blockFile(p.configPath(), body, "engine", "runtimes", p.Name)
	p.note("podman run --runtime=%s IMAGE", p.Name)
}

func podmanDefault(name string) string { return fmt.Sprintf("[engine]\nruntime = %q\n\n", name) }

// blockFile plans a TOML file that gets a block at its end; names lead to a value that must be there then. It
// refuses a file that is not TOML, one that already has what vfix would add, and one that the engine could
// not read with the block.
func (p *planner) blockFile(name, body string, names ...string) {
	p.edit(name, block, nil, func(base []byte) []byte {
		file := "/" + name
		v := p.parseTOML(file, base)
		if lookup(v, names) != nil || lookup(v, names[:len(names)-1]) != nil && names[len(names)-1] == "runtime_path" {
			p.refuse(ErrConflict, "choose another name with --name, or remove that one", "%s: has another runtime %s already", file, p.Name)
		}
		next := addBlock(base, p.Name, body)
		v, err := parseTOML(file, next)
		if err != nil {
			p.refuse(ErrConflict, "it may have a runtime of the same name, or tables in braces: put them on lines of their own", "%s: a table cannot be added at its end: %v", file, err)
		} else if lookup(v, names) == nil {
			p.refuse(ErrConflict, "", "%s: the runtime would not be found in it", file)
		}
		return next
	})
}

func (p *planner) parseTOML(file string, data []byte) map[string]any {
	v, err := parseTOML(file, data)
	p.failed(err)
	return v
}

// parseTOML parses a file into maps.
func parseTOML(file string, data []byte) (map[string]any, error) {
	v := map[string]any{}
	if err := toml.Unmarshal(data, &v); err != nil {
		at := ""
		if d, ok := err.(*toml.DecodeError); ok {
			row, column := d.Position()
			at = fmt.Sprintf(" in line %d, column %d", row, column)
		}
		return nil, hinterr.With(hinterr.Errorf(hinterr.ErrDamaged, "%s: %v%s", file, err, at), "correct it, or move it away")
	}
	return v, nil
}

// lookup returns the value that names lead to, nil for none.
func lookup(v any, names []string) any {
	for _, n := range names {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[n]
	}
	return v
}

// hookFile names vfix-runtime as an OCI hook of podman and CRI-O, which look for such files at each start
// (https://github.com/containers/common/blob/main/pkg/hooks/docs/oci-hooks.5.md). It is in the one directory that both
// engines look into unless they are configured otherwise: podman 5 does not look into the one in /etc, and a user's own
// podman into none.
const hookFile = "usr/share/containers/oci/hooks.d/99-vfix.json"

// HookEngines are the engines that can have a hook.
var HookEngines = []Engine{Podman, CRIO}

func planHook(p *planner) {
	type object = map[string]any
	when := object{"always": true}
	if p.OptIn {
		when = object{"annotations": object{`^dev\.vfix\.enable$`: "^true$"}}
	}
	p.members(p.configPath(), []value{
		jsonValue("1.0.0", "version"),
		jsonValue(object{
			"path": p.runtimePath(), "args": []string{runtimeName, ociruntime.HookCommand},
			"timeout": int(policy.Config{}.HookTimeout().Seconds()),
		}, "hook"),
		jsonValue(when, "when"),
		jsonValue([]string{"createRuntime"}, "stages"),
	})
}
