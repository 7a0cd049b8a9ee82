// Writing the merged file system of an image as a directory: the layers are applied in order, as engines do
// (image-spec, layer.md, "Applying Changesets"). Nothing is written outside of the directory, whatever the names in
// the layers are.

package source

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/atomicfile"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/sparse"
)

// Whiteouts (image-spec, layer.md, "Whiteouts").
const (
	whiteoutPrefix = ".wh."
	opaqueWhiteout = ".wh..wh..opq"
)

// unpackMode is the mode of a directory while it is filled.
const unpackMode = 0o700

// CheckRootDest returns an error if a root filesystem cannot be written to a directory, which must be missing or empty.
func CheckRootDest(dir string) error {
	fi, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !fi.IsDir() {
		err = fmt.Errorf("%s: exists and is not a directory", dir)
	}
	if err == nil {
		var entries []os.DirEntry
		if entries, err = os.ReadDir(dir); err == nil && len(entries) > 0 {
			err = fmt.Errorf("%s: exists and is not empty", dir)
		}
	}
	return hinterr.With(err, "name a directory that does not exist yet, or an empty one")
}

// CheckNotInside returns an error for a directory to write in the directory of its source.
func CheckNotInside(src *Source, dest Ref) error {
	if dest.Transport == Dir && src.Image == nil && Inside(src.Path, dest.Name) {
		return ErrInside(dest.Name, src.Path)
	}
	return nil
}

// ErrInside returns the error for an output that is inside its input.
func ErrInside(out, in string) error {
	return hinterr.With(fmt.Errorf("%s is inside %s, which is copied there", out, in), "name a directory outside of it")
}

// Inside reports whether name, which need not exist, is in the directory dir.
func Inside(dir, name string) bool {
	paths := [...]string{dir, filepath.Dir(filepath.Clean(name))}
	for i, p := range paths {
		real, err := filepath.EvalSymlinks(p)
		if err == nil {
			paths[i], err = filepath.Abs(real)
		}
		if err != nil {
			return false
		}
	}
	rel, err := filepath.Rel(paths[0], paths[1])
	return err == nil && filepath.IsLocal(rel)
}

// putDir writes the merged file system of an image as a directory, completely or not at all. As root it keeps owners,
// extended attributes and devices; otherwise the caller owns all files, and a warning says so.
func putDir(ctx context.Context, dest Ref, r Result, o Options) (Stored, error) {
	if err := CheckRootDest(dest.Name); err != nil {
		return Stored{}, err
	}
	u := &unpacking{dirs: map[string]*tar.Header{}}
	err := atomicfile.WriteDir(dest.Name, unpackMode, func(temp string) (err error) {
		if u.root, err = os.OpenRoot(temp); err != nil {
			return err
		}
		defer u.root.Close()
		return u.image(ctx, r.Image, o)
	})
	if err != nil {
		return Stored{}, fmt.Errorf("directory %s: %w", dest.Name, err)
	}
	return Stored{Reference: dest.String(), Warnings: u.warnings()}, nil
}

// unpacking is the unpacking of one image into a directory.
type unpacking struct {
	root *os.Root
	dirs map[string]*tar.Header // directories, whose metadata is set at the end
	// What the caller may not set: files of other owners, devices, extended attributes.
	owners, devices, xattrs int
	layer                   map[string]bool // names that the current layer wrote
}

func (u *unpacking) image(ctx context.Context, img v1.Image, o Options) error {
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	for _, l := range layers {
		if !AtHand(l) {
			h, _ := l.Digest()
			return hinterr.Errorf(hinterr.ErrUnsupported, "%v is a foreign layer, which is not with the image", h)
		}
		if err := u.apply(ctx, l, o); err != nil {
			return err
		}
	}
	return u.finishDirs()
}

// apply applies one layer.
func (u *unpacking) apply(ctx context.Context, l v1.Layer, o Options) error {
	s, err := blob.OpenLayer(ctx, l, o.Progress)
	if err != nil {
		return err
	}
	defer s.Close()
	u.layer = map[string]bool{}
	for m, err := range blob.Members(s) {
		if err == nil {
			if err = u.member(m); err != nil {
				err = fmt.Errorf("%s: %w", m.Path, err)
			}
		}
		if err != nil {
			return s.Blame(err)
		}
	}
	return s.Finish()
}

