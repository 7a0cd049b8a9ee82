package node

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Rule 1: only a root that belongs to one container alone is changed.
func TestOwnRoot(t *testing.T) {
	n := newNode(t)
	image := n.image("bin/clock")
	foreign := func(name, why string, make func(*node) *container) {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			c := make(n)
			n.expect(c.start(), Skipped, why)
			c.unpatched("bin/clock")
		})
	}
	c := n.container(image)
	n.expect(c.start(), Patched, "")
	c.patched("bin/clock")

	foreign("a directory", "no engine made", func(n *node) *container {
		c := n.bundle()
		n.must(os.CopyFS(c.root, os.DirFS(image)))
		return c
	})
	foreign("the machine's own", "root of this machine", func(n *node) *container {
		c := n.bundle()
		n.must(os.Remove(c.root))
		n.must(os.Symlink("/", c.root))
		return c
	})
	foreign("an overlay without upper layer", "read-only", func(n *node) *container {
		c := n.bundle()
		n.mount("overlay", c.root, "lowerdir="+image+":"+n.image())
		return c
	})
	foreign("read-only", "read-only", func(n *node) *container {
		c := n.container(image)
		n.must(unix.Mount("", c.root, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
		return c
	})
	foreign("a part of an overlay", "a part of an overlay", func(n *node) *container {
		whole, c := n.container(image), n.bundle()
		n.write(whole.root+"/part/bin/clock", n.read(whole.root+"/bin/clock"))
		n.must(os.Remove(c.root))
		n.must(os.Symlink(whole.root+"/part", c.root))
		return c
	})
	foreign("a bound part of an overlay", "a part of an overlay", func(n *node) *container {
		whole, c := n.container(image), n.bundle()
		n.write(whole.root+"/part/bin/clock", n.read(whole.root+"/bin/clock"))
		n.bind(whole.root+"/part", c.root)
		return c
	})
	foreign("mounted twice", "mounted 2 times", func(n *node) *container {
		c, other := n.container(image), n.bundle()
		n.bind(c.root, other.root)
		return c
	})
}

// process runs a process with the root as its own until the test ends.
func (n *node) process(root string) (pid int) {
	program := n.read("/proc/self/exe")
	n.write(root+"/sleeper", program)
	cmd := &exec.Cmd{Path: "/sleeper", Args: []string{"sleeper"}, SysProcAttr: &syscall.SysProcAttr{Chroot: root}}
	in, err := cmd.StdinPipe()
	n.must(err)
	out, err := cmd.StdoutPipe()
	n.must(err)
	n.must(cmd.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	n.must(err)
	n.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

// Rule 1: directories that an engine made for one container.
func TestEngineDirectories(t *testing.T) {
	n := newNode(t)
	image := n.image("bin/clock")
	// directory makes a bundle whose root is a copy of the image at a path.
	directory := func(path string) *container {
		c := n.bundle()
		n.must(os.MkdirAll(filepath.Dir(path), 0o755))
		n.must(os.CopyFS(path, os.DirFS(image)))
		n.must(os.Remove(c.root))
		n.must(os.Symlink(path, c.root))
		return c
	}
	docker := directory(n.dir + "/docker/vfs/dir/0abc")
	n.expect(docker.start(), Skipped, "no engine made")
	n.write(n.dir+"/docker/image/vfs/layerdb/mounts/c2/mount-id", []byte("0abc"))
	n.expect(docker.start(), Skipped, "no engine made")
	n.write(n.dir+"/docker/image/vfs/layerdb/mounts/c1/mount-id", []byte("0abc"))
	n.expect(docker.start(), Patched, "")
	docker.patched("bin/clock")

	podman := directory(n.dir + "/storage/vfs/dir/0def")
	n.write(n.dir+"/storage/vfs-containers/containers.json", []byte(`[{"id":"c2","layer":"0def"}]`))
	n.expect(podman.start(), Skipped, "no engine made")
	n.write(n.dir+"/storage/vfs-containers/containers.json", []byte(`[{"id":"c2","layer":"x"},{"id":"c1","names":["a"],"layer":"0def"}]`))
	n.expect(podman.start(), Patched, "")
	podman.patched("bin/clock")

	// With users of its own, podman binds the root to a second place.
	whole := n.dir + "/storage/overlay/0123"
	for _, d := range []string{"/diff", "/work", "/merged"} {
		n.must(os.MkdirAll(whole+d, 0o755))
	}
	n.mount("overlay", whole+"/merged", "lowerdir="+image+",upperdir="+whole+"/diff,workdir="+whole+"/work")
	bound := n.bundle()
	n.bind(whole+"/merged", bound.root)
	n.write(n.dir+"/storage/overlay-containers/containers.json", []byte(`[{"id":"c2","layer":"0123"}]`))
	n.expect(bound.start(), Skipped, "mounted 2 times")
	n.write(n.dir+"/storage/overlay-containers/volatile-containers.json", []byte(`[{"id":"c1","layer":"0123"}]`))
	n.expect(bound.start(), Patched, "")
	bound.patched("bin/clock")

	snapshot := n.dir + "/io.containerd.snapshotter.v1.native/snapshots/7"
	directory(snapshot)
	native := func(id string) *container {
		c := n.bundle()
		c.bundle = filepath.Join(n.dir, "tasks", c.bundle, id)
		c.root = c.bundle + "/rootfs"
		n.must(os.MkdirAll(c.root, 0o755))
		n.bind(snapshot, c.root)
		return c
	}
	other := native("c2")
	n.expect(other.start(), Skipped, "not this container's")
	own := native("c1")
	n.expect(own.start(), Skipped, "mounted 2 times")
	n.must(unix.Unmount(other.root, 0))
	part := n.bundle()
	n.must(os.Remove(part.root))
	n.must(os.Symlink(own.root+"/bin", part.root))
	n.expect(part.start(), Skipped, "not this container's")
	n.expect(own.start(), Patched, "")
	own.patched("bin/clock")
	n.must(unix.Unmount(own.root, 0))
	n.must(os.Rename(snapshot, filepath.Dir(snapshot)+"/new-7"))
	n.bind(filepath.Dir(snapshot)+"/new-7", own.root)
	n.expect(own.start(), Skipped, "not this container's")
}

// Rule 1: the engine's own files must name the container and the directory.
func TestMadeFor(t *testing.T) {
	n := newNode(t)
	n.write(n.dir+"/image/btrfs/layerdb/mounts/c1/mount-id", []byte("layer"))
	n.write(n.dir+"/zfs-containers/containers.json", []byte("{"))
	n.write(n.dir+"/zfs-containers/volatile-containers.json", []byte(`[{"id":"c1","layer":"layer"},{"id":"..","layer":"x"}]`))
	for _, tc := range []struct {
		path, id string
		want     bool
	}{
		{"/btrfs/subvolumes/layer", "c1", true}, {"/btrfs/subvolumes/other", "c1", false}, {"/btrfs/subvolumes/layer", "c2", false},
		{"/btrfs/subvolumes/layer/usr", "c1", false}, {"/btrfs/subvolumes/layer", "../mounts/c1", false}, {"/btrfs/subvolumes/", "", false},
		{"/zfs/graph/layer", "c1", true}, {"/zfs/graph/other", "c1", false}, {"/zfs/graph/layer", "c2", false}, {"/zfs/graph/layer", "", false},
		{"/vfs/dir/layer", "c1", false}, {"/other/layer", "c1", false},
	} {
		if got := madeFor(n.dir+tc.path, tc.id); got != tc.want {
			t.Errorf("%s, %q: got %v", tc.path, tc.id, got)
		}
	}
}

// The first process of the container, which waits for the hook, may have the root already.
func TestInUse(t *testing.T) {
	n := newNode(t)
	c := n.container(n.image("bin/clock"))
	pid := n.process(c.root)
	n.expect(c.start(), Skipped, "a process has it as its root")
	c.unpatched("bin/clock")
	n.expect(c.start(func(s *start) { s.pid = pid }), Patched, "")
}

// Rule 2: other mounts and symlinks in the root are left alone, also if they lead to the same file system.
func TestBeneath(t *testing.T) {
	n := newNode(t)
	image := n.image("bin/clock", "opt/covered", "opt/dir/clock")
	host := n.image("clock")
	before := n.read(host + "/clock")
	n.must(os.Symlink(host+"/clock", image+"/bin/absolute"))
	n.must(os.Symlink("../../../../../.."+host, image+"/bin/upward"))
	c := n.container(image)
	c.start() // so that the names are in the cache
	for range 2 {
		c := n.container(image)
		n.bind(host+"/clock", c.root+"/opt/covered")
		n.bind(host, c.root+"/opt/dir")
		r := c.start()
		c.patched("bin/clock")
		if string(n.read(host+"/clock")) != string(before) {
			t.Fatalf("a file of the machine has changed: %+v", r)
		}
	}
}

// A file that a process of this machine has a lease on makes no start wait (fcntl(2), F_SETLEASE).
func TestLease(t *testing.T) {
	n := newNode(t)
	c := n.container(n.image("bin/clock"))
	f, err := os.OpenFile(c.root+"/bin/clock", os.O_RDWR, 0)
	n.must(err)
	defer f.Close()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skip("no leases here: ", err)
	}
	root := c.looker().root
	n.within(time.Second, func() {
		if _, _, err := root.openFile("bin/clock"); !errors.Is(err, unix.EWOULDBLOCK) {
			t.Errorf("got %v", err)
		}
	})
}

func TestOpenAt(t *testing.T) {
	n := newNode(t)
	root := n.image("dir/file")
	n.must(os.Symlink("dir", root+"/link"))
	n.must(os.Symlink("file", root+"/dir/link"))
	fd, err := unix.Open(root+"/dir", unix.O_PATH|unix.O_DIRECTORY, 0)
	n.must(err)
	defer unix.Close(fd)
	above, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY, 0)
	n.must(err)
	defer unix.Close(above)
	for _, tc := range []struct {
		at   int
		name string
		want error
	}{
		{fd, "file", nil}, {fd, "link", unix.ELOOP}, {fd, "../dir/file", unix.EXDEV}, {fd, root + "/dir/file", unix.EXDEV},
		{above, "dir/file", nil}, {above, "link/file", unix.ELOOP}, {above, "none", unix.ENOENT},
	} {
		got, err := openAt(tc.at, tc.name, unix.O_RDONLY)
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, err, tc.want)
		}
		unix.Close(got)
	}
}

