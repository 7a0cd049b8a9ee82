// Where LD_PRELOAD finds libvfix.so. It is a file on disk, not in memory: a program that closes all
// descriptors it does not know would remove it for the programs that it starts. Its directory is named after its
// content, so that each version has a separate one, and only the owner can write to it; others may read it,
// for programs that change their user.

package run

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/fallbackfiles"
)

// preloadFile is that of this host.
const preloadFile = "/" + fallbackfiles.Preload

// preload puts libvfix.so into LD_PRELOAD and says in words how it is loaded.
func (s *starter) preload() (string, error) {
	if preloadedByHost() {
		return preloadFile + " names libvfix.so", nil
	}
	dir, err := s.materialise()
	if err != nil {
		return "", err
	}
	library := filepath.Join(dir, fallbackfiles.Library)
	if has32() && !s.musl { // musl does not know $PLATFORM
		library = filepath.Join(dir, "$PLATFORM", filepath.Base(fallbackfiles.Library))
	}
	value := library
	if old := os.Getenv("LD_PRELOAD"); old != "" {
		value = old + ":" + library // an earlier library's sigaction goes on to ours
	}
	env := slices.DeleteFunc(slices.Clone(s.env), func(v string) bool { return strings.HasPrefix(v, "LD_PRELOAD=") })
	s.env = append(env, "LD_PRELOAD="+value)
	return "LD_PRELOAD=" + library, nil
}

// preloadedByHost reports whether every dynamic program here gets libvfix.so anyway.
func preloadedByHost() bool {
	b, err := os.ReadFile(preloadFile)
	return err == nil && bytes.Contains(b, []byte("/libvfix.so"))
}

func has32() bool {
	for _, name := range fallbackfiles.Loaders32 {
		if _, err := os.Stat("/" + name); err == nil {
			return true
		}
	}
	return false
}

// materialise returns the directory with the library, which it makes if it is missing.
func (s *starter) materialise() (string, error) {
	sum := sha256.New()
	sum.Write(s.Library)
	sum.Write(s.Library32)
	sum.Write(s.Trace)
	const digits = 8 // bytes of the sum in the name
	name := fmt.Sprintf("vfix-%d-%x", os.Geteuid(), sum.Sum(nil)[:digits])
	var last error
	for _, base := range []string{
		os.Getenv("TMPDIR"), "/tmp", os.Getenv("XDG_RUNTIME_DIR"), "/var/tmp", "/dev/shm",
		filepath.Join(os.Getenv("HOME"), ".cache"),
	} {
		if !filepath.IsAbs(base) {
			continue
		}
		real, err := trusted(base)
		if err != nil {
			last = err
			continue
		}
		if base = real; strings.ContainsAny(base, ": \t\n$") {
			continue // not a path that LD_PRELOAD can hold
		}
		dir := filepath.Join(base, name)
		if last = s.inDir(base, dir); last == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no place for libvfix.so: %w", last)
}

// trusted is the real path of a directory in which only this user and root can replace anything: it and all
// above it are theirs, and others can write to them only where the sticky bit keeps names their owners'. The
// path then has no links that somebody could redirect later.
func trusted(base string) (string, error) {
	real, err := filepath.EvalSymlinks(base)
	if err != nil {
		return "", err
	}
	for at := real; ; at = filepath.Dir(at) {
		fi, err := os.Lstat(at)
		if err != nil {
			return "", err
		}
		st, ok := fi.Sys().(*syscall.Stat_t)
		if !ok || !fi.IsDir() || st.Uid != 0 && int(st.Uid) != os.Geteuid() && !(int(st.Uid) == overflow && mapped()) {
			return "", fmt.Errorf("%s: belongs to user %d", at, st.Uid)
		}
		if fi.Mode().Perm()&othersWrite != 0 && fi.Mode()&os.ModeSticky == 0 {
			return "", fmt.Errorf("%s: others can write to it (mode %v)", at, fi.Mode())
		}
		if at == "/" {
			return real, nil
		}
	}
}

// othersWrite is the permission bits that let others than the owner write.
const othersWrite = 0o022

// overflow is the owner of files whose real owner is not mapped in a user namespace (user_namespaces(7)),
// such as root's.
const overflow = 65534

// mapped reports whether this is a user namespace in which not all users are themselves.
func mapped() bool {
	const all = "0 0 4294967295"
	b, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && strings.Join(strings.Fields(string(b)), " ") != all
}

// inDir makes dir in base, or proves that the existing one is the same as it would make.
func (s *starter) inDir(base, dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(base, &st); err != nil {
		return fmt.Errorf("%s: %w", base, err)
	}
	if st.Flags&unix.ST_NOEXEC != 0 {
		return fmt.Errorf("%s: mounted noexec", base)
	}
	if _, err := os.Lstat(dir); err == nil {
		return s.sound(dir)
	}
	temp, err := os.MkdirTemp(base, ".vfix-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if err := s.fill(temp); err != nil {
		return err
	}
	if err := os.Rename(temp, dir); err != nil {
		return s.sound(dir) // another one was faster
	}
	return nil
}

// fill writes the files into a directory of ours. Whatever the umask is, others may read them. The
// sticky bit keeps them from systemd-tmpfiles, which removes what is old from /tmp, while programs
// that run still hand LD_PRELOAD on (dir_cleanup in its source).
func (s *starter) fill(dir string) error {
	const directory, file = 0o755, 0o555
	for name, body := range s.files() {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), directory); err != nil {
			return err
		}
		if err := os.WriteFile(path, body, file); err != nil {
			return err
		}
		if err := errors.Join(os.Chmod(filepath.Dir(path), directory), os.Chmod(path, file|os.ModeSticky)); err != nil {
			return err
		}
	}
	for name, target := range fallbackfiles.PlatformLinks {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return os.Chmod(dir, directory)
}

// files are the contents of the directory, besides the links of $PLATFORM.
func (s *starter) files() map[string][]byte {
	return map[string][]byte{fallbackfiles.Library: s.Library, fallbackfiles.Library32: s.Library32, fallbackfiles.Trace: s.Trace}
}

// sound reports whether a directory, and everything used in it, is writable only by us and has the expected
// content: anybody can make a directory of that name in /tmp.
func (s *starter) sound(dir string) error {
	for name, body := range s.files() {
		path := filepath.Join(dir, name)
		for _, path := range []string{dir, filepath.Dir(path), path} {
			fi, err := os.Lstat(path)
			if err != nil {
				return err
			}
			st, ok := fi.Sys().(*syscall.Stat_t)
			if !ok || int(st.Uid) != os.Geteuid() || fi.Mode().Perm()&othersWrite != 0 || fi.Mode()&os.ModeSymlink != 0 {
				return fmt.Errorf("%s: another user could change it", path)
			}
		}
		if got, err := os.ReadFile(path); err != nil {
			return err
		} else if !bytes.Equal(got, body) {
			return fmt.Errorf("%s: not what vfix wrote", path)
		}
	}
	for name, target := range fallbackfiles.PlatformLinks {
		if got, err := os.Readlink(filepath.Join(dir, name)); err != nil {
			return err
		} else if got != target {
			return fmt.Errorf("%s: not what vfix wrote", filepath.Join(dir, name))
		}
	}
	return nil
}
