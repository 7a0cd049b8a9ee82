//go:build engines

package images_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/tests/imagetest"
)

// The file system that engines make of an image: umoci's, and containerd's with overlay mounts
// and without.

// engine unpacks images.
type engine struct {
	name string
	// overlay says that it lays layers over each other.
	overlay bool
	// copies says that it copies what is below a layer, and loses extended attributes in that: moby's
	// daemon/graphdriver/copy keeps security.capability alone, of files that a layer below has.
	copies bool
	// unpack calls look with the directory that an image in an archive becomes; an error is that the
	// engine refuses the image.
	unpack func(t testing.TB, archive string, diffIDs []v1.Hash, look func(root string)) error
}

// enginesAtHand are those that are installed; docker, which takes longest, if it is named.
func enginesAtHand(t testing.TB, docker bool) []engine {
	imagetest.AsRoot(t, "engines unpack with owners")
	var all []engine
	if _, err := exec.LookPath("umoci"); err == nil {
		all = append(all, engine{name: "umoci", unpack: umociUnpack})
	}
	if _, err := exec.LookPath("containerd"); err == nil {
		address := startContainerd(t)
		for _, s := range []string{"overlayfs", "native"} {
			all = append(all, engine{name: "containerd, " + s, overlay: s == "overlayfs", unpack: func(t testing.TB, archive string, diffIDs []v1.Hash, look func(string)) error {
				return containerdUnpack(t, address, s, archive, diffIDs, look)
			}})
		}
	}
	if _, err := exec.LookPath("dockerd"); err == nil && docker {
		for _, s := range []string{"overlay2", "vfs"} {
			d := startDocker(t, s)
			all = append(all, engine{name: "docker, " + s, overlay: s == "overlay2", copies: s == "vfs", unpack: d.unpack})
		}
	}
	if len(all) == 0 {
		t.Skip("neither umoci nor containerd is installed")
	}
	return all
}

func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

func umociUnpack(t testing.TB, archive string, _ []v1.Hash, look func(string)) error {
	dir := imagetest.Must[string](t)(os.MkdirTemp(t.TempDir(), ""))
	defer os.RemoveAll(dir)
	if err := os.Mkdir(dir+"/img", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := command("tar", "-xf", archive, "-C", dir+"/img"); err != nil {
		t.Fatal(err)
	}
	if err := command("umoci", "unpack", "--image", dir+"/img:x", dir+"/bundle"); err != nil {
		return err
	}
	look(dir + "/bundle/rootfs")
	return nil
}

// startContainerd starts one for this test.
func startContainerd(t testing.TB) (address string) {
	dir := imagetest.Must[string](t)(os.MkdirTemp("", "c")) // short: a socket's path has 108 bytes at most
	imagetest.Write(t, dir+"/config.toml", fmt.Appendf(nil, `version = 2
root = "%[1]s/root"
state = "%[1]s/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]
[grpc]
address = "%[1]s/s"
[plugins."io.containerd.gc.v1.scheduler"]
schedule_delay = "10h"
startup_delay = "10h"
`, dir))
	cmd := exec.Command("containerd", "--config", dir+"/config.toml", "--log-level", "error")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		os.RemoveAll(dir)
	})
	for range 200 {
		if command("ctr", "-a", dir+"/s", "version") == nil {
			return dir + "/s"
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("containerd does not answer")
	return ""
}

// dockerEngine is a docker engine for this test, with a storage driver.
type dockerEngine struct{ dir, driver string }

func startDocker(t testing.TB, driver string) *dockerEngine {
	d := &dockerEngine{imagetest.Must[string](t)(os.MkdirTemp("", "d")), driver}
	cmd := exec.Command("unshare", "--mount", "dockerd", "--host", "unix://"+d.dir+"/s", "--data-root", d.dir+"/data", "--exec-root", d.dir+"/exec",
		"--pidfile", d.dir+"/pid", "--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver", driver)
	log := imagetest.Must[*os.File](t)(os.Create(d.dir + "/log"))
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		os.RemoveAll(d.dir)
	})
	for range 400 {
		if d.docker("version") == nil {
			return d
		}
		time.Sleep(50 * time.Millisecond)
	}
	text, _ := os.ReadFile(d.dir + "/log")
	t.Fatalf("docker with %s does not answer: %s", driver, text)
	return nil
}