// Rule 3: what the keys of layers depend on.
func TestKeys(t *testing.T) {
	n := newNode(t)
	a, b := n.image("bin/a"), n.image("bin/b")
	keys := func(c *container) (all []string) {
		r, err := openRoot(c.root, "c1", 0)
		n.must(err)
		defer r.close()
		for _, d := range r.dirs {
			key, err := d.key("maker")
			n.must(err)
			if !d.own {
				all = append(all, key)
			}
		}
		return all
	}
	want := keys(n.container(a, b))
	if len(want) != 2 || want[0] == want[1] {
		t.Fatalf("got the keys %q", want)
	}
	same := n.container(a, b)
	n.write(same.root+"/etc/new", nil)
	if got := keys(same); !slices.Equal(got, want) {
		t.Error("the keys depend on the upper layer")
	}
	if other, err := (directory{a, false}).key("another maker"); err != nil || other == want[0] {
		t.Error("the key does not depend on the version")
	}
	n.must(os.Chmod(a, 0o711))
	if got := keys(same); got[0] == want[0] || got[1] != want[1] {
		t.Error("the key of a layer does not depend on its change time")
	}
	want = keys(same)
	own := directory{same.upper, true}
	before, err := own.key("maker")
	n.must(err)
	n.must(os.Chmod(same.upper, 0o711))
	if after, err := own.key("maker"); err != nil || after != before {
		t.Errorf("the key of a container's own directory depends on its change time: %v", err)
	}
	// Names that are relative to the directory of this process say nothing.
	t.Chdir(filepath.Dir(a))
	c := n.bundle()
	dir := filepath.Dir(c.root)
	n.must(os.MkdirAll(dir+"/upper", 0o755))
	n.must(os.MkdirAll(dir+"/work", 0o755))
	n.mount("overlay", c.root, "lowerdir="+filepath.Base(a)+":"+filepath.Base(b)+",upperdir="+dir+"/upper,workdir="+dir+"/work")
	t.Chdir("/")
	if got := keys(c); len(got) > 0 && !slices.Equal(got, want) {
		t.Error("relative names lead to other keys")
	}
	n.must(os.Rename(b, b+".old"))
	n.must(os.CopyFS(b, os.DirFS(b+".old")))
	if got := keys(n.container(a, b)); got[0] != want[0] || got[1] == want[1] {
		t.Error("another directory of the same name has the same key")
	}
}

