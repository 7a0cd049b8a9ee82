package ociruntime

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/rootfs"
	"vfix.dev/vfix/host/store"
	"vfix.dev/vfix/rewriter"
)

// container is one that is about to be made.
type container struct {
	Config
	own    Options
	bundle string
	spec   *spec
	store  *store.Store
	flags  int64 // of the store's file system
	root   *rootfs.Root
	// writable says that the root belongs to this container alone and is written to: patched
	// files take their originals' places in it, so that they can be replaced again.
	writable bool
	upper    string   // the root's upper layer, "" where it is no overlay
	hidden   []string // real paths in the root that mounts of the engine cover
	add      []specMount
	// problems are what could not be done, a line each; each names a file.
	problems []string
}

// maxSpec bounds a config.json, in bytes: with a large seccomp profile one has 100 KB.
const maxSpec = 32 << 20

// prepare reads the bundle and does all that is to be done about it. An error says that
// nothing could be done, problems what else could not.
func prepare(bundle string, c Config, o Options) (problems []string, err error) {
	k := &container{Config: c, own: o, bundle: bundle}
	unlock, err := lockFolder(bundle)
	if err != nil {
		return nil, err
	}
	defer unlock()
	raw, err := readSpec(filepath.Join(bundle, specName))
	if err != nil {
		return nil, err
	}
	if k.spec, err = parseSpec(raw); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(bundle, specName), err)
	}
	k.store = &store.Store{Dir: c.cacheDir()} // not open: its mounts are known by it
	enabled, fallback, err := k.wanted()
	if err != nil {
		return nil, k.bare(err)
	}
	if !enabled {
		if s, err := store.Existing(c.cacheDir(), c.cacheSize()); err == nil {
			k.store = s
		}
		return nil, k.bare(nil)
	}
	s, err := store.Open(c.cacheDir(), c.cacheSize())
	if err != nil {
		return nil, k.bare(fmt.Errorf("cache: %w", err))
	}
	k.store = s
	if err := k.work(fallback); err != nil {
		return nil, k.bare(err)
	}
	return k.problems, k.writeSpec()
}

// bare takes out of config.json what an earlier start from the bundle has added: it may not
// be in the cache any more, and then the container would not start.
func (k *container) bare(err error) error {
	k.add = nil
	return errors.Join(err, k.writeSpec())
}

// wanted reads the annotations.
func (k *container) wanted() (enabled, fallback bool, err error) {
	enabled, fallback = !k.OptIn, k.Fallback
	switch v := k.spec.Annotations[AnnotationEnable]; v {
	case "":
	case "true", "false":
		enabled = v == "true"
	default:
		return false, false, fmt.Errorf("annotation %s: got %q, want true or false", AnnotationEnable, v)
	}
	switch v := k.spec.Annotations[AnnotationFallback]; v {
	case "":
	case "always", "never":
		fallback = v == "always"
	default:
		return false, false, fmt.Errorf("annotation %s: got %q, want always or never", AnnotationFallback, v)
	}
	return enabled, fallback, nil
}

// work patches the files of the root.
func (k *container) work(fallback bool) (err error) {
	path := k.spec.Root.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(k.bundle, path)
	}
	if k.root, err = rootfs.Open(path); err != nil {
		return fmt.Errorf("root: %w", err)
	}
	defer k.root.Close()
	if k.flags, err = k.store.Flags(); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	if k.flags&unix.ST_NOEXEC != 0 {
		return fmt.Errorf("cache: %s is on a file system that allows no programs (noexec)", k.store.Dir)
	}
	if err := k.cover(); err != nil {
		return err
	}
	found, err := k.look()
	if err != nil {
		return err
	}
	if k.writable {
		k.sweep(found.temps)
	}
	for _, u := range found.Unread {
		if !k.isHidden(string(u.Name)) {
			k.problem(string(u.Name), errors.New(u.Reason))
		}
	}
	for i := range found.Hits {
		k.patch(&found.Hits[i])
	}
	if fallback {
		if err := k.addFallback(); err != nil {
			k.problems = append(k.problems, err.Error())
		}
	}
	return nil
}

