// The file config.json: how it is read, replaced and locked.

package ociruntime

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// readSpec reads a config.json. A fifo in its place is not waited for.
func readSpec(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: no regular file", path)
	}
	if fi.Size() > maxSpec {
		return nil, fmt.Errorf("%s: %d bytes, more than %d", path, fi.Size(), maxSpec)
	}
	b := bytes.NewBuffer(make([]byte, 0, fi.Size()+1))
	_, err = b.ReadFrom(io.LimitReader(f, maxSpec))
	return b.Bytes(), err
}

// writeSpec puts the mounts into config.json, unless it has them already.
func (k *container) writeSpec() error {
	if k.pid != 0 {
		return k.attach()
	}
	stale := func(m specMount) bool { return k.store.Holds(m.Source) }
	if !k.changes(stale) {
		return nil
	}
	text, err := k.spec.withMounts(k.add, stale)
	if err != nil {
		return err
	}
	return replaceSpec(k.specPath, text)
}

// changes reports whether the mounts of vfix in config.json are others than they should be.
func (k *container) changes(stale func(specMount) bool) bool {
	n := 0
	for _, m := range k.spec.Mounts {
		if !stale(m) {
			if n > 0 {
				return true // behind ours there is one more
			}
			continue
		}
		if n >= len(k.add) || m.Destination != k.add[n].Destination || m.Source != k.add[n].Source ||
			fmt.Sprint(m.Options) != fmt.Sprint(k.add[n].Options) {
			return true
		}
		n++
	}
	return n != len(k.add)
}

// replaceSpec gives a config.json another content, with owner and mode of the old one. The bundle
// is locked, so a temporary file that is there is nobody's.
func replaceSpec(path string, text []byte) error {
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".vfix")
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%s: a symlink, or no regular file: it is not replaced", path)
	}
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	const private = 0o600
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, private)
	if err != nil {
		return err
	}
	defer os.Remove(temp) // gone by then, where all went well
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		return err
	}
	const permissions = 0o7777
	if err := unix.Fchown(int(f.Fd()), int(st.Uid), int(st.Gid)); err != nil {
		return fmt.Errorf("%s: owner: %w", temp, err)
	}
	if err := unix.Fchmod(int(f.Fd()), st.Mode&permissions); err != nil {
		return fmt.Errorf("%s: mode: %w", temp, err)
	}
	if !orderedRename(int(f.Fd())) {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return os.Rename(temp, path)
}

// orderedRename reports whether the file system of a file sees to it that the content of a file is on the
// disk before the name of another one that it takes: ext4 (ext4(5), auto_da_alloc) and btrfs (btrfs(5), flushoncommit).
// One in memory has nothing to see to. To wait for the disk can cost more than all else of a start.
func orderedRename(fd int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return false
	}
	return slices.Contains([]int64{unix.EXT4_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC}, int64(st.Type))
}

// lockFolder keeps two starts from one bundle out of each other's way.
func lockFolder(dir string) (func(), error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("bundle %s: %w", dir, err)
	}
	const patience, pause = time.Minute, 2 * time.Millisecond
	for end := time.Now().Add(patience); ; time.Sleep(pause) {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { unix.Close(fd) }, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR), time.Now().After(end):
			unix.Close(fd)
			return nil, fmt.Errorf("bundle %s: lock: %w", dir, err)
		}
	}
}
