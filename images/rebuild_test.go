package images_test

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/rewriter/patch"
	"vfix.dev/vfix/tests/imagetest"
)

// TestAddedLayer: owner, mode, time, xattrs, all hard links and the directories above.
func TestAddedLayer(t *testing.T) {
	su := imagetest.LegacyM("usr/bin/su", "1")
	su.Mode, su.Uid, su.Gid, su.Uname, su.Gname = 0o4755, 0, 1234, "root", "wheel"
	su.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": "\x01\x00\x00\x02\x00 \x00\x00", "SCHILY.xattr.user.x": "a=b\n"}
	like := func(name string) imagetest.TestMember { // as docker's and GNU tar's archives have a link
		m := imagetest.TestMember{Header: su.Header}
		m.Typeflag, m.Name, m.Linkname = tar.TypeLink, name, "usr/bin/su"
		return m
	}
	bin := imagetest.DirM("usr/bin")
	bin.Mode, bin.Uid = 0o2711, 77
	bin.PAXRecords = map[string]string{"SCHILY.xattr.user.dir": "1"}
	source := imagetest.StoreOCI(t, imagetest.Stack(t,
		[]imagetest.TestMember{imagetest.DirM("usr"), bin, su, like("usr/bin/sudo"), like("a/b/su"), imagetest.LegacyM("gone", "2"), imagetest.FileM("etc", nil)},
		[]imagetest.TestMember{imagetest.FileM(".wh.gone", nil)},
	))
	dest := "oci:" + t.TempDir() + "/out:fixed"
	r := rebuildTo(t, source, dest)
	if r.Unchanged || r.LayerSize <= 0 || r.LayerSize > 2000 || !strings.HasPrefix(r.Digest, "sha256:") {
		t.Errorf("got %+v", r)
	}
	var names []string
	byName := map[string]imagetest.TestMember{}
	for _, m := range imagetest.AddedMembers(t, dest) {
		names = append(names, m.Name)
		byName[m.Name] = m
	}
	if got, want := strings.Join(names, " "), "a/b/su usr/ usr/bin/ usr/bin/su usr/bin/sudo"; got != want {
		t.Fatalf("got members %s, want %s", got, want)
	}
	first := byName["a/b/su"]
	if string(first.Body) != string(imagetest.FixedELF("1")) {
		t.Errorf("got content %q", first.Body)
	}
	if first.Mode != su.Mode || first.Uid != su.Uid || first.Gid != su.Gid || first.Uname != su.Uname ||
		first.Gname != su.Gname || !first.ModTime.Equal(imagetest.TestTime) {
		t.Errorf("got %+v, want the metadata of %+v", first.Header, su.Header)
	}
	for k, v := range su.PAXRecords {
		if first.PAXRecords[k] != v {
			t.Errorf("%s: got %q, want %q", k, first.PAXRecords[k], v)
		}
	}
	for _, n := range []string{"usr/bin/su", "usr/bin/sudo"} {
		if m := byName[n]; m.Typeflag != tar.TypeLink || m.Linkname != "a/b/su" {
			t.Errorf("%s: got type %q to %q, want a hard link to a/b/su", n, m.Typeflag, m.Linkname)
		}
		if m := byName[n]; m.Mode != su.Mode || m.Gid != su.Gid || m.PAXRecords["SCHILY.xattr.security.capability"] == "" {
			t.Errorf("%s: got %+v: engines apply it to the file", n, m.Header)
		}
	}
	d := byName["usr/bin/"]
	if d.Typeflag != tar.TypeDir || d.Mode != bin.Mode || d.Uid != bin.Uid || !d.ModTime.Equal(imagetest.TestTime) || d.PAXRecords["SCHILY.xattr.user.dir"] != "1" {
		t.Errorf("usr/bin: got %+v, want the metadata of %+v", d.Header, bin.Header)
	}
}