func (k *container) problem(name string, err error) {
	k.problems = append(k.problems, fmt.Sprintf("/%s: %v", name, err))
}

// cover finds out what the engine's mounts hide.
func (k *container) cover() error {
	for _, m := range k.spec.Mounts {
		if k.store.Holds(m.Source) {
			continue // of an earlier start: it goes
		}
		real, err := k.root.Resolve(m.Destination)
		if err != nil {
			return fmt.Errorf("mount at %s: %w", m.Destination, err)
		}
		k.hidden = append(k.hidden, real)
	}
	return nil
}

func (k *container) isHidden(name string) bool {
	return slices.ContainsFunc(k.hidden, func(at string) bool {
		return name == at || at == "" || strings.HasPrefix(name, at+"/")
	})
}

// look finds the files to be patched, by whatever way needs the least reading.
func (k *container) look() (*findings, error) {
	keep := keeper{k.store, k.own.maker()}
	m, mounted, err := mountAt(k.root.Path)
	if err != nil {
		return nil, err
	}
	k.writable = !k.spec.Root.Readonly && k.ownRoot(m, mounted)
	if mounted && m.fstype == "overlay" {
		if found, err := k.lookAtLayers(keep, m); err == nil {
			return found, nil
		}
	}
	return keep.folder(k.root)
}

// lookAtLayers finds the files in the layers of an overlay, of which most never change.
func (k *container) lookAtLayers(keep keeper, m mount) (*findings, error) {
	layers, err := layersOf(m)
	if err != nil {
		return nil, err
	}
	all := &findings{}
	for _, dir := range layers.lower {
		f, err := keep.lower(dir)
		if err != nil {
			return nil, err
		}
		for _, h := range f.Hits {
			h.layer = dir
			all.Hits = append(all.Hits, h)
		}
		all.Unread = append(all.Unread, f.Unread...)
	}
	k.upper = layers.upper
	if layers.upper != "" {
		upper, err := rootfs.Open(layers.upper)
		if err != nil {
			return nil, err
		}
		defer upper.Close()
		f, err := keep.folder(upper)
		if err != nil {
			return nil, err
		}
		all.Hits = append(all.Hits, f.Hits...)
		all.Unread = append(all.Unread, f.Unread...)
		all.temps = f.temps
	}
	all.Unread = slices.DeleteFunc(all.Unread, func(u unread) bool {
		return u.ID != (rootfs.Identity{}) && !k.shows(string(u.Name), u.ID)
	})
	return all, nil
}

