// The copies that hotfixes left in a directory: the list, the users of each, and the removal of unused ones.

package hotfix

import (
	"context"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"vfix.dev/vfix/host/store"
	"vfix.dev/vfix/images/engine"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/lazy"
	"vfix.dev/vfix/internal/mounts"
)

// Copy is one patched copy, last used when it was written or found again.
type Copy struct {
	store.Entry
	Path string
	By   []string // its users: containers, running or not, and processes of this machine; sorted
}

// copyName matches the names of copies: their keys in the store.
var copyName = lazy.Regexp(`^[0-9a-f]{64}$`)

// justMade is the minimum age of a copy that is removed: a newer one may be about to be mounted.
const justMade = time.Minute

// Copies lists the copies in a directory, the newest first. answered reports that an engine did: otherwise
// containers that do not run may use copies that seem unused.
func Copies(ctx context.Context, dir string, o media.Options) (all []Copy, answered bool, err error) {
	entries, err := store.At(dir).List()
	if err != nil || len(entries) == 0 {
		return nil, false, err
	}
	used := mountedCopies("/proc")
	err = media.EachDaemon(ctx, "", o.WithDefaults(), func(c *engine.Client) (bool, error) {
		list, err := c.Containers(ctx, true)
		if err != nil {
			return false, err
		}
		answered = true
		for _, r := range list {
			for _, m := range r.Mounts {
				name := filepath.Base(m.Source)
				used[name] = append(used[name], containerOf(r.Names, r.ID))
			}
		}
		return false, nil
	})
	if err != nil && !media.IsNoDaemon(err) {
		return nil, answered, err
	}
	for _, e := range entries {
		by := used[e.Key]
		slices.Sort(by)
		all = append(all, Copy{e, store.At(dir).Path(e.Key), slices.Compact(by)})
	}
	return all, answered, nil
}

// Prune removes the copies that nobody uses, and returns them. It also removes the leftovers of killed runs.
func Prune(ctx context.Context, dir string, o media.Options) (removed []Copy, answered bool, err error) {
	all, answered, err := Copies(ctx, dir, o)
	if err != nil {
		return nil, answered, err
	}
	if !answered {
		return nil, false, hinterr.With(hinterr.Errorf(hinterr.ErrNoDaemon, "%s: cannot tell which copies stopped containers use: no docker or podman daemon answers", dir),
			"start the daemon, or remove the files in %s yourself", dir)
	}
	s := store.At(dir)
	if _, err := s.Prune(math.MaxInt64); err != nil { // half-written files
		return nil, true, err
	}
	for _, c := range all {
		if len(c.By) > 0 || time.Since(c.Used) < justMade {
			continue
		}
		gone, err := s.Remove(c.Entry)
		if err != nil {
			return removed, true, err
		}
		if gone {
			removed = append(removed, c)
		}
	}
	return removed, true, nil
}

// mountedCopies are the copies that processes have mounted, by name, from the mountinfo of
// each (proc(5)): a pod's, and those of engines without a socket.
func mountedCopies(proc string) map[string][]string {
	used := map[string][]string{}
	processes, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "mountinfo"))
	for _, file := range processes {
		text, err := fs.ReadFile(os.DirFS(filepath.Dir(file)), filepath.Base(file))
		if err != nil {
			continue // it has ended
		}
		for _, m := range mounts.Read(text) {
			if name := filepath.Base(m.Root); copyName().MatchString(name) {
				used[name] = append(used[name], "process "+filepath.Base(filepath.Dir(file)))
			}
		}
	}
	return used
}

// containerOf is the name of a container, without docker's leading slash, else its ID.
func containerOf(names []string, id string) string {
	if len(names) > 0 {
		return strings.TrimPrefix(names[0], "/")
	}
	return id
}
