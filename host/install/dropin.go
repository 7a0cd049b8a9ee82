// CRI-O and podman read folders of files with parts of their configuration: vfix has one of
// its own there.

package install

import (
	"fmt"

	"github.com/pelletier/go-toml/v2"

	"vfix.dev/vfix/internal/hinterr"
)

// planCRIO: https://github.com/cri-o/cri-o/blob/main/docs/crio.conf.5.md. There is no
// allowed_annotations: CRI-O drops a handler that names an annotation that it does not know
// (pkg/config, ValidateRuntimeAllowedAnnotations), and hands on those of vfix anyway.
func planCRIO(p *planner) error {
	body := ""
	if p.Default {
		body = fmt.Sprintf("[crio.runtime]\ndefault_runtime = %q\n\n", p.Name)
	}
	body += fmt.Sprintf("[crio.runtime.runtimes.%s]\nruntime_path = %q\nruntime_type = \"oci\"\n", p.Name, p.runtimePath())
	p.blockFile(p.configPath(), body, "crio", "runtime", "runtimes", p.Name, "runtime_path")
	return nil
}

// planPodman: https://github.com/containers/common/blob/main/docs/containers.conf.5.md.
func planPodman(p *planner) error {
	body := ""
	if p.Default {
		body = podmanDefault(p.Name)
	}
	body += fmt.Sprintf("[engine.runtimes]\n%s = [%q]\n", p.Name, p.runtimePath())
	p.blockFile(p.configPath(), body, "engine", "runtimes", p.Name)
	p.note("podman run --runtime=%s IMAGE", p.Name)
	return nil
}

func podmanDefault(name string) string { return fmt.Sprintf("[engine]\nruntime = %q\n\n", name) }

// blockFile adds an item for a TOML file that gets a block at its end; names lead to a value
// that must be there then.
func (p *planner) blockFile(name, body string, names ...string) {
	p.text(name, block, nil, func(base []byte) ([]byte, error) {
		if err := p.unclaimed("/"+name, base, names); err != nil {
			return nil, err
		}
		next := addBlock(base, p.Name, body)
		return next, checkTOML("/"+name, next, names)
	})
}

// unclaimed refuses a file that is not TOML, and one that has what vfix would add.
func (p *planner) unclaimed(file string, base []byte, names []string) error {
	v, err := parseTOML(file, base)
	if err != nil {
		return err
	}
	if lookup(v, names) != nil || lookup(v, names[:len(names)-1]) != nil && names[len(names)-1] == "runtime_path" {
		return hinterr.With(hinterr.Errorf(ErrConflict, "%s: has another runtime %s already", file, p.Name), "choose another name with --name, or take that one out")
	}
	return nil
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

// checkTOML refuses to write what the engine could not read.
func checkTOML(file string, data []byte, names []string) error {
	v, err := parseTOML(file, data)
	if err != nil {
		return hinterr.With(hinterr.Errorf(ErrConflict, "%s: a table cannot be added at its end: %v", file, err),
			"it may have a runtime of the same name, or tables in braces: put them on lines of their own")
	}
	if lookup(v, names) == nil {
		return hinterr.Errorf(ErrConflict, "%s: the runtime would not be found in it", file)
	}
	return nil
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
