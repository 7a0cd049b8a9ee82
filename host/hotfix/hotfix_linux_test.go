package hotfix_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/hotfix"
	"vfix.dev/vfix/host/store"
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/xattrs"
	"vfix.dev/vfix/tests/imagetest"
)

func hotfixOf(t *testing.T, source string, o hotfix.Options) (*hotfix.Hotfixed, error) {
	t.Helper()
	imagetest.AsRoot(t, "the copies have the owners of the originals")
	o.Media.Progress = &imagetest.Notes{}
	return hotfix.Hotfix(context.Background(), source, o)
}

// tempDir is t.TempDir, for copies: nobody removes it before they are released.
func tempDir(t *testing.T) string {
	dir := t.TempDir()
	t.Cleanup(func() {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				_ = release(path)
			}
			return nil
		})
	})
	return dir
}

// release takes the immutable flag off a file.
func release(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0)
}

// No container changes a copy that several mount: not the content, the mode or an attribute, whatever its mount
// allows; a run that finds a copy without that protection, of one that was killed, protects it.
func TestCopiesAreImmutable(t *testing.T) {
	imagetest.NoDaemon(t)
	dir := filepath.Join(tempDir(t), "copies")
	source := imagetest.StoreOCI(t, imagetest.Stack(t, []imagetest.TestMember{imagetest.LegacyM("libc.so", "libc")}))
	for range 2 {
		h, err := hotfixOf(t, source, hotfix.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		path := h.Mounts[0].Source
		for what, change := range map[string]func() error{
			"write": func() error { return os.WriteFile(path, nil, 0) }, "chmod": func() error { return os.Chmod(path, 0o777) },
			"setxattr": func() error { return unix.Setxattr(path, "user.x", nil, 0) }, "link": func() error { return os.Link(path, path+"2") },
		} {
			if err := change(); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%s: got %v", what, err)
			}
		}
		if err := errors.Join(release(path), os.Chmod(path, 0o755)); err != nil { // [control]
			t.Error(err)
		}
	}
}

// legacyRoot is a file system with files to patch: one with two names, a setuid one, one
// below a mount.
func legacyRoot() []imagetest.TestMember {
	su := imagetest.LegacyM("bin/su", "su")
	su.Mode, su.Uid, su.Gid = 0o4711, 12, 34
	su.PAXRecords = map[string]string{blob.XattrPrefix + "user.note": "kept"}
	return []imagetest.TestMember{
		imagetest.DirM("bin"), su, imagetest.DirM("lib"), imagetest.LegacyM("lib/libc, 2.13.so", "libc"), imagetest.LinkM("lib/libc.so.6", "lib/libc, 2.13.so"),
		imagetest.DirM("usr"), imagetest.DirM("usr/lib"), imagetest.DirM("usr/lib/plugins"), imagetest.LegacyM("usr/lib/plugins/p.so", "p"),
		imagetest.LegacyM("usr/lib/pluginsx", "x"), imagetest.FileM("etc", []byte("text")), imagetest.FileM("bin/new", imagetest.ModernELF("new")),
	}
}

func targets(h *hotfix.Hotfixed) string {
	var all []string
	for _, m := range h.Mounts {
		all = append(all, m.Target)
	}
	return strings.Join(all, "|")
}

