// Files of the fallback and of fixes in the root: what 'vfix rebuild' puts into images.

package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/addedfiles"
	"vfix.dev/vfix/rewriter/find"
)

// maxPreload bounds an image's own ld.so.preload, in bytes.
const maxPreload = 64 << 10

// read returns the content of a file of the root, nil without such a file.
func (r *root) read(name string, most int64) ([]byte, error) {
	fd, err := openAt(r.fd, name, unix.O_RDONLY)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(content)) > most {
		err = fmt.Errorf("more than %d bytes", most)
	}
	return content, err
}

// put writes a file, if the root does not have it. Missing directories are created. The owner is that of the root
// directory.
func (r *root) put(name string, body []byte, mode uint32) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("/%s: %w", name, err)
		}
	}()
	old, err := r.read(name, max(int64(len(body)), maxPreload))
	if err != nil || old != nil && bytes.Equal(old, body) {
		return err
	}
	defer r.restore()
	if err := r.mkdirs(path.Dir("/" + name)[1:]); err != nil {
		return err
	}
	p, err := r.prepare([]string{name})
	if err != nil {
		return err
	}
	_, err = p.file.Write(body)
	if err := errors.Join(err, p.file.Chown(int(r.stat.Uid), int(r.stat.Gid)), unix.Fchmod(int(p.file.Fd()), mode)); err != nil {
		p.discard()
		return err
	}
	return r.commit([]*prepared{p})[0]
}

// mkdirs creates the directories of a path that are missing.
func (r *root) mkdirs(dir string) error {
	if dir == "" {
		return nil
	}
	if err := r.mkdirs(path.Dir("/" + dir)[1:]); err != nil {
		return err
	}
	above, err := r.directory(dir)
	if err != nil {
		return err
	}
	const readable = 0o755
	base := path.Base(dir)
	if err := unix.Mkdirat(above, base, readable); err != nil {
		if errors.Is(err, unix.EEXIST) {
			return nil
		}
		return err
	}
	return errors.Join(unix.Fchownat(above, base, int(r.stat.Uid), int(r.stat.Gid), unix.AT_SYMLINK_NOFOLLOW), unix.Fchmodat(above, base, readable, 0))
}

// putFallback adds the preload library and names it in ld.so.preload. Programs that load no library are not reached.
func (r *root) putFallback(o *Options) error {
	wide := slices.ContainsFunc(addedfiles.Loaders32, func(name string) bool {
		fd, err := unix.Openat2(r.fd, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_XDEV})
		unix.Close(fd)
		return err == nil
	})
	const readable, executable = 0o644, 0o755
	preload, err := r.read(addedfiles.Preload, maxPreload)
	if err != nil {
		return err
	}
	if err := r.put(path.Join(addedfiles.Dir, addedfiles.Library), o.Library(), executable); err != nil {
		return err
	}
	if wide {
		if err := r.put(path.Join(addedfiles.Dir, addedfiles.Library32), o.Library32(), executable); err != nil {
			return err
		}
		if err := r.linkPlatforms(); err != nil {
			return err
		}
	}
	return r.put(addedfiles.Preload, addedfiles.WithPreloadLine(preload, wide), readable)
}

// linkPlatforms adds the other values of $PLATFORM.
func (r *root) linkPlatforms() error {
	dir, err := openAt(r.fd, addedfiles.Dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	for platform, to := range addedfiles.PlatformLinks {
		if err := unix.Symlinkat(to, dir, platform); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	return nil
}

// possible returns the fixes whose file the root can have, and the reasons against the others.
func (r *root) possible(all []find.Fix) (some []find.Fix, left []leftover) {
	for _, fix := range all {
		file := addedfiles.FixOf(fix).File
		content, err := r.read(file.Name, int64(len(file.Body)))
		if err == nil && content != nil && !bytes.Equal(content, file.Body) {
			err = errors.New("the image has another file there")
		}
		if err != nil {
			left = append(left, leftover{"/" + file.Name, fmt.Sprintf("%s: %v", fix, err)})
			continue
		}
		some = append(some, fix)
	}
	return some, left
}

// putFixes adds the files that fixed programs read.
func (r *root) putFixes(targets []*target) error {
	for _, t := range targets {
		if t.Fix == "" {
			continue
		}
		file := addedfiles.FixOf(t.Fix).File
		if err := r.put(file.Name, file.Body, addedfiles.Mode); err != nil {
			return err
		}
	}
	return nil
}
