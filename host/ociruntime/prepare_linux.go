// A start: it reads the bundle, examines its root, patches its files and writes its config.json. An error before
// that leaves config.json without mounts of vfix.

package ociruntime

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	examiner "vfix.dev/vfix/host/oldexaminer"
	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/host/rootfs"
	"vfix.dev/vfix/host/starts"
	"vfix.dev/vfix/host/store"
	"vfix.dev/vfix/internal/nodefile"
	"vfix.dev/vfix/rewriter/find"
)

// container is a container that is about to be created.
type container struct {
	policy.Config
	own    Options
	bundle string
	// specPath is the path of config.json.
	specPath string
	pid      int // of the first process, if this is the hook
	spec     *spec
	store    *store.Store
	flags    int64 // of the store's file system
	root     *rootfs.Root
	budget   *budget
	pool     *examiner.Pool
	// writable reports that the root belongs to this container alone and is written to: patched files replace
	// their originals in it, and may be replaced again.
	writable bool
	upper    string   // the root's upper layer, "" if it is not an overlay
	hidden   []string // real paths in the root that mounts of the engine cover
	// elsewhere is the destination of a mount of config.json that is made at another path, or at the root.
	elsewhere string
	inside    *inside // the container's mount namespace, if this is the hook
	mounts    []mount // of the namespace in which the root is examined
	machine   []mount // of this machine
	add       []addition
	hooks     specHooks   // that are added to config.json
	earlier   []specMount // the mounts of config.json from an earlier start
	fixed     []find.Fix  // the fixes of the programs that the container sees
	// rec has the results and problems, for the log and the record.
	rec *starts.Record
}

// maxSpec is the maximum size of a config.json, in bytes: with a large seccomp profile it has 100 KB.
const maxSpec = 32 << 20

// prepare reads the bundle and makes all changes that it needs. An error means that nothing was changed; the
// problems in the record are the changes that could not be made.
func prepare(cmd *command, specPath string, c policy.Config, o Options, rec *starts.Record) error {
	k := &container{Config: c, own: o, bundle: rec.Bundle, specPath: specPath, pid: cmd.pid, budget: newBudget(c.Limits), rec: rec}
	unlock, err := nodefile.Lock(rec.Bundle, store.Patience) // against another start from it
	if err != nil {
		return fmt.Errorf("bundle %w", err)
	}
	defer unlock()
	raw, err := nodefile.Read(specPath, maxSpec)
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
	decided, err := c.Decide(k.spec.Annotations)
	if err != nil {
		return k.withoutMounts(err)
	}
	rec.Policy.Fallback, rec.Policy.Fix = decided.Fallback, words(decided.Fix)
	if !decided.Enabled {
		rec.Outcome = starts.Disabled
		return k.withoutMounts(nil)
	}
	defer k.closeRoot()
	if err := k.openRoot(); err != nil {
		return k.withoutMounts(err)
	}
	hookable := k.hookable(cmd)
	why := k.unseen()
	if k.pid == 0 && hookable && why != "" {
		return k.handOn(cmd)
	}
	k.pool = &examiner.Pool{Memory: k.budget.MemoryBytes, Until: k.budget.until()}
	defer k.pool.Close()
	s, err := store.Open(c.Cache(), c.CacheBytes())
	if err != nil {
		return k.withoutMounts(fmt.Errorf("cache: %w", err))
	}
	k.store = s
	if err := s.Lease(); err != nil {
		return k.withoutMounts(fmt.Errorf("cache: %w", err))
	}
	found, err := k.work(decided)
	if why != "" {
		rec.Add("", why)
	}
	k.noteLater(cmd)
	if err == nil {
		k.take(found, decided)
	}
	if err == nil && len(k.add) > 0 && !k.spec.hasOwnMounts() {
		err = errors.New("the container has no mount namespace of its own")
	}
	rec.Confined = k.pool.Holds()
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
	if k.pid != 0 || !hookable || len(rec.Files) == 0 || k.FailClosed && len(rec.Problems) > 0 {
		return k.writeSpec()
	}
	return k.awaited(cmd, k.writeSpec)
}

