// The file config.json: how it is read, replaced and locked.

package ociruntime

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/nodefile"
)

// writeSpec arranges the mounts: in the container's mount namespace, or by the real runtime, which reads them in
// config.json.
func (k *container) writeSpec() error {
	if k.pid != 0 && len(k.add) == 0 {
		return nil // and there may be no store
	}
	if k.pid != 0 {
		return k.attach()
	}
	add, err := k.sources()
	if err != nil {
		return err
	}
	if len(add)+len(k.earlier) > 0 {
		// First what is vfix's: killed in between, the next start knows both the old mounts and the new ones.
		ours, err := json.Marshal(append(slices.Clone(k.earlier), add...))
		if err != nil {
			return err
		}
		if err := replaceFile(ownPath(k.specPath), ours, nil); err != nil {
			return err
		}
	}
	text, err := k.spec.with(add, k.hooks, k.isOwn)
	if err != nil || bytes.Equal(text, k.spec.raw) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(k.specPath, &st); err != nil {
		return fmt.Errorf("%s: %w", k.specPath, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%s: a symlink, or no regular file: it is not replaced", k.specPath)
	}
	return replaceFile(k.specPath, text, &st)
}

// sources are the mounts with their sources: copies that this start has for itself, for a process with
// CAP_SYS_ADMIN takes the read-only flag off a mount and writes.
func (k *container) sources() (all []specMount, err error) {
	private := map[string]string{}
	for _, a := range k.add {
		if a.key != "" && private[a.key] == "" {
			if private[a.key], err = k.store.Private(a.key); err != nil {
				return nil, fmt.Errorf("cache: %w", err)
			}
		}
		if a.key != "" {
			a.Source = private[a.key]
		}
		all = append(all, a.specMount)
	}
	return all, nil
}

// ownPath is the file beside a config.json that says which of its mounts are vfix's. It is in the engine's
// folder, and nothing that the author of a container writes is: a mount that only looks like one of vfix's
// stays what it is.
func ownPath(specPath string) string {
	return filepath.Join(filepath.Dir(specPath), "."+filepath.Base(specPath)+".vfix-mounts")
}

// readOwn reads which mounts of config.json an earlier start from the bundle has added.
func (k *container) readOwn() error {
	path := ownPath(k.specPath)
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	const othersWrite = 0o022
	if err == nil && (int(st.Uid) != os.Geteuid() || st.Mode&othersWrite != 0 || st.Mode&unix.S_IFMT != unix.S_IFREG) {
		err = errors.New("not a file that only its user can write to")
	}
	var b []byte
	if err == nil {
		b, err = nodefile.Read(path, maxSpec)
	}
	var all []specMount
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, m := range all {
		if slices.ContainsFunc(k.spec.Mounts, m.equal) {
			k.earlier = append(k.earlier, m)
		}
	}
	return nil
}

// isOwn reports whether an earlier start has added a mount.
func (k *container) isOwn(m specMount) bool { return slices.ContainsFunc(k.earlier, m.equal) }

func (m specMount) equal(o specMount) bool {
	return m.Destination == o.Destination && m.Type == o.Type && m.Source == o.Source && slices.Equal(m.Options, o.Options)
}

// replaceFile gives a file of the bundle a content, and the owner and mode of an old one; nil for this user's
// alone. The bundle is locked, so a temporary file that is there is nobody's.
func replaceFile(path string, text []byte, st *unix.Stat_t) error {
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".vfix")
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
	if st != nil {
		if err := unix.Fchown(int(f.Fd()), int(st.Uid), int(st.Gid)); err != nil {
			return fmt.Errorf("%s: owner: %w", temp, err)
		}
		if err := unix.Fchmod(int(f.Fd()), st.Mode&permissions); err != nil {
			return fmt.Errorf("%s: mode: %w", temp, err)
		}
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
