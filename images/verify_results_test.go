package images_test

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/fixes"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/tests/imagetest"
)

// Verify lists the files of a good result, and reports each added file of which one byte is another.
func TestVerifyResults(t *testing.T) {
	imagetest.CleanTemp(t)
	jvm := imagetest.FileM("opt/libjvm.so", imagetest.JVMLibrary(t))
	sums := func(body []byte) []byte { return fmt.Appendf(nil, "%x  lib/a\n", md5.Sum(body)) }
	database := imagetest.FileM("var/lib/dpkg/info/a.md5sums", sums(imagetest.LegacyELF("1")))
	second := imagetest.FileM("var/lib/dpkg/info/b.md5sums", database.Body)
	lib := []imagetest.TestMember{imagetest.DirM("lib"), imagetest.LegacyM("lib/a", "1")}
	stays := []imagetest.TestMember{imagetest.LoaderM(), imagetest.FindingM("bin/static", false), imagetest.FindingM("lib/late.so", true)}
	const library, preload, trace = "vfix/x86_64/libvfix.so", "etc/ld.so.preload", "vfix/vfix-trace"
	for _, c := range []struct {
		name    string
		members []imagetest.TestMember
		o       images.RebuildOptions
		want    string // compared; added; corrected; fixed
	}{
		{"a file", lib, images.RebuildOptions{}, "1; ; ; "},
		{"fallback", append(stays, lib...), images.RebuildOptions{Fallback: fallback.FallbackAuto}, "1; etc/ld.so.preload vfix/vfix-trace vfix/x86_64/libvfix.so; ; "},
		{"fallback of a library", append([]imagetest.TestMember{imagetest.LoaderM(), imagetest.FindingM("lib/late.so", true)}, lib...), images.RebuildOptions{Fallback: fallback.FallbackAuto}, "1; etc/ld.so.preload vfix/x86_64/libvfix.so; ; "},
		{"no fallback", append(stays, lib...), images.RebuildOptions{Fallback: fallback.FallbackNever}, "1; ; ; "},
		{"fallback without need", append([]imagetest.TestMember{imagetest.LoaderM()}, lib...), images.RebuildOptions{Fallback: fallback.FallbackAlways}, "1; etc/ld.so.preload vfix/vfix-trace vfix/x86_64/libvfix.so; ; "},
		{"records of dpkg", append([]imagetest.TestMember{database}, lib...), images.RebuildOptions{UpdateDpkg: true}, "1; ; var/lib/dpkg/info/a.md5sums; "},
		{"records of dpkg in two databases", append([]imagetest.TestMember{second, database}, lib...), images.RebuildOptions{UpdateDpkg: true}, "1; ; var/lib/dpkg/info/a.md5sums var/lib/dpkg/info/b.md5sums; "},
		{"records of dpkg that stay", append([]imagetest.TestMember{database}, lib...), images.RebuildOptions{}, "1; ; ; "},
		{"a fix", append([]imagetest.TestMember{jvm}, lib...), images.RebuildOptions{}, "2; ; ; opt/libjvm.so java-cgroups"},
		{"a fix that nobody asked for", append([]imagetest.TestMember{jvm}, lib...), images.RebuildOptions{}, "1; ; ; "},
		{"no fix, and its file is there", append([]imagetest.TestMember{jvm, imagetest.DirM("vfix"), imagetest.FileM("vfix/cgroups", fixes.Of(find.JavaCgroups).File.Body)}, lib...), images.RebuildOptions{}, "1; ; ; "},
		{"a fix whose file is there", append([]imagetest.TestMember{jvm, imagetest.DirM("vfix"), imagetest.FileM("vfix/cgroups", fixes.Of(find.JavaCgroups).File.Body)}, lib...), images.RebuildOptions{}, "2; ; ; opt/libjvm.so java-cgroups"},
		{"a fix alone", []imagetest.TestMember{jvm}, images.RebuildOptions{}, "1; ; ; opt/libjvm.so java-cgroups"},
		{"fallback alone", stays, images.RebuildOptions{Fallback: fallback.FallbackAuto}, "0; etc/ld.so.preload vfix/vfix-trace vfix/x86_64/libvfix.so; ; "},
	} {
		t.Run(c.name, func(t *testing.T) {
			base := imagetest.Stack(t, c.members)
			source, dest := imagetest.StoreOCI(t, base), "oci:"+t.TempDir()+"/out:x"
			c.o.Dest, c.o.Version, c.o.Shim = dest, "1", imagetest.TestShim
			if strings.Contains(c.want, "java-cgroups") {
				c.o.Rewriter.Fixes = find.Fixes
			}
			r := imagetest.Must[*images.Rebuilt](t)(images.Rebuild(t.Context(), source, c.o))
			o := images.VerifyOptions{Against: source, Version: "1", ScanOptions: images.ScanOptions{Shim: imagetest.TestShim}}
			list := func(v *images.Verified) string {
				var fixed []string
				for _, f := range v.Fixed {
					fixed = append(fixed, f.Path+" "+string(f.Fix))
				}
				return fmt.Sprintf("%d; %s; %s; %s", v.Compared, strings.Join(v.Added, " "), strings.Join(v.Corrected, " "), strings.Join(fixed, " "))
			}
			v := imagetest.Must[*images.Verified](t)(images.Verify(t.Context(), dest, o))
			if got := list(v); got != c.want || len(v.Problems)+len(v.NotCompared) > 0 || len(v.Differences) > 0 {
				t.Errorf("got %s, want %s; problems %q, not compared %q", got, c.want, v.Problems, v.NotCompared)
			}
			if fmt.Sprint(r.Fixed) != fmt.Sprint(v.Fixed) {
				t.Errorf("rebuild says %+v, verify %+v", r.Fixed, v.Fixed)
			}
			var done []string // what the history says
			if c.name != "a fix alone" {
				done = append(done, "calls to the vsyscall page rewritten to reach the vDSO")
			}
			if len(v.Added) > 0 {
				done = append(done, "fallback added")
			}
			if len(v.Fixed) > 0 {
				done = append(done, fixes.Of(find.JavaCgroups).Done)
			}
			history := imagetest.Must[*v1.ConfigFile](t)(imagetest.Open(t, dest).Image.ConfigFile()).History
			if got := history[len(history)-1].Comment; got != strings.Join(done, "; ") {
				t.Errorf("history: got %q, want %q", got, done)
			}
			if (len(r.Packages) > 0) != strings.HasPrefix(c.name, "records of dpkg") || len(r.Packages) > 0 && r.Packages[0].Corrected != c.o.UpdateDpkg {
				t.Errorf("packages: got %+v", r.Packages)
			}
			o.Rewriter.Explain = true
			if v := imagetest.Must[*images.Verified](t)(images.Verify(t.Context(), dest, o)); len(v.Differences) != v.Compared || v.Compared > 0 && (len(v.Differences[0].Patches)+len(v.Differences[0].Edits) == 0 || v.Differences[len(v.Differences)-1].Redirect != nil != (len(v.Fixed) > 0)) {
				t.Errorf("explained: got %+v", v.Differences)
			}
			o.Rewriter.Explain = false

			// Each added file in turn with another last byte: it alone is a problem, and no longer among the good ones.
			added := imagetest.AddedMembers(t, dest)
			for i, m := range added {
				if len(m.Body) == 0 {
					continue
				}
				changed := bytes.Clone(m.Body)
				changed[len(changed)-1] ^= 1
				members := append([]imagetest.TestMember{}, added...)
				members[i].Body = changed
				img := withLastLayer(t, imagetest.Open(t, dest).Image, imagetest.BytesLayer(t, imagetest.TarMembers(t, members...)))
				v := imagetest.Must[*images.Verified](t)(images.Verify(t.Context(), imagetest.StoreOCI(t, img), o))
				if len(v.Problems) != 1 || !strings.HasPrefix(v.Problems[0], m.Name+": ") || strings.Contains(list(v), m.Name) {
					t.Errorf("%s changed: got %q and %s", m.Name, v.Problems, list(v))
				}
			}

			// The same of a directory, which has no entrypoint.
			if strings.Contains(c.want, trace) {
				return
			}
			root, fixed := t.TempDir(), t.TempDir()+"/out"
			if err := images.Unpack(t.Context(), source, root, media.Options{}); err != nil {
				t.Fatal(err)
			}
			c.o.Dest = "dir:" + fixed
			imagetest.Must[*images.Rebuilt](t)(images.Rebuild(t.Context(), "dir:"+root, c.o))
			od := o
			od.Against = "dir:" + root
			if v := imagetest.Must[*images.Verified](t)(images.Verify(t.Context(), c.o.Dest, od)); list(v) != c.want || len(v.Problems)+len(v.NotCompared) > 0 {
				t.Errorf("directory: got %s, want %s; problems %q, not compared %q", list(v), c.want, v.Problems, v.NotCompared)
			}
		})
	}

	// The same for each image of an index.
	dir := t.TempDir()
	of := func(variant string) mutate.IndexAddendum {
		return mutate.IndexAddendum{Add: imagetest.Stack(t, append([]imagetest.TestMember{jvm, database, imagetest.FileM("variant", []byte(variant))}, append(stays, lib...)...)),
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64", Variant: variant}}}
	}
	plain := of("")
	imagetest.Put(t, "oci:"+dir+"/base:x", media.Result{Image: plain.Add.(v1.Image), Index: mutate.AppendManifests(empty.Index, plain, of("v2"))})
	o := images.RebuildOptions{Dest: "oci:" + dir + "/out:x", Version: "1", Fallback: fallback.FallbackAuto, UpdateDpkg: true, ScanOptions: images.ScanOptions{Shim: imagetest.TestShim}}
	o.Rewriter.Fixes = find.Fixes
	imagetest.Must[*images.Rebuilt](t)(images.Rebuild(t.Context(), "oci:"+dir+"/base:x", o))
	vo := images.VerifyOptions{Against: "oci:" + dir + "/base:x", Version: "2", ScanOptions: images.ScanOptions{Shim: imagetest.TestShim}}
	vo.Rewriter.Explain = true
	v := imagetest.Must[*images.Verified](t)(images.Verify(t.Context(), o.Dest, vo))
	const v2 = "linux/amd64/v2: "
	for what, c := range map[string]struct{ got, want any }{
		"compared":     {v.Compared, 4},
		"added":        {v.Added, []string{preload, trace, library, v2 + preload, v2 + trace, v2 + library}},
		"corrected":    {v.Corrected, []string{database.Name, v2 + database.Name}},
		"fixed":        {v.Fixed, []images.Fixed{{Path: jvm.Name, Fix: find.JavaCgroups}, {Path: v2 + jvm.Name, Fix: find.JavaCgroups}}},
		"not compared": {len(v.NotCompared), 2},
		"differences":  {len(v.Differences), 4},
		"problems":     {len(v.Problems), 0},
		"platforms":    {v.Findings.Platform + " " + v.Findings.Levels[0].Platform, "linux/amd64 linux/amd64/v2"},
	} {
		if fmt.Sprint(c.got) != fmt.Sprint(c.want) {
			t.Errorf("levels, %s: got %v, want %v", what, c.got, c.want)
		}
	}
}

// Without a trace of a fix, the problems are those without one, if they are as many with it.
func TestVerifyWithoutFix(t *testing.T) {
	source := imagetest.StoreOCI(t, imagetest.Stack(t, []imagetest.TestMember{imagetest.FileM("opt/libjvm.so", imagetest.JVMLibrary(t)), imagetest.LegacyM("lib/a", "1")}))
	dest := "oci:" + t.TempDir() + "/out:x"
	imagetest.Must[*images.Rebuilt](t)(images.Rebuild(t.Context(), source, images.RebuildOptions{Dest: dest}))
	layers := imagetest.Must[[]v1.Layer](t)(imagetest.Open(t, dest).Image.Layers())
	v := imagetest.Must[*images.Verified](t)(images.Verify(t.Context(), source, images.VerifyOptions{Against: source}))
	if want := fmt.Sprint("added layer: missing, want ", imagetest.Must[v1.Hash](t)(layers[1].DiffID())); len(v.Problems) != 1 || v.Problems[0] != want {
		t.Errorf("got the problems %q, want %s", v.Problems, want)
	}
}

// A file of the base under the name of a fix's file, with other content, is somebody else's.
func TestFixFileOfOthers(t *testing.T) {
	jvm := imagetest.FileM("opt/libjvm.so", imagetest.JVMLibrary(t))
	file := fixes.Of(find.JavaCgroups).File
	other := bytes.Clone(file.Body)
	other[0] ^= 1
	for name, m := range map[string]imagetest.TestMember{
		"other content": imagetest.FileM(file.Name, other), "more content": imagetest.FileM(file.Name, append(other, 'x')), "a directory": imagetest.DirM(file.Name), "a link": imagetest.SymM(file.Name, "none"),
	} {
		o := images.RebuildOptions{Dest: "oci:" + t.TempDir() + "/x"}
		o.Rewriter.Fixes = find.Fixes
		_, err := images.Rebuild(t.Context(), imagetest.StoreOCI(t, imagetest.Stack(t, []imagetest.TestMember{jvm, m})), o)
		if err == nil || !strings.Contains(err.Error(), "it is not vfix's") || hinterr.HintOf(err) == "" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Images that cannot be read are an error, and not a problem of the result.
func TestVerifyErrors(t *testing.T) {
	imagetest.CleanTemp(t)
	lib := []imagetest.TestMember{imagetest.LegacyM("lib/a", "1")}
	base := imagetest.Stack(t, lib, []imagetest.TestMember{imagetest.FileM("x", []byte("x"))})
	dir := t.TempDir()
	source, dest, statement := imagetest.StoreOCI(t, base), "oci:"+dir+"/out:x", dir+"/statement"
	imagetest.Must[*images.Rebuilt](t)(images.Rebuild(t.Context(), source, images.RebuildOptions{Dest: dest, Version: "1", Provenance: statement}))
	of := func(img v1.Image, variant string) mutate.IndexAddendum {
		return mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64", Variant: variant}}}
	}
	damaged := imagetest.ImageOf(t, imagetest.BytesLayer(t, imagetest.Noise(5000)))
	levels := func(second v1.Image) string {
		name := "oci:" + t.TempDir() + "/x:x"
		imagetest.Put(t, name, media.Result{Image: base, Index: mutate.AppendManifests(empty.Index, of(base, ""), of(second, "v2"))})
		return name
	}
	bad, empty := imagetest.StoreOCI(t, damaged), imagetest.StoreOCI(t, imagetest.ImageOf(t))
	for _, c := range []struct {
		name, source, against, statement, want string
	}{
		{"source", bad, "", "", "not a tar archive"},
		{"source with a base", bad, source, "", "not a tar archive"},
		{"base", dest, bad, "", "not a tar archive"},
		{"source with a statement", bad, "", statement, "not a tar archive"},
		{"no layers", empty, "", statement, "no layers"},
		{"no statement", dest, "", dir + "/none", "no such file"},
		{"no base", dest, "oci:" + dir + "/none", "", "none"},
		{"another level", levels(damaged), levels(imagetest.Stack(t, lib)), "", "linux/amd64/v2: "},
		{"another level of the base", levels(imagetest.Stack(t, lib)), levels(damaged), "", "linux/amd64/v2: "},
		{"another level alone", levels(damaged), "", "", "linux/amd64/v2: "},
		{"a statement about a directory", "dir:" + imagetest.LegacyDir(t), "", statement, "no statement is made about directories and files"},
	} {
		v, err := images.Verify(t.Context(), c.source, images.VerifyOptions{Against: c.against, Provenance: c.statement != "", Statement: c.statement})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %+v, %v, want %q", c.name, v, err, c.want)
		}
	}
}

// withLastLayer is a derived image with another last layer.
func withLastLayer(t *testing.T, img v1.Image, layer v1.Layer) v1.Image {
	t.Helper()
	config := imagetest.Must[[]byte](t)(img.RawConfigFile())
	layers := imagetest.Must[[]v1.Layer](t)(img.Layers())
	was := imagetest.Must[v1.Hash](t)(layers[len(layers)-1].DiffID())
	layers = append(append([]v1.Layer{}, layers[:len(layers)-1]...), layer)
	config = bytes.ReplaceAll(config, []byte(was.String()), []byte(imagetest.Must[v1.Hash](t)(layer.DiffID()).String()))
	return editedImage(t, img, config, layers)
}
