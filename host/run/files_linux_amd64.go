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
)

// othersWrite is the permission bits that let others than the owner write.
const othersWrite = 0o022

func (o *Options) files() map[string][]byte {
	return map[string][]byte{addedfiles.Library: o.Library, addedfiles.Library32: o.Library32, addedfiles.Trace: o.Trace}
}

// materialise returns the directory, which it makes if it is missing.
func materialise(o *Options) (string, error) {
	sum := sha256.New()
	for _, body := range [][]byte{o.Library, o.Library32, o.Trace} {
		sum.Write(body)
	}
	name := fmt.Sprintf("vfix-%d-%.8x", os.Geteuid(), sum.Sum(nil))
	var last error
	for _, base := range []string{os.Getenv("TMPDIR"), "/tmp", os.Getenv("XDG_RUNTIME_DIR"), "/var/tmp", "/dev/shm",
		filepath.Join(os.Getenv("HOME"), ".cache")} {
		real, err := filepath.EvalSymlinks(base)
		if err != nil || !filepath.IsAbs(real) || strings.ContainsAny(real, ": \t\n$") { // LD_PRELOAD cannot hold it
			continue
		}
		dir := filepath.Join(real, name)
		if last = o.provide(real, dir); last == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no directory for libvfix.so: %w", last)
}

// provide makes dir in base, or checks that the existing one is the same as it would make.
func (o *Options) provide(base, dir string) error {
	if err := trusted(base); err != nil {
		return err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(base, &st); err != nil {
		return fmt.Errorf("%s: %w", base, err)
	}
	if st.Flags&unix.ST_NOEXEC != 0 {
		return fmt.Errorf("%s: mounted noexec", base)
	}
	if _, err := os.Lstat(dir); err == nil {
		return o.check(dir)
	}
	temp, err := os.MkdirTemp(base, ".vfix-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if err := o.fill(temp); err != nil {
		return err
	}
	if err := os.Rename(temp, dir); err != nil {
		return o.check(dir) // another vfix was faster
	}
	return nil
}

// trusted reports whether only this user and root can replace what is in a directory: it and all above it are
// theirs, and others can write to them only where the sticky bit protects names.
func trusted(base string) error {
	for at := base; ; at = filepath.Dir(at) {
		fi, err := os.Lstat(at)
		if err != nil {
			return err
		}
		if user := owner(fi); user != 0 && user != os.Geteuid() && !(user == overflow && at == "/") {
			return fmt.Errorf("%s: belongs to user %d", at, user)
		}
		if fi.Mode().Perm()&othersWrite != 0 && fi.Mode()&os.ModeSticky == 0 {
			return fmt.Errorf("%s: others can write to it (mode %v)", at, fi.Mode())
		}
		if at == "/" {
			return nil
		}
	}
}

// overflow is the owner of files whose real owner is not mapped in a user namespace (user_namespaces(7)).
const overflow = 65534

func owner(fi os.FileInfo) int { return int(fi.Sys().(*syscall.Stat_t).Uid) }

// fill writes the files. Others may read them, for programs that change their user. The sticky bit keeps them from
// systemd-tmpfiles, which removes old files from /tmp.
func (o *Options) fill(dir string) error {
	const directory, file = 0o755, 0o555
	for name, body := range o.files() {
		path := filepath.Join(dir, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), directory), os.WriteFile(path, body, file),
			os.Chmod(filepath.Dir(path), directory), os.Chmod(path, file|os.ModeSticky))
		if err != nil {
			return err
		}
	}
	for name, target := range addedfiles.PlatformLinks {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// check reports whether a directory, and everything used in it, is ours and has the expected content: anybody can
// make a directory of that name in /tmp.
func (o *Options) check(dir string) error {
	for name, body := range o.files() {
		path := filepath.Join(dir, name)
		for _, path := range []string{dir, filepath.Dir(path), path} {
			fi, err := os.Lstat(path)
			if err != nil {
				return err
			}
			if owner(fi) != os.Geteuid() || fi.Mode().Perm()&othersWrite != 0 || fi.Mode()&os.ModeSymlink != 0 {
				return fmt.Errorf("%s: another user could change it", path)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, body) {
			return fmt.Errorf("%s: not what vfix wrote (%v)", path, err)
		}
	}
	return nil
}
