package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/examiner"
	"vfix.dev/vfix/internal/filecopy"
	"vfix.dev/vfix/rewriter/patch"
	"vfix.dev/vfix/tests/tinyelf"
)

// A container that starts again, and others of its image, need no examination, whatever their own layers have.
func TestWarm(t *testing.T) {
	n := newNode(t)
	image := n.image("bin/clock", "lib/clock")
	first := n.container(image)
	n.write(first.root+"/etc/hosts", []byte("changed before the first start"))
	if r := first.start(); r.Result != Patched || r.Cache != "miss" || r.Examined != 2 {
		t.Fatalf("got %+v", r)
	}
	n.write(first.root+"/var/log", bytes.Repeat([]byte("text "), 100))
	n.must(os.Remove(first.root + "/lib/clock"))
	if r := first.start(); r.Result != Patched || r.Cache != "hit" || r.Examined != 0 || len(r.Patched) != 1 {
		t.Errorf("a restart: got %+v", r)
	}
	second := n.container(image)
	n.write(second.root+"/own", tinyelf.Bytes(1))
	if r := second.start(); r.Result != Patched || r.Cache != "hit" || r.Examined != 1 || len(r.Patched) != 3 {
		t.Errorf("another container: got %+v", r)
	}
	second.patched("bin/clock", "lib/clock", "own")
	if r := second.start(); r.Result != Patched || r.Examined != 0 {
		t.Errorf("its restart: got %+v", r)
	}
	n.must(os.Remove(second.root + "/lib/clock"))
	n.write(second.root+"/lib/clock", tinyelf.Bytes(2)) // as a package manager does
	n.expect(second.start(), Patched, "")
	second.patched("lib/clock")
}

// looker is one for the root of a container.
func (c *container) looker() *looker {
	c.Helper()
	r, err := openRoot(c.root, "c1", 0)
	c.must(err)
	c.Cleanup(r.close)
	cache, err := openCache(c.state)
	c.must(err)
	b := defaultBounds
	e := examiner.Examiner{Until: time.Now().Add(time.Minute), Dir: c.state}
	return &looker{root: r, bounds: &b, cache: cache, done: map[string]bool{}, Examiner: e, buf: make([]byte, bufferSize)}
}

// A file of the container that is known to be patched is not looked at.
func TestDone(t *testing.T) {
	n := newNode(t)
	image := n.image("bin/clock")
	c := n.container(image)
	n.write(c.root+"/own", tinyelf.Bytes(1))
	own := directory{c.upper, true}
	for _, done := range []bool{true, false} {
		l := c.looker()
		l.done["own"] = done
		if found, err := l.directory(own); err != nil || len(found.Targets) == 0 != done {
			t.Errorf("done %v: got %+v, %v", done, found, err)
		}
	}
	c.start()
	l := c.looker()
	if _, err := l.directory(directory{image, false}); err != nil || !l.done["bin/clock"] || l.done["etc/hosts"] {
		t.Errorf("after a start: got %v, %v", l.done, err)
	}
}

// Zeros are opened as the root shows them, and are no program.
func TestZeros(t *testing.T) {
	n := newNode(t)
	image := n.image("bin/clock")
	n.write(image+"/zeros", make([]byte, 1000))
	c := n.container(image)
	dir, err := os.Open(image)
	n.must(err)
	defer dir.Close()
	for name, want := range map[string]bool{"zeros": false, "etc/hosts": false, "bin/clock": true} {
		if f, err := c.looker().openELF(int(dir.Fd()), name, name); (f != nil) != want || err != nil {
			t.Errorf("%s: got %v, %v", name, f, err)
		}
	}
	// What cannot be read does not end a look: a process has no memory at 0.
	self, err := os.Open("/proc/self")
	n.must(err)
	defer self.Close()
	if f, err := c.looker().openELF(int(self.Fd()), "mem", "mem"); f == nil || err != nil {
		t.Errorf("unreadable: got %v, %v", f, err)
	}
}

