package ociruntime

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/host/starts"
	"vfix.dev/vfix/host/store"
)

func put(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path, []byte(content), 0o600), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
}

// The list of vfix's mounts is believed only if nobody else can have written it, and for mounts that are there.
func TestReadOwn(t *testing.T) {
	const listed = `[{"destination":"/a","type":"bind","source":"/s","options":["ro"]},{"destination":"/gone"}]`
	for name, c := range map[string]struct {
		make func(path string)
		want int // mounts; -1 for an error
	}{
		"none":             {func(string) {}, 0},
		"a list":           {func(p string) { put(t, p, listed, 0o600) }, 1},
		"empty":            {func(p string) { put(t, p, "", 0o600) }, -1},
		"another":          {func(p string) { put(t, p, `[{"destination":"/a","type":"bind","source":"/s"}]`, 0o644) }, 0},
		"another type":     {func(p string) { put(t, p, strings.Replace(listed, "bind", "tmpfs", 1), 0o600) }, 0},
		"another source":   {func(p string) { put(t, p, strings.Replace(listed, "/s", "/t", 1), 0o600) }, 0},
		"another place":    {func(p string) { put(t, p, strings.Replace(listed, "/a", "/b", 1), 0o600) }, 0},
		"executable":       {func(p string) { put(t, p, listed, 0o711) }, 1},
		"group's":          {func(p string) { put(t, p, listed, 0o620) }, -1},
		"everybody's":      {func(p string) { put(t, p, listed, 0o602) }, -1},
		"no file":          {func(p string) { _ = os.Mkdir(p, 0o700) }, -1},
		"a symlink":        {func(p string) { put(t, p+"x", listed, 0o600); _ = os.Symlink(p+"x", p) }, -1},
		"another user's":   {func(p string) { put(t, p, listed, 0o600); _ = os.Chown(p, 7, -1) }, -1},
		"a broken symlink": {func(p string) { _ = os.Symlink(p+"x", p) }, -1},
	} {
		if name == "another user's" && os.Geteuid() != 0 {
			continue
		}
		k := &container{specPath: filepath.Join(t.TempDir(), "config.json"), spec: &spec{Mounts: []specMount{{Destination: "/b"}, {Destination: "/a", Type: "bind", Source: "/s", Options: []string{"ro"}}}}}
		c.make(ownPath(k.specPath))
		err := k.readOwn()
		if (err != nil) != (c.want < 0) || len(k.earlier) != max(c.want, 0) {
			t.Errorf("%s: got %+v, %v", name, k.earlier, err)
		}
		if c.want == 1 && (!k.isOwn(k.spec.Mounts[1]) || k.isOwn(k.spec.Mounts[0])) {
			t.Errorf("%s: own: %v", name, k.earlier)
		}
	}
}

