// Which parts of vfix are installed, whether they are unchanged, and whether a container starts through vfix.
// This is the one thing here that runs programs: the installed one, and a container of a few hundred bytes.

package install

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Checked is what Check found.
type Checked struct {
	Installed bool            `json:"installed"`
	Program   string          `json:"program"` // path of the runtime in the engines' configurations
	Version   string          `json:"version"` // the program's own; "" if it was not run
	Files     []CheckedFile   `json:"files"`
	Engines   []CheckedEngine `json:"engines"`
	Start     *CheckedStart   `json:"start"` // nil if none was tried
	// Problems are what is wrong; empty where all is well.
	Problems []string `json:"problems"`
}

// CheckedFile is one that vfix wrote.
type CheckedFile struct {
	Path  string    `json:"path"`
	State FileState `json:"state"`
}

// FileState is the present state of a file.
type FileState string

// The states of a file.
const (
	AsInstalled FileState = "as installed"
	Changed     FileState = "changed since"
	Gone        FileState = "missing"
)

// CheckedEngine says whether an engine's configuration names the runtime.
type CheckedEngine struct {
	Engine Engine `json:"engine"`
	Config string `json:"config"`
	Names  bool   `json:"names_runtime"`
}

// CheckedStart is a container that was started.
type CheckedStart struct {
	OK      bool    `json:"ok"`
	Runtime string  `json:"runtime"` // the real one
	Seconds float64 `json:"seconds"` // until it had ended
}

// Check looks at what is installed, for one engine or for all (""), and starts a container unless the
// root directory is that of another machine.
func Check(ctx context.Context, o Options) (*Checked, error) {
	t, err := openTree(o.Root)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	st := t.loadState()
	c := &Checked{Installed: len(st.Files) > 0}
	if !c.Installed && t.err == nil {
		c.problem("vfix is not installed: there is no /" + stateFile)
		return c, nil
	}
	for i := range st.Files {
		c.file(t, &st.Files[i])
	}
	c.engines(t, st, o.Engine)
	if t.err != nil {
		return nil, t.err
	}
	if path.Clean(o.Root) == "/" && c.Program != "" {
		c.run(ctx)
	}
	return c, nil
}

func (c *Checked) problem(format string, a ...any) {
	c.Problems = append(c.Problems, fmt.Sprintf(format, a...))
}

// file compares a file with what was written.
func (c *Checked) file(t *tree, r *record) {
	f := CheckedFile{Path: "/" + r.Path, State: AsInstalled}
	switch hashOf(t.read(r.Path)) {
	case "":
		f.State = Gone
	case r.After:
	default:
		f.State = Changed
	}
	c.Files = append(c.Files, f)
	if r.Kind == program && path.Base(r.Path) == runtimeName {
		c.Program = f.Path
	}
	// Others may write to a configuration; the programs are vfix's own.
	if f.State == Gone || f.State == Changed && r.Kind == program {
		c.problem("%s: %s", f.Path, f.State)
	}
}

// engines looks for the program in the configuration of engines.
func (c *Checked) engines(t *tree, st *state, only Engine) {
	for _, e := range st.engines() {
		if only != "" && e != only {
			continue
		}
		checked := CheckedEngine{Engine: e}
		for _, r := range st.Files {
			if r.Kind == program || r.Path == runtimeConfig || !slices.Contains(r.Engines, e) {
				continue
			}
			checked.Config = "/" + r.Path
			checked.Names = checked.Names || bytes.Contains(t.text(r.Path), []byte(c.Program))
		}
		if !checked.Names {
			c.problem("%s: %s does not name %s: run 'vfix install %s' again", e, checked.Config, c.Program, e)
		}
		c.Engines = append(c.Engines, checked)
	}
	if only != "" && len(c.Engines) == 0 {
		c.problem("%s: vfix is not installed for it", only)
	}
}

// lastLines is the end of what a program printed, on one line.
func lastLines(text []byte) string {
	const most = 400
	s := strings.Join(strings.FieldsFunc(strings.TrimSpace(string(text)), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	return s[max(len(s)-most, 0):]
}