func TestHotfixImage(t *testing.T) {
	imagetest.NoDaemon(t)
	dir := filepath.Join(tempDir(t), "new", "copies")
	source := imagetest.StoreOCI(t, imagetest.Stack(t, legacyRoot()))
	h, err := hotfixOf(t, source, hotfix.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := targets(h), "/bin/su|/lib/libc, 2.13.so|/lib/libc.so.6|/usr/lib/plugins/p.so|/usr/lib/pluginsx"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	if h.Mounts[1].Source != h.Mounts[2].Source || h.Mounts[0].Source == h.Mounts[1].Source {
		t.Errorf("hard links: got %+v", h.Mounts)
	}
	su := h.Mounts[0].Source
	imagetest.WantContent(t, su, imagetest.FixedELF("su"))
	fi := imagetest.Must[os.FileInfo](t)(os.Stat(su))
	is := contents.DiskMeta(fi)
	if is.Mode != 0o4711 || is.UID != 12 || is.GID != 34 || !is.Mtime.Equal(imagetest.TestTime) {
		t.Errorf("su: got %+v", is)
	}
	f := imagetest.Must[*os.File](t)(os.Open(su))
	defer f.Close()
	if v, err := xattrs.Get(int(f.Fd()), "user.note"); string(v) != "kept" {
		t.Errorf("xattr: got %q, %v", v, err)
	}
	if mode := imagetest.Must[os.FileInfo](t)(os.Stat(dir)).Mode().Perm(); mode != 0o700 {
		t.Errorf("directory: got mode %#o", mode)
	}
	// A second run changes nothing; one that finds a damaged copy makes it again.
	again := imagetest.Must[*hotfix.Hotfixed](t)(hotfixOf(t, source, hotfix.Options{Dir: dir}))
	if !reflect.DeepEqual(again.Mounts, h.Mounts) || !os.SameFile(fi, imagetest.Must[os.FileInfo](t)(os.Stat(su))) {
		t.Error("the second run did not use the copies of the first")
	}
	for what, damage := range map[string]func() error{
		"content": func() error { return os.WriteFile(su, []byte("x"), 0) },
		"mode":    func() error { return os.Chmod(su, 0o755) },
		"owner":   func() error { return os.Chown(su, 0, 0) },
		"time":    func() error { return os.Chtimes(su, imagetest.TestTime.Add(1), imagetest.TestTime.Add(1)) },
	} {
		if err := errors.Join(release(su), damage()); err != nil {
			t.Fatal(err)
		}
		imagetest.Must[*hotfix.Hotfixed](t)(hotfixOf(t, source, hotfix.Options{Dir: dir}))
		if now := contents.DiskMeta(imagetest.Must[os.FileInfo](t)(os.Stat(su))); !reflect.DeepEqual(now, is) {
			t.Errorf("damaged %s: got %+v", what, now)
		}
		imagetest.WantContent(t, su, imagetest.FixedELF("su"))
	}
	imagetest.WantEmpty(t, filepath.Dir(su), filepath.Base(su), filepath.Base(h.Mounts[1].Source), filepath.Base(h.Mounts[3].Source), filepath.Base(h.Mounts[4].Source))
}

// A copy has no xattr that vouches for the content before: a kernel that appraises would refuse it.
func TestHotfixDropsMarks(t *testing.T) {
	imagetest.NoDaemon(t)
	c := imagetest.LegacyM("bin/c", "1")
	c.PAXRecords = map[string]string{
		blob.XattrPrefix + "security.ima": "\x03x", blob.XattrPrefix + "security.evm": "\x05x",
		blob.XattrPrefix + "user.fsverity.sig": "x", blob.XattrPrefix + "user.note": "kept",
	}
	h := imagetest.Must[*hotfix.Hotfixed](t)(hotfixOf(t, imagetest.StoreOCI(t, imagetest.Stack(t, []imagetest.TestMember{imagetest.DirM("bin"), c})), hotfix.Options{Dir: filepath.Join(tempDir(t), "d")}))
	f := imagetest.Must[*os.File](t)(os.Open(h.Mounts[0].Source))
	defer f.Close()
	all := imagetest.Must[map[string]string](t)(contents.FileXattrs(f))
	delete(all, store.LabelXattr)
	if len(all) != 1 || all["user.note"] != "kept" {
		t.Errorf("got %v, want user.note alone", all)
	}
}

func TestHotfixRefuses(t *testing.T) {
	imagetest.NoDaemon(t)
	open := tempDir(t)
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	source := imagetest.StoreOCI(t, imagetest.Stack(t, legacyRoot()))
	_, err := hotfixOf(t, source, hotfix.Options{Dir: open})
	imagetest.WantErr(t, err, nil, "alone can write")
	_, err = hotfixOf(t, tempDir(t), hotfix.Options{Dir: tempDir(t)})
	imagetest.WantErr(t, err, hinterr.ErrUnsupported, "not an image")
	_, err = hotfixOf(t, source, hotfix.Options{Apply: true})
	imagetest.WantErr(t, err, hinterr.ErrNotFound, "no container")
	_, err = hotfixOf(t, "container:db", hotfix.Options{})
	imagetest.WantErr(t, err, hinterr.ErrNoDaemon)
}

// Files under the container's own mounts are left out, files that only look like it are not.
func TestHotfixContainer(t *testing.T) {
	newEngine(t, legacyRoot()...)
	dir := tempDir(t)
	os.Chmod(dir, 0o700)
	for _, name := range []string{"db", "container:db", stoppedID} {
		h, err := hotfixOf(t, name, hotfix.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := targets(h), "/bin/su|/lib/libc, 2.13.so|/lib/libc.so.6|/usr/lib/pluginsx"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if !h.Container || h.Name != "db" || h.Image != "redis:2.8" || h.Service != "redis" || h.Running || h.Recreated != nil ||
			strings.Join(h.Covered, " ") != "/data /more /named /run /usr/lib/plugins" {
			t.Errorf("got %+v", h)
		}
	}
	_, err := hotfixOf(t, "container:nobody", hotfix.Options{Dir: dir})
	imagetest.WantErr(t, err, hinterr.ErrNotFound, "no container nobody")
}

func TestHotfixApply(t *testing.T) {
	e := newEngine(t, legacyRoot()...)
	dir := tempDir(t)
	h, err := hotfixOf(t, "db", hotfix.Options{Dir: dir, Apply: true})
	if err != nil {
		t.Fatal(err)
	}
	newID := strings.Repeat("2", 64)
	if r := h.Recreated; r == nil || r.ID != newID || r.Old != "db-vfix-old" || r.OldID != stoppedID || r.Image != "" {
		t.Fatalf("got %+v", h.Recreated)
	}
	if e.names["db"] != newID || e.names["db-vfix-old"] != stoppedID || len(e.names) != 2 {
		t.Errorf("names: got %v", e.names)
	}
	var got struct {
		Image, Hostname string
		Unheard         json.RawMessage
		Env             []string
		HostConfig      struct {
			Binds, Links []string
			UnheardOf    json.RawMessage
			Mounts       []map[string]any
		}
		NetworkingConfig json.RawMessage
	}
	if err := json.Unmarshal(e.created, &got); err != nil {
		t.Fatal(err)
	}
	if got.Image != "redis:2.8" || got.Hostname != "111100001111" || string(got.Unheard) != `{"of":[1,2.50]}` ||
		string(got.HostConfig.UnheardOf) != "18446744073709551615" || strings.Join(got.Env, "") != "A=<b>&c" ||
		strings.Join(got.HostConfig.Binds, " ") != "named:/named:rw /srv:/usr/lib/plugins" || strings.Join(got.HostConfig.Links, "") != "/other:/db/alias" {
		t.Errorf("create: got %s", e.created)
	}
	if want := `{"EndpointsConfig":{"front":{"IPAMConfig":{"IPv4Address":"10.0.0.7"},"Links":["other:alias"]}}}`; string(got.NetworkingConfig) != want {
		t.Errorf("first network: got %s, want %s", got.NetworkingConfig, want)
	}
	if want := `/networks/back/connect {"Container":"` + newID + `","EndpointConfig":{"Aliases":["db1"]}}`; strings.Join(e.connects, "\n") != want {
		t.Errorf("more networks: got %q, want %s", e.connects, want)
	}
	var all []string
	for _, m := range got.HostConfig.Mounts {
		source := m["Source"].(string)
		if strings.HasPrefix(source, dir) {
			source = "COPY"
		}
		all = append(all, strings.Join([]string{m["Type"].(string), source, m["Target"].(string)}, " "))
	}
	want := []string{"volume 89abcdef /more", "volume 0123abcd /data", "bind COPY /bin/su",
		"bind COPY /lib/libc, 2.13.so", "bind COPY /lib/libc.so.6", "bind COPY /usr/lib/pluginsx"}
	if !reflect.DeepEqual(all, want) {
		t.Errorf("mounts: got %q, want %q", all, want)
	}
}

// A request that is refused, or whose answer is lost, leaves the container as it was.
func TestHotfixApplyFails(t *testing.T) {
	for _, changes := range []string{"null", `[{"Path": "/x", "Kind": 1}]`} {
		for _, lost := range []bool{false, true} {
			failed := 0
			for at := 1; ; at++ {
				e := newEngine(t, legacyRoot()...)
				e.changes, e.failAt, e.lost = changes, at, lost
				before := e.state()
				h, err := hotfixOf(t, "db", hotfix.Options{Dir: tempDir(t), Apply: true})
				if len(e.requests) < at {
					if err != nil || h.Recreated == nil {
						t.Fatalf("without a failure: %v", err)
					}
					break
				}
				failed++
				if err == nil && lost && strings.HasPrefix(e.requests[at-1], "GET ") {
					continue // tried again
				}
				if err == nil {
					t.Errorf("request %d (%s) failed (lost: %v) and nothing was said", at, e.requests[at-1], lost)
				}
				if after := e.state(); after != before {
					t.Errorf("request %d (%s) failed (lost: %v): before %s, after %s", at, e.requests[at-1], lost, before, after)
				}
			}
			if failed < 11 {
				t.Errorf("only %d requests", failed)
			}
		}
	}
}

// An unfinished copy of a run that was killed goes with the next run, and with --prune, but not while somebody
// writes copies.
func TestHotfixUnfinished(t *testing.T) {
	newEngine(t, legacyRoot()...)
	dir := tempDir(t)
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	imagetest.Must[*store.Store](t)(store.Open(dir, 0))
	left := filepath.Join(store.At(dir).Dir, "tmp", "new-0123")
	is := func(when string, want bool) {
		t.Helper()
		if _, err := os.Stat(left); (err == nil) != want {
			t.Errorf("%s: %s is there: got %v, want %v", when, left, err == nil, want)
		}
	}
	imagetest.Write(t, left, []byte("half"))
	d := imagetest.Must[*os.File](t)(os.Open(left))
	defer d.Close()
	if err := unix.Flock(int(d.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	hotfixed := func() {
		t.Helper()
		if _, err := hotfixOf(t, "db", hotfix.Options{Dir: dir}); err != nil {
			t.Fatal(err)
		}
	}
	hotfixed()
	is("somebody writes copies", true)
	if err := unix.Flock(int(d.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	hotfixed()
	is("a run", false)
	imagetest.Write(t, left, []byte("half"))
	if _, _, err := hotfix.Prune(context.Background(), dir, media.Options{}); err != nil {
		t.Fatal(err)
	}
	is("--prune", false)
}

// Killed at any request, whether it was carried out or not, vfix leaves a container with all that it had: the
// next run names each container that is left over, or says what gives the old one its name back.
func TestHotfixApplyKilled(t *testing.T) {
	for _, changes := range []string{"null", `[{"Path": "/x", "Kind": 1}]`} {
		for _, lost := range []bool{false, true} {
			unnamed := 0
			for at := 1; ; at++ {
				e := newEngine(t, legacyRoot()...)
				e.changes, e.failAt, e.lost, e.killed = changes, at, lost, true
				before := fmt.Sprint(e.now())
				_, _ = hotfixOf(t, "db", hotfix.Options{Dir: tempDir(t), Apply: true})
				e.mu.Lock() // the engine may be busy with what was not waited for
				requests := e.requests
				e.failAt = 0
				e.mu.Unlock()
				id, renamed := e.now()["db"]
				if len(requests) < at {
					break
				}
				killedAt := requests[at-1]
				if renamed && id != stoppedID {
					continue // all is done
				}
				notes := &imagetest.Notes{}
				h, err := hotfix.Hotfix(context.Background(), "db", hotfix.Options{Dir: tempDir(t), Apply: true, ScanOptions: images.ScanOptions{Media: media.Options{Options: registry.Options{Progress: notes}}}})
				if !renamed {
					unnamed++
					for _, command := range strings.Split(strings.TrimSuffix(hinterr.HintOf(err), ", and try again"), " && ") {
						e.typed(t, command)
					}
					if after := fmt.Sprint(e.now()); after != before {
						t.Errorf("killed at %s (carried out: %v): before %s, after the hint of %v: %s", killedAt, lost, before, err, after)
					}
					continue
				}
				if err != nil {
					t.Errorf("killed at %s (carried out: %v): %v", killedAt, lost, err)
					continue
				}
				said := strings.Join(notes.Text, "\n")
				for name := range e.now() {
					if name != "db" && !strings.HasPrefix(name, "db-vfix-old") && !strings.Contains(said, "docker rm "+name) {
						t.Errorf("killed at %s (carried out: %v): %s is left, and nothing says so: %s, %+v", killedAt, lost, name, said, h)
					}
				}
			}
			if unnamed == 0 {
				t.Errorf("carried out: %v: never killed between the two names", lost)
			}
		}
	}
}

// Where undoing fails as well, the hint says what to type.
func TestHotfixApplyCannotUndo(t *testing.T) {
	e := newEngine(t, legacyRoot()...)
	r := &hotfix.Recreation{P: &imagetest.Notes{}, Undo: []hotfix.Undoing{
		{Do: func(context.Context) error { return nil }, By: "fine"},
		{Do: func(context.Context) error { return errors.New("no") }, By: "docker rename b a"},
	}}
	err := r.RollBack(context.Background(), errors.New("first"))
	imagetest.WantErr(t, err, nil, "first", "no")
	if hint := hinterr.HintOf(err); hint != "what is left to undo: docker rename b a" {
		t.Errorf("hint: got %q", hint)
	}
	_ = e
}

func TestHotfixApplyCommits(t *testing.T) {
	e := newEngine(t, legacyRoot()...)
	e.changes = `[{"Path": "/var", "Kind": 0}, {"Path": "/var/x", "Kind": 1}]`
	h, err := hotfixOf(t, "db", hotfix.Options{Dir: tempDir(t), Apply: true})
	if err != nil {
		t.Fatal(err)
	}
	image := h.Recreated.Image
	if !strings.HasPrefix(image, "vfix-hotfix:db-") || e.images["docker.io/library/"+image] == "" || !strings.Contains(string(e.created), `"Image":"`+image+`"`) {
		t.Errorf("got image %q, images %v", image, e.images)
	}
	if back := strings.Join(h.Recreated.Back, "; "); back != "docker rm db; docker rename db-vfix-old db; docker rmi "+image {
		t.Errorf("the way back: got %s", back)
	}
}

// An image that was pulled again meanwhile is not the container's.
func TestHotfixApplyOldImage(t *testing.T) {
	e := newEngine(t, legacyRoot()...)
	e.images["redis:2.8"] = "sha256:" + strings.Repeat("6", 64)
	e.names["db-vfix-old"] = stoppedID // in use
	h, err := hotfixOf(t, "db", hotfix.Options{Dir: tempDir(t), Apply: true})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(e.created), `"Image":"sha256:5555`) || h.Recreated.Old != "db-vfix-old-2" {
		t.Errorf("got %s, %+v", e.created, h.Recreated)
	}
}

func TestHotfixApplyRefuses(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*fakeEngine, map[string]any)
		err    string
		hint   string
	}{
		"running": {func(_ *fakeEngine, c map[string]any) { c["State"] = map[string]any{"Running": true} },
			"it is running", "docker stop db && vfix hotfix --apply db && docker start db"},
		"restarting": {func(_ *fakeEngine, c map[string]any) { c["State"] = map[string]any{"Restarting": true} }, "it is running", "docker stop db"},
		"running --rm": {func(_ *fakeEngine, c map[string]any) {
			c["State"] = map[string]any{"Running": true}
			c["HostConfig"].(map[string]any)["AutoRemove"] = true
		}, "is removed when it stops", "vfix hotfix db"},
		"Kubernetes": {func(_ *fakeEngine, c map[string]any) {
			c["Config"].(map[string]any)["Labels"] = map[string]any{"io.kubernetes.pod.name": "x"}
		}, "Kubernetes made it", "--for kubernetes"},
		"podman": {func(e *fakeEngine, _ map[string]any) { e.components = `[{"Name": "Podman Engine"}]` }, "it belongs to podman", "--for podman"},
	} {
		e := newEngine(t, legacyRoot()...)
		c.change(e, e.containers[stoppedID])
		before := e.state()
		_, err := hotfixOf(t, "db", hotfix.Options{Dir: tempDir(t), Apply: true})
		if err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(hinterr.HintOf(err), c.hint) || e.state() != before {
			t.Errorf("%s: got %v; hint %q", what, err, hinterr.HintOf(err))
		}
	}
}

// Owners are those that the engine shows; a second hotfix replaces the mounts of the first.
func TestHotfixRemapped(t *testing.T) {
	e := newEngine(t, legacyRoot()...)
	e.info = `{"DockerRootDir": "/var/lib/docker/100000.200000", "SecurityOptions": ["name=seccomp,profile=default", "name=userns"]}`
	dir := tempDir(t)
	h := imagetest.Must[*hotfix.Hotfixed](t)(hotfixOf(t, "db", hotfix.Options{Dir: dir}))
	if is := contents.DiskMeta(imagetest.Must[os.FileInfo](t)(os.Stat(h.Mounts[0].Source))); is.UID != 100012 || is.GID != 200034 || is.Mode != 0o4711 {
		t.Errorf("got %+v", is)
	}
	old := e.containers[stoppedID]
	stale := store.At(dir).Path(strings.Repeat("f", 64))
	old["Mounts"] = append(old["Mounts"].([]any), map[string]any{"Type": "bind", "Source": stale, "Destination": "/bin/su"})
	hc := old["HostConfig"].(map[string]any)
	hc["Mounts"] = append(hc["Mounts"].([]any), map[string]any{"Type": "bind", "Source": stale, "Target": "/bin/su"})
	h = imagetest.Must[*hotfix.Hotfixed](t)(hotfixOf(t, "db", hotfix.Options{Dir: dir, Apply: true}))
	if h.Recreated == nil || strings.Contains(string(e.created), stale) || strings.Count(string(e.created), `"/bin/su"`) != 1 {
		t.Errorf("a hotfix that is out of date: got %s", e.created)
	}
}

func TestNamespacedCapability(t *testing.T) {
	v2 := "\x01\x00\x00\x02" + strings.Repeat("\x20", 16)
	if got, want := hotfix.NamespacedCapability(v2, 0x186a0), "\x01\x00\x00\x03"+v2[4:]+"\xa0\x86\x01\x00"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := hotfix.NamespacedCapability("odd", 1); got != "odd" {
		t.Errorf("got %q", got)
	}
}

func TestServiceName(t *testing.T) {
	for image, want := range map[string]string{
		"redis:2.8.22": "redis", "registry:5000/a/My_App@sha256:00": "my-app", "": "app", "a/-.-": "app",
		strings.Repeat("x", 100): strings.Repeat("x", 63),
	} {
		if got := hotfix.ServiceName(image); got != want {
			t.Errorf("%s: got %s, want %s", image, got, want)
		}
	}
}