// config.json is replaced as it was, with the same owner and mode, and is the same file if nothing changes.
func TestWriteSpec(t *testing.T) {
	const before = `{"root":{"path":"r"},"mounts":[{"destination":"/old","source":"/s"},{"destination":"/b"}]}`
	for name, c := range map[string]struct {
		earlier, add []specMount
		make         func(path string)
		pid          int
		want         string // "" for an error
	}{
		"nothing":       {want: before},
		"in the hook":   {pid: 1, earlier: []specMount{{Destination: "/old", Source: "/s"}}, want: before},
		"an earlier":    {earlier: []specMount{{Destination: "/old", Source: "/s"}}, want: `{"root":{"path":"r"},"mounts":[{"destination":"/b"}]}`},
		"another":       {add: []specMount{{Destination: "/n"}}, want: strings.Replace(before, "]", `,{"destination":"/n"}]`, 1)},
		"a left-over":   {add: []specMount{{Destination: "/n"}}, make: func(p string) { put(t, filepath.Dir(p)+"/.config.json.vfix", "x", 0o600) }, want: strings.Replace(before, "]", `,{"destination":"/n"}]`, 1)},
		"a symlink":     {add: []specMount{{Destination: "/n"}}, make: func(p string) { _ = os.Rename(p, p+"x"); _ = os.Symlink(p+"x", p) }},
		"no file":       {add: []specMount{{Destination: "/n"}}, make: func(p string) { _ = os.Remove(p) }},
		"no file, same": {make: func(p string) { _ = os.Remove(p) }, want: "-"},
		"a directory": {add: []specMount{{Destination: "/n"}}, make: func(p string) {
			_ = os.Mkdir(filepath.Dir(p)+"/.config.json.vfix", 0o700)
			put(t, filepath.Dir(p)+"/.config.json.vfix/x", "", 0o600)
		}},
	} {
		path := filepath.Join(t.TempDir(), "config.json")
		put(t, path, before, 0o640)
		if os.Geteuid() == 0 {
			if err := errors.Join(os.Chown(path, 7, 8), os.Chmod(path, 0o4640)); err != nil {
				t.Fatal(err)
			}
		}
		var was, is unix.Stat_t
		if err := unix.Stat(path, &was); err != nil {
			t.Fatal(err)
		}
		s, err := parseSpec([]byte(before))
		if err != nil {
			t.Fatal(err)
		}
		k := &container{specPath: path, spec: s, pid: c.pid, earlier: c.earlier}
		for _, m := range c.add {
			k.add = append(k.add, addition{specMount: m})
		}
		if c.make != nil {
			c.make(path)
		}
		err = k.writeSpec()
		if (err == nil) != (c.want != "") {
			t.Errorf("%s: got %v", name, err)
		}
		got, _ := os.ReadFile(path)
		if err != nil || c.want == "-" {
			continue
		}
		if err := unix.Stat(path, &is); err != nil || string(got) != c.want || is.Uid != was.Uid || is.Gid != was.Gid || is.Mode != was.Mode {
			t.Errorf("%s: got %s of %d:%d %o, %v\nwant %s", name, got, is.Uid, is.Gid, is.Mode, err, c.want)
		}
		if (is.Ino == was.Ino) != (c.want == before) {
			t.Errorf("%s: another file: %v", name, is.Ino != was.Ino)
		}
		if left, _ := filepath.Glob(filepath.Dir(path) + "/.config.json.vfix"); len(left) > 0 {
			t.Errorf("%s: left: %q", name, left)
		}
		var listed []specMount
		text, err := os.ReadFile(ownPath(path))
		if err == nil {
			err = json.Unmarshal(text, &listed)
		}
		if fi, err := os.Stat(ownPath(path)); err == nil && fi.Mode() != 0o600 {
			t.Errorf("%s: the list has mode %v", name, fi.Mode())
		}
		var want []specMount
		if c.pid == 0 {
			want = append(want, append(c.earlier, c.add...)...)
		}
		if !reflect.DeepEqual(listed, want) || (err == nil) != (len(want) > 0) {
			t.Errorf("%s: listed %+v, %v", name, listed, err)
		}
	}
}

// The real runtime is found in PATH or where runtimes usually are, and is never this program.
func TestFindRuntime(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"a/runc", "b", "c", "d"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, dir+"/b/runc", "", 0o644)
	put(t, dir+"/c/runc", "", 0o755)
	put(t, dir+"/c/special", "", 0o755)
	put(t, dir+"/b/own", "", 0o644)
	for _, name := range []string{"runc", "own"} {
		if err := os.Symlink(self, dir+"/d/"+name); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for _, c := range []struct{ named, path, guard, want string }{
		{"", "/c", "", dir + "/c/runc"},
		{"", "/none:/c/runc:/a:/b:/d:/c", "", dir + "/c/runc"},
		{"special", "/a:/c", "", dir + "/c/special"},
		{"missing", "/a:/c", "", "runtime missing: not in PATH"},
		{"special", "", "", "runtime special: not in PATH"},
		{dir + "/c/special", "", "", dir + "/c/special"},
		{"c/special", "", "", dir + "/c/special"},
		{dir + "/d/runc", "", "", "runtime " + dir + "/d/runc: is vfix-runtime itself"},
		{dir + "/a/runc", "", "", "runtime " + dir + "/a/runc: not a regular file"},
		{dir + "/b/runc", "", "", "runtime " + dir + "/b/runc: permission denied"},
		{dir + "/none", "", "", "runtime " + dir + "/none: no such file or directory"},
		{"special", "/c", strconv.Itoa(os.Getpid()), "runtime special: leads back to vfix-runtime"},
		{"special", "/c", strconv.Itoa(os.Getpid() + 1), dir + "/c/special"},
	} {
		path := "c" // which is relative
		for _, d := range strings.Split(c.path, ":") {
			path += ":" + strings.TrimSuffix(dir+d, dir)
		}
		t.Setenv("PATH", path)
		t.Setenv(guard, c.guard)
		got, err := findRuntime(c.named)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: got %s", c, got)
		}
	}
	t.Setenv("PATH", dir+"/b:"+dir+"/d")
	want := "runtime own: " + dir + "/d/own: is vfix-runtime itself"
	if _, err := findRuntime("own"); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A start that waits is recorded once. If its hook was not executed, it counts as not examined, and with fail_closed the
