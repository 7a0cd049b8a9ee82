package sources_test

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/sylabs/sif/v2/pkg/sif"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

// The merged file system as one tar stream: each name once, hard links after their file, no file that a layer
// above hides, owners by ID without names, and no attribute that a squashfs cannot have.
func TestFlatten(t *testing.T) {
	owned := imagetest.FileM("a/owned", []byte("x"))
	owned.Uid, owned.Gid, owned.Uname, owned.Gname = 7, 8, "daemon", "daemon"
	owned.ModTime = time.Unix(-5, 0)
	owned.PAXRecords = map[string]string{"SCHILY.xattr.user.x": "1", "SCHILY.xattr.system.posix_acl_access": "2"}
	img := imagetest.Stack(t,
		[]imagetest.TestMember{imagetest.DirM("a"), imagetest.FileM("a/gone", nil), imagetest.FileM("a/old", []byte("old")), owned,
			imagetest.FileM("b", []byte("content")), imagetest.LinkM("a/link", "b"), imagetest.FileM("c/hidden", nil)},
		[]imagetest.TestMember{imagetest.FileM("a/.wh.gone", nil), imagetest.FileM("a/old", []byte("new")), imagetest.SymM("s", "a"), imagetest.LinkM("t", "s"),
			imagetest.FileM("c/.wh..wh..opq", nil), imagetest.FileM("replaced", nil)})
	tree, err := imagetest.TestSession(t).Image(t.Context(), img)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	extras := []contents.Extra{{Name: "d/", Mode: 0o700}, {Name: "replaced", Mode: 0o600, Body: []byte("by this")}}
	warnings, err := sources.Flatten(t.Context(), tree, extras, &out)
	if err != nil {
		t.Fatal(err)
	}
	for most := 0; most < out.Len(); most += 512 {
		if _, err := sources.Flatten(t.Context(), tree, extras, &imagetest.Room{Left: most}); !errors.Is(err, imagetest.ErrFull) {
			t.Errorf("%d of %d bytes: got %v", most, out.Len(), err)
		}
	}
	var got []string
	for _, m := range imagetest.ReadTar(t, &out) {
		line := m.Name
		switch m.Typeflag {
		case tar.TypeReg:
			line += "=" + string(m.Body)
		case tar.TypeLink, tar.TypeSymlink:
			line += "->" + m.Linkname
		}
		got = append(got, line)
		if m.Uname != "" || m.Gname != "" || m.ModTime.Unix() < 0 {
			t.Errorf("%s: got user %q, group %q, time %v, want numbers alone", m.Name, m.Uname, m.Gname, m.ModTime)
		}
		if m.Name == "a/owned" && (m.Uid != 7 || m.Gid != 8 || m.PAXRecords["SCHILY.xattr.user.x"] != "1" || len(m.PAXRecords) != 1) {
			t.Errorf("a/owned: got %+v", m.Header)
		}
	}
	if want := "./ a/ c/ s->a t->s a/owned=x a/link=content b->a/link a/old=new d/ replaced=by this"; strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "a/owned: system.posix_acl_access not kept") {
		t.Errorf("warnings: got %q", warnings)
	}
}

