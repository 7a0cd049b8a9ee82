// Install: a plan with one step for each file, made from the engine's configuration and the earlier record.

package install

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strings"

	"vfix.dev/vfix/internal/hinterr"
)

// Defaults of Options.
const (
	DefaultName   = "vfix"
	DefaultPrefix = "/usr/local"
)

// step is one file of a plan: its present content, its new content, and its record.
type step struct {
	path   string
	now    *content
	base   *content // its content without vfix, if a copy of that must be kept
	next   *content
	rec    *record // nil: no longer vfix's
	action Action
}

func (s *step) changes() bool { return hashOf(s.now) != hashOf(s.next) }

// Install makes vfix a runtime of an engine. Doing it again changes nothing, or only what differs in the
// options or in this vfix.
func Install(o Options) (*Result, error) {
	o.Name, o.Prefix = cmp.Or(o.Name, DefaultName), cmp.Or(o.Prefix, DefaultPrefix)
	if err := CheckName(o.Name); err != nil {
		return nil, err
	}
	return withTree(o, func(t *tree) *Result { return t.install(o) })
}

// withTree opens the root and the state, and locks it if something may be written.
func withTree(o Options, do func(*tree) *Result) (*Result, error) {
	if runtime.GOOS != "linux" && !o.DryRun {
		return nil, hinterr.Errorf(hinterr.ErrUnsupported, "vfix can be installed only on Linux")
	}
	t, err := openTree(o.Root)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	if testStep != nil {
		t.step = testStep
	}
	if !o.DryRun {
		defer t.lockState()()
		if t.err == nil {
			defer func() { // these go if nothing is in them now
				t.removeDir(stateDir)
				for _, d := range slices.Backward(t.made) {
					t.removeDir(d)
				}
			}()
		}
	}
	t.old = t.loadState()
	if t.made == nil {
		t.made = slices.Clone(t.old.Dirs)
	}
	var r *Result
	if t.err == nil {
		r = do(t)
	}
	if t.err == nil {
		return r, nil
	}
	// Messages have paths from the root; those of os.Root's errors have no slash.
	if p := (*fs.PathError)(nil); errors.As(t.err, &p) && !path.IsAbs(p.Path) {
		p.Path = "/" + p.Path
	}
	return nil, t.err
}

// testStep is called before each change to the disk.
var testStep func()

func (t *tree) install(o Options) *Result {
	if o.Engine == Auto {
		o.Engine = t.auto(o.Root)
	}
	e, ok := engines[o.Engine]
	switch {
	case !ok:
		t.refuse(ErrNoEngine, "", "engine %q: want one of %v", o.Engine, Engines)
	case o.Hook && !slices.Contains(HookEngines, o.Engine):
		t.refuse(hinterr.ErrUnsupported, "", "%s: it has no directory of hooks", o.Engine)
	case o.Hook:
		e.config, e.plan, e.cri = hookFile, planHook, false // the engine gets the hook, in place of the runtime
	}
	if !o.Force && o.Config == "" && !slices.ContainsFunc(e.signs, t.exists) {
		t.noEngine(o)
	}
	if t.err != nil {
		return nil
	}
	p := &planner{tree: t, Options: o, engine: e, result: &Result{Engines: []Engine{o.Engine}, Commands: e.commands}, wraps: o.Runtime}
	if e.cri {
		p.result.RuntimeClass = runtimeClass(o.Name)
	}
	// The engine's configuration is written last: the files that it names must exist.
	p.planProgram()
	programs := len(p.steps)
	e.plan(p)
	own := len(p.steps)
	p.checkRuntime()
	p.planRuntime()
	p.steps = slices.Concat(p.steps[:programs], p.steps[own:], p.steps[programs:own])
	next := &state{Schema: stateSchema, Dirs: union(slices.Clone(t.old.Dirs), t.made...), Files: slices.Clone(t.old.Files)}
	for _, s := range p.steps {
		next.Dirs = union(next.Dirs, t.missing(s.path)...)
		if old := next.find(s.path); old != nil {
			*old = *s.rec
		} else {
			next.Files = append(next.Files, *s.rec)
		}
	}
	p.dropRuntime(next)
	t.carryOut(o, p.result, next, p.steps, nil)
	return p.result
}

