package images_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/tests/imagetest"
)

// platforms is a layout with an index of an image for amd64 and one for arm64.
func platforms(t *testing.T, amd64, arm64 v1.Image) string {
	t.Helper()
	var list v1.ImageIndex = empty.Index
	for arch, img := range map[string]v1.Image{"amd64": amd64, "arm64": arm64} {
		list = mutate.AppendManifests(list, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	dir := filepath.Join(t.TempDir(), "base")
	if err := imagetest.Must[layout.Path](t)(layout.Write(dir, empty.Index)).AppendIndex(list); err != nil {
		t.Fatal(err)
	}
	return "oci:" + dir
}

// What is compared with which base, and what is not.
func TestVerifyAgainst(t *testing.T) {
	imagetest.CleanTemp(t)
	legacy, modern := verifyBase(t), imagetest.Stack(t, []imagetest.TestMember{imagetest.ModernM("lib/b")})
	rebuilt := func(source string) string {
		dest := "oci:" + t.TempDir() + "/out:x"
		rebuildTo(t, source, dest)
		return dest
	}
	single, plain := imagetest.StoreOCI(t, legacy), imagetest.StoreOCI(t, modern)
	saved := "docker-archive:" + imagetest.Write(t, t.TempDir()+"/saved.tar", imagetest.DockerSave(t, legacy, "other:1"))
	arm := imagetest.PlatformImage(t, "arm64", "one")
	both := platforms(t, legacy, arm)
	patched, all := rebuilt(single), rebuilt(both)
	config := imagetest.Must[*v1.ConfigFile](t)(legacy.ConfigFile()).DeepCopy()
	config.Config.Labels = map[string]string{images.KeyVersion: "1.2", "dev.vfix.options": "fallback=never"}
	labelled := imagetest.StoreOCI(t, imagetest.Must[v1.Image](t)(mutate.ConfigFile(legacy, config)))
	dir := imagetest.LegacyDir(t)
	for n, c := range []struct {
		source, against string
		compared        int
		problems        string // of each, the beginning
		not             string // of each that is not compared, the beginning
	}{
		{patched, single, 2, "", ""},
		{plain, plain, 0, "", ""},
		{single, plain, 0, "image config: history: |image config: rootfs: diff_ids: |/bin: vfix writes none|/", ""},
		{single, single, 0, "", ""}, // the findings say that it is affected
		{labelled, labelled, 0, "image config: history|image config: rootfs|/bin/c|/lib/a", "label dev.vfix.base.digest: |label dev.vfix.base.name: "}, // says that it was rebuilt
		{rebuilt("dir:" + dir), "dir:" + dir, 2, "", ""},
		{dir + "/bin/modern", dir + "/bin/modern", 0, "", ""},
		{patched, saved, 2, "", "label dev.vfix.base.digest: |label dev.vfix.base.name: "},
		{all, both, 2, "", ""},
		{all, platforms(t, legacy, imagetest.PlatformImage(t, "arm64", "two")), 0, "index: manifests: ", ""},
		{all, single, 2, "", "images of other platforms"},
		{patched, both, 2, "", "images of other platforms"},
	} {
		v := imagetest.Must[*images.Verified](t)(images.Verify(t.Context(), c.source, images.VerifyOptions{Against: c.against, Version: "1.2"}))
		begin := func(all []string, want string) bool {
			words := strings.Split(want, "|")
			for i, line := range all {
				if want == "" || !strings.HasPrefix(line, words[min(i, len(words)-1)]) {
					return false
				}
			}
			return want == "" || len(all) >= len(words)
		}
		if v.Compared != c.compared || !begin(v.Problems, c.problems) || !begin(v.NotCompared, c.not) {
			t.Errorf("%d: %d compared, problems %q, not compared %q", n, v.Compared, v.Problems, v.NotCompared)
		}
	}
}

// Whatever cannot be read is an error, and not a source without problems.
func TestVerifyErrors(t *testing.T) {
	imagetest.CleanTemp(t)
	good := verifyBase(t)
	single := imagetest.StoreOCI(t, good)
	patched := "oci:" + t.TempDir() + "/out:x"
	rebuildTo(t, single, patched)
	damaged := imagetest.StoreOCI(t, imagetest.ImageOf(t, imagetest.BytesLayer(t, imagetest.Noise(5000))))
	config := imagetest.Must[*v1.ConfigFile](t)(good.ConfigFile()).DeepCopy()
	config.Config.Labels = map[string]string{images.KeyVersion: "9", "dev.vfix.options": "magic=1"}
	newer := imagetest.StoreOCI(t, imagetest.Must[v1.Image](t)(mutate.ConfigFile(good, config)))
	dir, odd := imagetest.LegacyDir(t), imagetest.LegacyDir(t)
	imagetest.Write(t, odd+"/.wh.x", nil)
	tarball := imagetest.TarMembers(t, imagetest.LegacyM("a", "1"))
	whole, cut := imagetest.Write(t, t.TempDir()+"/whole.tar", tarball), imagetest.Write(t, t.TempDir()+"/cut.tar", tarball[:700])
	for _, pair := range [][2]string{
		{damaged, single}, {patched, damaged}, {newer, single}, {single, "oci:" + dir}, {"oci:" + dir, single},
		{"dir:" + odd, "dir:" + dir}, {"dir:" + dir, "dir:" + odd}, {"dir:" + dir, damaged}, {"dir:" + dir + "/none", "dir:" + dir},
		{whole, cut}, {cut, whole}, {dir + "/bin/c", dir + "/none"}, {dir + "/bin/c", dir}, {dir + "/bin/c", single},
	} {
		v, err := images.Verify(t.Context(), pair[0], images.VerifyOptions{Against: pair[1]})
		if err == nil {
			t.Error(fmt.Sprint(pair), ": no error: ", v.Compared, v.Problems)
		}
	}
	if _, err := images.Verify(t.Context(), damaged, images.VerifyOptions{}); err == nil {
		t.Error("without a base: no error")
	}
}

// Each member of a JSON text that differs is a problem.
func TestSame(t *testing.T) {
	long := strings.Repeat("a", 198) // with its quotes as long as a value may be
	for _, c := range []struct{ want, got, problems string }{
		{`{"a":{"b":1},"c":[1]}`, `{"c":[1],"a":{"b":1}}`, ""},
		{`{"a":{"b":1}}`, `{"a":1}`, `x: a: got 1, want {"b":1}`},
		{`{"a":1}`, `{"a":{"b":1}}`, `x: a: got {"b":1}, want 1`},
		{`{"a":{"b":1}}`, `{"a":{"b":2,"c":3}}`, "x: a: b: got 2, want 1|x: a: c: vfix writes none"},
		{`{"a":1}`, `{}`, "x: a: missing"},
		{`{}`, "7", "x: got 7, want {}"},
		{`{}`, "{", `x: got "{", want {}`},
		{"", `{}`, `x: got {}, want ""`},
		{"{", "[", `x: got "[", want "{"`},
		{`{"a":"` + long + `"}`, `{"a":"a` + long + `"}`, `x: a: got "a` + long + `…, want "` + long + `"`},
	} {
		if got := images.Same(c.want, c.got); strings.Join(got, "|") != c.problems {
			t.Errorf("%s of %s: got %q", c.got, c.want, got)
		}
	}
}
