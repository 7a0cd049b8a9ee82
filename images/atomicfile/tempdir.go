// Temporary directories that do not outlive their makers for long: each is locked while it is in
// use, so that another process can recognize those of killed ones and remove them.

package atomicfile

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// tempDirPrefix begins the names of directories that TempDir makes.
const tempDirPrefix = TempPrefix + "dir-"

// tempDirAge is the age from which a directory without a lock counts as abandoned: a new one
// is not locked until a moment after it is made.
var tempDirAge = time.Minute

// removeAbandoned is done once a process.
var removeAbandoned = sync.OnceFunc(RemoveAbandoned)

// TempDir makes a directory for temporary files, in TMPDIR. The first call in a process removes what
// killed ones left.
func TempDir() (dir string, remove func(), err error) {
	removeAbandoned()
	dir, err = os.MkdirTemp("", tempDirPrefix)
	if err != nil {
		return "", nil, err
	}
	lock, err := os.Open(dir)
	if err == nil {
		_ = lockFile(lock) // without locks nobody removes it, either
	}
	return dir, func() {
		lock.Close() // first: Windows removes nothing that is open
		RemoveTree(dir)
	}, nil
}

// RemoveAbandoned removes the directories of TempDir whose makers are gone. One that cannot be removed, or
// is another user's, stays, for root as well.
func RemoveAbandoned() {
	all, err := os.ReadDir(os.TempDir())
	if err != nil {
		return
	}
	for _, e := range all {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), tempDirPrefix) {
			continue
		}
		// Another user could replace a file or directory of theirs by a symlink or a fifo before it is opened or removed.
		if fi, err := e.Info(); err != nil || !isOwn(fi) || time.Since(fi.ModTime()) < tempDirAge {
			continue
		}
		path := filepath.Join(os.TempDir(), e.Name())
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		if lockFile(f) == nil {
			RemoveTree(path)
		}
		f.Close()
	}
}
