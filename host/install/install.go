// Install: a plan of one step a file, made from what the engine reads and what was recorded
// before.

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

// step is one file of a plan: what it holds, what it is to hold, and what is recorded of it.
type step struct {
	path   string
	now    *content
	next   *content
	rec    *record // nil: no longer vfix's
	action Action
}

func (s *step) changes() bool { return hashOf(s.now) != hashOf(s.next) }

// Install makes vfix a runtime of an engine. Doing it again changes nothing, or only what the
// options or this vfix have that was otherwise.
func Install(o Options) (*Result, error) {
	o.Name, o.Prefix = cmp.Or(o.Name, DefaultName), cmp.Or(o.Prefix, DefaultPrefix)
	if err := CheckName(o.Name); err != nil {
		return nil, err
	}
	return withTree(o, func(t *tree, st *state) (*Result, error) { return t.install(o, st) })
}

// withTree opens the root and the state, and locks it where something may be written.
func withTree(o Options, do func(*tree, *state) (*Result, error)) (r *Result, err error) {
	defer func() {
		// Messages have paths from the root; those of os.Root's errors have no slash.
		if p := (*fs.PathError)(nil); errors.As(err, &p) && !path.IsAbs(p.Path) {
			p.Path = "/" + p.Path
		}
	}()
	if runtime.GOOS != "linux" && !o.DryRun {
		return nil, hinterr.Errorf(hinterr.ErrUnsupported, "engines are installed for on Linux only")
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
		unlock, err := t.lockState()
		if err != nil {
			return nil, err
		}
		defer unlock()
		defer func() { // these go if nothing is in them now
			t.removeDir(stateDir)
			for _, d := range slices.Backward(t.made) {
				t.removeDir(d)
			}
		}()
	}
	st, err := t.loadState()
	if err != nil {
		return nil, err
	}
	if t.made == nil {
		t.made = slices.Clone(st.Dirs)
	}
	return do(t, st)
}

// testStep is called before each change to the disk.
var testStep func()

func (t *tree) install(o Options, st *state) (*Result, error) {
	if o.Engine == Auto {
		var err error
		if o.Engine, err = t.auto(o.Root); err != nil {
			return nil, err
		}
	}
	e, ok := engines[o.Engine]
	if !ok {
		return nil, hinterr.Errorf(ErrNoEngine, "engine %q: want one of %v", o.Engine, Engines)
	}
	if o.Hook {
		if !slices.Contains(HookEngines, o.Engine) {
			return nil, hinterr.Errorf(hinterr.ErrUnsupported, "%s: it has no directory of hooks", o.Engine)
		}
		e = e.hooked()
	}
	if !o.Force && o.Config == "" && !slices.ContainsFunc(e.signs, t.exists) {
		return nil, t.noEngine(o)
	}
	p := &planner{tree: t, Options: o, engine: e, st: st, result: &Result{Engines: []Engine{o.Engine}, Commands: e.commands}, wraps: o.Runtime}
	if e.cri {
		p.result.RuntimeClass = runtimeClass(o.Name)
	}
	if err := p.planProgram(); err != nil {
		return nil, err
	}
	if err := e.plan(p); err != nil {
		return nil, err
	}
	if err := errors.Join(p.checkRuntime(), p.planRuntime()); err != nil {
		return nil, err
	}
	// The engine's configuration is written last: what it names must be there.
	slices.SortStableFunc(p.items, func(a, b item) int { return cmp.Compare(rank(a), rank(b)) })
	next := &state{Schema: stateSchema, Dirs: slices.Clone(st.Dirs), Files: slices.Clone(st.Files)}
	for _, d := range t.made {
		if !slices.Contains(next.Dirs, d) {
			next.Dirs = append(next.Dirs, d)
		}
	}
	var steps []step
	for _, it := range p.items {
		s, err := p.stepOf(it)
		if err != nil {
			return nil, err
		}
		steps = append(steps, s)
		dirs, err := t.missing(s.path)
		if err != nil {
			return nil, err
		}
		for _, d := range dirs {
			if !slices.Contains(next.Dirs, d) {
				next.Dirs = append(next.Dirs, d)
			}
		}
		if old := next.find(s.path); old != nil {
			*old = *s.rec
		} else {
			next.Files = append(next.Files, *s.rec)
		}
	}
	if s, err := p.dropRuntime(next); err != nil {
		return nil, err
	} else if s != nil {
		steps = append(steps, *s)
	}
	if err := t.carryOut(o, p.result, st, next, steps, nil); err != nil {
		return nil, err
	}
	return p.result, nil
}

