package ociruntime

import (
	"bytes"
	"cmp"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	examiner "vfix.dev/vfix/host/oldexaminer"
	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/host/rootfs"
	"vfix.dev/vfix/host/store"
	"vfix.dev/vfix/internal/tinyelf"
)

func TestIndexRoundTrip(t *testing.T) {
	x := &index{}
	x.Legacy = []legacyFile{{Names: [][]byte{[]byte("a\xff"), []byte("b")}, ID: rootfs.Identity{Ino: 1, Ctime: -5}, SHA256: []byte{1}, Finding: examiner.Finding{Size: 9, Sites: 2, Stay: 1, Left: "1 call site left"}}}
	x.Unread = []unread{{Name: []byte("c"), Reason: "r"}}
	var ids []rootfs.Identity
	for i := range 100 {
		id := rootfs.Identity{Dev: 1, Ino: uint64(i), Size: int64(i), Mtime: -1, Ctime: 1 << 60}
		ids = append(ids, id)
		x.clean = appendIdentity(x.clean, id)
	}
	x.clean = inOrder(x.clean)
	for i := range 3 {
		x.dirs = appendDir(x.dirs, rootfs.Identity{Ino: uint64(i)}, []byte("\x08name\x00\x04folder\x00"))
	}
	b, err := x.bytes()
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseIndex(b)
	if err != nil || !reflect.DeepEqual(got, x) {
		t.Fatalf("got %+v, %v, want %+v", got, err, x)
	}
	// In any order, and again; and what is not in it is not found.
	l := got.clean
	for range 3 {
		for _, id := range ids {
			if l.find(id) < 0 {
				t.Fatalf("%+v is not found", id)
			}
			id.Ctime++
			if l.find(id) >= 0 {
				t.Fatalf("%+v is found", id)
			}
		}
		rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	}
	// A byte that is wrong anywhere makes it none.
	for i := range b {
		bad := append([]byte(nil), b...)
		bad[i] ^= 1
		if _, err := parseIndex(bad); err == nil {
			t.Fatalf("with byte %d changed it is taken", i)
		}
		if _, err := parseIndex(b[:i]); err == nil {
			t.Fatalf("cut off after %d bytes it is taken", i)
		}
	}
}

func FuzzIndex(f *testing.F) {
	x := &index{clean: make([]byte, 2*identitySize)}
	b, _ := x.bytes()
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if x, err := parseIndex(b); err == nil {
			x.clean.find(rootfs.Identity{})
			dirsOf(x.dirs)
		}
	})
}