// Layers of which some have no names, or only a file's metadata.
func TestMetadataLayers(t *testing.T) {
	n := newNode(t)
	image := n.image("bin/clock")
	dirs := n.dir + "/owned"
	for _, d := range []string{"/upper", "/work", "/merged"} {
		n.must(os.MkdirAll(dirs+d, 0o755))
	}
	options := "metacopy=on,redirect_dir=on,upperdir=" + dirs + "/upper,workdir=" + dirs + "/work,lowerdir="
	n.mount("overlay", dirs+"/merged", options+image)
	n.must(os.Chown(dirs+"/merged/bin/clock", 1000, 1000))
	n.must(unix.Unmount(dirs+"/merged", 0))
	size := make([]byte, 100)
	if _, err := unix.Getxattr(dirs+"/upper/bin/clock", "trusted.overlay.metacopy", size); err != nil {
		t.Fatalf("the layer has the whole file: %v", err)
	}
	for _, cached := range []string{"miss", "hit"} {
		c := n.bundle()
		dir := filepath.Dir(c.root)
		n.must(os.MkdirAll(dir+"/upper", 0o755))
		n.must(os.MkdirAll(dir+"/work", 0o755))
		n.mount("overlay", c.root, "metacopy=on,redirect_dir=on,lowerdir="+dirs+"/upper:"+image+",upperdir="+dir+"/upper,workdir="+dir+"/work")
		if r := c.start(); r.Cache != cached || len(r.Patched) != 1 {
			t.Errorf("only metadata in a layer: got %+v, want a %s", r, cached)
		}
		c.patched("bin/clock")
	}
	c := n.bundle()
	dir := filepath.Dir(c.root)
	n.must(os.MkdirAll(dir+"/upper", 0o755))
	n.must(os.MkdirAll(dir+"/work", 0o755))
	n.mount("overlay", c.root, "metacopy=on,redirect_dir=on,lowerdir="+dirs+"/upper::"+image+",upperdir="+dir+"/upper,workdir="+dir+"/work")
	if r := c.start(); r.Cache != "none" {
		t.Errorf("a data-only layer: got %+v", r)
	}
}

