// A start: the bundle is read, its root looked through, its files patched, its config.json
// written. An error before that leaves config.json without any mounts of vfix.

package ociruntime

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/examiner"
	"vfix.dev/vfix/host/rootfs"
	"vfix.dev/vfix/host/starts"
	"vfix.dev/vfix/host/store"
	"vfix.dev/vfix/rewriter"
)

// container is one that is about to be made.
type container struct {
	Config
	own    Options
	bundle string
	// specPath is the file config.json.
	specPath string
	pid      int // of the first process, where this is the hook
	spec     *spec
	store    *store.Store
	flags    int64 // of the store's file system
	root     *rootfs.Root
	budget   *budget
	pool     *examiner.Pool
	// writable says that the root belongs to this container alone and is written to: patched
	// files take their originals' places in it, so that they can be replaced again.
	writable bool
	upper    string   // the root's upper layer, "" where it is no overlay
	hidden   []string // real paths in the root that mounts of the engine cover
	add      []specMount
	earlier  []specMount       // those of config.json that an earlier start has added
	repaired []rewriter.Repair // that some program has which the container sees
	// rec is what is done and what is not, for the log and the record.
	rec *starts.Record
}

// maxSpec bounds a config.json, in bytes: with a large seccomp profile one has 100 KB.
const maxSpec = 32 << 20

// prepare reads the bundle and does all that is to be done about it. An error says that
// nothing could be done, the problems in the record what else could not.
func prepare(bundle, specPath string, pid int, c Config, o Options, rec *starts.Record) error {
	k := &container{Config: c, own: o, bundle: bundle, specPath: specPath, pid: pid, budget: newBudget(c.Limits), rec: rec}
	unlock, err := lockFolder(bundle)
	if err != nil {
		return err
	}
	defer unlock()
	raw, err := readSpec(specPath)
	if err != nil {
		return err
	}
	if k.spec, err = parseSpec(raw); err != nil {
		return fmt.Errorf("%s: %w", specPath, err)
	}
	if err := k.readOwn(); err != nil {
		return err
	}
	rec.Image = imageOf(k.spec.Annotations)
	if pid != 0 && len(k.earlier) > 0 {
		return nil // a hook behind vfix-runtime, which has done it
	}
	enabled, fallback, err := k.wanted()
	if err != nil {
		return k.withoutMounts(err)
	}
	rec.Policy.Fallback = fallback
	fix, err := k.asked()
	if err != nil {
		return k.withoutMounts(err)
	}
	rec.Policy.Fix = words(fix)
	if !enabled {
		rec.Outcome = starts.Disabled
		return k.withoutMounts(nil)
	}
	k.pool = &examiner.Pool{
		Memory: k.budget.MemoryBytes, Until: k.budget.until(), Cgroup: examiner.PodCgroup(k.spec.CgroupsPath),
	}
	s, err := store.Open(c.cacheDir(), c.cacheSize())
	if err != nil {
		return k.withoutMounts(fmt.Errorf("cache: %w", err))
	}
	k.store = s
	if err := s.Lease(); err != nil {
		return k.withoutMounts(fmt.Errorf("cache: %w", err))
	}
	err = k.work(fallback, fix)
	rec.Confined = k.pool.Holds
	if err != nil {
		s.Release()
		return k.withoutMounts(err)
	}
	if err := s.Trim(); err != nil {
		rec.Add("", "cache: "+err.Error())
	}
	if k.FailClosed && len(rec.Problems) > 0 { // it does not start
		k.add = nil
	}
	if len(k.add) == 0 {
		s.Release() // nothing of the cache is needed after this
	}
	return k.writeSpec()
}

// withoutMounts takes out of config.json what an earlier start from the bundle has added: it may not
// be in the cache any more, and then the container would not start.
func (k *container) withoutMounts(err error) error {
	k.add = nil
	return errors.Join(err, k.writeSpec())
}