// What the cache has: layers that are large or have something to patch, and whatever took too long.
func TestStored(t *testing.T) {
	n := newNode(t)
	small, large := n.image(), n.image()
	for i := range few - 1 {
		n.write(fmt.Sprint(large, "/etc/", i), nil)
	}
	for i := range few - 2 { // beside etc and etc/hosts
		n.write(fmt.Sprint(small, "/etc/", i), nil)
	}
	c := n.container(n.image("bin/clock"), small, large)
	stored := func() int {
		all, err := os.ReadDir(n.state + "/layers")
		n.must(err)
		return len(all)
	}
	if c.start(); stored() != 2 {
		t.Errorf("%d entries, want those of the layer with a program and the large one", stored())
	}
	// A look that ended early is the last one of a start, and the others are in the cache or wait for the next start.
	upper, lower := n.image("a/1", "b/2"), n.image("c/3", "d/4")
	first := n.container(upper, lower).start(func(s *start) { s.limits.files = 1 })
	if n.expect(first, Partial, "too many files"); len(first.Patched) != 1 || stored() != 3 {
		t.Errorf("got %+v and %d entries, want one file and one entry more", first, stored())
	}
	next := n.container(upper, lower).start()
	if n.expect(next, Partial, "too many files"); len(next.Patched) != 3 || next.Examined != 2 || next.Cache != "miss" {
		t.Errorf("the next start: got %+v", next)
	}
	if last := n.container(upper, lower).start(func(s *start) { s.limits.files = 0 }); len(last.Patched) != 3 || last.Cache != "hit" {
		t.Errorf("the last start: got %+v", last)
	}
}

// A file that cannot be examined is left, and looked at again after a day.
func TestNotExamined(t *testing.T) {
	n := newNode(t)
	image := n.image("bin/clock")
	l := n.container(image).looker()
	l.Dir = n.dir + "/none"
	found, err := l.directory(directory{image, false})
	if err != nil || len(found.Left) != 1 || found.Left[0].Path != "/bin/clock" || len(found.Targets) != 0 {
		t.Fatalf("got %+v, %v", found, err)
	}
	for age, want := range map[time.Duration]int{0: 0, 25 * time.Hour: 1} {
		key, err := directory{image, false}.key("")
		n.must(err)
		found.Time = time.Now().Add(-age)
		n.must(l.cache.put(key, found))
		again := n.container(image).looker()
		if got, err := again.directory(directory{image, false}); err != nil || len(got.Targets) != want {
			t.Errorf("after %v: got %+v, %v", age, got, err)
		}
	}
	if _, err := l.directory(directory{n.dir + "/none", false}); err == nil {
		t.Error("a directory that is missing: no error")
	}
}

// Rule 3: what one container has removed is not missing for others.
func TestHidden(t *testing.T) {
	n := newNode(t)
	image := n.image("bin/clock", "lib/clock")
	for name, change := range map[string]func(root string) error{
		"a file":            func(root string) error { return os.Remove(root + "/bin/clock") },
		"a directory":       func(root string) error { return os.RemoveAll(root + "/bin") },
		"another file":      func(root string) error { return os.WriteFile(root+"/bin/clock", []byte("text"), 0o600) },
		"another directory": func(root string) error { return replaceDir(root + "/bin") },
		"a device":          func(root string) error { return replaceByDevice(root + "/bin/clock") },
	} {
		c := n.container(image)
		n.must(change(c.root))
		if r := c.start(); r.Result != Patched || len(r.Patched) != 1 {
			t.Errorf("%s: got %+v", name, r)
		}
		if r := c.start(); r.Cache != "hit" || r.Examined != 0 || len(r.Patched) != 1 {
			t.Errorf("%s: its restart: got %+v", name, r)
		}
		if r := n.container(image).start(); r.Cache != "hit" || len(r.Patched) != 2 {
			t.Errorf("%s: the next container: got %+v", name, r)
		}
		n.must(os.RemoveAll(n.state + "/layers"))
	}
}

// A hook runs when the container has its mounts: they stay.
func TestCovered(t *testing.T) {
	n := newNode(t)
	c := n.container(n.image("bin/clock", "lib/clock"))
	n.write(n.dir+"/file", []byte("text"))
	cmd := exec.Command("unshare", "--mount", "sh", "-c", `mount --bind "$1" "$2/bin/clock" && echo && ! read -r _ && cat "$2/bin/clock"`, "sh", n.dir+"/file", c.root)
	in, err := cmd.StdinPipe()
	n.must(err)
	out, err := cmd.StdoutPipe()
	n.must(err)
	n.must(cmd.Start())
	_, err = out.Read(make([]byte, 1))
	n.must(err)
	r := c.start(func(s *start) { s.pid = cmd.Process.Pid })
	n.must(in.Close())
	text, err := io.ReadAll(out)
	_ = cmd.Wait()
	if err != nil || string(text) != "text" {
		t.Errorf("the file of the mount: got %d bytes, %v", len(text), err)
	}
	if n.expect(r, Patched, ""); strings.Join(r.Patched, " ") != "/lib/clock" {
		t.Errorf("got %+v", r)
	}
	c.patched("lib/clock")
}

