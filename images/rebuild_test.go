package images_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/md5"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/jsonobject"
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

// A file whose further links have no capability in their headers has it in some engines (umoci, podman) and in others not: the
// added layer leaves that to each of them, and verify notices if it does not.
func TestCapabilityOfLinks(t *testing.T) {
	const key = "SCHILY.xattr.security.capability"
	ping := imagetest.LegacyM("bin/ping", "1")
	ping.PAXRecords = map[string]string{key: imagetest.CapNetRaw}
	source := imagetest.StoreOCI(t, imagetest.Stack(t, []imagetest.TestMember{ping, imagetest.LinkM("bin/ping4", "bin/ping"), imagetest.LinkM("bin/a", "bin/ping")}))
	dest := "oci:" + t.TempDir() + "/out:fixed"
	if r := rebuildTo(t, source, dest); !slices.ContainsFunc(r.Warnings, func(w string) bool {
		return strings.HasPrefix(w, "bin/a: has its security.capability in some engines only")
	}) {
		t.Errorf("got warnings %q", r.Warnings)
	}
	members := imagetest.AddedMembers(t, dest)
	if len(members) != 3 || members[0].Name != "bin/a" || members[0].PAXRecords[key] != imagetest.CapNetRaw {
		t.Fatalf("got %+v", members)
	}
	for _, m := range members[1:] {
		if _, ok := m.PAXRecords[key]; ok || m.Typeflag != tar.TypeLink {
			t.Errorf("%s: got %+v, want a link without the capability", m.Name, m.Header)
		}
	}
	imagetest.WantProblems(t, imagetest.Verify(t, dest, source))
	delete(members[0].PAXRecords, key)
	members[0].Xattrs = nil
	base := imagetest.Open(t, source)
	lost := imagetest.Must[*contents.AddedLayer](t)(contents.PackLayer(func(w io.Writer) error {
		_, err := w.Write(imagetest.TarMembers(t, members...))
		return err
	}))
	defer lost.Close()
	img, err := images.Derive(base.Image, true, lost, images.Derivation{BaseName: "n", BaseDigest: base.Digest, Version: "1.2"})
	if err != nil {
		t.Fatal(err)
	}
	imagetest.WantProblems(t, imagetest.Verify(t, imagetest.StoreOCI(t, img), source), "bin/a")
	again := rebuildTo(t, dest, "oci:"+t.TempDir()+"/out:again")
	if !again.Unchanged {
		t.Errorf("rebuilt once more: %+v", again)
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

// TestRebuildKeepsUnknown: members of config and manifest that vfix does not know stay, with
// their bytes.
func TestRebuildKeepsUnknown(t *testing.T) {
	raw := []byte(`{"architecture":"amd64","x-vendor":{"b":[1,2.50],"a":"<&>"},"os":"linux","created":"2011-03-13T07:06:40.123456789Z",` +
		`"config":{"Healthcheck":{"Test":["CMD"],"StartInterval":5},"Labels":{"own":"1"},"x":null},` +
		`"history":[{"created_by":"a","x":1}],"rootfs":{"type":"layers","diff_ids":["sha256:aa"],"x":2}}`)
	got, err := images.EditConfig(raw, 1, v1.Hash{Algorithm: "sha256", Hex: "bb"}, images.Derivation{BaseName: "n", BaseDigest: "d", Version: "v"})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"architecture":"amd64","config":{"Healthcheck":{"Test":["CMD"],"StartInterval":5},` +
		`"Labels":{"dev.vfix.base.digest":"d","dev.vfix.base.name":"n","dev.vfix.version":"v","own":"1"},"x":null},` +
		`"created":"2011-03-13T07:06:40.123456789Z","history":[{"created_by":"a","x":1},` +
		`{"comment":"calls to the vsyscall page rewritten to reach the vDSO","created":"2011-03-13T07:06:40.123456789Z","created_by":"vfix v rebuild"}],` +
		`"os":"linux","rootfs":{"diff_ids":["sha256:aa","sha256:bb"],"type":"layers","x":2},"x-vendor":{"b":[1,2.50],"a":"<&>"}}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	got, err = images.EditConfig([]byte("{\"config\":{\"Labels\":{\"own\":\"\xff<\"}},\"history\":[{\"empty_layer\":true}],\"rootfs\":{\"diff_ids\":[\"sha256:aa\"]}}"), 1, v1.Hash{Algorithm: "sha256", Hex: "bb"}, images.Derivation{Version: "v"})
	want = "{\"config\":{\"Labels\":{\"dev.vfix.version\":\"v\",\"own\":\"\xff<\"}},\"history\":[{\"empty_layer\":true},{\"created_by\":\"unknown\"}," +
		`{"comment":"calls to the vsyscall page rewritten to reach the vDSO","created_by":"vfix v rebuild"}],"rootfs":{"diff_ids":["sha256:aa","sha256:bb"]}}`
	if err != nil || string(got) != want {
		t.Errorf("without history, and a label that is not UTF-8: got %q, %v\nwant %q", got, err, want)
	}
	for _, bad := range []string{``, `[]`, `{"rootfs":1}`, `{"history":{}}`, `{"config":[]}`, `{"config":{"Labels":[]}}`, `null`,
		`{"rootfs":{"diff_ids":["sha256:aa","sha256:bb"]}}`, `{"rootfs":{"diff_ids":["sha256:aa"]},"config":{"Labels":[]}}`, `{"rootfs":{"diff_ids":["sha256:aa"]},"history":[1]}`} {
		if got, err := images.EditConfig([]byte(bad), 1, v1.Hash{}, images.Derivation{}); err == nil {
			t.Errorf("%s: got %s, want an error", bad, got)
		}
	}
}

func TestRebuildDocker(t *testing.T) {
	base := imagetest.TinyImage(t)
	ls := imagetest.Must[[]v1.Layer](t)(base.Layers())
	added := &contents.AddedLayer{Packed: blob.Packed{PackedSize: 5, PackedDigest: v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("aa", 32)}, PlainDigest: v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("bb", 32)}}}
	for _, tc := range []struct {
		oci                     bool
		manifest, config, layer types.MediaType
	}{
		{true, types.OCIManifestSchema1, types.OCIConfigJSON, types.OCILayer},
		{false, types.DockerManifestSchema2, types.DockerConfigJSON, types.DockerLayer},
	} {
		img, err := images.Derive(base, tc.oci, added, images.Derivation{BaseName: "n", BaseDigest: "d", Version: "v"})
		if err != nil {
			t.Fatal(err)
		}
		var m v1.Manifest
		if err := json.Unmarshal(imagetest.Must[[]byte](t)(img.RawManifest()), &m); err != nil {
			t.Fatal(err)
		}
		if mt := imagetest.Must[types.MediaType](t)(img.MediaType()); m.MediaType != tc.manifest || mt != tc.manifest || m.Config.MediaType != tc.config {
			t.Errorf("got manifest %s (%s), config %s, want %s and %s", m.MediaType, mt, m.Config.MediaType, tc.manifest, tc.config)
		}
		if len(m.Layers) != len(ls)+1 || len(m.Annotations) > 0 != tc.oci {
			t.Errorf("got %d layers, annotations %v", len(m.Layers), m.Annotations)
		}
		for i, l := range imagetest.Must[[]v1.Layer](t)(img.Layers()) {
			if mt := imagetest.Must[types.MediaType](t)(l.MediaType()); mt != tc.layer || m.Layers[i].MediaType != tc.layer {
				t.Errorf("layer %d: got %s, and %s in the manifest, want %s", i, mt, m.Layers[i].MediaType, tc.layer)
			}
		}
	}
}