// A SIF file has what apptainer build puts into one, and the same image gives the same bytes.
func TestNewSIF(t *testing.T) {
	imagetest.CleanTemp(t)
	t.Setenv("SOURCE_DATE_EPOCH", "7")
	img := imagetest.Stack(t, []imagetest.TestMember{imagetest.DirM("bin"), imagetest.FileM("bin/x", []byte("x")), imagetest.LinkM("bin/y", "bin/x"), imagetest.SymM("s", "bin/x")})
	for created, want := range map[int64]int64{-5: 0, 0: 0, 1: 1, 1_300_000_000: 1_300_000_000, math.MaxUint32: math.MaxUint32, math.MaxUint32 + 1: 0} {
		config := imagetest.Must[*v1.ConfigFile](t)(img.ConfigFile()).DeepCopy()
		config.Created, config.Config.Labels = v1.Time{Time: time.Unix(created, 0)}, map[string]string{"a": "b"}
		of := imagetest.Must[v1.Image](t)(mutate.ConfigFile(img, config))
		dir := t.TempDir()
		for _, name := range []string{dir + "/1", dir + "/2"} {
			imagetest.Put(t, "sif:"+name, media.Result{Image: of, Source: media.Ref{Transport: media.Registry, Name: "h:1/app:2"}})
		}
		raw := imagetest.Must[[]byte](t)(os.ReadFile(dir + "/1"))
		if again := imagetest.Must[[]byte](t)(os.ReadFile(dir + "/2")); !bytes.Equal(raw, again) {
			t.Errorf("created %d: twice the same gives other bytes", created)
		}
		if mode := imagetest.Stat(t, dir+"/1").Mode().Perm(); mode&0o111 != mode&0o444>>2 {
			t.Errorf("created %d: got the mode %o", created, mode)
		}
		c := imagetest.Must[*sif.FileImage](t)(sif.LoadContainerFromPath(dir+"/1", sif.OptLoadWithFlag(os.O_RDONLY)))
		defer c.UnloadContainer()
		var all []string
		c.WithDescriptors(func(d sif.Descriptor) bool {
			text := fmt.Sprint(d.DataType(), " ", d.Name(), " ", d.CreatedAt().Unix())
			if d.DataType() != sif.DataPartition && d.Name() != "inspect-metadata.json" { // see TestApptainerFiles
				text += " " + string(imagetest.Must[[]byte](t)(d.GetData()))
			}
			if d.DataType() == sif.DataPartition {
				if at := binary.LittleEndian.Uint32(imagetest.Must[[]byte](t)(d.GetData())[sources.SquashTimeAt:]); int64(at) != want {
					t.Errorf("created %d: the squashfs has the time %d, want %d", created, at, want)
				}
			}
			all = append(all, text)
			return false
		})
		wanted := fmt.Sprintf(`Def.FILE  %[1]d bootstrap: docker
from: h:1/app:2

|JSON.Generic inspect-metadata.json %[1]d|JSON.Generic oci-config.json %[1]d %[2]s|FS  %[1]d`, want, `{"Entrypoint":["/bin/sh"],"Env":["A=\u003c\u0026\u003e"],"Labels":{"a":"b"}}`)
		if got := strings.Join(all, "|"); got != wanted || c.CreatedAt().Unix() != want {
			t.Errorf("created %d: got at %d %s, want %s", created, c.CreatedAt().Unix(), got, wanted)
		}
		root := t.TempDir()
		src := imagetest.Open(t, "sif:"+dir+"/1")
		if err := sources.Unpack(t.Context(), src.Image, root, media.Options{}); err != nil {
			t.Fatal(err)
		}
		if to, err := os.Readlink(root + "/s"); to != "bin/x" || err != nil || !os.SameFile(imagetest.Stat(t, root+"/bin/x"), imagetest.Stat(t, root+"/bin/y")) {
			t.Errorf("got a link to %s, %v", to, err)
		}
		imagetest.WantContent(t, root+"/bin/y", []byte("x"))
		imagetest.WantContent(t, root+"/.singularity.d/labels.json", []byte("{\n\t\"a\": \"b\",\n\t\"org.label-schema.build-arch\": \"amd64\",\n\t\"org.label-schema.schema-version\": \"1.0\"\n}"))
	}
}

// withLayer is an image that was derived from another one.
type withLayer struct {
	v1.Image
	base   v1.Image
	traced bool
}

func (w withLayer) Base() v1.Image { return w.base }
func (w withLayer) Traced() bool   { return w.traced }

// The runscript's programs run under vfix-trace, and a message lists what does not.
func TestTracedSIF(t *testing.T) {
	base := imagetest.Stack(t, []imagetest.TestMember{imagetest.FileM("bin/x", nil)})
	for traced, warnings := range map[bool]int{true: 1, false: 0} {
		path := filepath.Join(t.TempDir(), "x.sif")
		st := imagetest.Put(t, "sif:"+path, media.Result{Image: withLayer{imagetest.Derived(t, base, true, traced), base, traced}})
		if len(st.Warnings) != warnings {
			t.Errorf("traced: %v: warnings %q, want %d", traced, st.Warnings, warnings)
		}
		if n := bytes.Count(imagetest.Must[[]byte](t)(os.ReadFile(path)), []byte("/vfix/vfix-trace")); (n > 0) != traced {
			t.Errorf("traced: %v: vfix-trace is named %d times", traced, n)
		}
		// A directory has no place for an entrypoint.
		dir := media.Ref{Transport: media.Dir, Name: filepath.Join(t.TempDir(), "root")}
		_, err := sources.Put(t.Context(), dir, media.Result{Image: withLayer{imagetest.Derived(t, base, true, traced), base, traced}}, media.Options{})
		if traced {
			imagetest.WantErr(t, err, hinterr.ErrUnsupported, dir.String()+": a root filesystem has no entrypoint")
		} else if err != nil {
			t.Error(err)
		}
	}
}
