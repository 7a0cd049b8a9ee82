// The directory with libvfix.so and vfix-trace. They are files on disk, not in memory: a program that closes all
// descriptors it does not know would remove them for the programs that it starts. The directory is named after its
// content, so that each version has a separate one, and only its owner can write to it.

package run

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/addedfiles"
	"vfix.dev/vfix/internal/atomicfile"
	"vfix.dev/vfix/shim"
)

// The modes of the directory and of the files in it. Others may read them, for programs that change their user.
const (
	dirMode  = 0o755
	fileMode = 0o555
)

func files() map[string][]byte {
	return map[string][]byte{addedfiles.Library: shim.Library(), addedfiles.Library32: shim.Library32(), addedfiles.Trace: shim.Trace()}
}

// materialise returns the directory, which it makes if it is missing.
func materialise() (string, error) {
	sum := sha256.New()
	for _, body := range [][]byte{shim.Library(), shim.Library32(), shim.Trace()} {
		sum.Write(body)
	}
	name := fmt.Sprintf("vfix-%d-%.8x", os.Geteuid(), sum.Sum(nil))
	var last error
	for _, base := range []string{os.Getenv("TMPDIR"), "/tmp", os.Getenv("XDG_RUNTIME_DIR"), "/var/tmp", "/dev/shm",
		filepath.Join(os.Getenv("HOME"), ".cache")} {
		if !filepath.IsAbs(base) || strings.ContainsAny(base, ": \t\n$") { // LD_PRELOAD cannot hold it
			continue
		}
		dir := filepath.Join(base, name)
		if last = trusted(base); last != nil {
			continue
		}
		if usable(dir) {
			return dir, nil
		}
		if last = atomicfile.WriteDir(dir, dirMode, fill); last == nil || usable(dir) { // another vfix was faster
			return dir, nil
		}
	}
	return "", fmt.Errorf("no directory for libvfix.so: %w", last)
}

// trusted reports whether programs can be executed in a directory, and only this user and root can replace what is in
// it: it is theirs, and others can write to it only if the sticky bit protects names.
func trusted(base string) error {
	fi, err := os.Stat(base)
	if err != nil {
		return err
	}
	if user := owner(fi); user != 0 && user != os.Geteuid() {
		return fmt.Errorf("%s: belongs to user %d", base, user)
	}
	if othersWrite(fi) && fi.Mode()&os.ModeSticky == 0 {
		return fmt.Errorf("%s: others can write to it (mode %v)", base, fi.Mode())
	}
	var st unix.Statfs_t
	if err := unix.Statfs(base, &st); err != nil {
		return fmt.Errorf("%s: %w", base, err)
	}
	if st.Flags&unix.ST_NOEXEC != 0 {
		return fmt.Errorf("%s: mounted noexec", base)
	}
	return nil
}

func owner(fi os.FileInfo) int        { return int(fi.Sys().(*syscall.Stat_t).Uid) }
func othersWrite(fi os.FileInfo) bool { return fi.Mode().Perm()&0o022 != 0 }

// fill writes the files. The sticky bit keeps them from systemd-tmpfiles, which removes old files from /tmp.
func fill(dir string) error {
	err := os.Chmod(dir, dirMode)
	for name, body := range files() {
		path := filepath.Join(dir, name)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), dirMode), os.Chmod(filepath.Dir(path), dirMode),
			os.WriteFile(path, body, fileMode), os.Chmod(path, fileMode|os.ModeSticky))
	}
	for name, target := range addedfiles.PlatformLinks {
		err = errors.Join(err, os.Symlink(target, filepath.Join(dir, name)))
	}
	return err
}

// usable reports whether a directory is this user's alone, as anybody can make one of that name in /tmp, and complete.
func usable(dir string) bool {
	fi, err := os.Lstat(dir)
	if err != nil || !fi.IsDir() || owner(fi) != os.Geteuid() || othersWrite(fi) {
		return false
	}
	for name, body := range files() {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, body) {
			return false
		}
	}
	return true
}