// One name of a file that the container has replaced or removed stays so.
func TestHiddenName(t *testing.T) {
	n := newNode(t)
	image := n.image("bin/clock")
	n.must(os.Link(image+"/bin/clock", image+"/bin/other"))
	n.must(os.Link(image+"/bin/clock", image+"/bin/third"))
	c := n.container(image)
	n.must(os.Remove(c.root + "/bin/other"))
	n.must(os.Remove(c.root + "/bin/third"))
	n.write(c.root+"/bin/third", []byte("text"))
	n.expect(c.start(), Patched, "")
	c.patched("bin/clock")
	if _, err := os.Stat(c.root + "/bin/other"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a name that was removed: %v", err)
	}
	if got := string(n.read(c.root + "/bin/third")); got != "text" {
		t.Errorf("a name that was replaced: got %d bytes", len(got))
	}
}

// A file or directory that cannot be read for another reason than that it is gone or not for us is no file without call
// sites: the start says so, and nothing is stored.
func TestUnread(t *testing.T) {
	for err, leftOut := range map[error]bool{
		unix.ENOENT: true, unix.ELOOP: true, unix.EXDEV: true, unix.EACCES: true, unix.EPERM: true, unix.ENOTDIR: true,
		unix.EIO: false, unix.EMFILE: false, unix.ESTALE: false, unix.EBADF: false,
	} {
		if got := unread("lib", err); (got == nil) != leftOut || !leftOut && !errors.Is(got, err) {
			t.Errorf("%v: got %v", err, got)
		}
	}
	n := newNode(t)
	image := n.image("bin/clock")
	dir, err := os.Open(image + "/bin")
	n.must(err)
	defer dir.Close()
	closed := -1 // each call fails with EBADF
	b := defaultBounds
	l := &looker{root: &root{fd: closed}, bounds: &b, Examiner: examiner.Examiner{Until: time.Now().Add(time.Minute)}, inodes: map[inode]*target{}, found: &findings{}}
	for what, err := range map[string]error{
		"a file":                l.file(closed, "clock", "bin/clock"),
		"a directory":           l.walk(closed, "bin", "bin", 1),
		"the first directory":   l.walk(closed, ".", "", 0),
		"a directory's entries": l.walk(int(dir.Fd()), "clock", "", 0),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if _, _, err := l.shows(&target{}, "bin/clock"); !errors.Is(err, unix.EBADF) {
		t.Errorf("a file of the root: got %v", err)
	}
	if _, err := l.look(closed); !errors.Is(err, unix.EBADF) || l.cut {
		t.Errorf("a look: got %v", err)
	}
}

// replaceByDevice makes a device without a driver (admin-guide/devices.txt, 60 char), which cannot be opened.
func replaceByDevice(path string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(60, 0)))
}

func replaceDir(path string) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return os.Mkdir(path, 0o755)
}