func TestRebuild(t *testing.T) {
	imagetest.CleanTemp(t)
	base := imagetest.Stack(t, []imagetest.TestMember{imagetest.LegacyM("lib/a", "1")}, []imagetest.TestMember{imagetest.FileM("etc/x", []byte("x"))})
	source := imagetest.StoreOCI(t, base)
	out := t.TempDir()
	first := rebuildTo(t, source, "oci:"+out+"/1:fixed")
	second := rebuildTo(t, source, "oci:"+out+"/2:fixed")
	if first.Digest != second.Digest {
		t.Errorf("twice the same gives %s and %s", first.Digest, second.Digest)
	}
	src := imagetest.Open(t, "oci:"+out+"/1:fixed")
	if err := validate.Image(src.Image); err != nil {
		t.Error(err)
	}
	baseLayers, layers := imagetest.Must[[]v1.Layer](t)(base.Layers()), imagetest.Must[[]v1.Layer](t)(src.Image.Layers())
	if len(layers) != len(baseLayers)+1 {
		t.Fatalf("got %d layers, want %d", len(layers), len(baseLayers)+1)
	}
	for i, l := range baseLayers {
		if got, want := imagetest.Must[v1.Hash](t)(layers[i].Digest()), imagetest.Must[v1.Hash](t)(l.Digest()); got != want {
			t.Errorf("layer %d: got %v, want the base's %v", i, got, want)
		}
	}
	cf := imagetest.Must[*v1.ConfigFile](t)(src.Image.ConfigFile())
	if got := fmt.Sprint(cf.Config.Env, cf.Config.Entrypoint); got != "[A=<&>] [/bin/sh]" {
		t.Errorf("got environment and entrypoint %s", got)
	}
	baseDigest := imagetest.Must[v1.Hash](t)(base.Digest()).String()
	m := imagetest.Must[*v1.Manifest](t)(src.Image.Manifest())
	for where, l := range map[string]map[string]string{"labels": cf.Config.Labels, "annotations": m.Annotations} {
		if l[images.KeyBaseName] != "base" || l[images.KeyBaseDigest] != baseDigest || l[images.KeyVersion] != "1.2" {
			t.Errorf("%s: got %v", where, l)
		}
	}
	last := cf.History[len(cf.History)-1]
	if len(cf.History) != 3 || last.CreatedBy != "vfix 1.2 rebuild" || !last.Created.Equal(cf.Created.Time) {
		t.Errorf("got history %+v", cf.History)
	}

	again := rebuildTo(t, "oci:"+out+"/1:fixed", "oci:"+out+"/3:fixed")
	if !again.Unchanged || again.Digest != first.Digest {
		t.Errorf("rebuilding the result: got %+v, want it unchanged", again)
	}
	if got := imagetest.Must[v1.Hash](t)(imagetest.Open(t, "oci:"+out+"/3:fixed").Image.Digest()); got.String() != first.Digest {
		t.Errorf("the base that is copied: got %v, want %s", got, first.Digest)
	}
}

// TestRebuildFails: whatever goes wrong, nothing is under the final name and no temporary
// file stays.
func TestRebuildFails(t *testing.T) {
	good := []imagetest.TestMember{imagetest.LegacyM("lib/a", "1")}
	for _, tc := range []struct {
		name string
		img  v1.Image
		want string
	}{
		{"control", imagetest.Stack(t, good), ""},
		{"damaged layer", imagetest.ImageOf(t, imagetest.BytesLayer(t, imagetest.TarMembers(t, good...)), imagetest.BytesLayer(t, imagetest.Noise(5000))), "not a tar archive"},
		{"layer leaves the root", imagetest.Stack(t, good, []imagetest.TestMember{imagetest.LegacyM("../a", "1")}), "leaves the root"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			source := imagetest.StoreOCI(t, tc.img)
			imagetest.CleanTemp(t)
			out := t.TempDir()
			_, err := images.Rebuild(context.Background(), source, images.RebuildOptions{Dest: "oci:" + out + "/img:x"})
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), source+": ") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %s and %q", err, source, tc.want)
			}
			imagetest.WantEmpty(t, out)
		})
	}
}