// A manifest that cannot be edited is an error; the copy of the config in its descriptor is that of the base, and left out.
func TestRebuildManifests(t *testing.T) {
	base := imagetest.Stack(t, []imagetest.TestMember{imagetest.FileM("x", nil)})
	config, layers := imagetest.Must[[]byte](t)(base.RawConfigFile()), imagetest.Must[[]v1.Layer](t)(base.Layers())
	hash := v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("a", 64)}
	added := &contents.AddedLayer{Packed: blob.Packed{PackedDigest: hash, PlainDigest: hash}}
	for raw, want := range map[string]string{
		`{"config":{"data":"e30=","x":1},"layers":[]}`: "",
		`null`: "manifest: null", `[]`: "cannot unmarshal", `{`: "JSON", `{}`: "manifest: config: missing", `{"config":null}`: "manifest: config: missing", `{"config":1}`: "cannot unmarshal",
		`{"config":{"mediaType":1},"layers":[]}`: "mediaType", `{"config":{},"layers":{}}`: "layers", `{"config":{},"layers":[{"mediaType":1}]}`: "mediaType",
		`{"config":{},"layers":[],"annotations":[]}`: "annotations",
	} {
		var got []byte
		img, err := images.Derive(blob.NewEditedImage(config, layers, func() ([]byte, error) { return []byte(raw), nil }), true, added, images.Derivation{Version: "v"})
		if err == nil {
			got, err = img.RawManifest()
		}
		if want == "" && (err != nil || bytes.Contains(got, []byte("data")) || !bytes.Contains(got, []byte(`"x":1`))) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %s, %v, want %q", raw, got, err, want)
		}
	}
}