// Rule 4: an entry that is torn or about other files changes nothing, and the next start looks again.
func TestForeignEntry(t *testing.T) {
	n := newNode(t)
	image, other := n.image("bin/clock"), n.image("bin/other")
	entry := func(image string) string {
		n.must(os.RemoveAll(n.state + "/layers"))
		n.expect(n.container(image).start(), Patched, "")
		names, err := filepath.Glob(n.state + "/layers/*")
		n.must(err)
		return names[0]
	}
	foreign := n.read(entry(other))
	path := entry(image)
	whole := n.read(path)
	for name, content := range map[string][]byte{
		"torn": whole[:len(whole)/2], "empty": {}, "changed": bytes.Replace(whole, []byte(`"size":`), []byte(`"size":1`), 1), "another image's": foreign,
		"another patch": bytes.Replace(whole, []byte(`"tail":"`), []byte(`"tail":"AAAA`), 1),
	} {
		n.must(os.WriteFile(path, content, 0o600))
		c := n.container(image)
		r := c.start()
		if r.Result != Patched {
			c.unpatched("bin/clock")
			n.expect(n.container(image).start(), Patched, "")
		}
		c = n.container(image)
		last := c.start()
		n.expect(last, Patched, "")
		c.patched("bin/clock")
		if last.Cache != "hit" || last.Examined != 0 {
			t.Errorf("%s: the entry is not replaced: got %+v", name, last)
		}
	}
	// Bytes other than those that were examined, behind the same size and times.
	c := n.container(image)
	n.must(unix.Unmount(c.root, 0))
	st, err := os.Stat(image + "/bin/clock")
	n.must(err)
	tgt := &target{Names: []string{"bin/clock"}, Links: 1, todo: []string{"bin/clock"}, Size: st.Size(), Mtime: st.ModTime().UnixNano(), Ctime: ctime(st)}
	c = n.container(image)
	r, err := openRoot(c.root, "c1", 0)
	n.must(err)
	defer r.close()
	set := func(e patch.Edit) func() { return func() { tgt.Edits = []patch.Edit{e} } }
	for what, change := range map[string]func(){
		"other bytes": set(edit(80, "old", "new")), "more bytes than before": set(edit(0, "\x7fELF", "\x7fELF and")),
		"behind the end": set(edit(1<<40, "a", "b")), "before the start": set(edit(1<<63, "a", "b")),
		"other times": func() { tgt.Edits, tgt.Mtime = nil, tgt.Mtime+1 },
	} {
		change()
		errs := r.place([]addition{{names: tgt.todo, target: tgt}})
		if !errors.Is(errs[0], errOther) {
			t.Errorf("%s: got %v", what, errs)
		}
		tgt.Mtime = st.ModTime().UnixNano()
	}
	c.unpatched("bin/clock")
}

// Which files are looked at, and how one is told from another.
func TestMatches(t *testing.T) {
	program := tinyelf.Bytes(1)
	change := func(at int, b ...byte) string {
		other := bytes.Clone(program)
		copy(other[at:], b)
		return string(other)
	}
	for content, want := range map[string]bool{
		string(program): true, change(4, 1): false, change(18, 183): false, change(19, 1): false, change(0, 0): false,
		"text": false, strings.Repeat("\x00", 100): false,
	} {
		var head [headSize]byte
		copy(head[:], content)
		if got := isELF(head); got != want {
			t.Errorf("%q: got %v", content[:min(len(content), 20)], got)
		}
	}
	now := unix.Stat_t{Size: 5, Mtim: unix.NsecToTimespec(6), Ctim: unix.NsecToTimespec(7)}
	for want, tgt := range map[bool][]target{
		true: {{Size: 5, Mtime: 6, Ctime: 7}}, false: {{Size: 4, Mtime: 6, Ctime: 7}, {Size: 5, Mtime: 5, Ctime: 7}, {Size: 5, Mtime: 6, Ctime: 6}},
	} {
		for _, tgt := range tgt {
			if tgt.matches(&now) != want {
				t.Errorf("%+v: got %v", tgt, !want)
			}
		}
	}
	tgt := target{Size: 3, Finding: examiner.Finding{Edits: []patch.Edit{edit(1, "b", "x")}, Tail: []byte("t")}}
	for text, want := range map[string]bool{"axct": true, "abct": false, "axcu": false, "axc": false, "axctt": false} {
		if got := tgt.isResult(strings.NewReader(text), int64(len(text))); got != want {
			t.Errorf("%s: got %v", text, got)
		}
	}
	if (&target{Size: 3}).isResult(strings.NewReader("abc"), 3) {
		t.Error("a file without a patch is not one that is patched")
	}
}

// A call site that cannot be patched is left in the record, at each start, and the fallback does not reach a static program.
func TestUnknownSite(t *testing.T) {
	n := newNode(t)
	image := n.image()
	n.write(image+"/bin/clock", bytes.Replace(tinyelf.Bytes(1), []byte("\xff\xd0"), []byte("\x90\x90"), 1))
	for _, fallback := range []string{"false", "true"} {
		c := n.container(image)
		c.annotations = map[string]string{AnnotationFallback: fallback}
		r := c.start()
		if n.expect(r, Partial, "call sites left"); len(r.Left) != 1 || len(r.Patched) != 0 {
			t.Errorf("fallback %s: got %+v", fallback, r)
		}
	}
}