// wanted reads the annotations.
func (k *container) wanted() (enabled, fallback bool, err error) {
	enabled, fallback = !k.OptIn, k.Fallback
	switch v := k.spec.Annotations[AnnotationEnable]; v {
	case "":
	case "true", "false":
		if enabled = v == "true"; !enabled && k.FailClosed && !k.AllowDisable {
			return false, false, fmt.Errorf("annotation %s=false: not allowed with fail-closed", AnnotationEnable)
		}
	default:
		return false, false, fmt.Errorf("annotation %s: got %q, want true or false", AnnotationEnable, v)
	}
	switch v := k.spec.Annotations[AnnotationFallback]; v {
	case "":
	case "always", "never":
		fallback = v == "always"
	default:
		return false, false, fmt.Errorf("annotation %s: got %q, want always or never", AnnotationFallback, v)
	}
	return enabled, fallback, nil
}

// work patches the files of the root.
func (k *container) work(fallback bool, fix []rewriter.Repair) (err error) {
	path := k.spec.Root.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(k.bundle, path)
	}
	if k.root, err = rootfs.Open(path); err != nil {
		return fmt.Errorf("root: %w", err)
	}
	defer k.root.Close()
	if k.flags, err = k.store.Flags(); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	if k.flags&unix.ST_NOEXEC != 0 {
		return fmt.Errorf("cache: %s is on a file system that allows no programs (noexec)", k.store.Dir)
	}
	if err := k.cover(); err != nil {
		return err
	}
	k.rec.Root = k.root.Path
	k.pool.Repairs = k.possible(fix)
	found, err := k.look()
	k.rec.Examined = k.pool.Asked
	k.rec.Seconds.Look = k.budget.since()
	if err != nil {
		return err
	}
	defer func() {
		k.rec.CacheHit = k.pool.Asked == 0
		k.rec.Seconds.Patch = k.budget.since() - k.rec.Seconds.Look
	}()
	if k.writable {
		k.sweep(found.temps)
		found.Unread = slices.DeleteFunc(found.Unread, func(u unread) bool {
			_, err := k.root.Lstat(string(u.Name))
			return isTemp([]byte(filepath.Base(string(u.Name)))) && errors.Is(err, unix.ENOENT)
		})
	}
	for _, u := range found.Unread {
		if !k.isHidden(string(u.Name)) {
			k.problem(string(u.Name), errors.New(u.Reason))
		}
	}
	for i := range found.Legacy {
		k.patch(&found.Legacy[i])
	}
	if fallback {
		if err := k.addFallback(); err != nil {
			k.rec.Add("", err.Error())
		}
	}
	if err := k.addRepairs(); err != nil {
		k.rec.Add("", err.Error())
	}
	return nil
}

func (k *container) problem(name string, err error) {
	k.rec.Add("/"+name, err.Error())
}

// start does the work of a create or run. Its error is why that could not be done, wholly or
// in part; it has been logged where the container starts all the same.
func start(c *command, config Config, o Options, log *logger, rec *starts.Record) (err error) {
	if rec.Bundle, err = c.bundleDir(); err == nil {
		err = prepareSafely(c, config, o, rec)
	}
	if err == nil && len(rec.Problems) > 0 {
		err = fmt.Errorf("not patched: %s", summary(rec.Problems))
		rec.Outcome = starts.Partial
		if !config.FailClosed {
			log.line("warning", err.Error())
		}
		return err
	}
	if err != nil {
		rec.Outcome, rec.Reason = starts.Unpatched, err.Error()
	}
	if err != nil && !config.FailClosed {
		log.line("warning", "nothing patched, the container starts as it is: "+err.Error())
	}
	return err
}

// prepareSafely is prepare; a fault of vfix's own must not keep a container from starting.
func prepareSafely(c *command, config Config, o Options, rec *starts.Record) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("internal error: %v", r)
		}
	}()
	spec, err := c.specPath(rec.Bundle)
	if err != nil {
		return err
	}
	return prepare(rec.Bundle, spec, c.pid, config, o, rec)
}