// An archive is not written over itself, as it is replaced with all of its images; another one may be.
func TestArchiveOverItself(t *testing.T) {
	dir := t.TempDir()
	saved := imagetest.Write(t, dir+"/saved.tar", imagetest.DockerSave(t, imagetest.Stack(t, []imagetest.TestMember{imagetest.LegacyM("lib/a", "1")}), "app:1"))
	other := imagetest.Write(t, dir+"/other.tar", []byte("x"))
	if err := os.Symlink("saved.tar", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	before := imagetest.FileListing(t, dir)
	for _, dest := range []string{"docker-archive:" + saved + ":app:2", "oci-archive:" + dir + "/link"} {
		if _, err := images.Rebuild(t.Context(), saved, images.RebuildOptions{Dest: dest}); err == nil || !strings.Contains(err.Error(), "the same file") {
			t.Errorf("%s: got %v", dest, err)
		}
	}
	if imagetest.FileListing(t, dir) != before {
		t.Error("a file was changed")
	}
	rebuildTo(t, saved, "docker-archive:"+other+":app:2")
	t.Chdir(dir)
	if _, err := images.Rebuild(t.Context(), saved, images.RebuildOptions{Dest: "docker-daemon:saved.tar", DryRun: true}); err != nil {
		t.Errorf("an image with the name of a file: %v", err)
	}
}

// A layer that another image of the session has is first read when it is copied: the error names the source as well.
func TestSharedLayerDamaged(t *testing.T) {
	img := imagetest.Stack(t, []imagetest.TestMember{imagetest.LegacyM("lib/a", "1")})
	s := contents.NewSession(1, nil, patch.Options{})
	defer s.Close()
	for _, damaged := range []bool{false, true} {
		typed := imagetest.StoreOCI(t, img)
		src := imagetest.Open(t, typed)
		if damaged {
			layer := imagetest.Must[v1.Hash](t)(imagetest.Must[[]v1.Layer](t)(img.Layers())[0].Digest())
			dir, _, _ := strings.Cut(strings.TrimPrefix(typed, "oci:"), ":")
			if err := os.Truncate(dir+"/blobs/sha256/"+layer.Hex, 10); err != nil {
				t.Fatal(err)
			}
		}
		job, err := images.NewJob(t.Context(), src, images.RebuildOptions{Dest: "oci:" + t.TempDir() + "/out:x"})
		if err == nil {
			_, err = job.Run(t.Context(), s)
		}
		if !damaged && err != nil || damaged && (err == nil || !strings.HasPrefix(err.Error(), "copying "+typed+": ")) {
			t.Errorf("damaged %t: got error %v", damaged, err)
		}
	}
}

// TestRebuildCancelled cancels at every note and piece of progress in turn.
func TestRebuildCancelled(t *testing.T) {
	source := imagetest.StoreOCI(t, imagetest.Stack(t, []imagetest.TestMember{imagetest.LegacyM("lib/a", "1"), imagetest.FileM("x", imagetest.Noise(1<<20))}, []imagetest.TestMember{imagetest.LegacyM("lib/b", "2")}))
	for n := 0; ; n++ {
		out := t.TempDir()
		ctx, cancel := context.WithCancel(context.Background())
		p := &imagetest.Countdown{Cancel: cancel}
		p.Left.Store(int64(n))
		o := images.RebuildOptions{Dest: "oci:" + out + "/img:x"}
		o.Media.Progress, o.Jobs = p, 1
		_, err := images.Rebuild(ctx, source, o)
		cancel()
		if err == nil {
			if p.Left.Load() < 0 {
				continue // cancelled behind the last look at the context
			}
			if n < 5 {
				t.Errorf("got only %d places to cancel at", n)
			}
			return
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled at %d: got error %v", n, err)
		}
		imagetest.WantEmpty(t, out)
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
			got, err := images.EditConfig([]byte(full), 0, v1.Hash{Algorithm: "sha256", Hex: "bb"}, traced)
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
			if text := string(imagetest.Must[[]byte](t)(blob.EncodeJSON(c.Config))); traced != (text == want) {
				t.Errorf("%s, traced %v: got %s", raw, traced, text)
			}
		}
	}
	if _, err := images.EditConfig([]byte(`{"config":{"Entrypoint":"text"},"rootfs":{"diff_ids":[]}}`), 0, v1.Hash{}, true); err == nil {
		t.Error("an entrypoint that is not a list: no error")
	}
}