// A layer that docker cannot have is reported, and records of packages are read with the rest.
func TestRebuildManyLayers(t *testing.T) {
	database := imagetest.FileM("var/lib/dpkg/info/a.md5sums", fmt.Appendf(nil, "%x  lib/a\n", md5.Sum(imagetest.LegacyELF("1"))))
	first := &countedLayer{Layer: imagetest.BytesLayer(t, imagetest.TarMembers(t, imagetest.LegacyM("lib/a", "1"), database))}
	for _, n := range []int{124, 125} {
		layers := slices.Repeat([]v1.Layer{first}, n)
		notes := &imagetest.Notes{}
		o := images.RebuildOptions{DryRun: true, UpdateDpkg: true}
		o.Media.Progress = notes
		s := images.RebuildSession(o)
		first.n = 0
		r, err := images.RebuildSource(t.Context(), s, &media.Source{Image: fixedLayers{imagetest.ImageOf(t, layers...), layers}, Ref: media.Ref{Transport: media.OCILayout}}, o)
		s.Close()
		if err != nil || first.n != 1 || len(r.Packages) != 1 || !r.Packages[0].Corrected || r.Packages[0].Stale {
			t.Errorf("%d: got %+v, %v, read %d times", n, r, err, first.n)
		}
		if text := strings.Join(notes.Text, "\n"); strings.Contains(text, fmt.Sprint("the result has ", n+1, " layers")) != (n == 125) {
			t.Errorf("%d layers: got notes %q", n, text)
		}
	}
}

// The layers of a registry are kept if they go elsewhere, and a result that gets no statement is closed.
func TestRebuildEnds(t *testing.T) {
	imagetest.CleanTemp(t)
	img := imagetest.Stack(t, []imagetest.TestMember{imagetest.LegacyM("lib/a", "1")})
	for _, c := range []struct {
		digest, dest, provenance string
		dry                      bool
		kept                     int
		fails                    string
	}{
		{digest: "sha256:" + strings.Repeat("a", 64), dest: "oci:DIR/1:x", provenance: images.ProvenanceAuto, kept: 1},
		{digest: "sha256:" + strings.Repeat("a", 64), dest: "oci:DIR/2:x", provenance: images.ProvenanceAuto, dry: true},
		{digest: "none", dest: "oci:DIR/3:x", provenance: images.ProvenanceAuto, kept: 1, fails: "base: "},
		{digest: "none", dest: "oci:DIR/4:x", provenance: images.ProvenanceNone, kept: 1},
		{digest: "none", dest: "oci:DIR/5:x", kept: 1},
		{digest: "none", dest: "oci:DIR/6:x", provenance: images.ProvenanceAuto, dry: true},
	} {
		kept := 0
		src := &media.Source{Image: img, Ref: media.Ref{Transport: media.OCILayout}, Made: true, Digest: c.digest, Keep: func() { kept++ }}
		o := images.RebuildOptions{Dest: strings.Replace(c.dest, "DIR", t.TempDir(), 1), Provenance: c.provenance, DryRun: c.dry}
		s := images.RebuildSession(o)
		r, err := images.RebuildSource(t.Context(), s, src, o)
		s.Close()
		if (err != nil) != (c.fails != "") || err != nil && !strings.HasPrefix(err.Error(), c.fails) || kept != c.kept || r.BaseDigest != c.digest ||
			len(r.Provenance) > 0 != (c.provenance == images.ProvenanceAuto && !c.dry && err == nil) {
			t.Errorf("%+v: got %+v, %v, kept %d times", c, r, err, kept)
		}
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
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
			imagetest.WantEmpty(t, out)
		})
	}
}

// A result about which no statement can be made is not stored, and its layer is closed.
func TestRebuildUnproved(t *testing.T) {
	source := imagetest.StoreOCI(t, imagetest.Stack(t, []imagetest.TestMember{imagetest.LegacyM("lib/a", "1")}))
	imagetest.CleanTemp(t)
	src, out := *imagetest.Open(t, source), t.TempDir()
	src.Made, src.Digest = true, "none"
	o := images.RebuildOptions{Dest: "oci:" + out + "/img:x", Provenance: images.ProvenanceAuto}
	s := images.RebuildSession(o)
	defer s.Close()
	_, err := images.RebuildSource(t.Context(), s, &src, o)
	imagetest.WantErr(t, err, nil, "base: ")
	imagetest.WantEmpty(t, out)
}