// dropRuntime takes back the configuration of vfix-runtime by an earlier installation for this engine, if
// this one has none.
func (p *planner) dropRuntime(next *state) (*step, error) {
	i := slices.IndexFunc(next.Files, func(r record) bool { return r.Path == runtimeConfig })
	if i < 0 || slices.ContainsFunc(p.items, func(it item) bool { return it.path == runtimeConfig }) {
		return nil, nil
	}
	rec := &next.Files[i]
	rec.Engines = slices.DeleteFunc(slices.Clone(rec.Engines), func(e Engine) bool { return e == p.Engine })
	if len(rec.Engines) > 0 {
		return nil, nil
	}
	s, note, err := p.undoStep(*rec)
	if note != "" {
		p.warn("%s", note)
	}
	next.Files = slices.Delete(next.Files, i, i+1)
	return &s, err
}

func rank(it item) int {
	switch {
	case it.kind == program:
		return 0
	case it.path == runtimeConfig:
		return 1
	}
	return 2
}

// noEngine is the error for an engine that is not found, with what is.
func (t *tree) noEngine(o Options) error {
	err := hinterr.Errorf(ErrNoEngine, "%s: not found in %s", o.Engine, o.Root)
	var found []string
	for _, e := range t.detect() {
		found = append(found, string(e))
	}
	if len(found) == 0 {
		return hinterr.With(err, "name its configuration file with --config, or use --force")
	}
	return hinterr.With(err, "found: %s; for %s name its configuration file with --config, or use --force", strings.Join(found, ", "), o.Engine)
}

// stepOf plans one file.
func (p *planner) stepOf(it item) (step, error) {
	at, err := p.resolve(it.path)
	if err != nil {
		return step{}, err
	}
	if it.kind == program { // the link itself, not what it leads to
		dir, err := p.resolve(path.Dir(it.path))
		if err != nil {
			return step{}, err
		}
		at = path.Join(dir, path.Base(it.path))
	}
	now, err := p.read(at, maxProgram)
	if err != nil {
		return step{}, err
	}
	base, err := p.without(at, now)
	if err != nil {
		return step{}, err
	}
	next, err := it.add(base)
	if err != nil {
		return step{}, err
	}
	rec := &record{Path: at, Name: p.Name, Kind: it.kind, Before: hashOf(base), After: hashOf(next), Set: it.set}
	if base != nil {
		rec.Link, rec.Meta = base.link, base.meta
	}
	if old := p.st.find(at); old != nil {
		rec.Engines = slices.Clone(old.Engines)
	}
	if !slices.Contains(rec.Engines, p.Engine) {
		rec.Engines = append(rec.Engines, p.Engine)
	}
	s := step{path: at, now: now, next: next, rec: rec, action: Replace}
	if now == nil {
		s.action = Create
	}
	if !s.changes() {
		s.next = now
	}
	return s, nil
}

// without returns what a file that holds now would hold without vfix.
func (t *tree) without(at string, now *content) (*content, error) {
	st, err := t.loadState()
	if err != nil {
		return nil, err
	}
	r := st.find(at)
	if r == nil || now == nil {
		return now, nil
	}
	c, _, err := t.undo(r, now)
	return c, err
}

// undo returns what a file is to hold when vfix's part is taken out of it, and what to say.
func (t *tree) undo(r *record, now *content) (*content, string, error) {
	switch hashOf(now) {
	case r.After:
		c, err := t.before(r)
		return c, "", err
	case r.Before:
		return now, "", nil
	}
	if now == nil {
		return nil, "", nil
	}
	if r.Kind == program || now.link != "" {
		return now, fmt.Sprintf("/%s: changed since vfix put it there: left as it is", r.Path), nil
	}
	before, err := t.before(r)
	if err != nil {
		return nil, "", err
	}
	var was []byte
	if before != nil {
		was = before.data
	}
	var rest []byte
	var changed []string
	if r.Kind == member {
		rest, changed, err = takeMembers("/"+r.Path, now.data, was, r.Set)
	} else {
		rest, _, err = takeBlock("/"+r.Path, now.data, r.Name)
	}
	if err != nil {
		return nil, "", err
	}
	note := fmt.Sprintf("/%s: changed since vfix wrote it: only vfix's part is taken out", r.Path)
	if len(changed) > 0 {
		note += "; not " + strings.Join(changed, ", ") + ", which has another value now"
	}
	if before == nil && nothingLeft(r.Kind, rest) {
		return nil, note, nil
	}
	return &content{data: rest, meta: now.meta}, note, nil
}

// nothingLeft says whether what remains of a file that vfix made has nothing in it that
// somebody wrote.
func nothingLeft(k kind, rest []byte) bool {
	text := strings.TrimSpace(string(rest))
	return text == "" || k == member && strings.Join(strings.Fields(text), "") == "{}"
}
