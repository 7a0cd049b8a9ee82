package sources_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/sylabs/sif/v2/pkg/sif"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/tests/imagetest"
)

// The kinds of paths, at the limits of their sizes, and of paths that cannot be read.
func TestOpenPath(t *testing.T) {
	imagetest.CleanTemp(t)
	imagetest.NoDaemon(t)
	dir := t.TempDir()
	t.Chdir(dir)
	img := imagetest.TinyImage(t)
	manifest := imagetest.Must[[]byte](t)(img.RawManifest())
	config := imagetest.Must[[]byte](t)(img.RawConfigFile())
	padded := func(n int) []byte {
		return append(bytes.Clone(manifest), bytes.Repeat([]byte(" "), n-len(manifest))...)
	}
	for _, name := range []string{"most", "more", "broken"} {
		if err := os.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
		if name == "broken" {
			continue // without its config
		}
		imagetest.Write(t, name+"/"+imagetest.Must[v1.Hash](t)(img.ConfigName()).Hex, config)
	}
	imagetest.Write(t, "most/manifest.json", padded(blob.MaxManifest))
	imagetest.Write(t, "more/manifest.json", padded(blob.MaxManifest+1))
	for _, err := range []error{os.Symlink("nowhere", "dangling"), os.Mkdir("noimage", 0o755), os.MkdirAll("folder/manifest.json", 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	imagetest.Write(t, "noimage/manifest.json", []byte("{}"))
	imagetest.Write(t, "file", []byte("text"))
	imagetest.Write(t, "oci.tar", imagetest.TarOf(t, "oci-layout", `{"imageLayoutVersion":"1.0.0"}`, "index.json", `{"manifests":[]}`))
	imagetest.Write(t, "docker.tar", imagetest.TarOf(t, "manifest.json", "[]"))
	imagetest.Write(t, "broken/manifest.json", manifest)
	imagetest.Write(t, "short.sif", append(make([]byte, 32), "SIF_MAGIC"...))
	long := strings.Repeat("x", 300)
	for _, c := range []struct {
		name  string
		kind  error
		says  string
		image bool // else its path
	}{
		{"./most", nil, "", true}, {"most/manifest.json", nil, "", true},
		{"./more", nil, "", false}, {"more/manifest.json", nil, "", false},
		{"./noimage", nil, "", false}, {"./folder", nil, "", false}, {"./file", nil, "", false},
		{"./oci.tar", hinterr.ErrNotFound, "oci archive ./oci.tar: index.json lists no image", false}, {"./docker.tar", hinterr.ErrNotFound, "docker archive ./docker.tar: manifest.json lists no image", false},
		{"./broken", hinterr.ErrNotFound, "broken/manifest.json: ", false},
		{"dangling", fs.ErrNotExist, "dangling", false},
		{"/dev/null", hinterr.ErrUnsupported, "/dev/null is a ", false},
		{"./" + long, nil, "file name too long", false},
		{"./file/x", nil, "not a directory", false},
		{"./short.sif", hinterr.ErrDamaged, "not a SIF file", false},
		{"dir:none", hinterr.ErrNotFound, "none: no such directory", false},
		{"dir:" + long, nil, "file name too long", false},
		{"sif:none", hinterr.ErrNotFound, "none: no such file", false},
		{"sif:noimage", nil, "not a regular file", false},
	} {
		src, err := sources.Open(t.Context(), c.name, imagetest.Fast)
		if c.says != "" {
			imagetest.WantErr(t, err, c.kind, c.says)
			continue
		}
		if err != nil {
			t.Errorf("%s: got %v", c.name, err)
			continue
		}
		if c.image != (src.Image != nil) || !c.image && src.Path != strings.TrimPrefix(c.name, "dir:") {
			t.Errorf("%s: got path %q, image %v", c.name, src.Path, src.Image)
		}
		if c.image && strings.Contains(c.name, "most") {
			if h, _, _ := v1.SHA256(bytes.NewReader(padded(blob.MaxManifest))); src.Digest != h.String() {
				t.Errorf("%s: got the digest %s, want %v", c.name, src.Digest, h)
			}
		}
		src.Close()
	}
	// A name that no file can have is not an error about files.
	for _, name := range []string{long, "file/x", "none"} {
		if src, err := sources.OpenPath(t.Context(), name, media.Options{}.WithDefaults()); src != nil || err != nil {
			t.Errorf("%s: got %v, %v", name, src, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	save := imagetest.DockerSave(t, img, "app:1")
	for name, data := range map[string][]byte{"save.tar": save, "save.tar.gz": imagetest.GzipOf(t, save)} {
		_, err := sources.Open(ctx, imagetest.Write(t, dir+"/"+name, data), media.Options{})
		imagetest.WantErr(t, err, context.Canceled)
	}
	t.Setenv("TMPDIR", dir+"/nowhere")
	for _, name := range []string{"./save.tar.gz", feed(t, save, false), "sif:" + imagetest.Write(t, "x.sif", tinySIF(t, sif.FsSquash, "amd64", 0))} {
		_, err := sources.Open(t.Context(), name, media.Options{})
		imagetest.WantErr(t, err, fs.ErrNotExist, dir+"/nowhere")
	}
	_, err := sources.Put(t.Context(), media.Ref{Transport: media.SIF, Name: dir + "/out.sif"}, media.Result{Image: img}, media.Options{})
	imagetest.WantErr(t, err, fs.ErrNotExist, dir+"/nowhere")
	os.Unsetenv("TMPDIR")
}

// A file of JSON is an image if it is a manifest, whose layers are beside it, and else a file.
func TestManifestFiles(t *testing.T) {
	for text, says := range map[string]string{
		`{"schemaVersion":2,"manifests":[]}`: "no image in the index", `{"schemaVersion":2,"config":{},"layers":[]}`: "without the digest of a config",
		`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json"}`: "no image in the index", `{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json"}`: "without the digest of a config",
		`{"schemaVersion":2,"config":{}}`: "", `{"schemaVersion":2,"layers":[]}`: "", `{"schemaVersion":3,"manifests":[]}`: "", `{"manifests":[]}`: "", `[]`: "", `{"schemaVersion":2}`: "",
		`{"schemaVersion":2,"mediaType":"text/plain","config":{},"layers":[]}`: "", `{"schemaVersion":2,"manifests":[]`: "",
	} {
		path := imagetest.Write(t, t.TempDir()+"/x.json", []byte(text))
		if says != "" {
			imagetest.WantErr(t, imagetest.OpenErr(t, path), nil, path+": ", says)
		} else if src := imagetest.Open(t, path); src.Image != nil || src.Path != path {
			t.Errorf("%s: got %+v", text, src)
		}
	}
}

// Streams can be read only once.
func TestReadOnce(t *testing.T) {
	file := imagetest.Write(t, t.TempDir()+"/x", nil)
	for source, want := range map[string]bool{
		"-": true, "docker-archive:-:app:1": true, "oci-archive:-": true, "sif:-": true, "/dev/stdin": true, "/dev/fd/0": true, "/proc/self/fd/0": true,
		"/dev/fd/9": true, "/proc/self/fd/9": true, feed(t, []byte("x"), true): true, "oci:" + file: false, file: false, "/dev/null": false, "none": false, "": false,
		"docker-daemon:app:1": false, "/dev/fd": false,
	} {
		if got := sources.ReadOnce(source); got != want {
			t.Errorf("%s: got %v", source, got)
		}
	}
}

// sized is a Progress that remembers what began, with its size.
type sized struct {
	progress.Silent
	begun *[]string
}

func (s sized) Start(kind, name string, size int64) progress.Task {
	*s.begun = append(*s.begun, fmt.Sprint(kind, " ", filepath.Base(name), " ", size))
	return progress.Silent{}
}

// The progress of a stream and a directory has no size, as nobody knows it; that of a file does.
func TestProgressSizes(t *testing.T) {
	dir := t.TempDir()
	rootfs := imagetest.TarOf(t, "bin/sh", "x")
	imagetest.Write(t, dir+"/file", []byte("x"))
	tarball := imagetest.Write(t, t.TempDir()+"/x.tar", rootfs)
	file := imagetest.Write(t, t.TempDir()+"/x.sif", tinySIF(t, sif.FsSquash, "amd64", 0))
	o := media.Options{}
	var begun []string
	o.Progress = sized{begun: &begun}
	for _, source := range []string{feed(t, rootfs, false), dir, tarball, "sif:" + file} {
		src, err := sources.Open(t.Context(), source, o)
		if err != nil {
			continue // the squashfs of the SIF file has no content
		}
		if err := sources.WithRootImage(t.Context(), src, sources.RunConfig{}, o); err != nil {
			t.Error(err)
		}
		src.Close()
	}
	for _, want := range []string{"read stdin -1", "read " + filepath.Base(dir) + " -1", fmt.Sprint("read x.tar ", len(rootfs)), fmt.Sprint("read x.sif ", sources.SquashSuperLen)} {
		if !slices.Contains(begun, want) {
			t.Errorf("got %q, want %s", begun, want)
		}
	}
}

// A root filesystem needs a directory that is missing or empty.
func TestCheckRootDest(t *testing.T) {
	dir := t.TempDir()
	file := imagetest.Write(t, dir+"/file", nil)
	for name, says := range map[string]string{
		dir + "/none": "", t.TempDir(): "", dir: dir + ": exists and is not empty", file: file + ": exists and is not a directory", file + "/x": "not a directory", dir + "/" + strings.Repeat("x", 300): "name too long",
	} {
		err := sources.CheckRootDest(name)
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says) || hinterr.HintOf(err) != "name a directory that does not exist yet") {
			t.Errorf("%s: got %v, hint %q, want %q", name, err, hinterr.HintOf(err), says)
		}
	}
}

// Whether a name that may not exist yet is inside a directory.
func TestInside(t *testing.T) {
	dir := imagetest.Must[string](t)(filepath.EvalSymlinks(t.TempDir()))
	t.Chdir(dir)
	for _, err := range []error{os.MkdirAll("a/b", 0o755), os.Mkdir("ab", 0o755), os.Symlink("a/b", "link")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		dir, name string
		want      bool
	}{
		{"a", "a/new", true}, {"a", "a/b/new", true}, {dir + "/a", "a/b/new", true}, {"a", dir + "/a/new/", true}, {"a", "link/new", true}, {"link", "a/b/new", true},
		{"a", "ab/new", false}, {"a", "new", false}, {"a", "a", false}, {"link", "a/new", false}, {"a", "none/a/new", false}, {"none", "none/new", false},
	} {
		if got := sources.Inside(c.dir, c.name); got != c.want {
			t.Errorf("%s in %s: got %v", c.name, c.dir, got)
		}
		err := sources.CheckNotInside(&media.Source{Path: c.dir}, media.Ref{Transport: media.Dir, Name: c.name})
		if (err != nil) != c.want || c.want && !strings.Contains(err.Error(), c.name+" is inside "+c.dir) {
			t.Errorf("%s in %s: got %v", c.name, c.dir, err)
		}
	}
	for _, c := range []struct {
		src  media.Source
		dest media.Ref
	}{
		{media.Source{Path: "a"}, media.Ref{Transport: media.OCILayout, Name: "a/new"}},
		{media.Source{Path: "a", Image: imagetest.TinyImage(t)}, media.Ref{Transport: media.Dir, Name: "a/new"}},
	} {
		if err := sources.CheckNotInside(&c.src, c.dest); err != nil {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}

// Ready finds what is missing for a DEST, and Holds whether the image is still there; neither leaves anything.
func TestReadyAndHolds(t *testing.T) {
	img := imagetest.TinyImage(t)
	d := imagetest.NewDaemon(t, img, "tiny:1")
	f := imagetest.NewRegistry(t)
	dir := t.TempDir()
	t.Setenv("DOCKER_HOST", "unix://"+d.Sock)
	imagetest.Put(t, "docker://"+f.Host+"/a:1", media.Result{Image: img})
	f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
		switch _, path, _ := strings.Cut(r.URL.Path, "/v2/"); {
		case strings.HasPrefix(path, "closed/"):
			w.WriteHeader(http.StatusTeapot)
		case strings.HasPrefix(path, "locked/"):
			w.WriteHeader(http.StatusUnauthorized)
		default:
			return false
		}
		return true
	})
	oci := imagetest.Put(t, "oci:"+dir+"/oci:x", media.Result{Image: img})
	saved := imagetest.Put(t, "docker-archive:"+dir+"/x.tar:app:1", media.Result{Image: img})
	digest, other := imagetest.Must[v1.Hash](t)(img.Digest()).String(), "sha256:"+strings.Repeat("0", 64)
	for _, c := range []struct {
		dest, digest string
		want         bool
		says         string
	}{
		{"docker://" + f.Host + "/a:1", digest, true, ""}, {"docker://" + f.Host + "/a:1", other, false, ""}, {"docker://" + f.Host + "/a:2", digest, false, ""},
		{"docker://" + f.Host + "/closed/a:1", digest, false, "418"}, {"docker://" + f.Host + "/locked/a:1", digest, false, ""},
		{"docker-daemon:tiny:1", d.ID.String(), true, ""}, {"docker-daemon:tiny:1", other, false, ""}, {"docker-daemon:none:1", d.ID.String(), false, ""},
		{oci.Reference, oci.Digest, true, ""}, {oci.Reference, other, false, ""}, {"oci:" + dir + "/none", oci.Digest, false, ""},
		{saved.Reference, saved.Digest, true, ""}, {"docker-archive:" + dir + "/none.tar", saved.Digest, false, ""},
		{dir + "/x.tar", saved.Digest, false, ""}, {"oci:", digest, false, "no name after the prefix"}, {"tiny:1", d.ID.String(), true, ""},
	} {
		got, err := sources.Holds(t.Context(), c.dest, c.digest, imagetest.Fast)
		if got != c.want || (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, %s: got %v, %v, want %v", c.dest, c.digest, got, err, c.want)
		}
	}

	before := imagetest.FileListing(t, dir)
	for dest, says := range map[string]string{
		"tiny:2": "", "docker-daemon:tiny:2": "", "oci:" + dir + "/new": "", "docker://none.example/x": "", "dir:" + dir + "/new": "", "oci-archive:" + dir + "/new.tar": "", "docker-archive:" + dir + "/new.tar": "",
		"sif:" + dir + "/new.sif": "", dir + "/new.tar": "cannot tell the output format", "oci-archive:" + dir + "/none/x.tar": dir + "/none/x.tar: ", "sif:" + dir + "/none/x": dir + "/none/x: ",
	} {
		err := sources.Ready(t.Context(), imagetest.Must[media.Ref](t)(media.ParseRef(dest)), media.Options{})
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: got %v, want %q", dest, err, says)
		}
	}
	t.Setenv("PATH", dir)
	err := sources.Ready(t.Context(), media.Ref{Transport: media.SIF, Name: dir + "/new.sif"}, media.Options{})
	imagetest.WantErr(t, err, hinterr.ErrUnsupported, dir+"/new.sif: ", "not installed")
	imagetest.NoDaemon(t)
	imagetest.WantErr(t, sources.Ready(t.Context(), media.Ref{Transport: media.Daemon, Name: "x:1"}, media.Options{}), hinterr.ErrNoDaemon)
	if after := imagetest.FileListing(t, dir); after != before {
		t.Errorf("got\n%s\nwas\n%s", after, before)
	}
}

// A root filesystem becomes an image of one layer; one that a layer cannot hold, or of another kind, does not.
func TestRootImage(t *testing.T) {
	imagetest.CleanTemp(t)
	dir, hides := t.TempDir(), t.TempDir()
	damaged := imagetest.GzipOf(t, imagetest.TarOf(t, "bin/sh", "x"))
	damaged[len(damaged)-1] ^= 1
	imagetest.Write(t, dir+"/x", []byte("x"))
	imagetest.Write(t, hides+"/.wh.x", nil)
	for _, c := range []struct {
		path, of, platform string
		kind               error
		says               string
	}{
		{dir, "a directory", "", nil, ""},
		{imagetest.Write(t, t.TempDir()+"/x.tar", imagetest.TarOf(t, "bin/sh", "x")), "a tarball", "", nil, ""},
		{imagetest.Write(t, t.TempDir()+"/x.tar.gz", imagetest.GzipOf(t, imagetest.TarOf(t, "bin/sh", "x"))), "a tarball", "", nil, ""},
		{dir, "", "arm64", hinterr.ErrPlatform, "is for linux/amd64"},
		{hides, "", "", hinterr.ErrUnsupported, hides + ": .wh.x: in a layer"},
		{imagetest.Write(t, t.TempDir()+"/y.tar", imagetest.TarOf(t, "bin/sh", "x", "bin/.wh.y", "")), "", "", hinterr.ErrUnsupported, "bin/.wh.y: in a layer"},
		{imagetest.Write(t, t.TempDir()+"/cut.tar", imagetest.TarOf(t, "bin/sh", string(imagetest.Noise(5000)))[:2000]), "", "", hinterr.ErrDamaged, "cut.tar: "},
		{imagetest.Write(t, t.TempDir()+"/end.tar.gz", damaged), "", "", hinterr.ErrDamaged, "end.tar.gz: "},
		{imagetest.Write(t, t.TempDir()+"/elf", imagetest.LegacyELF("x")), "", "", hinterr.ErrUnsupported, "elf: not an image"},
		{dir + "/none", "", "", fs.ErrNotExist, dir + "/none"},
	} {
		src := &media.Source{Ref: media.Ref{Name: c.path}, Path: c.path}
		o := media.Options{Platform: v1.Platform{OS: "linux", Architecture: c.platform}}
		var notes imagetest.Notes
		o.Progress = &notes
		err := sources.WithRootImage(t.Context(), src, sources.RunConfig{Cmd: []string{"/x"}, User: "1"}, o)
		if notes.Unfinished.Load() != 0 {
			t.Errorf("%s: a task has not ended", c.path)
		}
		if c.says != "" {
			imagetest.WantErr(t, err, c.kind, c.says)
			if src.Path != c.path || strings.Contains(c.says, "not an image") && !strings.Contains(hinterr.HintOf(err), "vfix patch -o OUTPUT "+c.path) {
				t.Errorf("%s: path %q, hint %q", c.path, src.Path, hinterr.HintOf(err))
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: got %v", c.path, err)
			continue
		}
		layer := imagetest.Must[[]v1.Layer](t)(src.Image.Layers())[0]
		want := fmt.Sprintf(`{"architecture":"amd64","config":{"Cmd":["/x"],"User":"1"},"history":[{"created_by":"vfix: the files of %s"}],"os":"linux","rootfs":{"diff_ids":["%v"],"type":"layers"}}`,
			c.of, imagetest.Must[v1.Hash](t)(layer.DiffID()))
		if got := string(imagetest.Must[[]byte](t)(src.Image.RawConfigFile())); got != want || src.Path != "" {
			t.Errorf("%s: path %q, got %s, want %s", c.path, src.Path, got, want)
		}
		if len(notes.Text) != 1 || notes.Text[0] != c.path+" is a root filesystem: it becomes an image with one layer" {
			t.Errorf("%s: got the notes %q", c.path, notes.Text)
		}
		out := t.TempDir()
		if err := errors.Join(sources.Unpack(t.Context(), src.Image, out, media.Options{}), src.Close()); err != nil {
			t.Errorf("%s: got %v", c.path, err)
		}
		if names, _ := os.ReadDir(out); len(names) != 1 {
			t.Errorf("%s: unpacked, got %v", c.path, names)
		}
	}
	for n, r := range []sources.RunConfig{{Cmd: []string{"x"}}, {Entrypoint: []string{"x"}}, {Env: []string{"x=y"}}, {User: "x"}, {WorkingDir: "/x"}} {
		if r.IsZero() {
			t.Errorf("%d: %+v is nothing", n, r)
		}
	}
	if !(sources.RunConfig{}).IsZero() {
		t.Error("nothing is something")
	}
}
