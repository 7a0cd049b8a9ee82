// The work of one start.

package node

import (
	"errors"
	"fmt"
	"strings"
	"time"

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
	limits       bounds
	config       Config
	configFailed error // nil if it could be read
	record       Record
	// unrecorded: the record could not be written.
	unrecorded bool
	pid        int // of the container's first process, which waits for the hook; 0 without a hook
}

// newStart returns a start through a door, with the result of LoadConfig.
func newStart(o *Options, door string, config Config, err error) *start {
	return &start{Options: o, config: config, configFailed: err, limits: defaultBounds, record: Record{Door: door}}
}

// errRequired: the container must not start, because something is left.
var errRequired = errors.New("container not started: unpatched files are left, and the configuration or an annotation has required=true")

// run is the work of a start: the settings, the files of the container, the record. Its error is errRequired, or
// says why the container starts unpatched.
func (s *start) run(bundle, configPath string) error {
	begun := time.Now()
	s.record.Time, s.record.Vfix, s.record.Result = begun.UTC(), s.Version, Skipped
	spec, err := readSpec(configPath, bundle)
	var set settings
	if err = errors.Join(s.configFailed, err); err == nil {
		set, err = s.config.decide(spec.Annotations)
	}
	switch {
	case err != nil:
	case set.enabled:
		err = s.within(spec, set)
	default:
		s.record.Result = Disabled
	}
	if err != nil {
		s.record.Reason = err.Error()
	}
	if set.required && (err != nil || s.record.Result == Partial) {
		s.record.Result, err = Refused, fmt.Errorf("%w: %s", errRequired, s.record.why())
	}
	s.record.Millis = float64(time.Since(begun).Microseconds()) / 1e3
	if lost := s.config.add(s.record); lost != nil {
		s.unrecorded = true
		err = errors.Join(err, fmt.Errorf("no record: %w", lost))
	}
	return err
}

// within patches the container's files, and gives it up if it hangs: a read from a network or FUSE may.
func (s *start) within(spec *spec, set settings) error {
	const grace = 2 * time.Second
	s.record.NotExamined = spec.volumes
	worker := *s
	done := make(chan error, 1)
	go func() {
		defer func() {
			if fault := recover(); fault != nil {
				done <- fmt.Errorf("internal error: %v", fault)
			}
		}()
		done <- worker.work(spec, set)
	}()
	select {
	case err := <-done:
		*s = worker
		return err
	case <-time.After(s.limits.time + grace):
		return fmt.Errorf("%w: no result within %v", errBound, s.limits.time+grace)
	}
}

// work finds what a root needs, and changes its files.
func (s *start) work(spec *spec, set settings) error {
	r, err := openRoot(spec.Root.Path, s.record.Container, s.pid)
	if err != nil {
		return err
	}
	defer r.close()
	cache, err := openCache(s.config.StateDir())
	if err != nil {
		return err
	}
	l := &looker{root: r, bounds: &s.limits, cache: cache, maker: fmt.Sprint(s.Maker, set.fixes), use: "hit"}
	l.done, l.buf = map[string]bool{}, make([]byte, bufferSize)
	if r.dirs[0].own {
		l.use = "none"
	}
	l.Examiner = examiner.Examiner{Until: time.Now().Add(l.time), Fixes: set.fixes, Dir: cache.dir}
	found, err := l.find()
	s.record.Examined, s.record.Cache = l.examined, l.use
	if err != nil {
		return err
	}
	s.record.Left = found.Left
	return s.apply(r, found.Targets, set)
}

// apply puts everything into the root, and completes the record.
func (s *start) apply(r *root, targets []*target, set settings) error {
	var todo []*target
	for _, t := range targets {
		if len(t.todo) == 0 || t.Empty() {
			continue
		}
		if s.limits.written -= t.Size; s.limits.written < 0 {
			t.gone = true
			s.record.Left = append(s.record.Left, leftover{t.path(), errBound.Error() + ": too many bytes of patched files"})
			continue
		}
		todo = append(todo, t)
	}
	if len(todo) > 0 || set.fallback {
		if err := r.inUse(s.pid); err != nil {
			return fmt.Errorf("root: %w", err)
		}
	}
	if err := r.putFixes(todo); err != nil {
		return err
	}
	if set.fallback {
		err := r.putFallback(s.Options)
		if s.record.Fallback = err == nil; err != nil {
			s.record.Left = append(s.record.Left, leftover{Reason: "fallback: " + err.Error()})
		}
	}
	files := make([]addition, len(todo))
	for i, t := range todo {
		files[i] = addition{names: t.todo, target: t}
	}
	for i, err := range r.place(files) {
		if err != nil {
			todo[i].gone = true
			s.record.Left = append(s.record.Left, leftover{todo[i].path(), err.Error()})
		}
	}
	s.record.add(targets)
	return nil
}

// add completes a record: all targets are in place but those that are gone.
func (r *Record) add(targets []*target) {
	for _, t := range targets {
		if t.gone {
			continue
		}
		if !t.Empty() {
			r.Patched = append(r.Patched, t.path())
		}
		if t.Left != "" && (!r.Fallback || t.Static) {
			r.Left = append(r.Left, leftover{t.path(), t.Finding.Left})
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

// why says in one line what is left, for example.
func (r *Record) why() string {
	if r.Reason != "" || len(r.Left) == 0 {
		return r.Reason
	}
	text := fmt.Sprintf("%s: %s (1 of %d)", r.Left[0].Path, r.Left[0].Reason, len(r.Left))
	return strings.TrimPrefix(text, ": ")
}