// A place that cannot be written to is refused before the image is read, and the hint says what to type.
func TestRebuildNowhere(t *testing.T) {
	imagetest.NoDaemon(t)
	unreadable := imagetest.StoreOCI(t, imagetest.ImageOf(t, imagetest.BytesLayer(t, imagetest.Noise(5000))))
	out := filepath.Join(t.TempDir(), "out.tar")
	_, err := images.Rebuild(t.Context(), unreadable, images.RebuildOptions{Dest: out})
	imagetest.WantErr(t, err, hinterr.ErrUnsupported, out+": cannot tell the output format")
	_, err = images.Rebuild(t.Context(), unreadable, images.RebuildOptions{Dest: "oci-archive:" + out})
	imagetest.WantErr(t, err, hinterr.ErrDamaged, "not a tar archive") // the control

	t.Setenv("PATH", t.TempDir())
	for dest, want := range map[string]string{
		"docker-daemon:x:1":                 "no docker or podman daemon at unix://",
		"sif:" + out:                        "tar2sqfs and mksquashfs: not installed",
		"oci-archive:" + out + "/none/x":    "no directory",
		"docker-archive:" + out + "/none/x": "no directory",
	} {
		_, err = images.Rebuild(t.Context(), unreadable, images.RebuildOptions{Dest: dest})
		imagetest.WantErr(t, err, nil, want)
		_, err = images.Convert(t.Context(), unreadable, images.ConvertOptions{Dest: dest})
		imagetest.WantErr(t, err, nil, want)
	}
	for _, c := range []struct {
		push bool
		hint string
	}{{false, "-o oci-archive:"}, {true, "-t "}} {
		_, err = images.Rebuild(t.Context(), unreadable, images.RebuildOptions{Push: c.push, Suffix: "-vfix"})
		imagetest.WantErr(t, err, hinterr.ErrNoDaemon)
		if hint := hinterr.HintOf(err); !strings.Contains(hint, c.hint) {
			t.Errorf("push %v: got the hint %q, want %q in it", c.push, hint, c.hint)
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

// TestSharedLayerIsReadOnce: a layer that an image has twice, or two images have.
func TestSharedLayerIsReadOnce(t *testing.T) {
	shared := &countedLayer{Layer: imagetest.BytesLayer(t, imagetest.TarMembers(t, imagetest.LegacyM("a", "1")))}
	other := &countedLayer{Layer: imagetest.BytesLayer(t, imagetest.TarMembers(t, imagetest.LegacyM("b", "2")))}
	s := imagetest.TestSession(t)
	for _, layers := range [][]v1.Layer{{shared, other, shared}, {shared, shared}} {
		if _, err := s.Image(context.Background(), fixedLayers{layers: layers}); err != nil {
			t.Fatal(err)
		}
	}
	if shared.n != 1 || other.n != 1 {
		t.Errorf("read %d and %d times, want once each", shared.n, other.n)
	}
}

// countedLayer counts how often it is read.
type countedLayer struct {
	v1.Layer
	n int
}

func (l *countedLayer) Compressed() (io.ReadCloser, error) {
	l.n++
	return l.Layer.Compressed()
}

// fixedLayers is an image of which only the layers are read.
type fixedLayers struct {
	v1.Image
	layers []v1.Layer
}

func (f fixedLayers) Layers() ([]v1.Layer, error) { return f.layers, nil }

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
			got, err := images.EditConfig([]byte(full), 0, v1.Hash{Algorithm: "sha256", Hex: "bb"}, images.Derivation{Traced: traced})
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
			if text := string(imagetest.Must[[]byte](t)(jsonobject.Encode(c.Config))); traced != (text == want) {
				t.Errorf("%s, traced %v: got %s", raw, traced, text)
			}
			if traced != fallback.EntrypointIsTraced(got) {
				t.Errorf("%s, traced %v: entrypointIsTraced says otherwise", raw, traced)
			}
		}
	}
	if _, err := images.EditConfig([]byte(`{"config":{"Entrypoint":"text"},"rootfs":{"diff_ids":[]}}`), 0, v1.Hash{}, images.Derivation{Traced: true}); err == nil {
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
