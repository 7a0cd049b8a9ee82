package contents_test

import (
	"archive/tar"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/tests/imagetest"
)

// A small engine, to which trees and added layers are compared: it unpacks layers on disk, as containerd's archive.applyNaive,
// containerd's archive.OverlayConvertWhiteout and umoci's TarExtractor do, and the kernel makes the overlay.

type manner int

const (
	overlaid manner = iota
	inPlace
	sparing // as umoci: whiteouts spare the files of their layer
	lowestInPlace
)

// engineNames are how a tree names the engines of a manner; overlaid is the tree itself.
var engineNames = map[manner]string{inPlace: "docker's vfs driver and containerd's native snapshotter", sparing: "umoci", lowestInPlace: "containerd's overlayfs snapshotter"}

// unpacking is one layer that is unpacked below a directory.
type unpacking struct {
	root string
	manner
	made map[string]bool // paths of this layer; if sparing, with the directories above
}

// unpack makes the file system of layers, and lists it; an error is that an engine refuses the layers.
func unpack(t *testing.T, layers [][]imagetest.TestMember, m manner) (map[string]shownFile, error) {
	t.Helper()
	dir := imagetest.Must[string](t)(os.MkdirTemp(t.TempDir(), ""))
	lowest := filepath.Join(dir, "empty")
	roots := []string{lowest}
	for n, l := range layers {
		u := unpacking{filepath.Join(dir, fmt.Sprint(n)), m, map[string]bool{}}
		switch {
		case m == lowestInPlace && n == 0:
			u.manner = inPlace
		case m == lowestInPlace:
			u.manner = overlaid
		case m != overlaid:
			u.root = lowest
		}
		if err := os.MkdirAll(u.root, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, member := range l {
			if err := u.add(member); err != nil {
				return nil, fmt.Errorf("layer %d: %s: %w", n, member.Name, err)
			}
		}
		roots = append(roots, u.root)
	}
	if m == inPlace || m == sparing {
		return onDisk(t, lowest), nil
	}
	slices.Reverse(roots)
	to := filepath.Join(dir, "merged")
	if err := errors.Join(os.MkdirAll(lowest, 0o755), os.Mkdir(to, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("overlay", to, "overlay", unix.MS_RDONLY, "lowerdir="+strings.Join(roots, ":")); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(to, unix.MNT_DETACH)
	return onDisk(t, to), nil
}

// resolve follows the symlinks in a name, none of which leaves the root (containerd, fs.RootPath). Parts may be missing.
func (u unpacking) resolve(name string) (string, error) {
	at := u.root
	for links := 0; name != ""; {
		var part string
		part, name, _ = strings.Cut(name, "/")
		switch part {
		case "", ".":
			continue
		case "..":
			if at != u.root {
				at = filepath.Dir(at)
			}
			continue
		}
		to, err := os.Readlink(filepath.Join(at, part))
		if err != nil {
			at = filepath.Join(at, part)
			continue
		}
		if links++; links > 255 {
			return "", unix.ELOOP
		}
		if path.IsAbs(to) {
			at = u.root
		}
		name = to + "/" + name
	}
	return at, nil
}

func (u unpacking) add(m imagetest.TestMember) error {
	dir, base := path.Split(path.Clean("/" + m.Name))
	at, err := u.resolve(dir)
	if err != nil {
		return err
	}
	hidden, whiteout := strings.CutPrefix(base, ".wh.")
	if !whiteout || u.manner != sparing {
		if err := u.mkdirs(at); err != nil {
			return err
		}
	}
	full := filepath.Join(at, base)
	if is, err := os.Lstat(at); err != nil || !is.IsDir() { // a whiteout of umoci: removes nothing, or is refused
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return cmp.Or(err, error(unix.ENOTDIR))
	}
	switch {
	case base == ".wh..wh..opq" && u.manner == overlaid:
		return unix.Setxattr(at, "trusted.overlay.opaque", []byte("y"), 0)
	case base == ".wh..wh..opq":
		return u.empty(at)
	case whiteout && u.manner == overlaid:
		return unix.Mknod(filepath.Join(at, hidden), unix.S_IFCHR, 0)
	case whiteout && u.manner == sparing && u.made[filepath.Join(at, hidden)]:
		return u.empty(filepath.Join(at, hidden))
	case whiteout:
		return os.RemoveAll(filepath.Join(at, hidden))
	}
	if err := u.create(full, m); err != nil {
		return err
	}
	for ; full != u.root; full = filepath.Dir(full) {
		u.made[full] = true
		if u.manner != sparing {
			break
		}
	}
	return nil
}

// mkdirs makes missing directories for root, also in a directory that would give them its group (docker, user.MkdirAllAndChown).
func (u unpacking) mkdirs(dir string) error {
	if is, err := os.Lstat(dir); err == nil && is.IsDir() {
		return nil
	}
	if err := u.mkdirs(filepath.Dir(dir)); err != nil {
		return err
	}
	return errors.Join(os.Mkdir(dir, 0o755), os.Chown(dir, 0, 0), os.Chmod(dir, 0o755))
}

// empty removes what is below a directory, except what this layer has made.
func (u unpacking) empty(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || name == dir || u.made[name] {
			return err
		}
		if err := os.RemoveAll(name); err != nil || !d.IsDir() {
			return err
		}
		return fs.SkipDir
	})
}

func (u unpacking) create(full string, m imagetest.TestMember) error {
	is, err := os.Lstat(full)
	if err == nil && !(is.IsDir() && m.Typeflag == tar.TypeDir) {
		if err := os.RemoveAll(full); err != nil {
			return err
		}
	}
	symlink := m.Typeflag == tar.TypeSymlink
	switch m.Typeflag {
	case tar.TypeDir:
		err = os.MkdirAll(full, 0o755)
	case tar.TypeReg:
		err = os.WriteFile(full, m.Body, 0o600)
	case tar.TypeSymlink:
		err = os.Symlink(m.Linkname, full)
	case tar.TypeLink:
		dir, base := path.Split(path.Clean("/" + m.Linkname))
		var at string
		if at, err = u.resolve(dir); err == nil {
			err = os.Link(filepath.Join(at, base), full)
		}
		if u.manner == sparing {
			return err // umoci leaves the file as it is
		}
		if is, err := os.Lstat(full); err == nil {
			symlink = is.Mode()&fs.ModeSymlink != 0
		}
	case tar.TypeFifo:
		err = unix.Mkfifo(full, 0o600)
	default:
		err = unix.Mknod(full, unix.S_IFCHR, int(unix.Mkdev(uint32(m.Devmajor), uint32(m.Devminor))))
	}
	if err != nil {
		return err
	}
	if err := os.Lchown(full, m.Uid, m.Gid); err != nil {
		return err
	}
	for key, value := range m.PAXRecords {
		if !strings.HasPrefix(key, blob.XattrPrefix) {
			continue // such as that of a time's fraction
		}
		if err := unix.Lsetxattr(full, attribute(key), []byte(value), 0); err != nil {
			return err
		}
	}
	if !symlink {
		if err := unix.Chmod(full, uint32(m.Mode)); err != nil {
			return err
		}
	}
	mtime := m.ModTime
	if mtime.IsZero() {
		mtime = imagetest.TestTime
	}
	at, err := unix.TimeToTimespec(mtime)
	if err != nil {
		return err
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, full, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
}

// attribute is the extended attribute on disk of a PAX record: not each file system has the space of users.
func attribute(record string) string {
	return strings.Replace(strings.TrimPrefix(record, blob.XattrPrefix), "user.", "trusted.", 1)
}

// shownFile describes a file: what it is, and its metadata.
type shownFile struct{ what, meta, capability string }

const (
	shownDir = "directory"
	toPatch  = "to patch: "
	patched  = "patched: "
)

func shown(flag byte, link, content string, major, minor int64, mode int64, uid, gid int, mtime time.Time, xattrs []string) shownFile {
	switch flag {
	case tar.TypeDir: // its time changes with each file in it
		return shownFile{what: shownDir, meta: fmt.Sprintf("%o %d:%d", mode, uid, gid)}
	case tar.TypeLink:
		return shownFile{what: "link to " + link}
	case tar.TypeSymlink:
		mode = 0o777 // has no meaning
	}
	slices.Sort(xattrs)
	is := fmt.Sprintf("%.8x", sha256.Sum256([]byte(content)))
	if legacy, fixed := imagetest.LegacyText([]byte(content)); legacy != "" {
		is = toPatch + legacy
	} else if fixed != "" {
		is = patched + fixed
	}
	capability := ""
	if len(xattrs) > 0 && strings.HasPrefix(xattrs[0], "security.") {
		capability, xattrs = xattrs[0], xattrs[1:]
	}
	return shownFile{
		fmt.Sprintf("%c %s %d:%d %s", flag, link, major, minor, is),
		fmt.Sprintf("%o %d:%d %v %q", mode, uid, gid, mtime.UTC(), xattrs), capability,
	}
}

// onDisk lists a file system.
func onDisk(t *testing.T, root string) map[string]shownFile {
	t.Helper()
	all, first := map[string]shownFile{}, map[uint64]string{}
	kinds := map[uint32]byte{unix.S_IFREG: tar.TypeReg, unix.S_IFDIR: tar.TypeDir, unix.S_IFLNK: tar.TypeSymlink, unix.S_IFIFO: tar.TypeFifo, unix.S_IFCHR: tar.TypeChar}
	err := filepath.WalkDir(root, func(full string, _ fs.DirEntry, err error) error {
		var st unix.Stat_t
		if serr := unix.Lstat(full, &st); full == root || serr == unix.ENOENT {
			return nil // an overlay lists whiteouts that hide nothing
		} else if err = errors.Join(err, serr); err != nil {
			return err
		}
		name, _ := filepath.Rel(root, full)
		flag, link, content, xattrs := kinds[st.Mode&unix.S_IFMT], "", "", []string(nil)
		if of, again := first[st.Ino]; again && flag != tar.TypeDir {
			flag, link = tar.TypeLink, of
		}
		first[st.Ino] = name
		if flag == tar.TypeLink {
			first[st.Ino] = link
		}
		switch flag {
		case tar.TypeSymlink:
			link, err = os.Readlink(full)
		case tar.TypeReg:
			var b []byte
			b, err = os.ReadFile(full)
			content = string(b)
			for _, key := range []string{"trusted.a", "security.capability"} {
				value := make([]byte, 100)
				if n, err := unix.Getxattr(full, key, value); err == nil {
					xattrs = append(xattrs, key+"="+string(value[:n]))
				}
			}
		}
		all[name] = shown(flag, link, content, int64(unix.Major(st.Rdev)), int64(unix.Minor(st.Rdev)), int64(st.Mode&0o7777), int(st.Uid), int(st.Gid), time.Unix(st.Mtim.Unix()), xattrs)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// inTree lists a tree in the same way; a directory without an entry in the last layer is one that the engine made.
func inTree(tree *contents.Tree, bodies map[[sha256.Size]byte]string) map[string]shownFile {
	all := map[string]shownFile{}
	for name, e := range tree.Entries() {
		h := e.Header(name)
		if name == "" {
			continue
		}
		if h.Typeflag == tar.TypeDir && tree.At(name).Implied {
			h.Mode, h.Uid, h.Gid = 0o755, 0, 0
		}
		var xattrs []string
		for key, value := range h.PAXRecords {
			xattrs = append(xattrs, attribute(key)+"="+value)
		}
		content := ""
		if e.Sum != nil {
			content = bodies[*e.Sum]
		}
		all[name] = shown(h.Typeflag, h.Linkname, content, h.Devmajor, h.Devminor, h.Mode, h.Uid, h.Gid, h.ModTime, xattrs)
	}
	return all
}

// compareShown reports the differences; files compares no metadata, and no directories.
func compareShown(got, want map[string]shownFile, files bool) (problems []string) {
	for _, name := range contents.SortedKeys(want) {
		g, w := got[name], want[name]
		if files {
			g.meta, w.meta, g.capability, w.capability = "", "", "", ""
			if w.what == shownDir {
				continue
			}
		}
		if g != w {
			problems = append(problems, fmt.Sprintf("%s: got %+v, want %+v", name, g, w))
		}
	}
	for _, name := range contents.SortedKeys(got) {
		if _, has := want[name]; !has && !(files && got[name].what == shownDir) {
			problems = append(problems, fmt.Sprintf("%s: got %+v, want none", name, got[name]))
		}
	}
	return problems
}

// likeEngines compares the trees of layers with what each engine makes of them, and then what engines make of the layers
// and the one with the patched files. It counts the engines that accept the layers.
func likeEngines(t *testing.T, layers [][]imagetest.TestMember, accepted map[manner]int) (problems []string) {
	t.Helper()
	s := imagetest.TestSession(t)
	s.Sums = true
	tree, refused := s.Image(t.Context(), imagetest.Stack(t, layers...))
	bodies := map[[sha256.Size]byte]string{}
	for _, l := range layers {
		for _, m := range l {
			bodies[sha256.Sum256(m.Body)] = string(m.Body)
		}
	}
	var found *contents.Scanned
	var added []imagetest.TestMember
	if refused == nil {
		found = imagetest.Must[*contents.Scanned](t)(s.Findings(t.Context(), tree))
		layer := imagetest.Must[*contents.AddedLayer](t)(s.NewLayer(t.Context(), tree, found.ToPatch(), nil))
		defer layer.Close()
		r := imagetest.Must[io.ReadCloser](t)(layer.Uncompressed())
		defer r.Close()
		added = imagetest.ReadTar(t, r)
	}
	for m := overlaid; m <= lowestInPlace; m++ {
		want, err := unpack(t, layers, m)
		if err != nil {
			continue
		}
		if refused != nil {
			if m == overlaid {
				problems = append(problems, fmt.Sprintf("refused: %v", refused))
			}
			continue
		}
		accepted[m]++
		of, own := tree, m == overlaid
		for _, o := range tree.Others {
			if m != overlaid && strings.Contains(o.Engines, engineNames[m]) { // the first of them made it
				of, own = o, strings.HasPrefix(o.Engines, engineNames[m])
			}
		}
		for _, p := range compareShown(inTree(of, bodies), want, !own || m == sparing) {
			problems = append(problems, fmt.Sprintf("%s (a tree of its own: %t): %s", engineNames[m], own, p))
		}
		for _, p := range rebuiltLikeEngines(t, layers, added, want, m, found.Warnings) {
			problems = append(problems, engineNames[m]+", after a rebuild: "+p)
		}
	}
	return problems
}

// rebuiltLikeEngines returns what an engine shows of the layers and the added one that it should not show: files that were not
// patched, and other differences, as far as the warnings do not name them.
func rebuiltLikeEngines(t *testing.T, layers [][]imagetest.TestMember, added []imagetest.TestMember, base map[string]shownFile, m manner, warnings []string) (problems []string) {
	t.Helper()
	overlay := m == overlaid || m == lowestInPlace
	warned := func(of ...string) bool {
		return slices.ContainsFunc(warnings, func(w string) bool {
			return !slices.ContainsFunc(of, func(part string) bool { return !strings.Contains(w, part) })
		})
	}
	derived, err := unpack(t, append(slices.Clone(layers), added), m)
	if err != nil {
		if overlay || !warned("cannot unpack the result") {
			return []string{err.Error()}
		}
		return nil
	}
	want := map[string]shownFile{}
	for name, f := range base {
		f.what = strings.Replace(f.what, toPatch, patched, 1)
		if m == sparing && strings.Contains(f.what, patched) {
			f.meta = derived[name].meta // perhaps of a link's header
		}
		want[name] = f
	}
	for _, p := range compareShown(derived, want, false) {
		name, _, _ := strings.Cut(p, ":")
		if !overlay && warned(name) || warned(name, "nowhere") || warned(name, "after a rebuild also as") {
			continue
		}
		problems = append(problems, p)
	}
	return problems
}

// Trees are those that engines make of the same layers, file by file with all metadata; and each engine shows the files of
// an added layer patched, and everything else as before.
func TestLikeEngines(t *testing.T) {
	imagetest.AsRoot(t, "devices and mounts")
	const images = 50
	accepted := map[manner]int{}
	for seed := range uint64(images) {
		layers := imagetest.RandomLayers(seed)
		if problems := likeEngines(t, layers, accepted); len(problems) > 0 {
			t.Errorf("seed %d\n%s%s", seed, imagetest.Describe(layers), strings.Join(problems, "\n"))
		}
	}
	for m := overlaid; m <= lowestInPlace; m++ {
		if accepted[m] < images/3 {
			t.Errorf("%s: %d of %d images are accepted", engineNames[m], accepted[m], images)
		}
	}

	with := func(m imagetest.TestMember, mode int64, owner int, xattrs ...string) imagetest.TestMember {
		m.Mode, m.Uid, m.Gid, m.PAXRecords = mode, owner, owner, map[string]string{}
		for i := 0; i < len(xattrs); i += 2 {
			m.PAXRecords[blob.XattrPrefix+xattrs[i]] = xattrs[i+1]
		}
		return m
	}
	device := func(name string, major, minor int64) imagetest.TestMember {
		return imagetest.TestMember{Header: tar.Header{Typeflag: tar.TypeChar, Name: name, Devmajor: major, Devminor: minor, Mode: 0o640}}
	}
	const capability = "security.capability"
	file, dir, link, symlink := imagetest.LegacyM("d/file", "text"), imagetest.DirM("d"), imagetest.LinkM("link", "d/file"), imagetest.SymM("symlink", "d/file")
	hides := func(name string) imagetest.TestMember { return imagetest.FileM(name, nil) }
	capable := with(file, 0o755, 0, capability, imagetest.CapNetRaw, "user.a", "1")
	for _, c := range []struct {
		name    string
		layers  layers
		engines int // that accept it
	}{
		{"a link's header is the file's", layers{{dir, with(file, 0o4755, 1, "user.a", "1"), with(link, 0o600, 2, "user.a", "2")}}, 4},
		{"a link without attributes", layers{{with(file, 0o755, 1, "user.a", "1"), with(link, 0o755, 1)}}, 4},
		{"a link to a file without attributes", layers{{file, with(link, 0o755, 1, "user.a", "1")}}, 4},
		{"a link without the file's capability", layers{{capable, with(link, 0o755, 0)}}, 4},
		{"a link with it", layers{{capable, with(link, 0o755, 0, capability, imagetest.CapNetRaw)}}, 4},
		{"links with and without", layers{{capable, with(link, 0o755, 0), with(imagetest.LinkM("z", "link"), 0o755, 0, capability, imagetest.CapNetRaw)}}, 4},
		{"a link to a symlink", layers{{symlink, with(imagetest.LinkM("z", "symlink"), 0o600, 3)}}, 4},
		{"a link of a lower layer's file", layers{{file}, {with(link, 0o700, 3)}}, 2},
		{"a link through a symlink", layers{{dir, file, imagetest.SymM("s", "d"), imagetest.LinkM("link", "s/file")}}, 4},
		{"a link of a directory", layers{{dir, imagetest.LinkM("link", "d")}}, 0},
		{"devices", layers{{device("null", 1, 3), device("large", 259, 300), imagetest.LinkM("link", "null")}}, 4},
		{"a device that hides a file", layers{{dir, file, file}, {device("d/file", 0, 0)}}, 4},
		{"a device that hides a directory", layers{{dir, file}, {device("d", 0, 0)}, {imagetest.FileM("d/new", nil)}}, 2},
		{"a directory's metadata by the upper layer", layers{{with(dir, 0o700, 4), file}, {with(dir, 0o1777, 5)}}, 4},
		{"a directory that the upper layer implies", layers{{with(dir, 0o700, 4), file}, {imagetest.FileM("d/new", nil)}}, 4},
		{"an opaque directory that is implied", layers{{with(dir, 0o700, 4), file}, {hides("d/.wh..wh..opq"), imagetest.FileM("d/new", nil)}}, 4},
		{"an opaque directory before its files", layers{{dir, file, imagetest.DirM("d/e"), imagetest.FileM("d/e/f", nil)}, {dir, hides("d/.wh..wh..opq"), file}}, 4},
		{"an opaque directory behind its files", layers{{dir, file, imagetest.FileM("d/e/f", nil)}, {dir, imagetest.DirM("d/e"), imagetest.FileM("d/e/g", nil), hides("d/.wh..wh..opq")}}, 4},
		{"an opaque directory behind files in an implied one", layers{{dir, file}, {imagetest.FileM("d/e/g", nil), hides("d/.wh..wh..opq")}}, 4},
		{"an opaque directory in the lowest layer", layers{{dir, file, imagetest.FileM("d/e/f", nil), hides("d/.wh..wh..opq")}, {imagetest.FileM("d/new", nil)}}, 4},
		{"a whiteout in the lowest layer", layers{{hides("d/.wh.file"), hides(".wh.x"), file}}, 4},
		{"whiteouts in a new directory", layers{{file}, {hides("new/.wh.x"), hides("new/e/.wh..wh..opq"), imagetest.FileM("new/y", nil)}}, 4},
		{"a whiteout before an implied directory", layers{{dir, file}, {hides(".wh.d"), imagetest.FileM("d/new", nil)}}, 2},
		{"a whiteout before the directory", layers{{dir, file}, {hides(".wh.d"), dir, imagetest.FileM("d/new", nil)}, {imagetest.FileM("d/newer", nil)}}, 4},
		{"a whiteout behind the file", layers{{file}, {file, hides("d/.wh.file")}}, 2},
		{"a whiteout behind the directory", layers{{dir, file}, {dir, imagetest.FileM("d/new", nil), hides(".wh.d")}}, 2},
		{"a whiteout of a directory behind a file in it", layers{{dir, file}, {imagetest.FileM("d/new", nil), hides(".wh.d")}}, 2},
		{"a file of a file", layers{{file, imagetest.FileM("d/file/x", nil)}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			accepted := map[manner]int{}
			for _, p := range likeEngines(t, c.layers, accepted) {
				t.Error(p)
			}
			if len(accepted) != c.engines {
				t.Errorf("got %v, want %d engines that accept it", accepted, c.engines)
			}
		})
	}
}