// dropRuntime undoes an earlier installation's configuration of vfix-runtime for this engine, if this one has
// none.
func (p *planner) dropRuntime(next *state) {
	rec := next.find(runtimeConfig)
	if rec == nil || slices.ContainsFunc(p.steps, func(s step) bool { return s.path == runtimeConfig }) {
		return
	}
	rec.Engines = slices.DeleteFunc(slices.Clone(rec.Engines), func(e Engine) bool { return e == p.Engine })
	if len(rec.Engines) > 0 {
		return
	}
	p.steps = append(p.steps, p.undoStep(*rec, p.result))
	next.Files = slices.DeleteFunc(next.Files, func(r record) bool { return r.Path == runtimeConfig })
}

// noEngine refuses an engine that is not found, and names those that are.
func (t *tree) noEngine(o Options) {
	hint := "name its configuration file with --config, or use --force"
	var found []string
	for _, e := range t.detect() {
		found = append(found, string(e))
	}
	if len(found) > 0 {
		hint = fmt.Sprintf("found: %s; for %s %s", strings.Join(found, ", "), o.Engine, hint)
	}
	t.refuse(ErrNoEngine, hint, "%s: not found in %s", o.Engine, o.Root)
}

// change plans one file: edit makes its new content from its content without vfix.
func (p *planner) change(at string, k kind, set []value, edit func(base *content) *content) {
	now := p.read(at)
	base := p.without(at, now)
	next := edit(base)
	rec := &record{Path: at, Name: p.Name, Kind: k, Before: hashOf(base), After: hashOf(next), Set: set}
	if base != nil {
		rec.Link, rec.Meta = base.link, base.meta
	}
	if old := p.old.find(at); old != nil {
		rec.Engines = slices.Clone(old.Engines)
	}
	rec.Engines = union(rec.Engines, p.Engine)
	s := step{path: at, now: now, base: base, next: next, rec: rec, action: Replace}
	if now == nil {
		s.action = Create
	}
	if !s.changes() {
		s.next = now
	}
	p.steps = append(p.steps, s)
}

// without returns the content of a file, now its present content, without vfix's part.
func (t *tree) without(at string, now *content) *content {
	if r := t.old.find(at); r != nil && now != nil {
		now, _ = t.undo(r, now)
	}
	return now
}

// undo returns the content of a file after vfix's part is removed, and a note.
func (t *tree) undo(r *record, now *content) (*content, string) {
	switch hashOf(now) {
	case r.After:
		return t.before(r), ""
	case r.Before, "":
		return now, ""
	}
	if r.Kind == program || now.link != "" {
		return now, fmt.Sprintf("/%s: changed since vfix wrote it: left as it is", r.Path)
	}
	before := t.before(r)
	var rest []byte
	var changed []string
	var err error
	if r.Kind == member {
		rest, changed, err = takeMembers("/"+r.Path, now.data, before.bytes(), r.Set)
	} else {
		rest, _, err = takeBlock("/"+r.Path, now.data, r.Name)
	}
	t.failed(err)
	note := fmt.Sprintf("/%s: changed since vfix wrote it: only vfix's part is removed", r.Path)
	if len(changed) > 0 {
		note += "; not " + strings.Join(changed, ", ") + ", which has another value now"
	}
	// A file that vfix made is removed, unless somebody else wrote something into it.
	if text := strings.Join(strings.Fields(string(rest)), ""); before == nil && (text == "" || r.Kind == member && text == "{}") {
		return nil, note
	}
	return &content{data: rest, meta: now.meta}, note
}