// container is refused, also at the next attempt.
func TestRecordStart(t *testing.T) {
	for _, c := range []struct {
		text          string
		want          starts.Outcome
		refused, fail bool
	}{
		{text: ""},
		{text: "{", fail: true},
		{text: `{"outcome":"patched","files":[{"path":"/a"}]}`, want: starts.Patched},
		{text: `{"outcome":"partial"}`, want: starts.Partial},
		{text: `{"outcome":"not started"}`, want: starts.Unpatched},
		{text: `{"outcome":"not started","policy":{"fail_closed":true}}`, want: starts.Refused, refused: true},
	} {
		dir := t.TempDir()
		p := &policy.InForce{}
		p.Record = dir + "/starts.jsonl"
		path := dir + "/waiting"
		if c.text != "" {
			put(t, path, c.text, 0o600)
		}
		err := recordStart(p, path)
		if (err != nil) != (c.refused || c.fail) || errors.Is(err, errRefused) != c.refused {
			t.Errorf("%s: got %v", c.text, err)
		}
		if _, serr := os.Stat(path); (serr == nil) != (c.refused || c.fail) {
			t.Errorf("%s: the file: %v", c.text, serr)
		}
		var outcome starts.Outcome
		if all, err := starts.Read(p.Record, 10); err == nil && len(all.Last) == 1 {
			outcome = all.Last[0].Outcome
		}
		if outcome != c.want {
			t.Errorf("%s: recorded as %q", c.text, outcome)
		}
		var log strings.Builder
		if got := onlyRefusal(err, newLogger(&command{}, &log)); (got != nil) != c.refused || strings.HasPrefix(log.String(), "vfix: record: ") != c.fail {
			t.Errorf("%s: for the engine: %v, %s", c.text, got, &log)
		}
	}
}

// Annotations with the image's name, and the file that waits for a container of a name in a directory of states.
func TestNamesOfContainers(t *testing.T) {
	for want, annotations := range map[string]map[string]string{
		"": {"other": "x"}, "a": {imageNames[0]: "a", imageNames[1]: "b"}, "b": {imageNames[0]: "", imageNames[1]: "b"}, "c": {imageNames[2]: "c"},
	} {
		if got := imageOf(annotations); got != want {
			t.Errorf("%v: got %q", annotations, got)
		}
	}
	t.Chdir("/run")
	names := map[string]string{}
	for _, c := range []command{{container: "a"}, {container: "b"}, {container: "a", root: "/run"}, {container: "a", root: "/run/x"}} {
		names[waitingFile(&c)] = c.root + " " + c.container
	}
	if len(names) != 4 || waitingFile(&command{container: "a", root: "x"}) != waitingFile(&command{container: "a", root: "/run/x"}) {
		t.Errorf("got %v", names)
	}
}

// Each start mounts copies of its own: one of each file, and nothing in place of a file system in memory.
func TestSources(t *testing.T) {
	s, err := store.Open(t.TempDir(), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b"} {
		if _, err := s.Put(key, 1, func(f *os.File) error {
			_, err := f.WriteString(key)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Lease(); err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	k := &container{store: s, add: []addition{
		{specMount: specMount{Destination: "/vfix", Type: "tmpfs", Source: "memory"}}, bound("/1", "a"), bound("/2", "b"), bound("/3", "a"),
	}}
	all, err := k.sources()
	if err != nil || len(all) != 4 || all[0].Source != "memory" || all[1].Source != all[3].Source || all[1].Source == all[2].Source {
		t.Fatalf("got %+v, %v", all, err)
	}
	for i, want := range []string{1: "a", 2: "b"} {
		if got, err := os.ReadFile(all[i].Source); i > 0 && (err != nil || string(got) != want || all[i].Source == s.Path(want)) {
			t.Errorf("%+v: got %q, %v", all[i], got, err)
		}
	}
	k.add = append(k.add, bound("/4", "none"))
	if all, err := k.sources(); err == nil {
		t.Errorf("without a copy in the store: got %+v", all)
	}
}
