package fallback_test

import (
	"archive/tar"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

func TestFallback(t *testing.T) {
	library := imagetest.LeftM("lib/odd.so", true)
	program := imagetest.LeftM("bin/odd", false)
	preloaded := imagetest.FileM("vfix/x86_64/libvfix.so", imagetest.TestShim.Library)
	preloaded.Mode = 0o755
	loader32 := imagetest.SymM("lib/ld-linux.so.2", "ld-2.13.so")
	for name, c := range map[string]struct {
		base       []imagetest.TestMember
		mode       fallback.Mode
		added      string // of the fallback
		entrypoint string
		uncovered  int
	}{
		"never":            {[]imagetest.TestMember{imagetest.LoaderM(), library}, fallback.FallbackNever, "", "/bin/sh", 1},
		"nothing left":     {[]imagetest.TestMember{imagetest.LoaderM(), imagetest.LegacyM("lib/a", "1")}, fallback.FallbackAuto, "", "/bin/sh", 0},
		"a library":        {[]imagetest.TestMember{imagetest.LoaderM(), library}, fallback.FallbackAuto, "etc/ld.so.preload vfix/x86_64/libvfix.so", "/bin/sh", 0},
		"a static program": {[]imagetest.TestMember{imagetest.LoaderM(), program}, fallback.FallbackAuto, "etc/ld.so.preload vfix/vfix-trace vfix/x86_64/libvfix.so", "/vfix/vfix-trace /bin/sh", 0},
		"no loader":        {[]imagetest.TestMember{library}, fallback.FallbackAuto, "vfix/vfix-trace", "/vfix/vfix-trace /bin/sh", 0},
		"32-bit programs": {[]imagetest.TestMember{imagetest.LoaderM(), loader32, library}, fallback.FallbackAuto,
			"etc/ld.so.preload vfix/haswell vfix/i386 vfix/i486 vfix/i586 vfix/i686/libvfix.so vfix/x86_64/libvfix.so vfix/xeon_phi", "/bin/sh", 0},
		"a program of glibc": {[]imagetest.TestMember{imagetest.LoaderM(), loadedM("bin/odd", "/lib64/ld-linux-x86-64.so.2")}, fallback.FallbackAuto,
			"etc/ld.so.preload vfix/x86_64/libvfix.so", "/bin/sh", 0},
		"a loader by another name": {[]imagetest.TestMember{imagetest.LoaderM(), imagetest.SymM("opt/ld.so", "../lib64/ld-linux-x86-64.so.2"), loadedM("bin/odd", "/opt/ld.so")},
			fallback.FallbackAuto, "etc/ld.so.preload vfix/x86_64/libvfix.so", "/bin/sh", 0},
		"a program of musl": {[]imagetest.TestMember{imagetest.LoaderM(), imagetest.FileM("lib/ld-musl-x86_64.so.1", []byte("musl")), loadedM("bin/odd", "/lib/ld-musl-x86_64.so.1")},
			fallback.FallbackAuto, "etc/ld.so.preload vfix/vfix-trace vfix/x86_64/libvfix.so", "/vfix/vfix-trace /bin/sh", 0},
		"a loader that is not there": {[]imagetest.TestMember{imagetest.LoaderM(), loadedM("bin/odd", "/opt/ld.so")},
			fallback.FallbackAuto, "etc/ld.so.preload vfix/vfix-trace vfix/x86_64/libvfix.so", "/vfix/vfix-trace /bin/sh", 0},
		"a loader of another prefix": {[]imagetest.TestMember{imagetest.FileM("lib64/ld-linux-x86-64.so.2", []byte("\x00/opt/etc/ld.so.preload\x00")), library},
			fallback.FallbackAuto, "vfix/vfix-trace", "/vfix/vfix-trace /bin/sh", 0},
		"musl under the name of glibc": {[]imagetest.TestMember{imagetest.FileM("lib/ld-musl-x86_64.so.1", []byte("musl")), imagetest.SymM("lib64/ld-linux-x86-64.so.2", "../lib/ld-musl-x86_64.so.1"), library},
			fallback.FallbackAuto, "vfix/vfix-trace", "/vfix/vfix-trace /bin/sh", 0},
		"a library beside musl": {[]imagetest.TestMember{imagetest.LoaderM(), imagetest.FileM("lib/ld-musl-x86_64.so.1", []byte("musl")), library},
			fallback.FallbackAuto, "etc/ld.so.preload vfix/x86_64/libvfix.so", "/bin/sh", 0},
		"never, with the library there": {[]imagetest.TestMember{imagetest.LoaderM(), loadedM("bin/odd", "/opt/ld.so"), imagetest.FileM("etc/ld.so.preload", []byte("/vfix/x86_64/libvfix.so\n")), preloaded},
			fallback.FallbackNever, "", "/bin/sh", 1},
		"always": {[]imagetest.TestMember{imagetest.LoaderM(), imagetest.ModernM("bin/new")}, fallback.FallbackAlways,
			"etc/ld.so.preload vfix/vfix-trace vfix/x86_64/libvfix.so", "/vfix/vfix-trace /bin/sh", 0},
		"always, beside patched files": {[]imagetest.TestMember{imagetest.LoaderM(), imagetest.LegacyM("lib/a", "1"), library}, fallback.FallbackAlways,
			"etc/ld.so.preload vfix/vfix-trace vfix/x86_64/libvfix.so", "/vfix/vfix-trace /bin/sh", 0},
		"always, without a loader": {[]imagetest.TestMember{imagetest.ModernM("bin/new")}, fallback.FallbackAlways,
			"etc/ld.so.preload vfix/vfix-trace vfix/x86_64/libvfix.so", "/vfix/vfix-trace /bin/sh", 0},
	} {
		t.Run(name, func(t *testing.T) {
			source := imagetest.StoreOCI(t, imagetest.Stack(t, c.base))
			out := "oci:" + t.TempDir()
			r := imagetest.RebuildWith(t, source, out+"/1:x", c.mode)
			if got := strings.Join(r.Findings.Fallback.Added, " "); got != c.added {
				t.Errorf("added: got %q, want %q", got, c.added)
			}
			if got := r.Findings.Uncovered().Left; got != c.uncovered {
				t.Errorf("uncovered sites: got %d, want %d", got, c.uncovered)
			}
			for _, file := range r.Findings.Files {
				if file.Sites().Left == 0 && file.Covered != "" {
					t.Errorf("%s: got covered by %s, and nothing is left in it", file.Path, file.Covered)
				}
			}
			if got, want := r.Findings.Fallback.Library, strings.Contains(c.added, "libvfix.so") && c.base[0].Name == imagetest.LoaderM().Name; got != want && c.mode != fallback.FallbackNever {
				t.Errorf("the library is loaded: got %v, want %v", got, want)
			}
			if got := imagetest.Entrypoint(t, out+"/1:x"); got != c.entrypoint {
				t.Errorf("entrypoint: got %q, want %q", got, c.entrypoint)
			}
			v := verifyWith(t, out+"/1:x", source, imagetest.TestShim)
			imagetest.WantProblems(t, v)
			if got := strings.Join(v.Added, " "); got != c.added {
				t.Errorf("verify: added: got %q, want %q", got, c.added)
			}
			if got := v.Findings.Uncovered().Left; got != c.uncovered {
				t.Errorf("verify: uncovered sites: got %d, want %d", got, c.uncovered)
			}
			if r.Unchanged {
				return
			}
			again := imagetest.RebuildWith(t, out+"/1:x", out+"/2:x", c.mode)
			if !again.Unchanged || again.Digest != r.Digest || again.Findings.Uncovered().Left != c.uncovered {
				t.Errorf("rebuilt again: got %+v, want it unchanged", again)
			}
			if same := imagetest.RebuildWith(t, source, out+"/3:x", c.mode); same.Digest != r.Digest {
				t.Errorf("twice the same gives %s and %s", r.Digest, same.Digest)
			}
		})
	}
}

// TestFallbackMembers: what the added layer holds, and what becomes of an ld.so.preload.
func TestFallbackMembers(t *testing.T) {
	preload := imagetest.FileM("etc/ld.so.preload", []byte("# ours\n/lib/other.so /lib/more.so"))
	preload.Mode, preload.Uid, preload.Gid = 0o640, 7, 8
	etc := imagetest.DirM("etc")
	etc.Mode = 0o711
	source := imagetest.StoreOCI(t, imagetest.Stack(t, []imagetest.TestMember{imagetest.LoaderM(), etc, preload, imagetest.LeftM("lib/odd.so", true)}))
	dest := "oci:" + t.TempDir() + "/out:x"
	imagetest.RebuildWith(t, source, dest, fallback.FallbackAlways)
	byName := map[string]imagetest.TestMember{}
	for _, m := range imagetest.AddedMembers(t, dest) {
		byName[m.Name] = m
	}
	p := byName["etc/ld.so.preload"]
	if got, want := string(p.Body), "# ours\n/lib/other.so /lib/more.so\n/vfix/x86_64/libvfix.so\n"; got != want {
		t.Errorf("ld.so.preload: got %q, want %q", got, want)
	}
	if p.Mode != 0o640 || p.Uid != 7 || p.Gid != 8 || !p.ModTime.Equal(imagetest.TestTime) {
		t.Errorf("ld.so.preload: got %+v, want the base's metadata", p.Header)
	}
	if d := byName["etc/"]; d.Mode != 0o711 || d.Typeflag != tar.TypeDir {
		t.Errorf("etc: got %+v, want the base's", d.Header)
	}
	for name, body := range map[string][]byte{"vfix/x86_64/libvfix.so": imagetest.TestShim.Library, "vfix/vfix-trace": imagetest.TestShim.Trace} {
		m := byName[name]
		if string(m.Body) != string(body) || m.Mode != 0o755 || m.Uid != 0 || m.Gid != 0 || m.ModTime.Unix() != 0 {
			t.Errorf("%s: got %+v, %q", name, m.Header, m.Body)
		}
	}
	imagetest.WantProblems(t, verifyWith(t, dest, source, imagetest.TestShim))
}

// TestFallbackWide: with 32-bit programs, the line is one for both kinds, and each has its library.
func TestFallbackWide(t *testing.T) {
	source := imagetest.StoreOCI(t, imagetest.Stack(t, []imagetest.TestMember{imagetest.LoaderM(), imagetest.SymM("lib/ld-linux.so.2", "ld-2.13.so")}))
	dest := "oci:" + t.TempDir() + "/out:x"
	imagetest.RebuildWith(t, source, dest, fallback.FallbackAlways)
	want := map[string]string{
		"etc/ld.so.preload": "/vfix/$PLATFORM/libvfix.so\n", "vfix/vfix-trace": string(imagetest.TestShim.Trace),
		"vfix/x86_64/libvfix.so": string(imagetest.TestShim.Library), "vfix/i686/libvfix.so": string(imagetest.TestShim.Library32),
	}
	for _, m := range imagetest.AddedMembers(t, dest) {
		body, ok := want[m.Name]
		delete(want, m.Name)
		mode := map[bool]int64{true: 0o644, false: 0o755}[m.Name == "etc/ld.so.preload"]
		if ok && (string(m.Body) != body || m.Mode != mode) {
			t.Errorf("%s: got %q, mode %o", m.Name, m.Body, m.Mode)
		}
	}
	if len(want) > 0 {
		t.Errorf("not added: %q", want)
	}
}

// TestFallbackAbsent: a vfix without the fallback has none to add, and says so if it must.
func TestFallbackAbsent(t *testing.T) {
	source := imagetest.StoreOCI(t, imagetest.Stack(t, []imagetest.TestMember{imagetest.LoaderM(), imagetest.LeftM("lib/odd.so", true)}))
	one := []byte{1}
	for mode, fails := range map[fallback.Mode]bool{fallback.FallbackAuto: true, fallback.FallbackAlways: true, fallback.FallbackNever: false} {
		for _, s := range []fallback.Shim{{}, {Library: one}, {Trace: one}} {
			dest := "oci:" + t.TempDir() + "/out:x"
			_, err := images.Rebuild(t.Context(), source, images.RebuildOptions{Dest: dest, Fallback: mode, ScanOptions: images.ScanOptions{Shim: s}})
			if errors.Is(err, hinterr.ErrUnsupported) != fails || (err != nil) != fails {
				t.Errorf("%s: got %v", mode, err)
			}
		}
	}
}

// TestFallbackForged: verify takes nothing but this version's own bytes.
func TestFallbackForged(t *testing.T) {
	base := []imagetest.TestMember{imagetest.LoaderM(), imagetest.LeftM("lib/odd.so", true)}
	typed := imagetest.StoreOCI(t, imagetest.Stack(t, base))
	good := []imagetest.TestMember{
		imagetest.FileM("etc/ld.so.preload", []byte("/vfix/x86_64/libvfix.so\n")),
		imagetest.FileM("vfix/x86_64/libvfix.so", imagetest.TestShim.Library), imagetest.FileM("vfix/vfix-trace", imagetest.TestShim.Trace),
		imagetest.DirM("etc"), imagetest.DirM("vfix"), imagetest.DirM("vfix/x86_64"),
	}
	for i := range good {
		good[i].ModTime = contents.ImplicitDir.ModTime
		if i == 1 || i == 2 {
			good[i].Mode = 0o755
		}
	}
	result := func(change func([]imagetest.TestMember)) *images.Verified {
		layer := slices.Clone(good)
		change(layer)
		dest := "oci:" + t.TempDir() + "/out:x"
		imagetest.Put(t, dest, source.Result{Image: imagetest.Derived(t, imagetest.Stack(t, base), true, true, layer...)})
		return verifyWith(t, dest, typed, imagetest.TestShim)
	}
	if v := result(func([]imagetest.TestMember) {}); len(v.Problems) != 0 || v.Findings.Uncovered().Left != 0 {
		t.Fatalf("the control: got problems %q, %d uncovered", v.Problems, v.Findings.Uncovered().Left)
	}
	for name, c := range map[string]struct {
		change    func([]imagetest.TestMember)
		uncovered int
	}{
		"another library": {func(l []imagetest.TestMember) { l[1].Body = []byte("the LIBRARY") }, 0}, // vfix-trace is there
		"setuid":          {func(l []imagetest.TestMember) { l[2].Mode = 0o4755 }, 0},
		"another owner":   {func(l []imagetest.TestMember) { l[1].Uid = 1 }, 0},
		"one more line":   {func(l []imagetest.TestMember) { l[0].Body = append(slices.Clone(l[0].Body), "/evil.so\n"...) }, 0},
		"another file":    {func(l []imagetest.TestMember) { l[2].Name = "vfix/vfix-trice" }, 0},
		"both":            {func(l []imagetest.TestMember) { l[1].Body, l[2].Body = []byte("x"), []byte("y") }, 1},
	} {
		v := result(c.change)
		if len(v.Problems) == 0 {
			t.Errorf("%s: no problem found", name)
		}
		if got := v.Findings.Uncovered().Left; got != c.uncovered {
			t.Errorf("%s: got %d uncovered, want %d", name, got, c.uncovered)
		}
	}
}

// TestFallbackNoPlace: a base that has no place for it is an error with a hint, and nothing
// is written.
func TestFallbackNoPlace(t *testing.T) {
	for name, m := range map[string]imagetest.TestMember{
		"vfix: the image has something": imagetest.FileM("vfix", nil), "ld.so.preload: the image has something": imagetest.SymM("etc/ld.so.preload", "elsewhere"),
		"libvfix.so: the image has something": imagetest.DirM("vfix/x86_64/libvfix.so"), "etc: the image has something": imagetest.SymM("etc", "config"),
	} {
		source := imagetest.StoreOCI(t, imagetest.Stack(t, []imagetest.TestMember{imagetest.LoaderM(), m, imagetest.LeftM("lib/odd.so", true)}))
		dest := "oci:" + t.TempDir() + "/out"
		_, err := images.Rebuild(context.Background(), source, images.RebuildOptions{Dest: dest + ":x", Fallback: fallback.FallbackAuto, ScanOptions: images.ScanOptions{Shim: imagetest.TestShim}})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want one with %q", err, name)
			continue
		}
		if h, ok := err.(hinterr.Hinted); !ok || !strings.Contains(h.Hint(), "--fallback never") {
			t.Errorf("%v: no hint", err)
		}
		if r := imagetest.RebuildWith(t, source, dest+":y", fallback.FallbackNever); r.Findings.Uncovered().Left != 1 {
			t.Errorf("without the fallback: got %+v", r)
		}
	}
}