// Rule 6: everything but the content stays, and all names of a file lead to one new inode.
func TestMetadata(t *testing.T) {
	n := newNode(t)
	image := n.image("bin/setuid", "bin/plain", "bin/ima", "bin/immutable")
	at := func(name string) string { return image + "/bin/" + name }
	n.must(os.Link(at("plain"), at("link")))
	n.must(os.Link(at("plain"), image+"/etc/link"))
	n.must(os.Chown(at("setuid"), 1000, 1001))
	n.must(os.Chmod(at("setuid"), 0o755|os.ModeSetuid))
	big := strings.Repeat("v", 3000)
	n.must(unix.Setxattr(at("setuid"), "user.big", []byte(big), 0))
	capability := "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" // VFS_CAP_REVISION_2, cap_net_bind_service
	n.must(unix.Setxattr(at("setuid"), "security.capability", []byte(capability), 0))
	n.must(unix.Setxattr(at("ima"), "security.ima", []byte("\x01hash"), 0))
	past := time.Unix(1e9, 123456789)
	for _, name := range []string{"setuid", "plain", "."} {
		n.must(os.Chtimes(at(name), past, past))
	}
	n.must(setFlags(at("immutable"), 0x10))
	t.Cleanup(func() { _ = setFlags(at("immutable"), 0) })

	c := n.container(image)
	r := c.start()
	if r.Result != Partial || len(r.Left) != 2 || len(r.Patched) != 2 {
		t.Fatalf("got %+v", r)
	}
	if text := fmt.Sprint(r.Left); !strings.Contains(text, "security.ima vouches") || !strings.Contains(text, "it is immutable") {
		t.Errorf("left: %s", text)
	}
	c.patched("bin/setuid", "bin/plain", "bin/link", "etc/link")
	var a, b, dir unix.Stat_t
	n.must(unix.Stat(c.root+"/bin/setuid", &a))
	if a.Uid != 1000 || a.Gid != 1001 || a.Mode&0o7777 != 0o4755 || a.Mtim.Nano() != past.UnixNano() {
		t.Errorf("got %+v", a)
	}
	f, err := os.Open(c.root + "/bin/setuid")
	n.must(err)
	defer f.Close()
	for name, want := range map[string]string{"user.big": big, "security.capability": capability} {
		if got, err := filecopy.GetXattr(int(f.Fd()), name); string(got) != want {
			t.Errorf("%s: got %d bytes, %v", name, len(got), err)
		}
	}
	n.must(unix.Stat(c.root+"/bin", &dir))
	if dir.Mtim.Nano() != past.UnixNano() {
		t.Errorf("the directory's time: got %v", dir.Mtim)
	}
	n.must(unix.Stat(c.root+"/bin/plain", &a))
	for _, name := range []string{"/bin/link", "/etc/link"} {
		if n.must(unix.Stat(c.root+name, &b)); a.Ino != b.Ino || a.Nlink != 3 {
			t.Errorf("%s: inode %d with %d names, want %d with 3", name, b.Ino, a.Nlink, a.Ino)
		}
	}
	if r.Examined != 4 {
		t.Errorf("examined %d files, want 4: one for each inode", r.Examined)
	}
	// One that only looks like a program that calls the page.
	suspect := n.image()
	n.write(suspect+"/file", append(append([]byte{}, tinyelf.Bytes(1)[:20]...), "\x48\xc7\xc0\x00\x04\x60\xff with other text, which makes it long enough"...))
	for i := range 5 {
		n.must(os.Link(suspect+"/file", fmt.Sprint(suspect, "/", i)))
	}
	if r := n.container(suspect).start(); r.Examined != 1 {
		t.Errorf("examined %d files, want 1: got %+v", r.Examined, r)
	}
	// A name that the container does not show.
	outside := n.image("bin/clock")
	n.must(os.Link(outside+"/bin/clock", n.dir+"/elsewhere"))
	n.expect(n.container(outside).start(), Partial, "2 names, of which the container shows 1")
}