func rebuildTo(t testing.TB, source, dest string) *images.Rebuilt {
	t.Helper()
	r, err := images.Rebuild(context.Background(), source, images.RebuildOptions{Dest: dest, Version: "1.2"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestStatement: the statement says what the bytes say, and is not written if the rebuild fails.
func TestStatement(t *testing.T) {
	dir := t.TempDir()
	source := imagetest.StoreOCI(t, imagetest.Stack(t, []imagetest.TestMember{imagetest.LegacyM("lib/a", "1"), imagetest.LinkM("lib/b", "lib/a"), imagetest.FileM("var/lib/dpkg/status", []byte("x"))}))
	o := images.RebuildOptions{Dest: "oci:" + dir + "/out:x", Version: "1.2", Fallback: "never", Provenance: dir + "/p.json"}
	r := imagetest.Must[*images.Rebuilt](t)(images.Rebuild(t.Context(), source, o))
	if r.Provenance != o.Provenance || len(r.Notes) != 1 || !strings.HasPrefix(r.Notes[0], "dpkg --verify will report") {
		t.Errorf("got %q, notes %q", r.Provenance, r.Notes)
	}
	var s struct {
		Subject   []struct{ Digest struct{ SHA256 string } }
		Predicate struct {
			VfixVersion, Options string
			Files                []struct {
				Path          string
				Links         []string
				Before, After struct{ SHA256 string }
			}
		}
	}
	if err := json.Unmarshal(imagetest.Must[[]byte](t)(os.ReadFile(o.Provenance)), &s); err != nil {
		t.Fatal(err)
	}
	p := s.Predicate
	if len(s.Subject) != 1 || "sha256:"+s.Subject[0].Digest.SHA256 != r.Digest || p.VfixVersion != "1.2" || p.Options != "fallback=never" || len(p.Files) != 1 {
		t.Fatalf("got %+v", s)
	}
	hex := func(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }
	if f := p.Files[0]; f.Path != "lib/a" || len(f.Links) != 1 || f.Before.SHA256 != hex(imagetest.LegacyELF("1")) || f.After.SHA256 != hex(imagetest.FixedELF("1")) {
		t.Errorf("got %+v", f)
	}
	o.Dest, o.Provenance = "oci:"+dir+"/p.json/x:x", dir+"/none.json"
	if _, err := images.Rebuild(t.Context(), source, o); err == nil {
		t.Error("a DEST below a file: no error")
	}
	if _, err := os.Stat(o.Provenance); err == nil {
		t.Error("a statement of nothing")
	}
	imagetest.WantEmpty(t, dir, "out", "p.json")
}

// --push writes to the registry of the result's name and nowhere else.
func TestPush(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix://"+t.TempDir()+"/none.sock")
	source := imagetest.StoreOCI(t, imagetest.Stack(t, []imagetest.TestMember{imagetest.LegacyM("lib/a", "1")}))
	_, err := images.Rebuild(t.Context(), source, images.RebuildOptions{Push: true, Suffix: "-vfix"})
	if err == nil || !strings.Contains(err.Error(), "no name to push under") {
		t.Errorf("a layout without -t: got %v", err)
	}
	o := images.RebuildOptions{Push: true, Tag: "127.0.0.1:1/app:1", ScanOptions: images.ScanOptions{Media: imagetest.Fast}}
	if _, err = images.Rebuild(t.Context(), source, o); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("a registry that is not there: got %v", err)
	}
}