func (d *dockerEngine) docker(args ...string) error {
	return command("/usr/bin/docker", append([]string{"--host", "unix://" + d.dir + "/s"}, args...)...)
}

// unpack reads what the driver stores: it is laid over each other here where an overlay has it so.
func (d *dockerEngine) unpack(t testing.TB, archive string, diffIDs []v1.Hash, look func(string)) error {
	saved := archive + ".docker" // the same for each engine
	if _, err := os.Stat(saved); err != nil {
		if err := command("skopeo", "copy", "--insecure-policy", "--quiet", "oci-archive:"+archive+":x", "docker-archive:"+saved+":x:1"); err != nil {
			t.Fatal(err)
		}
	}
	defer d.docker("rmi", "--force", "x:1")
	if err := d.docker("load", "--quiet", "--input", saved); err != nil {
		return err
	}
	var roots []string
	for n := len(diffIDs); n > 0; n-- {
		chain := strings.Replace(chainID(diffIDs[:n]), ":", "/", 1)
		id := imagetest.Must[[]byte](t)(os.ReadFile(d.dir + "/data/image/" + d.driver + "/layerdb/" + chain + "/cache-id"))
		if d.driver == "vfs" {
			look(d.dir + "/data/vfs/dir/" + string(id))
			return nil
		}
		roots = append(roots, d.dir+"/data/overlay2/"+string(id)+"/diff")
	}
	if len(roots) == 1 {
		look(roots[0])
		return nil
	}
	dir := imagetest.Must[string](t)(os.MkdirTemp(t.TempDir(), ""))
	if err := command("mount", "-t", "overlay", "overlay", "-o", "lowerdir="+strings.Join(roots, ":"), dir); err != nil {
		t.Fatal(err)
	}
	defer command("umount", dir)
	look(dir)
	return nil
}

// chainID names the snapshot of layers (image-spec config.md, "Layer ChainID").
func chainID(diffIDs []v1.Hash) string {
	id := diffIDs[0].String()
	for _, d := range diffIDs[1:] {
		id = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(id+" "+d.String())))
	}
	return id
}

func containerdUnpack(t testing.TB, address, snapshotter, archive string, diffIDs []v1.Hash, look func(string)) error {
	ctr := func(args ...string) error { return command("ctr", append([]string{"-a", address}, args...)...) }
	name := "test/" + filepath.Base(archive)
	if err := ctr("images", "import", "--snapshotter", snapshotter, "--base-name", name, archive); err != nil {
		return err
	}
	dir := imagetest.Must[string](t)(os.MkdirTemp(t.TempDir(), ""))
	mount, err := exec.Command("ctr", "-a", address, "snapshots", "--snapshotter", snapshotter, "view", "--target", dir, dir, chainID(diffIDs)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, mount)
	}
	if err := command("sh", "-c", string(mount)); err != nil {
		t.Fatal(err)
	}
	defer syscall.Unmount(dir, 0)
	look(dir)
	return nil
}

// fileState is what a file is, with its content; patched bytes in it are distinguished.
type fileState struct {
	meta   string
	xattrs string
	legacy string // the text of a legacy file
	fixed  string // of a patched one
	links  string // the first name of the same file
}