// lower returns the findings of a lower layer.
func (k *keeper) lower(dir string) (*findings, error) {
	if immutable(dir) {
		return k.layer(dir)
	}
	root, err := rootfs.Open(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return k.folder(root)
}

// ownRoot reports whether the root is one that an engine made for this container alone.
func (k *container) ownRoot(m mount, mounted bool) bool {
	switch {
	case mounted && m.readOnly, k.root.Path == "/": // the machine's own, an overlay on live systems
		return false
	case mounted && m.fstype == "overlay":
		return hasName(m.options, "upperdir")
	case mounted && snapshotRoot(m):
		return true
	}
	return engineRoot(k.root.Path)
}

func hasName(list, name string) bool {
	for o := range strings.SplitSeq(list, ",") {
		if strings.HasPrefix(o, name+"=") {
			return true
		}
	}
	return false
}

// shows reports whether the root shows, at a real path, the file that was found there in
// one of its layers: an upper layer may have another one, or none.
func (k *container) shows(name string, id rootfs.Identity) bool {
	st, err := k.root.Lstat(name)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && rootfs.IdentityOf(&st).SameContent(id)
}

// patch has a patched copy take the place of a file, under all names that the container
// will see.
func (k *container) patch(h *hit) {
	var names []string
	for _, n := range h.Names {
		name := string(n)
		switch {
		case k.isHidden(name):
		case k.shows(name, h.ID):
			names = append(names, name)
		case k.torn(name, h):
			k.mend(name, h)
		}
	}
	if len(names) == 0 {
		return
	}
	copied, err := k.copyOf(k.root, names[0], h)
	if err != nil {
		k.problem(names[0], err)
		return
	}
	if k.writable {
		if err = k.replace(names, copied, h.ID); err == nil {
			return
		}
	}
	for _, name := range names {
		if merr := k.mount(name, copied); merr != nil {
			k.problem(name, errors.Join(merr, err))
		}
	}
}

// copied is a patched copy in the store.
type copied struct {
	path string
	size int64
	meta store.Meta // of the original
}

// copyOf returns the patched copy of a file, from the store or made now.
func (k *container) copyOf(root *rootfs.Root, name string, h *hit) (*copied, error) {
	f, err := root.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !f.ID().SameContent(h.ID) {
		return nil, rootfs.ErrChanged
	}
	c := &copied{size: h.Size}
	if c.meta, err = store.ReadMeta(f.FD()); err != nil {
		return nil, err
	}
	meta := c.meta
	k.relabel(&meta)
	key := meta.Key([sha256.Size]byte(h.SHA256), k.own.maker(), k.spec.idMap)
	var ok bool
	if c.path, ok = k.store.Get(key, h.Size); ok {
		return c, nil
	}
	c.path, err = k.store.Put(key, h.Size, func(w *os.File) error {
		original, err := k.snapshot(f, h)
		if err != nil {
			return err
		}
		defer original.Close()
		if err := writePatched(w, original, f.Stat.Size, h); err != nil {
			return err
		}
		return meta.Give(int(w.Fd()))
	})
	return c, err
}

// snapshot copies a file to one that has no name, and sees to it that it has the content that
// it is known by. Whoever still has the original mapped can write to it without any trace in
// its times, between two readings as well; a copy made of that would be given to every
// container that has the file it was taken for.
func (k *container) snapshot(f *rootfs.File, h *hit) (*os.File, error) {
	s, err := k.store.Scratch()
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(s, sum), io.NewSectionReader(f, 0, f.Stat.Size))
	if err == nil && string(sum.Sum(nil)) != string(h.SHA256) {
		err = rootfs.ErrChanged
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// writePatched writes the patched copy of a file of size bytes to w, and proves that it is one.
func writePatched(w *os.File, original io.ReaderAt, size int64, h *hit) error {
	plan, _, err := planOf(original, size)
	if err != nil {
		return err
	}
	if plan == nil || plan.Size != h.Size {
		return rootfs.ErrChanged
	}
	if _, err := io.Copy(w, plan.Apply(original)); err != nil {
		return err
	}
	_, err = rewriter.Verify(original, size, w, h.Size, rewriter.Options{})
	return err
}

// maxMounts is how many names of one root are mounted over: the kernel has a bound of 100,000
// for a mount namespace (fs.mount-max), and a container beyond it would not start.
const maxMounts = 10000

// mount has the copy mounted over a name.
func (k *container) mount(name string, c *copied) error {
	if !utf8.ValidString(name) {
		return errors.New("its name is not UTF-8, so config.json cannot name it")
	}
	if len(k.add) >= maxMounts {
		return fmt.Errorf("more than %d names to be mounted over", maxMounts)
	}
	var over unix.Statfs_t
	if fd, err := k.root.Folder(parent(name)); err == nil {
		err = unix.Fstatfs(fd, &over)
		unix.Close(fd)
		if err != nil {
			return err
		}
	}
	options := []string{"bind", "ro", "nodev", "rprivate"}
	const privileged = unix.S_ISUID | unix.S_ISGID
	switch {
	case over.Flags&unix.ST_NOSUID != 0:
		options = append(options, "nosuid")
	case k.flags&unix.ST_NOSUID != 0 && (c.meta.Mode&privileged != 0 || c.meta.Xattrs["security.capability"] != ""):
		return fmt.Errorf("cache: %s is on a file system without setuid (nosuid), and the file needs it", k.store.Dir)
	}
	k.add = append(k.add, specMount{Destination: "/" + name, Type: "bind", Source: c.path, Options: options})
	return nil
}

func parent(name string) string {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i]
	}
	return ""
}
