package images

import (
	"archive/tar"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// testShim stands for the fallback's programs: this package does not know what they are.
var testShim = Shim{Library: []byte("the library"), Library32: []byte("its twin"), Trace: []byte("the supervisor")}

// storeTime is mov $0xffffffffff600400,%rax; mov %rax,(%rdi); ret: unknown, it stays.
var storeTime = []byte{0x48, 0xc7, 0xc0, 0x00, 0x04, 0x60, 0xff, 0x48, 0x89, 0x07, 0xc3}

// findingM is a file with a call site that stays: a static program, or a library.
func findingM(name string, library bool) testMember {
	m := fileM(name, testELF(storeTime, name))
	m.Mode = 0o755
	if library {
		m.body[16] = 3 // e_type ET_DYN
	}
	return m
}

// loaderM is where a 64-bit glibc has its loader.
func loaderM() testMember { return symM("lib64/ld-linux-x86-64.so.2", "/lib/ld-2.13.so") }

func rebuildWith(t testing.TB, source, dest string, mode FallbackMode) *Rebuilt {
	t.Helper()
	r, err := Rebuild(context.Background(), source, RebuildOptions{Dest: dest, Version: "1.2", Fallback: mode, ScanOptions: ScanOptions{Shim: testShim}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func verifyWith(t testing.TB, source, against string, s Shim) *Verified {
	t.Helper()
	v, err := Verify(context.Background(), source, VerifyOptions{Against: against, ScanOptions: ScanOptions{Shim: s}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// entrypoint is that of a stored image, in one line.
func entrypoint(t testing.TB, source string) string {
	return strings.Join(must[*v1.ConfigFile](t)(open(t, source).Image.ConfigFile()).Config.Entrypoint, " ")
}

func TestFallback(t *testing.T) {
	library := findingM("lib/odd.so", true)
	program := findingM("bin/odd", false)
	loader32 := symM("lib/ld-linux.so.2", "ld-2.13.so")
	for name, c := range map[string]struct {
		base       []testMember
		mode       FallbackMode
		added      string // of the fallback
		entrypoint string
		uncovered  int
	}{
		"never":            {[]testMember{loaderM(), library}, FallbackNever, "", "/bin/sh", 1},
		"nothing left":     {[]testMember{loaderM(), legacyM("lib/a", "1")}, FallbackAuto, "", "/bin/sh", 0},
		"a library":        {[]testMember{loaderM(), library}, FallbackAuto, "etc/ld.so.preload vfix/x86_64/libvfix.so", "/bin/sh", 0},
		"a static program": {[]testMember{loaderM(), program}, FallbackAuto, "etc/ld.so.preload vfix/vfix-trace vfix/x86_64/libvfix.so", "/vfix/vfix-trace /bin/sh", 0},
		"no loader":        {[]testMember{library}, FallbackAuto, "vfix/vfix-trace", "/vfix/vfix-trace /bin/sh", 0},
		"32-bit programs": {[]testMember{loaderM(), loader32, library}, FallbackAuto,
			"etc/ld.so.preload vfix/haswell vfix/i386 vfix/i486 vfix/i586 vfix/i686/libvfix.so vfix/x86_64/libvfix.so vfix/xeon_phi", "/bin/sh", 0},
		"always": {[]testMember{loaderM(), modernM("bin/new")}, FallbackAlways,
			"etc/ld.so.preload vfix/vfix-trace vfix/x86_64/libvfix.so", "/vfix/vfix-trace /bin/sh", 0},
	} {
		t.Run(name, func(t *testing.T) {
			source := storeOCI(t, stack(t, c.base))
			out := "oci:" + t.TempDir()
			r := rebuildWith(t, source, out+"/1:x", c.mode)
			if got := strings.Join(r.Findings.Fallback.Added, " "); got != c.added {
				t.Errorf("added: got %q, want %q", got, c.added)
			}
			if got := r.Findings.Uncovered(); got != c.uncovered {
				t.Errorf("uncovered sites: got %d, want %d", got, c.uncovered)
			}
			if got := entrypoint(t, out+"/1:x"); got != c.entrypoint {
				t.Errorf("entrypoint: got %q, want %q", got, c.entrypoint)
			}
			v := verifyWith(t, out+"/1:x", source, testShim)
			wantProblems(t, v)
			if got := strings.Join(v.Added, " "); got != c.added {
				t.Errorf("verify: added: got %q, want %q", got, c.added)
			}
			if got := v.Findings.Uncovered(); got != c.uncovered {
				t.Errorf("verify: uncovered sites: got %d, want %d", got, c.uncovered)
			}
			if r.Unchanged {
				return
			}
			again := rebuildWith(t, out+"/1:x", out+"/2:x", c.mode)
			if !again.Unchanged || again.Digest != r.Digest || again.Findings.Uncovered() != c.uncovered {
				t.Errorf("rebuilt again: got %+v, want it unchanged", again)
			}
			if same := rebuildWith(t, source, out+"/3:x", c.mode); same.Digest != r.Digest {
				t.Errorf("twice the same gives %s and %s", r.Digest, same.Digest)
			}
		})
	}
}

func modernM(name string) testMember { return fileM(name, modernELF(name)) }

// TestFallbackMembers: what the added layer holds, and what becomes of an ld.so.preload.
func TestFallbackMembers(t *testing.T) {
	preload := fileM("etc/ld.so.preload", []byte("# ours\n/lib/other.so /lib/more.so"))
	preload.Mode, preload.Uid, preload.Gid = 0o640, 7, 8
	etc := dirM("etc")
	etc.Mode = 0o711
	source := storeOCI(t, stack(t, []testMember{loaderM(), etc, preload, findingM("lib/odd.so", true)}))
	dest := "oci:" + t.TempDir() + "/out:x"
	rebuildWith(t, source, dest, FallbackAlways)
	byName := map[string]testMember{}
	for _, m := range addedMembers(t, dest) {
		byName[m.Name] = m
	}
	p := byName["etc/ld.so.preload"]
	if got, want := string(p.body), "# ours\n/lib/other.so /lib/more.so\n/vfix/x86_64/libvfix.so\n"; got != want {
		t.Errorf("ld.so.preload: got %q, want %q", got, want)
	}
	if p.Mode != 0o640 || p.Uid != 7 || p.Gid != 8 || !p.ModTime.Equal(testTime) {
		t.Errorf("ld.so.preload: got %+v, want the base's metadata", p.Header)
	}
	if d := byName["etc/"]; d.Mode != 0o711 || d.Typeflag != tar.TypeDir {
		t.Errorf("etc: got %+v, want the base's", d.Header)
	}
	for name, body := range map[string][]byte{"vfix/x86_64/libvfix.so": testShim.Library, "vfix/vfix-trace": testShim.Trace} {
		m := byName[name]
		if string(m.body) != string(body) || m.Mode != 0o755 || m.Uid != 0 || m.Gid != 0 || m.ModTime.Unix() != 0 {
			t.Errorf("%s: got %+v, %q", name, m.Header, m.body)
		}
	}
	wantProblems(t, verifyWith(t, dest, source, testShim))
	// The control: nobody who does not know the fallback takes it for one.
	if v := verifyWith(t, dest, source, Shim{}); len(v.Problems) < 3 {
		t.Errorf("without a fallback of its own: got problems %q, want one for each file", v.Problems)
	}
}

// TestFallbackForged: verify takes nothing but this version's own bytes.
func TestFallbackForged(t *testing.T) {
	base := []testMember{loaderM(), findingM("lib/odd.so", true)}
	source := storeOCI(t, stack(t, base))
	good := []testMember{
		fileM("etc/ld.so.preload", []byte("/vfix/x86_64/libvfix.so\n")),
		fileM("vfix/x86_64/libvfix.so", testShim.Library), fileM("vfix/vfix-trace", testShim.Trace),
		dirM("etc"), dirM("vfix"), dirM("vfix/x86_64"),
	}
	for i := range good {
		good[i].ModTime = implicitDir.meta.mtime
		if i == 1 || i == 2 {
			good[i].Mode = 0o755
		}
	}
	result := func(change func([]testMember)) *Verified {
		layer := slices.Clone(good)
		change(layer)
		img := stack(t, base, layer)
		cf := must[*v1.ConfigFile](t)(img.ConfigFile()).DeepCopy()
		cf.History = nil
		cf.Config.Entrypoint = []string{TracePath, "/bin/sh"}
		dest := "oci:" + t.TempDir() + "/out:x"
		put(t, dest, Result{Image: must[v1.Image](t)(mutate.ConfigFile(img, cf))})
		return verifyWith(t, dest, source, testShim)
	}
	onlyHistory := func(v *Verified) []string {
		return slices.DeleteFunc(v.Problems, func(p string) bool { return strings.Contains(p, "history") })
	}
	if v := result(func([]testMember) {}); len(onlyHistory(v)) != 0 || v.Findings.Uncovered() != 0 {
		t.Fatalf("the control: got problems %q, %d uncovered", v.Problems, v.Findings.Uncovered())
	}
	for name, c := range map[string]struct {
		change    func([]testMember)
		uncovered int
	}{
		"another library": {func(l []testMember) { l[1].body = []byte("the LIBRARY") }, 0}, // vfix-trace is there
		"setuid":          {func(l []testMember) { l[2].Mode = 0o4755 }, 0},
		"another owner":   {func(l []testMember) { l[1].Uid = 1 }, 0},
		"one more line":   {func(l []testMember) { l[0].body = append(slices.Clone(l[0].body), "/evil.so\n"...) }, 0},
		"another file":    {func(l []testMember) { l[2].Name = "vfix/vfix-trice" }, 0},
		"both":            {func(l []testMember) { l[1].body, l[2].body = []byte("x"), []byte("y") }, 1},
	} {
		v := result(c.change)
		if got := onlyHistory(v); len(got) == 0 {
			t.Errorf("%s: no problem found", name)
		}
		if got := v.Findings.Uncovered(); got != c.uncovered {
			t.Errorf("%s: got %d uncovered, want %d", name, got, c.uncovered)
		}
	}
}

// TestFallbackNoPlace: a base that has no place for it is an error with a hint, and nothing
// is written.
func TestFallbackNoPlace(t *testing.T) {
	for name, m := range map[string]testMember{
		"vfix: not a folder": fileM("vfix", nil), "not a regular file": symM("etc/ld.so.preload", "elsewhere"),
		"a folder": dirM("vfix/x86_64/libvfix.so"), "etc: not a folder": symM("etc", "config"),
	} {
		source := storeOCI(t, stack(t, []testMember{loaderM(), m, findingM("lib/odd.so", true)}))
		dest := "oci:" + t.TempDir() + "/out"
		_, err := Rebuild(context.Background(), source, RebuildOptions{Dest: dest + ":x", Fallback: FallbackAuto, ScanOptions: ScanOptions{Shim: testShim}})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want one with %q", err, name)
			continue
		}
		if h, ok := err.(Hinted); !ok || !strings.Contains(h.Hint(), "--fallback never") {
			t.Errorf("%v: no hint", err)
		}
		if r := rebuildWith(t, source, dest+":y", FallbackNever); r.Findings.Uncovered() != 1 {
			t.Errorf("without the fallback: got %+v", r)
		}
	}
}

func TestPreloadLines(t *testing.T) {
	for _, c := range []struct {
		content string
		has32   bool
		want    string
	}{
		{"", false, plainLine + "\n"},
		{"", true, platformLine + "\n"},
		{"/a.so", false, "/a.so\n" + plainLine + "\n"},
		{"/a.so:" + plainLine + " /b.so\n", false, "/a.so:" + plainLine + " /b.so\n"},
		{"# " + plainLine + "\n", false, "# " + plainLine + "\n" + plainLine + "\n"},
		{plainLine + ".old\n", false, plainLine + ".old\n" + plainLine + "\n"},
		{"/a.so\n" + plainLine + "\n", true, "/a.so\n" + platformLine + "\n"},
	} {
		got := string(withPreload([]byte(c.content), c.has32))
		if got != c.want {
			t.Errorf("%q: got %q, want %q", c.content, got, c.want)
		}
		if again := string(withPreload([]byte(got), c.has32)); again != got {
			t.Errorf("%q: twice gives %q", c.content, again)
		}
	}
}

// TestEntrypoint: vfix-trace goes before what there is; the command stays, and so does what
// vfix does not know.
func TestEntrypoint(t *testing.T) {
	for raw, want := range map[string]string{
		`{"Entrypoint":["/a","b"],"Cmd":["c"],"x":1}`: `{"Cmd":["c"],"Entrypoint":["/vfix/vfix-trace","/a","b"],"x":1}`,
		`{"Entrypoint":null,"Cmd":["c"]}`:             `{"Cmd":["c"],"Entrypoint":["/vfix/vfix-trace"]}`,
		`{"Cmd":["<c>"]}`:                             `{"Cmd":["<c>"],"Entrypoint":["/vfix/vfix-trace"]}`,
		`{}`:                                          `{"Entrypoint":["/vfix/vfix-trace"]}`,
		`null`:                                        `{"Entrypoint":["/vfix/vfix-trace"]}`,
	} {
		full := `{"config":` + raw + `,"rootfs":{"type":"layers","diff_ids":[]}}`
		for _, traced := range []bool{true, false} {
			got, err := editConfig([]byte(full), 0, v1.Hash{Algorithm: "sha256", Hex: "bb"}, derivation{traced: traced})
			if err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
			var c struct {
				Config map[string]json.RawMessage `json:"config"`
			}
			if err := json.Unmarshal(got, &c); err != nil {
				t.Fatal(err)
			}
			delete(c.Config, "Labels")
			if text := string(must[[]byte](t)(encode(c.Config))); traced != (text == want) {
				t.Errorf("%s, traced %v: got %s", raw, traced, text)
			}
			if traced != entrypointIsTraced(got) {
				t.Errorf("%s, traced %v: entrypointIsTraced says otherwise", raw, traced)
			}
		}
	}
	if _, err := editConfig([]byte(`{"config":{"Entrypoint":"text"},"rootfs":{"diff_ids":[]}}`), 0, v1.Hash{}, derivation{traced: true}); err == nil {
		t.Error("an entrypoint that is no list: no error")
	}
}