// state lists a file system.
func state(t testing.TB, root string) map[string]fileState {
	all := map[string]fileState{}
	first := map[contents.FileID]string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // overlay lists whiteouts that hide nothing
		}
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel := imagetest.Must[string](t)(filepath.Rel(root, name))
		st := fi.Sys().(*syscall.Stat_t)
		s := fileState{meta: fmt.Sprintf("%v %d:%d rdev %d", fi.Mode(), st.Uid, st.Gid, st.Rdev), xattrs: xattrsOf(t, name)}
		if !fi.IsDir() {
			s.meta += " " + fi.ModTime().UTC().Format(time.RFC3339Nano)
			id, _ := contents.Identify(fi)
			if first[id] == "" {
				first[id] = rel
			}
			if s.links = first[id]; fi.Mode()&fs.ModeSymlink != 0 {
				s.links = "" // of symlinks the native snapshotter makes two
			}
		}
		switch {
		case fi.Mode()&fs.ModeSymlink != 0:
			s.meta += " " + imagetest.Must[string](t)(os.Readlink(name))
		case fi.Mode().IsRegular():
			body := imagetest.Must[[]byte](t)(os.ReadFile(name))
			s.legacy, s.fixed = imagetest.LegacyText(body)
			if s.legacy == "" && s.fixed == "" {
				s.meta += fmt.Sprintf(" %x", sha256.Sum256(body))
			}
		}
		all[rel] = s
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func xattrsOf(t testing.TB, name string) string {
	buf := make([]byte, 4096)
	n, err := syscall.Listxattr(name, buf)
	if fi, lerr := os.Lstat(name); lerr != nil || fi.Mode()&(fs.ModeSymlink|fs.ModeDevice|fs.ModeNamedPipe) != 0 {
		return ""
	}
	if err != nil && !errors.Is(err, syscall.ENOTSUP) {
		t.Fatal(name, err)
	}
	var all []string
	for x := range strings.SplitSeq(strings.TrimRight(string(buf[:max(n, 0)]), "\x00"), "\x00") {
		if x == "" || strings.HasPrefix(x, "trusted.overlay") {
			continue
		}
		value := make([]byte, 4096)
		n, err := syscall.Getxattr(name, x, value)
		if err != nil {
			t.Fatal(name, x, err)
		}
		all = append(all, fmt.Sprintf("%s=%x", x, value[:n]))
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// capabilityIn is what xattrsOf lists of security.capability.
func capabilityIn(xattrs string) string {
	_, value, _ := strings.Cut(xattrs, "security.capability=")
	value, _, _ = strings.Cut(value, ",")
	return value
}

// sawDifferent compares what an engine makes of a base and of what was derived of it: the same,
// with each legacy file patched. named reports whether a rebuild's warnings name a path.
// linked says that the metadata of patched files may be that of their links' headers, copies that
// extended attributes say nothing.
func sawDifferent(base, derived map[string]fileState, linked, copies bool, named func(string) bool) (problems []string, excused int) {
	add := func(name, format string, args ...any) {
		if named(name) {
			excused++
			return
		}
		problems = append(problems, name+": "+fmt.Sprintf(format, args...))
	}
	for _, name := range contents.SortedKeys(base) {
		b, d := base[name], derived[name]
		switch {
		case d == fileState{}:
			add(name, "missing")
		case d.legacy != "":
			add(name, "not patched: %s", d.legacy)
		case d.fixed != b.legacy+b.fixed:
			add(name, "got the file %q, want %q", d.fixed, b.legacy+b.fixed)
		case linked && d.fixed != "" && capabilityIn(d.xattrs) != capabilityIn(b.xattrs):
			add(name, "got the capability in %s, want that in %s", d.xattrs, b.xattrs)
		case linked && d.fixed != "":
		case d.meta != b.meta:
			add(name, "got %s, want %s", d.meta, b.meta)
		case d.xattrs != b.xattrs && !copies:
			add(name, "got the extended attributes %s, want %s", d.xattrs, b.xattrs)
		case d.links != b.links:
			add(name, "a hard link of %s, want %s", d.links, b.links)
		}
	}
	for _, name := range contents.SortedKeys(derived) {
		if _, ok := base[name]; !ok {
			add(name, "not in the base: %+v", derived[name])
		}
	}
	return problems, excused
}