// member writes one member of a layer.
func (u *unpacking) member(m *blob.TarMember) error {
	dir, base := path.Split(m.Path)
	switch {
	case m.Path == "":
		u.dirs["."] = m.Header
		return nil
	case base == opaqueWhiteout:
		return u.empty(path.Clean(dir))
	case strings.HasPrefix(base, whiteoutPrefix):
		return u.remove(dir + strings.TrimPrefix(base, whiteoutPrefix))
	}
	if err := u.root.MkdirAll(path.Clean(dir), unpackMode); err != nil {
		return err
	}
	for p := m.Path; p != "."; p = path.Dir(p) {
		u.layer[p] = true
	}
	fi, err := u.root.Lstat(m.Path)
	if m.Typeflag == tar.TypeDir {
		u.dirs[m.Path] = m.Header
		if err == nil && fi.IsDir() {
			return nil
		}
	}
	if err == nil {
		if err := u.root.RemoveAll(m.Path); err != nil {
			return err
		}
	}
	switch {
	case m.Typeflag == tar.TypeDir:
		return u.root.Mkdir(m.Path, unpackMode)
	case m.IsRegular():
		return u.file(m)
	case m.Typeflag == tar.TypeLink:
		to, err := blob.CleanName(m.Linkname)
		if err != nil {
			return err
		}
		return u.root.Link(to, m.Path)
	case m.Typeflag == tar.TypeSymlink:
		if err := u.root.Symlink(m.Linkname, m.Path); err != nil {
			return err
		}
		return errors.Join(u.owner(m.Path, m.Header), setLinkTime(u.root, m.Path, m.ModTime))
	}
	made, err := makeNode(u.root, m.Path, m.Header)
	if err != nil || !made {
		u.devices++
		return err
	}
	return u.adorn(nil, m.Path, m.Header)
}

// empty removes from a directory what lower layers put there.
func (u *unpacking) empty(dir string) error {
	f, err := u.root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	for _, name := range names {
		if err == nil {
			err = u.remove(path.Join(dir, name))
		}
	}
	return err
}

// remove removes what lower layers have under a name.
func (u *unpacking) remove(name string) error {
	if !u.layer[name] {
		return u.root.RemoveAll(name)
	}
	if fi, err := u.root.Lstat(name); err == nil && fi.IsDir() {
		return u.empty(name)
	}
	return nil
}

func (u *unpacking) file(m *blob.TarMember) error {
	f, err := u.root.OpenFile(m.Path, os.O_RDWR|os.O_CREATE|os.O_EXCL, unpackMode)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := sparse.Copy(f, m.Content); err != nil {
		return err
	}
	return errors.Join(u.adorn(f, m.Path, m.Header), f.Close())
}

// adorn sets the owner, the extended attributes, the mode and the time of what is not a symlink; f is nil for a
// device. The mode comes after the owner, whose change clears setuid.
func (u *unpacking) adorn(f *os.File, name string, h *tar.Header) error {
	if err := u.owner(name, h); err != nil {
		return err
	}
	mode := h.FileInfo().Mode()
	if os.Geteuid() != 0 && h.Uid != os.Geteuid() {
		mode &^= fs.ModeSetuid | fs.ModeSetgid // the caller's rights are not those that the image meant
	}
	if err := u.root.Chmod(name, mode); err != nil {
		return err
	}
	for key, value := range h.PAXRecords {
		attr, is := strings.CutPrefix(key, blob.XattrPrefix)
		if is && (f == nil || setXattr(f, attr, value) != nil) {
			u.xattrs++
		}
	}
	return u.root.Chtimes(name, h.ModTime, h.ModTime)
}

func (u *unpacking) owner(name string, h *tar.Header) error {
	if os.Geteuid() == 0 {
		return u.root.Lchown(name, h.Uid, h.Gid)
	}
	if h.Uid != os.Geteuid() {
		u.owners++
	}
	return nil
}

// finishDirs sets the metadata of the directories, inner ones first.
func (u *unpacking) finishDirs() error {
	names := make([]string, 0, len(u.dirs))
	for name := range u.dirs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range slices.Backward(names) {
		fi, err := u.root.Lstat(name)
		if err != nil || !fi.IsDir() { // a later layer removed it
			continue
		}
		f, err := u.root.Open(name)
		if err != nil {
			return err
		}
		h := *u.dirs[name]
		if os.Geteuid() != 0 {
			h.Mode |= unpackMode // so that the caller can remove it
		}
		err = u.adorn(f, name, &h)
		f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (u *unpacking) warnings() []string {
	if u.owners+u.devices+u.xattrs == 0 {
		return nil
	}
	return []string{fmt.Sprintf("not kept, as only root may set them: the owners of %d files, %d devices, %d extended attributes", u.owners, u.devices, u.xattrs)}
}
