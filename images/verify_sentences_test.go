package images_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/tests/imagetest"
)

// said matches a sentence with `…` for what changes from run to run.
func said(sentence string) *regexp.Regexp {
	return regexp.MustCompile("^(?s:" + strings.ReplaceAll(regexp.QuoteMeta(sentence), "…", ".*") + ")$")
}

// wantSaid fails unless the sentences are those that are wanted, in order.
func wantSaid(t *testing.T, what string, got, want []string) {
	t.Helper()
	ok := len(got) == len(want)
	for i := range want {
		ok = ok && said(want[i]).MatchString(got[i])
	}
	if !ok {
		t.Errorf("%s: got\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Each sentence of verify, with all others that it comes with.
func TestVerifySentences(t *testing.T) {
	dir := t.TempDir()
	n := 0
	file := func() string { n++; return filepath.Join(dir, fmt.Sprint(n)) }
	store := func(img v1.Image, index v1.ImageIndex) string {
		source := "oci:" + file() + ":x"
		imagetest.Put(t, source, media.Result{Image: img, Index: index})
		return source
	}
	load := func(source string) v1.Image { return imagetest.Open(t, source).Image }
	must := imagetest.Must[v1.Image](t)

	base := verifyBase(t)
	source := store(base, nil)
	result, statement := "oci:"+file()+":x", file()
	if _, err := images.Rebuild(t.Context(), source, images.RebuildOptions{Dest: result, Version: "1.2", Provenance: statement}); err != nil {
		t.Fatal(err)
	}
	raw := imagetest.Must[[]byte](t)(os.ReadFile(statement))
	derived := load(result)

	// changed is the result with one member, or the order of members, changed; the labels say version 1.2.
	changed := func(change func([]imagetest.TestMember) []imagetest.TestMember) string {
		members := change(imagetest.AddedMembers(t, result))
		added := imagetest.Must[*contents.AddedLayer](t)(contents.PackLayer(func(w io.Writer) error {
			_, err := w.Write(imagetest.TarMembers(t, members...))
			return err
		}))
		defer added.Close()
		img, err := images.Derive(base, true, added, images.Derivation{BaseName: "x", BaseDigest: imagetest.Must[v1.Hash](t)(base.Digest()).String(), Version: "1.2"})
		if err != nil {
			t.Fatal(err)
		}
		return store(img, nil)
	}
	more := func(m ...imagetest.TestMember) func([]imagetest.TestMember) []imagetest.TestMember {
		return func(all []imagetest.TestMember) []imagetest.TestMember { return append(all, m...) }
	}
	member := func(name string, change func(*imagetest.TestMember)) func([]imagetest.TestMember) []imagetest.TestMember {
		return func(all []imagetest.TestMember) []imagetest.TestMember {
			for i := range all {
				if all[i].Name == name {
					change(&all[i])
				}
			}
			return all
		}
	}
	// edited is the result with another config, or the statement with other members.
	edited := func(old, new string) string {
		all := imagetest.Must[[]byte](t)(derived.RawConfigFile())
		if !bytes.Contains(all, []byte(old)) {
			t.Fatalf("%s is not in %s", old, all)
		}
		return store(withConfig(t, derived, bytes.Replace(all, []byte(old), []byte(new), 1)), nil)
	}
	stated := func(change func(top, predicate map[string]any)) string {
		var top map[string]any
		if err := json.Unmarshal(raw, &top); err != nil {
			t.Fatal(err)
		}
		change(top, top["predicate"].(map[string]any))
		return imagetest.Write(t, file(), imagetest.Must[[]byte](t)(json.Marshal(top)))
	}
	index := func(adds ...mutate.IndexAddendum) v1.ImageIndex { return mutate.AppendManifests(empty.Index, adds...) }
	of := func(img v1.Image, variant string) mutate.IndexAddendum {
		return mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64", Variant: variant}}}
	}
	root := imagetest.LegacyDir(t)
	fromRoot := "oci:" + file() + ":x"
	rebuildTo(t, "dir:"+root, fromRoot)
	sparse := file()
	if err := errors.Join(os.WriteFile(dir+"/huge", nil, 0o644), os.Truncate(dir+"/huge", contents.MaxELF+1), exec.Command("tar", "--sparse", "-cf", sparse, "-C", dir, "huge").Run()); err != nil {
		t.Fatal(err)
	}
	small, fifo, device := file(), file(), file()
	imagetest.Write(t, small, imagetest.TarMembers(t, imagetest.FileM("huge", nil)))
	imagetest.Write(t, fifo, imagetest.TarMembers(t, imagetest.TestMember{Header: tar.Header{Typeflag: tar.TypeFifo, Name: "x"}}))
	imagetest.Write(t, device, imagetest.TarMembers(t, imagetest.TestMember{Header: tar.Header{Typeflag: tar.TypeChar, Name: "x"}}))
	sif := "sif:" + dir + "/result.sif"
	imagetest.Put(t, "sif:"+dir+"/base.sif", media.Result{Image: base})
	rebuildTo(t, "sif:"+dir+"/base.sif", sif)
	tarball, otherOrder := file(), file()
	a, b := imagetest.FileM("a", []byte("a")), imagetest.FileM("b", []byte("b"))
	imagetest.Write(t, tarball, imagetest.TarMembers(t, a, b))
	imagetest.Write(t, otherOrder, imagetest.TarMembers(t, b, a))
	withRoot := file()
	top := imagetest.DirM("./")
	top.Mode = 0o700
	imagetest.Write(t, withRoot, imagetest.TarMembers(t, top, a, b))
	saved, fixedSaved := "docker-archive:"+file()+":x:1", "docker-archive:"+file()+":x:1"
	imagetest.Put(t, saved, media.Result{Image: base})
	rebuildTo(t, saved, fixedSaved)
	fromSaved := "oci:" + file() + ":x"
	rebuildTo(t, saved, fromSaved)
	savedIndexed := store(load(fromSaved), index(of(load(fromSaved), "")))
	level := imagetest.Stack(t, []imagetest.TestMember{imagetest.LegacyM("v2", "v2")})
	levels, more3 := index(of(base, ""), of(level, "v2")), of(imagetest.TinyImage(t), "v3")
	twoLevels := mutate.AppendManifests(levels, more3)
	renamed := "oci:" + file() + ":y"
	imagetest.Put(t, renamed, media.Result{Image: mutate.Annotations(base, map[string]string{"x": "1"}).(v1.Image)})
	traced := must(mutate.AppendLayers(imagetest.Stack(t, []imagetest.TestMember{imagetest.LoaderM()}, []imagetest.TestMember{imagetest.FindingM("bin/static", false), imagetest.FileM(strings.TrimPrefix(fallback.TracePath, "/"), imagetest.TestShim.Trace)})))
	tracedResult, tracedStatement := "oci:"+file()+":x", file()
	if _, err := images.Rebuild(t.Context(), store(traced, nil), images.RebuildOptions{Dest: tracedResult, Version: "1.2", Provenance: tracedStatement, Fallback: fallback.FallbackAlways, ScanOptions: images.ScanOptions{Shim: imagetest.TestShim}}); err != nil {
		t.Fatal(err)
	}

	const anotherVersion = "made by vfix 1.2, and this is vfix 2, which may patch in another way: verify it with vfix 1.2"
	const labelVersion = "label dev.vfix.version: made by vfix 1.2, and this is vfix 2"
	const renames = "statement: subject[].name: a result can be renamed"
	var all []string
	for _, c := range []struct {
		name, source, against, statement, version string
		problems, skipped                         []string
		shim                                      bool
	}{
		{name: "control", source: result, against: source},
		{name: "control with a statement", source: result, against: source, statement: statement, version: "1.2", skipped: []string{renames}},
		{name: "control with a statement alone", source: result, statement: statement, skipped: []string{renames}},
		{name: "another version", source: result, against: source, version: "2", skipped: []string{labelVersion}},
		{name: "another version and a problem", source: changed(more(imagetest.FileM("zz", nil))), against: source, version: "2",
			problems: []string{"added layer: zz: a rebuild adds no such file", anotherVersion}, skipped: []string{labelVersion}},

		{name: "the base itself", source: source, against: source, problems: []string{"added layer: missing, want sha256:…"}},
		{name: "two layers more", source: store(must(mutate.AppendLayers(derived, imagetest.BytesLayer(t, imagetest.TarMembers(t)))), nil), against: source,
			problems: []string{"got 4 layers, want the 2 of the base and one more", "image config: config: Labels: …", "image config: history: 2: …", "image config: history: 3: …", "image config: rootfs: diff_ids: …"}},
		{name: "a layer less", source: store(imagetest.Stack(t, verifyLayers[0]), nil), against: source,
			problems: []string{"layer 1: missing, want sha256:…", "bin: missing", "bin/c: missing", "lib/a: offset 0xa4: got byte 0x48, want 0x51: not a planned change", "image config: history: 1: missing, want …", "image config: rootfs: diff_ids: …"}},
		{name: "another layer", source: store(imagetest.Stack(t, verifyLayers[0], []imagetest.TestMember{imagetest.LegacyM("bin/c", "3")}), nil), against: source,
			problems: []string{"layer 1: got sha256:…, want the base's sha256:…", "bin/c: offset 0xa4: got byte 0x48, want 0x51: not a planned change",
				"lib/a: offset 0xa4: got byte 0x48, want 0x51: not a planned change", "image config: rootfs: diff_ids: …"}},
		{name: "nothing to patch", source: store(must(mutate.AppendLayers(load(store(imagetest.TinyImage(t), nil)), imagetest.BytesLayer(t, imagetest.TarMembers(t, a)))), nil), against: store(imagetest.TinyImage(t), nil),
			problems: []string{"added layer: a: a rebuild adds no such file", "image config: history: 2: got …, want none", "image config: rootfs: diff_ids: …", "manifest: layers: 2: got …, want none"}},

		{name: "a whiteout", source: changed(more(imagetest.FileM("etc/.wh.x", nil))), against: source,
			problems: []string{"etc/x: missing: the added layer removes it, or what is in it"}},
		{name: "another order", source: changed(func(m []imagetest.TestMember) []imagetest.TestMember { return append(m[1:], m[0]) }), against: source,
			problems: []string{"added layer: got sha256:…, want sha256:…: another order of members, other fields in their headers, or bytes beside them"}},
		{name: "a file is missing", source: changed(func(m []imagetest.TestMember) []imagetest.TestMember { return m[:len(m)-1] }), against: source,
			problems: []string{"added layer: lib/b: missing"}},
		{name: "a patched file is missing", source: changed(func(m []imagetest.TestMember) []imagetest.TestMember {
			return slices.DeleteFunc(m, func(m imagetest.TestMember) bool { return m.Name == "bin/c" })
		}), against: source, problems: []string{"added layer: bin/c: missing"}},
		{name: "another kind", source: changed(member("lib/b", func(m *imagetest.TestMember) { *m = imagetest.SymM("lib/b", "a") })), against: source,
			problems: []string{"added layer: lib/b: another kind of file"}},
		{name: "another link", source: changed(member("lib/b", func(m *imagetest.TestMember) { m.Linkname = "bin/c" })), against: source,
			problems: []string{`added layer: lib/b: link: got "bin/c", want "lib/a"`}},
		{name: "all metadata", source: changed(member("bin/c", func(m *imagetest.TestMember) {
			m.Mode, m.Uid, m.Gid, m.ModTime = 0o4755, 3, 4, imagetest.TestTime.Add(1)
			m.PAXRecords = map[string]string{"SCHILY.xattr.user.a": "1"}
		})), against: source,
			problems: []string{"added layer: bin/c: mode: got 04755, want 0755, owner: got 3:4, want 0:0, mtime: got 2011-03-13 07:06:40.500000001 +0000 UTC, want 2011-03-13 07:06:40.5 +0000 UTC, xattrs: got [user.a], want []"}},
		{name: "another byte", source: changed(member("bin/c", func(m *imagetest.TestMember) { m.Body = imagetest.FixedELF("3") })), against: source,
			problems: []string{"bin/c: …"}},

		{name: "an image and a directory", source: fromRoot, against: "dir:" + root,
			skipped: []string{"image config and manifest: " + fromRoot + " and dir:" + root + " are not both images"}},
		{name: "a directory and an image", source: "dir:" + root, against: fromRoot, problems: []string{"…", "…", "…"},
			skipped: []string{"image config and manifest: dir:" + root + " and " + fromRoot + " are not both images"}},
		{name: "a directory that is not patched", source: "dir:" + root, against: "dir:" + root,
			problems: []string{"b: offset 0xa4: got byte 0x48, want 0x51: not a planned change", "bin/c: offset 0xa4: got byte 0x48, want 0x51: not a planned change"}},
		{name: "a file that is too large", source: sparse, against: sparse, problems: []string{"huge: not compared: larger than 4294967296 bytes"}},
		{name: "a file whose base is too large", source: small, against: sparse, problems: []string{"huge: mtime: …", "huge: not compared: larger than 4294967296 bytes"},
			skipped: []string{small + ": the order of members, other fields in their headers, bytes beside them: vfix patch writes another archive"}},
		{name: "a SIF file", source: sif, against: "sif:" + dir + "/base.sif"},
		{name: "a tarball", source: tarball, against: tarball},
		{name: "a tarball without its root", source: tarball, against: withRoot, problems: []string{"the root directory: mode: got 0755, want 0700, mtime: …"},
			skipped: []string{tarball + ": the order of members, other fields in their headers, bytes beside them: vfix patch writes another archive"}},
		{name: "a FIFO and a device", source: fifo, against: device, problems: []string{"x: another kind of file"},
			skipped: []string{fifo + ": the order of members, other fields in their headers, bytes beside them: vfix patch writes another archive"}},
		{name: "tarballs in another order", source: otherOrder, against: tarball,
			skipped: []string{otherOrder + ": the order of members, other fields in their headers, bytes beside them: vfix patch writes another archive"}},

		{name: "a key twice", source: edited(`"os":"linux"`, `"os":"linux","os":"linux"`), against: source,
			problems: []string{"image config: os: there twice"}},
		{name: "another value", source: edited(`"Entrypoint":["/bin/sh"]`, `"Entrypoint":["/bin/no"]`), against: source,
			problems: []string{`image config: config: Entrypoint: got ["/bin/no"], want ["/bin/sh"]`}},
		{name: "another member", source: edited(`"os":"linux"`, `"os":"linux","x":[1]`), against: source,
			problems: []string{`image config: x: got [1], want none`}},
		{name: "a member less", source: edited(`"Entrypoint":["/bin/sh"],`, ``), against: source,
			problems: []string{`image config: config: Entrypoint: missing, want ["/bin/sh"]`}},
		{name: "a large number", source: edited(`"os":"linux"`, `"os":"linux","x":9007199254740993`), against: source,
			problems: []string{`image config: x: got 9007199254740993, want none`}},

		{name: "another name of the base", source: result, against: renamed,
			problems: []string{`manifest: annotations: x: missing, want "1"`},
			skipped: []string{`label dev.vfix.base.name: "x" is not the name of ` + renamed + ` as it was given here`,
				`label dev.vfix.base.digest: "sha256:…" is not the digest of ` + renamed + ` as it is here`}},
		{name: "no manifest", source: fixedSaved, against: saved, skipped: []string{"manifest: " + fixedSaved + " has none"}},
		{name: "a base without a manifest", source: fromSaved, against: saved,
			skipped: []string{"manifest: " + saved + " has none: what it says of the base's layers"}},
		{name: "a base without a manifest, and an index", source: savedIndexed, against: saved,
			skipped: []string{"manifest: " + saved + " has none: what it says of the base's layers", "images of other platforms: " + saved + " has none"}},
		{name: "an index of a single image", source: store(derived, index(of(derived, ""))), against: source, problems: []string{"index: the base is a single image"}},
		{name: "a single image of an index", source: result, against: store(base, levels),
			skipped: []string{"images for other levels of x86-64: got 0, the base has 1", "images of other platforms: " + result + " has none"}},
		{name: "other levels", source: store(base, levels), against: store(base, twoLevels),
			problems: []string{"added layer: missing, want sha256:…", "linux/amd64/v2: added layer: missing, want sha256:…", "index: manifests: 2: missing, want …"},
			skipped:  []string{"images for other levels of x86-64: got 1, the base has 2"}},

		{name: "the statement of another image", source: result, against: source, statement: tracedStatement,
			problems: []string{"statement: it is about another image: none of its 1 subjects is " + result, "statement: its base is x with the digest map[sha256:…], and not " + source,
				"statement: added: etc/ld.so.preload: got …, want none", "statement: added: vfix/vfix-trace: got …, want none", "statement: added: vfix/x86_64/libvfix.so: got …, want none",
				"statement: base: digest: sha256: got …, want …", "statement: base: layers: got …, want …", "statement: derived: addedLayer: got …, want …",
				"statement: derived: config: sha256: got …, want …", "statement: derived: entrypointWrapped: got true, want false", "statement: files: bin/c: missing, want …", "statement: files: lib/a: missing, want …"},
			skipped: []string{renames, "statement: subject[].digest: …: another place or the index of the image"}},
		{name: "the statement of no result", source: source, against: source, statement: statement,
			problems: []string{"added layer: missing, want sha256:…", "statement: it is about another image: none of its 1 subjects is " + source, "statement: " + source + " has no layer that vfix made"},
			skipped:  []string{renames, "statement: subject[].digest: …: another place or the index of the image"}},
		{name: "the base of the statement", source: result, against: source, statement: stated(func(_, p map[string]any) {
			p["base"].(map[string]any)["digest"] = map[string]any{"sha256": strings.Repeat("ab", 32)}
		}),
			problems: []string{"statement: its base is x with the digest map[sha256:abab…], and not " + source, "statement: base: digest: sha256: got …, want …"}, skipped: []string{renames}},
		{name: "files of the statement in another order", source: result, statement: stated(func(_, p map[string]any) {
			files := p["files"].([]any)
			files[0], files[1] = files[1], files[0]
		}), problems: []string{"statement: files: another order"}, skipped: []string{renames}},
		{name: "an unknown member of the statement", source: result, statement: stated(func(top, _ map[string]any) { top["x"] = 1 }),
			skipped: []string{renames, "statement: some members: this version of vfix does not know them"}},
		{name: "a digest of the base that cannot be read", source: edited(`"dev.vfix.base.digest":"sha256:`, `"dev.vfix.base.digest":"none:`), statement: statement,
			problems: []string{"statement: it is about another image: …", `statement: base: unsupported hash: "none"`},
			skipped:  []string{renames, "statement: subject[].digest: …: another place or the index of the image"}},
		{name: "a base with vfix-trace", source: tracedResult, statement: tracedStatement, shim: true,
			skipped: []string{renames, "statement: derived.entrypointWrapped: the base also has vfix-trace"}},
	} {
		o := images.VerifyOptions{Against: c.against, Provenance: c.statement != "", Statement: c.statement, Version: c.version}
		if c.shim {
			o.Shim = imagetest.TestShim
		}
		v, err := images.Verify(context.Background(), c.source, o)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		wantSaid(t, c.name+": problems", v.Problems, c.problems)
		wantSaid(t, c.name+": not compared", v.NotCompared, c.skipped)
		all = append(append(all, v.Problems...), v.NotCompared...)
	}
	for _, s := range verifySentences(t) {
		found := false
		for _, line := range all {
			found = found || s.MatchString(line)
		}
		if !found {
			t.Errorf("no case has the sentence %s", s)
		}
	}
}

// verifySentences are those that verify can say, read from its source.
func verifySentences(t *testing.T) (all []*regexp.Regexp) {
	t.Helper()
	verb := regexp.MustCompile(`%[a-z]`)
	for _, name := range imagetest.Must[[]string](t)(filepath.Glob("verify*.go")) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		ast.Inspect(imagetest.Must[*ast.File](t)(parser.ParseFile(token.NewFileSet(), name, nil, 0)), func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			called := ""
			switch f := call.Fun.(type) {
			case *ast.Ident:
				called = f.Name
			case *ast.SelectorExpr:
				called = f.Sel.Name
			}
			if called != "problem" && called != "skip" && called != "differs" {
				return true
			}
			for _, arg := range call.Args {
				if text, ok := arg.(*ast.BasicLit); ok && text.Kind == token.STRING {
					format := imagetest.Must[string](t)(strconv.Unquote(text.Value))
					all = append(all, regexp.MustCompile("^(.*: )?"+verb.ReplaceAllString(regexp.QuoteMeta(format), ".*")+"$"))
				}
			}
			return true
		})
	}
	if len(all) < 30 {
		t.Errorf("got %d sentences: they are no longer said in this way", len(all))
	}
	return all
}

// withConfig is an image with another config.
func withConfig(t *testing.T, img v1.Image, config []byte) v1.Image {
	t.Helper()
	return editedImage(t, img, config, imagetest.Must[[]v1.Layer](t)(img.Layers()))
}

// editedImage is an image with another config and other layers; its manifest says so, and is otherwise the same.
func editedImage(t *testing.T, img v1.Image, config []byte, layers []v1.Layer) v1.Image {
	t.Helper()
	m := imagetest.Must[*v1.Manifest](t)(img.Manifest()).DeepCopy()
	m.Config.Size, m.Config.Digest = int64(len(config)), imagetest.Must[v1.Hash](t)(v1.NewHash(digestOf(config)))
	for i := range m.Layers {
		m.Layers[i].Digest, m.Layers[i].Size = imagetest.Must[v1.Hash](t)(layers[i].Digest()), imagetest.Must[int64](t)(layers[i].Size())
	}
	return blob.NewEditedImage(config, layers, func() ([]byte, error) { return json.Marshal(m) })
}