// handOn leaves the start to the hook.
func (k *container) handOn(cmd *command) (err error) {
	k.rec.Outcome = handedOn
	return k.awaited(cmd, func() error {
		k.hooks.CreateRuntime, err = hookOf(cmd, HookCommand, k.rec.Start, k.rec.Runtime, k.HookTimeout())
		return k.withoutMounts(err)
	})
}

// awaited writes config.json for a start that is recorded after the runtime has created the container: by the
// engine's command start, or by a hook of the runtime, if it creates and starts the container at once.
func (k *container) awaited(cmd *command, write func() error) (err error) {
	k.rec.Start = fmt.Sprintf("%x-%x", time.Now().UnixNano(), os.Getpid())
	if cmd.name == "run" {
		// Without a timeout: if the container's program ends before the hook, crun 1.8 waits for the whole
		// timeout.
		if k.hooks.Poststart, err = hookOf(cmd, startedCommand, k.rec.Start, k.rec.Runtime, 0); err != nil {
			err = k.withoutMounts(err)
		}
	}
	if err == nil {
		err = write()
	}
	if err != nil {
		k.rec.Start = ""
	}
	return err
}

// withoutMounts removes the mounts of an earlier start from config.json: the cache may not have their copies any
// more, and then the container would not start.
func (k *container) withoutMounts(err error) error {
	k.add = nil
	return errors.Join(err, k.writeSpec())
}

// work finds the files of the root that must be patched.
func (k *container) work(d policy.Decision) (found *scanned, err error) {
	if k.flags, err = k.store.Flags(); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	if k.flags&unix.ST_NOEXEC != 0 {
		return nil, fmt.Errorf("cache: %s is on a file system that does not allow programs (noexec)", k.store.Dir)
	}
	k.rec.Root = k.root.Path
	k.pool.Fixes = k.possible(d.Fix)
	found, err = k.look()
	k.rec.Examined = int(k.pool.Examined.Load())
	k.rec.Seconds.Look = k.budget.since()
	return found, err
}

// take replaces the files that were found by patched copies.
func (k *container) take(found *scanned, d policy.Decision) {
	defer func() {
		k.rec.CacheHit = k.pool.Examined.Load() == 0
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
		if u.mount != 0 || !k.isHidden(string(u.Name)) {
			k.problem(string(u.Name), errors.New(u.Reason))
		}
	}
	for i := range found.Legacy {
		k.patch(&found.Legacy[i])
	}
	if d.Fallback {
		if err := k.addFallback(); err != nil {
			k.rec.Add("", "fallback: "+err.Error())
		}
	}
	if err := k.addFixes(); err != nil {
		k.rec.Add("", err.Error())
	}
}

// openRoot opens the root at the path at which the container's processes will see it, if it exists already.
func (k *container) openRoot() error {
	path := k.spec.Root.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(k.bundle, path)
	}
	outside, err := rootfs.Open(path)
	if err != nil {
		return fmt.Errorf("root: %w", err)
	}
	text, err := nodefile.Text("/proc/self/mountinfo")
	k.machine = parseMounts(text)
	if k.pid == 0 {
		if k.root, k.mounts = outside, k.machine; err != nil {
			return err
		}
		return k.cover()
	}
	defer outside.Close()
	if err != nil {
		return err
	}
	if k.inside, err = enter(k.pid); err != nil {
		return err
	}
	k.root, k.mounts, err = k.inside.open(outside)
	return err
}

// closeRoot closes the root.
func (k *container) closeRoot() {
	if k.root != nil {
		k.root.Close()
	}
	if k.inside != nil {
		k.inside.leave()
	}
}

func (k *container) problem(name string, err error) {
	k.rec.Add("/"+name, err.Error())
}