// Rule 7: over a bound the container starts, with what was found, and the next start does not look again.
func TestBounds(t *testing.T) {
	n := newNode(t)
	deep := n.image("clock")
	n.must(os.MkdirAll(deep+strings.Repeat("/d", maxDepth+2), 0o755))
	for name, tc := range map[string]struct {
		image string
		set   func(*bounds)
		why   string
	}{
		"entries": {n.image("a/1", "b/2", "c/3"), func(b *bounds) { b.entries = 3 }, "too many files and directories"},
		"files":   {n.image("a/1", "b/2", "c/3"), func(b *bounds) { b.files = 1 }, "too many files to examine"},
		"time":    {n.image("a/1", "b/2", "c/3"), func(b *bounds) { b.time = time.Nanosecond }, "over a bound"},
		"depth":   {deep, func(*bounds) {}, "directories inside one another"},
	} {
		first := n.container(tc.image).start(func(s *start) { tc.set(&s.limits) })
		n.expect(first, Partial, tc.why)
		next := n.container(tc.image).start()
		if n.expect(next, Partial, tc.why); next.Cache != "hit" || next.Examined != 0 || len(next.Patched) != len(first.Patched) {
			t.Errorf("%s: got %+v, after %+v", name, next, first)
		}
	}
	allowed := n.image("clock")
	n.must(os.MkdirAll(allowed+strings.Repeat("/d", maxDepth), 0o755))
	n.expect(n.container(allowed).start(), Patched, "")
	image := n.image("a/1", "b/2", "c/3")
	exact := func(s *start) {
		s.limits.entries, s.limits.files, s.limits.written = 8, 3, int64(len(tinyelf.Bytes(1)))*3
	}
	n.expect(n.container(image).start(exact), Patched, "")
	r := n.container(image).start(func(s *start) { s.limits.written = int64(len(tinyelf.Bytes(1))) * 2 })
	if n.expect(r, Partial, "too many bytes"); len(r.Patched) != 2 {
		t.Errorf("got %+v", r)
	}
}

// Rule 7: a container with much of its own delays only its own first start, and the others of its image not at all.
func TestOwnBounds(t *testing.T) {
	n := newNode(t)
	image := n.image("a/1", "z/2")
	few := func(s *start) { s.limits.entries = 8 }
	c := n.container(image)
	for i := range 10 {
		n.write(fmt.Sprint(c.root, "/many/", i), tinyelf.Bytes(uint32(i)))
	}
	n.expect(c.start(few), Partial, "too many")
	if r := c.start(few); r.Examined != 0 {
		t.Errorf("the next start: got %+v", r)
	}
	other := n.container(image)
	n.expect(other.start(), Patched, "")
	other.patched("a/1", "z/2")
	n.expect(c.start(few), Partial, "too many")
	c.patched("a/1", "z/2")
}

// Rule 7: starts at the same time examine an image once, and wait no longer than their bound.
func TestTogether(t *testing.T) {
	n := newNode(t)
	image := n.image("bin/a", "bin/b")
	var all sync.WaitGroup
	records := make([]Record, 6)
	for i := range records {
		c := n.container(image)
		all.Go(func() { records[i] = c.start() })
	}
	all.Wait()
	examined := 0
	for _, r := range records {
		examined += r.Examined
		n.expect(r, Patched, "")
	}
	if examined != 2 {
		t.Errorf("examined %d files, want 2", examined)
	}
	c := n.container(n.image("bin/a"))
	r, err := openRoot(c.root, "c1", 0)
	n.must(err)
	defer r.close()
	other, err := os.Open(r.dirs[0].path)
	n.must(err)
	defer other.Close()
	n.must(unix.Flock(int(other.Fd()), unix.LOCK_EX))
	c.mounts = []map[string]any{{"destination": "/data", "type": "bind"}}
	n.within(time.Second, func() {
		r := c.start(func(s *start) { s.limits.time = 50 * time.Millisecond })
		if n.expect(r, Skipped, "another start examines"); len(r.NotExamined) != 1 {
			t.Errorf("volumes: got %v", r.NotExamined)
		}
	})
	// One that hangs is given up, and has what was known in the record.
	c.annotations = map[string]string{AnnotationFallback: "true"}
	n.must(unix.Flock(int(other.Fd()), unix.LOCK_UN))
	hangs := func(s *start) { s.limits.time, s.Library = 50*time.Millisecond, func() []byte { select {} } }
	if r := c.start(hangs); r.Result != Skipped || !strings.Contains(r.Reason, "no result within") || len(r.NotExamined) != 1 {
		t.Errorf("one that hangs: got %+v", r)
	}
	// Nobody waits for what is known.
	known, err := os.Open(image)
	n.must(err)
	defer known.Close()
	n.must(unix.Flock(int(known.Fd()), unix.LOCK_EX))
	n.within(5*time.Second, func() { n.expect(n.container(image).start(), Patched, "") })
}

