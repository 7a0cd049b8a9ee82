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

// writeSpec makes the mounts: in the container's mount namespace, or through config.json, which the real runtime
// reads.
func (k *container) writeSpec() error {
	if k.pid != 0 && len(k.add) == 0 {
		return nil // the store may not exist
	}
	if k.pid != 0 {
		return k.attach()
	}
	add, err := k.sources()
	if err != nil {
		return err
	}
	if len(add)+len(k.earlier) > 0 {
		// The list of vfix's mounts comes first: if this process is killed in between, the next start knows the
		// old and the new ones.
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
		return fmt.Errorf("%s: a symlink, or not a regular file: it is not replaced", k.specPath)
	}
	return replaceFile(k.specPath, text, &st)
}

// sources returns the mounts with private copies of this start as their sources: a process with CAP_SYS_ADMIN can
// remove the read-only flag of a mount and write.
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

// ownPath returns the path of the file beside config.json that lists the mounts of vfix in it. The file is in the
// engine's directory, where the author of a container cannot write, so a mount that only looks like one of vfix is
// not taken for one.
func ownPath(specPath string) string {
	return filepath.Join(filepath.Dir(specPath), "."+filepath.Base(specPath)+".vfix-mounts")
}

// readOwn reads the list of the mounts of config.json that an earlier start from the bundle has added.
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

// replaceFile writes a file of the bundle, with the owner and mode of the old one; nil: for this user only. The
// bundle is locked, so an existing temporary file is not in use.
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
	defer os.Remove(temp) // fails if the rename has succeeded
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

// orderedRename reports whether a file system writes the content of a file to the disk before a rename over an
// existing name: ext4 (ext4(5), auto_da_alloc) and btrfs (btrfs(5), flushoncommit); one in memory has no disk. To
// wait for the disk can cost more than the rest of a start.
func orderedRename(fd int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return false
	}
	return slices.Contains([]int64{unix.EXT4_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC}, int64(st.Type))
}