func TestFindMount(t *testing.T) {
	const text = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:35 / /b/root\040fs rw,relatime - overlay overlay rw,lowerdir=/l/a\134:b:/l/c\054d,upperdir=/u,workdir=/w
41 22 8:1 /x/y /b/ro ro,relatime - ext4 /dev/sda1 rw
42 22 0:36 / /b/twice rw - tmpfs tmpfs rw
43 22 8:1 /var/lib/containerd/io.containerd.snapshotter.v1.native/snapshots/7 /b/twice rw - ext4 /dev/sda1 rw
45 22 8:1 /x/y /b/ro2 rw,relatime - ext4 /dev/sda1 ro
44 22 8:1 /x/y1234 /b/y1234\134 rw - ext4 /dev/sda1 rw
damaged /b/line
x 22 8:1 / /b/line rw - ext4 /dev/sda1 rw
50 40 0:40 / /b/root\040fs/data\040x rw - tmpfs tmpfs rw
`
	findMount := func(path string) (m mount, ok bool) {
		for _, one := range parseMounts([]byte(text)) {
			if one.Mountpoint == path {
				m, ok = one, true
			}
		}
		return m, ok
	}
	m, ok := findMount("/b/root fs")
	if !ok || m.FSType != "overlay" || m.readOnly() {
		t.Fatalf("got %+v, %v", m, ok)
	}
	o, err := layersOf(m)
	if want := (overlay{[]string{"/l/a:b", "/l/c,d"}, "/u"}); err != nil || !reflect.DeepEqual(o, want) {
		t.Errorf("got %+v, %v, want %+v", o, err, want)
	}
	if all := parseMounts([]byte(text)); len(all) != 8 || all[7].ID != 50 || !all[7].isBelow("/b/root fs") {
		t.Errorf("all: got %+v", all)
	}
	if m, ok := findMount("/b/ro2"); !ok || !m.readOnly() {
		t.Errorf("got %+v, %v", m, ok)
	}
	if m, ok := findMount("/b/ro"); !ok || !m.readOnly() || m.Root != "/x/y" {
		t.Errorf("got %+v, %v", m, ok)
	}
	if m, ok := findMount(`/b/y1234\`); !ok || m.Root != "/x/y1234" {
		t.Errorf("got %+v, %v", m, ok)
	}
	if m, ok := findMount("/b/twice"); !ok || !snapshotRoot(m) {
		t.Errorf("got %+v, %v", m, ok)
	}
	for _, path := range []string{"/b", "/b/line", "/b/root"} {
		if m, ok := findMount(path); ok {
			t.Errorf("%s: got %+v", path, m)
		}
	}
	for _, options := range []string{"rw", "rw,lowerdir=l/A:l/B,upperdir=/u", "rw,lowerdir=/l,metacopy=on", "rw,lowerdir=/l,redirect_dir=on", "rw,lowerdir=/l::/d"} {
		if o, err := layersOf(mount{&mountinfo.Info{VFSOptions: options}}); err == nil {
			t.Errorf("%s: got %+v", options, o)
		}
	}
	for _, options := range []string{"rw,lowerdir=/l,redirect_dir=off,metacopy=off", "rw,lowerdir=/l,redirect_dir=nofollow", `rw,lowerdir=/l,context="a,b"`} {
		if _, err := layersOf(mount{&mountinfo.Info{VFSOptions: options}}); err != nil {
			t.Errorf("%s: got %v", options, err)
		}
	}
}

// The options of overlays, whose layers are known also if an option makes their paths useless.
func TestLayersOf(t *testing.T) {
	for options, want := range map[string]struct {
		overlay
		bad bool
	}{
		"rw,lowerdir+=/a,lowerdir+=/b,upperdir=/u":      {overlay{[]string{"/a", "/b"}, "/u"}, false},
		"rw,lowerdir+=/a,datadir+=/d":                   {overlay{[]string{"/a", "/d"}, ""}, true},
		"lowerdir=/a,verity=require":                    {overlay{[]string{"/a"}, ""}, true},
		"lowerdir=/a,verity=off,xino=auto,ro":           {overlay{[]string{"/a"}, ""}, false},
		"lowerdir=/a,later":                             {overlay{[]string{"/a"}, ""}, true},
		`lowerdir=/a\\054b:/c`:                          {overlay{[]string{"/a,b", "/c"}, ""}, false},
		`lowerdir=/a\:/b:/c\`:                           {overlay{[]string{"/a:/b", `/c\`}, ""}, false},
		`lowerdir=/a,context="x,lowerdir=/b",userxattr`: {overlay{[]string{"/a"}, ""}, false},
		`lowerdir=/a\b`:                                 {overlay{[]string{"/ab"}, ""}, false},
		"upperdir=/u":                                   {overlay{nil, "/u"}, true},
	} {
		if got, err := layersOf(mount{&mountinfo.Info{VFSOptions: options}}); !reflect.DeepEqual(got, want.overlay) || (err != nil) != want.bad {
			t.Errorf("%s: got %+v, %v", options, got, err)
		}
	}
	for text, want := range map[string]string{
		`a\040b`: "a b", `\040`: " ", `\04`: `\04`, `\400`: `\400`, `\08x`: `\08x`, `x\`: `x\`, `\\`: `\\`, `\134\072`: `\:`, "": "", `x101\`: `x101\`,
	} {
		if got := unescape(text); got != want {
			t.Errorf("%s: got %q", text, got)
		}
	}
	for _, c := range []struct {
		mountpoint, path string
		want             bool
	}{{"/a/b", "/a", true}, {"/a/b", "/a/", true}, {"/a", "/a", false}, {"/ab", "/a", false}, {"/a", "/", true}, {"/", "/", true}} {
		if got := (mount{&mountinfo.Info{Mountpoint: c.mountpoint}}).isBelow(c.path); got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
	for options, want := range map[string]bool{"rw": false, "ro": true, "rw,ro": true, "errors=remount-ro": false} {
		m, o := mount{&mountinfo.Info{Options: options}}, mount{&mountinfo.Info{VFSOptions: options}}
		if m.readOnly() != want || o.readOnly() != want {
			t.Errorf("%s: read-only %v, %v", options, m.readOnly(), o.readOnly())
		}
	}
}

func FuzzMountinfo(f *testing.F) {
	f.Add("40 22 0:35 / /x rw - overlay o rw,lowerdir=/a\\134:b:/c,upperdir=/u\n")
	f.Add("40 22 0:35 / /x\\04 rw - overlay o rw,lowerdir=/a\\\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, m := range parseMounts([]byte(text)) {
			layersOf(m)
			snapshotRoot(m)
		}
	})
}

func TestKindsOfRoots(t *testing.T) {
	id := "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for path, want := range map[string]bool{
		"/var/lib/docker/vfs/dir/" + id: true, "/var/lib/docker/btrfs/subvolumes/" + id: true,
		"/var/lib/docker/devicemapper/mnt/" + id + "/rootfs": true, "/var/lib/docker/vfs/dir/x": false,
		"/home/me/" + id: false, "/b/rootfs": false, "/vfs/dir/" + id[1:] + "G": false,
		"/vfs/dir/" + id[2:]: false, "/vfs/dir/" + strings.ToUpper(id): false, "/vfs/dir/" + id + "zz": false,
	} {
		if got := engineRoot(path); got != want {
			t.Errorf("engineRoot(%s): got %v", path, got)
		}
	}
	for path, want := range map[string]bool{
		"/var/lib/docker/overlay2/" + id + "/diff": true, "/var/lib/docker/overlay2/" + id + "-init/diff": true,
		"/var/lib/docker/overlay2/l/ABC": true, "/var/lib/containers/storage/overlay/" + id + "/diff": true,
		"/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/12/fs": true,
		"/overlay2/" + id + "/diff": true, "/a.overlayfs/snapshots/1/work": false,
		"/a.overlayfs/others/1/fs": false, "/home/" + id + "/diff": false,
		"/home/me/diff": false, "/a/overlay2/x/diff": false, "/snapshots/1/fs": false,
	} {
		if got := immutable(path); got != want {
			t.Errorf("immutable(%s): got %v", path, got)
		}
	}
}

// Results for a directory are kept; changes in it are examined again.
func TestScanTree(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("text", make([]byte, 4096))
	write("object", append([]byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x3e\x00"), make([]byte, 500)...))
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	root, err := rootfs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	x, changed, err := scanTree(root, nil, true, newBudget(policy.Limits{}), examinerOf(t))
	if err != nil || !changed || len(x.Legacy) != 0 || len(x.Unread) != 0 {
		t.Fatalf("got %+v, %v, %v", x, changed, err)
	}
	// A file that has just changed is not taken for known.
	if len(x.clean) > 2*identitySize {
		t.Errorf("got %d files, want at most 2", len(x.clean)/identitySize)
	}
	big := filepath.Join(dir, "big")
	if err := os.WriteFile(big, append([]byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x3e\x00"), make([]byte, 500)...), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(big, maxFile+1); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	y, changed, err := scanTree(root, x, true, newBudget(policy.Limits{}), examinerOf(t))
	if err != nil || !changed || len(y.Unread) != 1 || string(y.Unread[0].Name) != "big" {
		t.Errorf("got %+v, %v, %v", y, changed, err)
	}
}

// A file with the name of a temporary file of an earlier start is examined nevertheless: an image may have such a
// name.
func TestScanTreeOfTemporaryNames(t *testing.T) {
	dir := t.TempDir()
	name := tempName()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, append([]byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x3e\x00"), make([]byte, 500)...), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, maxFile+1); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	root, err := rootfs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	x, _, err := scanTree(root, nil, true, newBudget(policy.Limits{}), examinerOf(t))
	for _, longer := range []string{tempPrefix + "00" + name[len(tempPrefix):], strings.TrimSuffix(name, tempSuffix) + "zz" + tempSuffix, "x" + name[1:]} {
		if isTemp([]byte(longer)) {
			t.Errorf("%s is one of ours", longer)
		}
	}
	if err != nil || len(x.temps) != 1 || x.temps[0] != name || len(x.Unread) != 1 || string(x.Unread[0].Name) != name {
		t.Errorf("got %+v, %v", x, err)
	}
}

// Several walkers have the results of one, including all names of a file, and the index of one is complete for the
// others.
func TestScanTreeSideBySide(t *testing.T) {
	dir := t.TempDir()
	for i := range 30 {
		sub := filepath.Join(dir, strconv.Itoa(i), "below")
		if err := os.MkdirAll(sub, 0o755); err != nil {
			t.Fatal(err)
		}
		for j := range 20 {
			b := bytes.Repeat([]byte{byte(i), byte(j)}, 100+i*20+j)
			if j == 0 {
				b = tinyelf.Bytes(uint32(i))
			}
			if err := os.WriteFile(filepath.Join(sub, strconv.Itoa(j)), b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		other := filepath.Join(dir, strconv.Itoa(i*7%30), "link"+strconv.Itoa(i))
		if err := errors.Join(os.MkdirAll(filepath.Dir(other), 0o755), os.Link(filepath.Join(sub, strconv.Itoa(i%2)), other)); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(rootfs.Settled + 10*time.Millisecond) // one that has just changed is not remembered
	root, err := rootfs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	scan := func(processors int, old *index) (*index, bool) {
		runtime.GOMAXPROCS(processors)
		x, changed, err := scanTree(root, old, true, newBudget(policy.Limits{}), examinerOf(t))
		if err != nil {
			t.Fatal(err)
		}
		for i := range x.Legacy { // an index in a file does not have it
			x.Legacy[i].loose = false
		}
		return x, changed
	}
	want, _ := scan(1, nil)
	if n := len(dirsOf(want.dirs)); n != 61 {
		t.Errorf("got %d directories, want 61", n)
	}
	if len(want.Legacy) != 30 || len(want.Legacy[0].Names) != 2 || len(want.clean) != 30*19*identitySize {
		t.Fatalf("got %d files with call sites, the first of %q, and %d others", len(want.Legacy), want.Legacy[0].Names, len(want.clean)/identitySize)
	}
	for range 10 {
		got, _ := scan(walkers, nil)
		if len(got.dirs) != len(want.dirs) { // in any order
			t.Fatalf("got %d bytes of directories, want %d", len(got.dirs), len(want.dirs))
		}
		if got.dirs = want.dirs; !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got.scanned, want.scanned)
		}
		if got, changed := scan(walkers, want); changed || !reflect.DeepEqual(got, want) {
			t.Fatalf("with an index: got %v, %+v, want %+v", changed, got.scanned, want.scanned)
		}
	}
	changedFile := filepath.Join(dir, "3/below/7")
	if err := os.Chmod(changedFile, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, changed := scan(walkers, want); !changed {
		t.Error("a file that changed is not seen")
	}
	// A few directories that changed and have the names that they had are not worth a new index.
	time.Sleep(rootfs.Settled + 10*time.Millisecond)
	before, _ := scan(1, nil)
	for i := range fewDirs + 1 {
		if err := os.Chmod(filepath.Join(dir, strconv.Itoa(i)), 0o700); err != nil {
			t.Fatal(err)
		}
		if i < fewDirs-1 {
			continue
		}
		time.Sleep(rootfs.Settled + 10*time.Millisecond)
		if _, changed := scan(1, before); changed != (i == fewDirs) {
			t.Errorf("%d directories changed: got %v", i+1, changed)
		}
	}
	// Changes in a directory are detected, whatever its times are: an added file, a removed one, a name that
	// another file gets, a directory that replaces another.
	touch := func(name string) {
		if err := os.Chtimes(filepath.Join(dir, name), time.Time{}, time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
	}
	touch("4/below")
	time.Sleep(rootfs.Settled + 10*time.Millisecond)
	before, _ = scan(1, nil)
	for _, change := range []func() error{
		func() error { return os.WriteFile(filepath.Join(dir, "4/below/new"), tinyelf.Bytes(99), 0o755) },
		func() error { return os.Remove(filepath.Join(dir, "4/below/0")) },
		func() error { return os.Rename(filepath.Join(dir, "5/below/0"), filepath.Join(dir, "4/below/5")) },
		func() error { return os.Rename(filepath.Join(dir, "6"), filepath.Join(dir, "4/below/moved")) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		touch("4/below")
		time.Sleep(rootfs.Settled + 10*time.Millisecond)
		got, changed := scan(walkers, before)
		fresh, _ := scan(1, nil)
		if !changed || !reflect.DeepEqual(got.scanned, fresh.scanned) {
			t.Fatalf("got %v, %+v, want %+v", changed, got.scanned, fresh.scanned)
		}
		if !bytes.Equal(got.clean, fresh.clean) || !reflect.DeepEqual(dirsOf(got.dirs), dirsOf(fresh.dirs)) {
			t.Fatalf("got %d files and %d directories, want %d and %d", got.clean.len(), len(dirsOf(got.dirs)), fresh.clean.len(), len(dirsOf(fresh.dirs)))
		}
	}
}

// settled is a root of files that are old enough to be recognized by their times.
func settled(t *testing.T, files int, content func(i int) []byte) *rootfs.Root {
	t.Helper()
	dir := t.TempDir()
	for i := range files {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), content(i), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(rootfs.Settled + 10*time.Millisecond)
	root, err := rootfs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

// A scan that exceeds its limits keeps its results, and the next one continues there.
func TestScanGoesOn(t *testing.T) {
	const files = 40
	root := settled(t, files, func(i int) []byte {
		if i%2 == 0 {
			b := append(tinyelf.Bytes(0)[:64:64], bytes.Repeat([]byte{byte(i)}, 500)...)
			b[32] = 0xff // e_phoff
			return b
		}
		return append(tinyelf.Bytes(uint32(i)), byte(i))
	})
	for _, clean := range []bool{false, true} {
		var x *index
		examined, starts := 0, 0
		for names := 10; ; names += 10 {
			pool := examinerOf(t)
			var err error
			x, _, err = scanTree(root, x, clean, newBudget(policy.Limits{Names: names}), pool)
			examined += int(pool.Examined.Load())
			if starts++; err == nil {
				break
			}
			x.Part = true
		}
		if !clean && x.clean != nil {
			t.Errorf("got %d files without call sites", x.clean.len())
		}
		if starts < 4 || examined != files || len(x.Legacy) != files/2 || x.Part {
			t.Errorf("clean %v: got %d files with call sites, after %d starts that examined %d files", clean, len(x.Legacy), starts, examined)
		}
	}
}

// An interrupted scan keeps the results that it did not reach: each once, and of two the new one.
func TestRemain(t *testing.T) {
	id := func(n uint64) rootfs.Identity { return rootfs.Identity{Ino: n} }
	made := func(reason string, of ...uint64) *index {
		x := &index{}
		for _, n := range of {
			x.clean = appendIdentity(x.clean, id(n))
			x.Legacy = append(x.Legacy, legacyFile{ID: id(100 + n), Names: [][]byte{[]byte(reason)}})
			x.Unread = append(x.Unread, unread{ID: id(200 + n), Reason: reason})
		}
		return x
	}
	got, want := made("new", 1, 2), made("new", 1, 2)
	got.remain(nil)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("of none: got %+v", got)
	}
	got.remain(made("old", 2, 3, 1, 4))
	rest := made("old", 3, 4)
	want.clean, want.Legacy, want.Unread = append(want.clean, rest.clean...), append(want.Legacy, rest.Legacy...), append(want.Unread, rest.Unread...)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Attributes with which overlay shows something elsewhere, or that are unknown, are found; others are not.
func TestMoved(t *testing.T) {
	for attr, want := range map[string]bool{
		"": false, "trusted.vfix": false, "trusted.redirect": false, "trusted.overlay.opaque": false, "trusted.overlay.origin": false,
		"trusted.overlay.redirect": true, "trusted.overlay.metacopy": true, "trusted.overlay.later": true,
	} {
		dir := t.TempDir()
		if attr != "" {
			if err := unix.Setxattr(dir, attr, []byte("y"), 0); err != nil {
				t.Skipf("no such attributes here: %v", err)
			}
		}
		root, err := rootfs.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		x, _, err := scanTree(root, nil, true, newBudget(policy.Limits{}), examinerOf(t))
		if err != nil || x.Moved != want {
			t.Errorf("%q: got %v, %v", attr, x.Moved, err)
		}
	}
}

// The index of a directory has no files that may change without a trace, and a part never replaces all of it; a
// directory with few files has none.
func TestKeptIndex(t *testing.T) {
	s, err := store.Open(t.TempDir(), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	root := settled(t, fewFiles, func(int) []byte { return make([]byte, minELF) })
	full := settled(t, fewFiles+1, func(int) []byte { return make([]byte, minELF) })
	if !full.Stamps() || full.OnFile() {
		t.Skip("directories have no indexes here")
	}
	keys := map[string]bool{}
	kept := func(root *rootfs.Root, l policy.Limits) (*index, error) {
		k := indexes{s, "maker", newBudget(l), examinerOf(t), nil}
		_, err := k.dir(root)
		if !k.spend.pause.IsZero() {
			t.Error("it would pause later")
		}
		for _, other := range []indexes{k, {s, "other", nil, nil, nil}} {
			for _, kind := range []string{"tree", "layer"} {
				key, _ := other.key(kind, root, kind == "layer")
				keys[key] = true
			}
		}
		key, _ := k.key("tree", root, false)
		return k.read(key), err
	}
	if x, err := kept(root, policy.Limits{}); x != nil || err != nil {
		t.Errorf("few files: got %+v, %v", x, err)
	}
	if x, err := kept(full, policy.Limits{}); !x.whole() || err != nil || x.clean == nil {
		t.Errorf("more: got %+v, %v", x, err)
	}
	if len(keys) != 8 {
		t.Errorf("got %d names of indexes, want 8", len(keys))
	}
	var was *index
	for began := (time.Time{}); time.Since(began) > rootfs.Settled; { // again, if this was too slow for a new file
		began = time.Now()
		if err := os.WriteFile(filepath.Join(full.Path, "program"), tinyelf.Bytes(1), 0o644); err != nil {
			t.Fatal(err)
		}
		if was, err = kept(full, policy.Limits{}); !was.whole() || err != nil {
			t.Fatalf("with a new program: got %+v, %v", was, err)
		}
	}
	if len(was.Legacy) != 0 {
		t.Errorf("a new program is kept: %+v", was.Legacy)
	}
	if x, err := kept(full, policy.Limits{Names: 2}); !x.whole() || err == nil || !reflect.DeepEqual(x, was) {
		t.Errorf("a scan that was too long: got %+v, %v", x, err)
	}
	time.Sleep(rootfs.Settled + 10*time.Millisecond)
	if x, err := kept(full, policy.Limits{}); !x.whole() || err != nil || len(x.Legacy) != 1 {
		t.Errorf("with a program: got %+v, %v", x, err)
	}
	k := indexes{s, "maker", newBudget(policy.Limits{}), examinerOf(t), nil}
	x := &index{}
	x.Legacy = []legacyFile{{loose: true}, {SHA256: []byte{1}}}
	x.Unread = []unread{{passing: true}, {Reason: "too much"}}
	k.keepPart("part", x)
	if x := k.read("part"); x == nil || x.whole() || len(x.Legacy) != 1 || len(x.Unread) != 1 || len(x.Legacy[0].SHA256) == 0 || x.Unread[0].Reason == "" {
		t.Errorf("of a part: got %+v", x)
	}
}

// A scan in steps has the results of one without steps, counts each name once, and has kept its results if it is
// killed between two steps.
func TestScanInSteps(t *testing.T) {
	defer func(was time.Duration) { firstStep = was }(firstStep)
	const files = 3000
	root := settled(t, files, func(i int) []byte {
		if i%100 == 0 {
			return append(tinyelf.Bytes(uint32(i)), byte(i))
		}
		return []byte{byte(i)}
	})
	var want *scanned
	for _, firstStep = range []time.Duration{time.Hour, 1} {
		s, err := store.Open(t.TempDir(), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		keep := indexes{s, "maker", newBudget(policy.Limits{Names: files + 1}), examinerOf(t), nil}
		got, err := keep.dir(root)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
		}
		if !reflect.DeepEqual(got, want) || len(got.Legacy) != files/100 || keep.spend.names.Load() != files {
			t.Errorf("first step %v: got %d files of %d names, want %d", firstStep, len(got.Legacy), keep.spend.names.Load(), files/100)
		}
	}
	s, err := store.Open(t.TempDir(), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	keep := indexes{s, "maker", newBudget(policy.Limits{}), examinerOf(t), nil}
	// On a busy machine a short time may pass before the first file is examined.
	for pause := time.Millisecond; ; pause *= 2 {
		keep.spend.pause = time.Now().Add(pause)
		x, _, err := scanTree(root, nil, true, keep.spend, keep.pool)
		if !errors.Is(err, errPause) {
			t.Skipf("through before the pause: %v", err)
		}
		keep.keepPart("key", x)
		part := keep.read("key")
		if part == nil || part.whole() || len(part.Legacy) != len(x.Legacy) {
			t.Fatalf("kept: %+v of %d files", part, len(x.Legacy))
		}
		if len(part.Legacy) > 0 {
			break
		}
	}
}

// A root with mounts below it gets no mount of its own, which would show the covered files.
func TestBare(t *testing.T) {
	all := []mount{{&mountinfo.Info{Mountpoint: "/roots/a"}}, {&mountinfo.Info{Mountpoint: "/roots/b/proc"}}, {&mountinfo.Info{Mountpoint: "/roots/cd"}}}
	for path, want := range map[string]bool{
		"/roots/a": true, "/roots/b": false, "/roots/b/": false, "/roots/b/proc": true, "/roots/c": true, "/roots": false, "/": false,
	} {
		if got := bare(all, path); got != want {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
}

// The first process of a container has the runtime's own program open, with runc since 1.2: no caller passed it.
func TestHandedOver(t *testing.T) {
	const sleep, other = "/bin/sleep", "/bin/true"
	for handed, want := range map[string]string{sleep: "", other: "true"} {
		f, err := os.Open(handed)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		cmd := exec.Command(sleep, "1000")
		cmd.ExtraFiles = []*os.File{f}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
		k := &container{pid: cmd.Process.Pid, root: &rootfs.Root{Path: t.TempDir()}}
		if got := filepath.Base(k.handedOver(&command{pid: k.pid})); got != cmp.Or(want, ".") {
			t.Errorf("%s: got %q", handed, got)
		}
	}
}