// Rule 3: docker's directories, which are named beside the mount: its own second one is not a layer.
func TestDockerLayers(t *testing.T) {
	n := newNode(t)
	home := n.dir + "/overlay2"
	layer := func(id, name string) {
		n.write(home+"/"+id+"/diff/bin/"+name, n.read(n.image("clock")+"/clock"))
		n.must(os.MkdirAll(home+"/l", 0o755))
		n.must(os.Symlink("../"+id+"/diff", home+"/l/"+id))
	}
	layer("base", "clock")
	mount := func(id, lower string, more ...string) *container {
		layer(id+"-init", "init")
		dir := home + "/" + id
		for _, d := range []string{"/diff", "/work", "/merged"} {
			n.must(os.MkdirAll(dir+d, 0o755))
		}
		n.write(dir+"/lower", []byte(lower))
		t.Chdir(home)
		n.mount("overlay", dir+"/merged", "lowerdir="+strings.Join(append(more, lower), ":")+",upperdir="+id+"/diff,workdir="+id+"/work")
		t.Chdir("/")
		c := n.bundle()
		n.must(os.Remove(c.root))
		n.must(os.Symlink(dir+"/merged", c.root))
		return c
	}
	first := mount("one", "l/one-init:l/base")
	if r := first.start(); r.Cache != "miss" || len(r.Patched) != 2 {
		t.Errorf("got %+v", r)
	}
	first.patched("bin/clock", "bin/init")
	second := mount("two", "l/two-init:l/base")
	if r := second.start(); r.Cache != "miss" || r.Examined != 1 {
		t.Errorf("got %+v, want one file of the second directory examined", r)
	}
	second.patched("bin/clock", "bin/init")
	other := mount("four", "l/four-init:l/base")
	n.must(os.Rename(home+"/four/diff", home+"/four/moved"))
	n.must(os.Mkdir(home+"/four/diff", 0o755))
	if r := other.start(); r.Cache != "none" || len(r.Patched) != 2 {
		t.Errorf("with another upper directory than the overlay's: got %+v", r)
	}
	// podman's copy of all files, for other users, is beside a layer, and "lower" does not name it.
	layer("mapped", "mapped")
	n.must(os.Rename(home+"/mapped/diff", home+"/mapped/diff1"))
	n.must(os.Mkdir(home+"/mapped/diff", 0o755))
	for _, want := range []string{"miss", "hit"} {
		c := mount("for-"+want, "l/mapped:l/base", "mapped/diff1")
		if r := c.start(); r.Cache != want || len(r.Patched) != 2 {
			t.Errorf("with a copy beside a layer: got %+v", r)
		}
		c.patched("bin/clock", "bin/mapped")
	}
	layer("unnamed", "unnamed")
	unnamed := mount("five", "l/base", "unnamed/diff")
	if r := unnamed.start(); r.Cache != "none" || len(r.Patched) != 2 {
		t.Errorf("with a directory that is not in lower: got %+v", r)
	}
	unnamed.patched("bin/clock", "bin/unnamed")
	if r := mount("three", "l/one-init:l/base").start(); r.Cache != "hit" || len(r.Patched) != 2 {
		t.Errorf("with another container's directory: got %+v", r)
	}
}