// Whenever a start is killed, each file is the old or the new one, and the next start completes the work.
func TestKilled(t *testing.T) {
	n := newNode(t)
	names := []string{"bin/a", "bin/b", "lib/c", "lib/d"}
	image := n.image(names...)
	n.must(os.Link(image+"/bin/a", image+"/lib/link"))
	names = append(names, "lib/link")
	n.container(image).start()
	killed := 0
	for i := range 80 {
		c := n.container(image)
		c.prepare()
		if i%2 == 1 {
			n.must(os.RemoveAll(n.state + "/layers"))
		}
		cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{"starter", n.state, c.bundle}}
		n.must(cmd.Start())
		time.Sleep(time.Duration(i) * 300 * time.Microsecond)
		_ = cmd.Process.Kill()
		if cmd.Wait() != nil {
			killed++
		}
		for _, name := range names {
			before, now := n.read(filepath.Join(image, name)), n.read(filepath.Join(c.root, name))
			if !bytes.Equal(before, now) && run(filepath.Join(c.root, name)) != tinyelf.Patched {
				t.Fatalf("kill %d: %s is neither the old nor the new file", i, name)
			}
		}
		n.expect(c.start(), Patched, "")
		c.patched(names...)
		left, err := filepath.Glob(c.root + "/.vfix-*")
		if n.must(err); len(left) > 0 {
			t.Fatalf("kill %d: left: %v", i, left)
		}
		n.must(unix.Unmount(c.root, 0))
		n.must(os.RemoveAll(filepath.Dir(c.root)))
	}
	if killed < 20 {
		t.Errorf("only %d of 80 starts were killed", killed)
	}
}

// A start that was killed when all files were in place has left its directory; the next one has nothing else to do.
func TestKilledAtTheEnd(t *testing.T) {
	n := newNode(t)
	c := n.container(n.image("bin/clock"))
	n.expect(c.start(), Patched, "")
	n.must(os.Mkdir(filepath.Join(c.root, staging), 0o700))
	n.must(os.WriteFile(filepath.Join(c.root, staging, "0"), nil, 0o600))
	n.expect(c.start(), Patched, "")
	c.patched("bin/clock")
	if _, err := os.Lstat(filepath.Join(c.root, staging)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: got %v", staging, err)
	}
}

// With required, a container in which something is left does not start.
func TestRequired(t *testing.T) {
	n := newNode(t)
	required := func(s *start) { s.config.Required = true }
	image := n.image("bin/clock")
	n.expect(n.container(image).start(required), Patched, "")
	n.must(unix.Setxattr(image+"/bin/clock", "security.ima", []byte("\x01hash"), 0))
	n.expect(n.container(image).start(required), Refused, "looks again") // the time of the file is another one
	n.expect(n.container(image).start(), Partial, "vouches")
	n.expect(n.container(image).start(required), Refused, "vouches")
	c := n.container(image)
	c.annotations = map[string]string{AnnotationRequired: "true"}
	n.expect(c.start(), Refused, "vouches")
	c = n.container(image)
	c.annotations = map[string]string{AnnotationRequired: "false"}
	n.expect(c.start(required), Partial, "vouches")
	n.expect(n.bundle().start(required), Refused, "no engine made")
	c = n.container(image)
	c.annotations = map[string]string{AnnotationEnable: "false"}
	n.expect(c.start(required), Disabled, "")
	c = n.container(image)
	c.annotations = map[string]string{AnnotationFallback: "true"}
	n.expect(c.start(required, func(s *start) { s.Library = func() []byte { panic("fault") } }), Refused, "internal error")
}

