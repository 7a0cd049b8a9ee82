// The work of one start.

package node

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/examiner"
)

// Options are what the program brings along.
type Options struct {
	Version string
	// Maker is what patches depend on: another value has other entries in the cache.
	Maker string
	// Library and Library32 return the preload library, and its empty twin for 32-bit programs.
	Library, Library32 func() []byte
}

// start is one start of a container.
type start struct {
	*Options
	load   func() (Config, error) // LoadConfig
	limits bounds
	config Config
	record Record
	pid    int // of the container's first process, which waits for the hook; 0 without a hook
}

// newStart returns the start of a container through a door.
func newStart(o *Options, door, id string) *start {
	return &start{Options: o, load: LoadConfig, limits: defaultBounds, record: Record{Door: door, Container: id}}
}

// errRequired: the container must not start, because something is left.
var errRequired = errors.New("container not started: unpatched files are left, and the configuration or an annotation has required=true")

// run patches a container's files, and records what it did. Its error is errRequired, or says why the container starts
// unpatched.
func (s *start) run(bundle, configPath string) error {
	begun := time.Now()
	s.record.Time, s.record.Vfix, s.record.Result = begun.UTC(), s.Version, Skipped
	err := s.within(bundle, configPath)
	if err != nil && s.record.Reason == "" {
		s.record.Reason = err.Error()
	}
	if errors.Is(err, errRequired) {
		s.record.Result = Refused
	}
	s.record.Millis = float64(time.Since(begun).Microseconds()) / 1e3
	return errors.Join(err, s.config.add(s.record))
}

// within runs the work, and gives it up if it hangs: a read from a network or FUSE may.
func (s *start) within(bundle, configPath string) error {
	const grace = 2 * time.Second
	worker := *s
	done := make(chan error, 1)
	go func() {
		defer func() {
			if fault := recover(); fault != nil {
				done <- fmt.Errorf("internal error: %v", fault)
			}
		}()
		done <- worker.work(bundle, configPath)
	}()
	select {
	case err := <-done:
		*s = worker
		return err
	case <-time.After(s.limits.time + grace):
		return fmt.Errorf("%w: no result within %v", errBound, s.limits.time+grace)
	}
}

// work is the start: the configuration, the root, the patches, the files.
func (s *start) work(bundle, configPath string) error {
	var err error
	if s.config, err = s.load(); err != nil {
		return err
	}
	spec, err := readSpec(configPath, bundle)
	if err != nil {
		return err
	}
	set, err := s.config.decide(spec.Annotations)
	if err == nil && !set.enabled {
		s.record.Result = Disabled
		return nil
	}
	if err == nil {
		s.record.NotExamined = spec.volumes()
		err = s.patch(spec.Root.Path, set)
	}
	if err != nil {
		s.record.Reason = err.Error()
	}
	if set.required && (err != nil || s.record.Result == Partial) {
		return fmt.Errorf("%w: %s", errRequired, s.record.why())
	}
	return err
}

// patch changes the files of a root.
func (s *start) patch(path string, set settings) error {
	r, err := openRoot(path, s.record.Container)
	if err != nil {
		return err
	}
	defer r.close()
	store, err := openCache(s.config.StateDir())
	if err != nil {
		return err
	}
	fixes, left := r.possible(set.fixes)
	l := &looker{root: r, bounds: &s.limits}
	l.until = time.Now().Add(l.time)
	l.Examiner = examiner.Examiner{Until: l.until, Fixes: fixes, Dir: store.dir}
	defer l.Close()
	found, err := s.find(l, store)
	s.record.Examined = l.examined
	if err != nil {
		return err
	}
	s.record.Left = append(left, found.Left...)
	return s.apply(r, found, set, l.bounds)
}

// find returns the files of the root to patch, or that something stays in.
func (s *start) find(l *looker, store *cache) (*findings, error) {
	s.record.Cache = "none"
	layers := identity(l.lower, true)
	if layers == "" {
		below, err := l.below()
		return all(below), err
	}
	maker := fmt.Sprint(s.Maker, l.Fixes)
	key, own := cacheKey(maker, layers), cacheKey(maker, layers+identity(l.own[:1], false))
	before := store.get(own) // what an earlier start of this container found, and others cannot use
	s.record.Cache = "hit"
	below := cmp.Or(store.get(key), before)
	if below == nil { // others that want the same wait
		unlock, err := store.lock(key, l.until)
		if err != nil {
			return nil, err
		}
		defer unlock()
		if below = store.get(key); below == nil {
			s.record.Cache = "miss"
			if below, err = l.below(); err != nil {
				return nil, err
			}
		}
	}
	done, foreign, err := l.state(below.Targets)
	if err != nil {
		return nil, err
	}
	above, hides := &findings{}, false
	if before != nil && before.Cut != "" {
		above.Cut = before.Cut
	} else if above, hides, err = l.above(done); err != nil {
		return nil, err
	}
	if foreign {
		os.Remove(store.path(key))
		os.Remove(store.path(own))
		above.Left = append(above.Left, leftover{Reason: "the layers are not those that were examined: the next start looks again"})
	}
	found := all(below, above)
	tooMuch := above.Cut != "" || below.Cut != "" && l.ownEntries > l.few // by this container, not by its image
	switch {
	case foreign, before != nil:
	case tooMuch:
		err = store.put(own, &findings{Targets: below.Targets, Left: below.Left, Cut: found.Cut, Time: time.Now().UTC()})
	case s.record.Cache == "miss" && hides:
		err = store.put(own, below)
	case s.record.Cache == "miss":
		err = store.put(key, below)
	}
	if err != nil {
		found.Left = append(found.Left, leftover{Reason: "cache: " + err.Error()})
	}
	return found, nil
}

// all returns several findings as one.
func all(several ...*findings) *findings {
	found := &findings{}
	for _, f := range several {
		if f == nil {
			continue
		}
		found.Targets = append(found.Targets, f.Targets...)
		found.Left = append(found.Left, f.Left...)
		if f.Cut != "" && f.Cut != found.Cut {
			found.Cut = f.Cut
			found.Left = append(found.Left, leftover{Reason: f.Cut})
		}
	}
	return found
}

// apply puts everything into the root, and completes the record.
func (s *start) apply(r *root, found *findings, set settings, b *bounds) error {
	var todo []*target
	for _, t := range found.Targets {
		if t.todo != "" && !t.Empty() {
			todo = append(todo, t)
		}
	}
	if len(todo) > 0 || set.fallback {
		if err := r.inUse(s.pid); err != nil {
			return err
		}
	}
	if set.fallback {
		if err := r.putFallback(s.Options); err != nil {
			s.record.Left = append(s.record.Left, leftover{Reason: "fallback: " + err.Error()})
		} else {
			s.record.Fallback = true
		}
	}
	if err := r.putFixes(todo); err != nil {
		return err
	}
	left := r.place(todo, b)
	s.record.Left = append(s.record.Left, left...)
	s.record.add(found.Targets, left)
	return nil
}

// add completes a record: all targets are in place but those that are left.
func (r *Record) add(targets []*target, left []leftover) {
	for _, t := range targets {
		failed := slices.ContainsFunc(left, func(l leftover) bool { return l.Path == "/"+t.first() })
		if t.gone || failed {
			continue
		}
		if !t.Empty() {
			r.Patched = append(r.Patched, "/"+t.first())
			r.Sites += t.Sites
		}
		if t.Left != "" && (!r.Fallback || t.Static) {
			r.Left = append(r.Left, leftover{"/" + t.first(), t.Left})
		}
	}
	switch {
	case len(r.Left) > 0:
		r.Result = Partial
	case len(r.Patched) > 0:
		r.Result = Patched
	default:
		r.Result = Clean
	}
}

// why says in one line what is left.
func (r *Record) why() string {
	if r.Reason != "" || len(r.Left) == 0 {
		return r.Reason
	}
	first := r.Left[0]
	text := strings.TrimPrefix(first.Path+": "+first.Reason, ": ")
	if len(r.Left) > 1 {
		text += fmt.Sprintf(" (and %d more)", len(r.Left)-1)
	}
	return text
}

// state finds out which targets are in the root: their original, their patched file, or neither. foreign reports that
// the layers have other files than the cache says: not that the container has replaced or removed them.
func (l *looker) state(targets []*target) (done map[string]bool, foreign bool, err error) {
	done = map[string]bool{}
	for _, t := range targets {
		t.todo, t.gone = "", true
		for _, name := range t.Names {
			switch original, patched, err := l.shows(t, name); {
			case err != nil:
				return nil, false, err
			case original:
				t.todo, t.gone = name, false
			case patched:
				done[name], t.gone = true, false
			default:
				foreign = foreign || !l.anyLower(name, func(_ fs.FileInfo, path string) bool {
					var st unix.Stat_t
					return unix.Lstat(path, &st) == nil && t.matches(&st)
				})
			}
		}
	}
	return done, foreign, nil
}

// shows reports whether the root has a target's original under a name, or its patched file.
func (l *looker) shows(t *target, name string) (original, patched bool, err error) {
	fd, err := openAt(l.fd, name, unix.O_RDONLY)
	if err != nil {
		return false, false, unread(name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, false, unread(name, err)
	}
	original = t.matches(&st) && !l.isOwn(name)
	return original, !original && t.done(f, st.Size), nil
}