// The fallback and the files of fixes are in the container's layer, with its own root as their owner.
func TestFallback(t *testing.T) {
	n := newNode(t)
	image := n.image("bin/clock")
	n.must(os.Chown(image, 100000, 100000))
	n.write(image+"/etc/ld.so.preload", []byte("/lib/other.so"))
	c := n.container(image)
	n.must(os.Chown(c.upper, 100000, 100000))
	c.annotations = map[string]string{AnnotationFallback: "true"}
	for range 2 {
		if r := c.start(); r.Result != Patched || !r.Fallback {
			t.Fatalf("got %+v", r)
		}
	}
	if got := string(n.read(c.root + "/etc/ld.so.preload")); got != "/lib/other.so\n/vfix/x86_64/libvfix.so\n" {
		t.Errorf("ld.so.preload: %q", got)
	}
	if got := string(n.read(c.root + "/vfix/x86_64/libvfix.so")); got != "library" {
		t.Errorf("library: %q", got)
	}
	for _, name := range []string{"/vfix", "/vfix/x86_64", "/vfix/x86_64/libvfix.so"} {
		var st unix.Stat_t
		if n.must(unix.Stat(c.root+name, &st)); st.Uid != 100000 || st.Mode&0o777 != 0o755 {
			t.Errorf("%s: owner %d, mode %o", name, st.Uid, st.Mode)
		}
	}
	n.write(image+"/vfix/x86_64/libvfix.so", []byte("old"))
	for _, name := range []string{"/etc/ld.so.preload", "/vfix/x86_64/libvfix.so"} {
		c = n.container(image)
		c.annotations = map[string]string{AnnotationFallback: "true"}
		n.bind(image+"/bin/clock", c.root+name) // a file of the machine
		if r := c.start(); r.Result != Partial || r.Fallback || !strings.Contains(fmt.Sprint(r.Left), "fallback: "+name) {
			t.Errorf("with another mount at %s: got %+v", name, r)
		}
	}
	n.write(image+"/usr/lib/ld-linux.so.2", nil)
	n.must(os.RemoveAll(image + "/lib"))
	n.must(os.Symlink("/usr/lib", image+"/lib"))
	c = n.container(image)
	c.annotations = map[string]string{AnnotationFallback: "true"}
	n.expect(c.start(), Patched, "")
	if got := string(n.read(c.root + "/vfix/i386/libvfix.so")); got != "library32" {
		t.Errorf("library for 32-bit programs: %q", got)
	}
}

// Whatever fails, the container starts, and the record says why.
func TestErrors(t *testing.T) {
	n := newNode(t)
	image := n.image("bin/clock")
	c := n.container(image)
	broken := func(s *start) { s.configFailed = os.ErrInvalid }
	n.expect(c.start(broken), Skipped, "invalid argument")
	c.annotations = map[string]string{AnnotationFallback: "true"}
	n.expect(c.start(func(s *start) { s.Library = func() []byte { panic("fault") } }), Skipped, "internal error: fault")
	c.annotations = map[string]string{AnnotationEnable: "perhaps"}
	n.expect(c.start(), Skipped, "want true or false")
	c.annotations = nil
	c.unpatched("bin/clock")
	c.mounts = []map[string]any{
		{"destination": "/data", "type": "bind"}, {"destination": "/etc/hosts", "type": "bind"}, {"destination": "/proc", "type": "proc"},
		{"destination": "/more", "type": "none", "options": []string{"rbind"}}, {"destination": "most/", "options": []string{"bind"}},
		{"destination": "/dev/x", "type": "bind"}, {"destination": "/proc/x", "type": "bind"}, {"destination": "/sys/x", "type": "bind"},
	}
	if r := c.start(); strings.Join(r.NotExamined, " ") != "/data /more /most" {
		t.Errorf("volumes: got %v", r.NotExamined)
	}
	s := newTestStart(n.state)
	if err := s.run(n.dir, n.dir+"/none"); err == nil || s.record.Millis == 0 || s.record.Reason != err.Error() {
		t.Errorf("without config.json: got %v, %+v", err, s.record)
	}
	if err := newTestStart(image+"/bin/clock").run(c.bundle, c.bundle+"/config.json"); err == nil || strings.Count(err.Error(), "not a directory") < 2 {
		t.Errorf("without a place for the cache and the record: got %v", err)
	}
	if got := strings.Count(string(n.read(n.state+"/starts.jsonl")), "\n"); got != 5 {
		t.Errorf("%d lines in the record, want 5", got)
	}
}
