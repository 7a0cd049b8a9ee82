package images_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

// dropInFiles is everything in the drop-in layer.
const dropInFiles = "etc/dpkg/dpkg.cfg.d/vfix etc/ld.so.preload etc/yum/pluginconf.d/vfix.conf usr/lib/yum-plugins/vfix.py " +
	"vfix/haswell vfix/i386 vfix/i486 vfix/i586 vfix/i686/libvfix.so vfix/vfix vfix/vfix-trace vfix/x86_64/libvfix.so vfix/xeon_phi"

// testProgram stands for vfix: a static program.
func testProgram(t testing.TB) string {
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, imagetest.ModernELF("vfix"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDropIn(t *testing.T) {
	imagetest.CleanTemp(t)
	out, program := t.TempDir(), testProgram(t)
	layer := func(dest string) *images.Layered {
		t.Helper()
		l, err := images.Layer(context.Background(), images.LayerOptions{Dest: dest, Program: program, Version: "1.2", Shim: imagetest.TestShim})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(l.Files, " "); got != dropInFiles {
			t.Errorf("%s: got files %s", dest, got)
		}
		return l
	}
	first := layer("oci:" + out + "/1")
	if second := layer("oci:" + out + "/2"); first.Digest != second.Digest || first.Digest == "" {
		t.Errorf("twice the same gives %s and %s", first.Digest, second.Digest)
	}
	src := imagetest.Open(t, "oci:"+out+"/1:"+images.DropInTag)
	if err := validate.Image(src.Image); err != nil {
		t.Error(err)
	}
	cf := imagetest.Must[*v1.ConfigFile](t)(src.Image.ConfigFile())
	if cf.OS != "linux" || !cf.Created.Equal(time.Unix(0, 0)) || cf.Architecture != "amd64" || strings.Join(cf.Config.Entrypoint, " ") != "/vfix/vfix" {
		t.Errorf("got config %+v", cf)
	}
	tar := layer("tar:" + out + "/x.tar")
	b := imagetest.Must[[]byte](t)(os.ReadFile(out + "/x.tar"))
	if tar.Size != int64(len(b)) || tar.Digest != "" || tar.Reference != out+"/x.tar" {
		t.Errorf("tar: got %+v, file of %d bytes", tar, len(b))
	}
	if got := strings.Join(imagetest.Must[[]string](t)(filepath.Glob(out+"/.vfix-*")), " "); got != "" {
		t.Errorf("left behind: %s", got)
	}
	modes := map[string]int64{"vfix/vfix": 0o755, "vfix/vfix-trace": 0o755, "etc/ld.so.preload": 0o644, "etc/": 0o755, "vfix/": 0o755}
	for _, m := range imagetest.AddedMembers(t, "oci:"+out+"/1:"+images.DropInTag) {
		if want, ok := modes[m.Name]; ok && m.Mode != want || m.Uid != 0 || m.Gid != 0 {
			t.Errorf("%s: got mode %#o and owner %d:%d", m.Name, m.Mode, m.Uid, m.Gid)
		}
		delete(modes, m.Name)
	}
	if len(modes) != 0 {
		t.Errorf("missing: %v", modes)
	}
}

// TestDropInRebuild: an image with the drop-in layer in it has the fallback; rebuild sees
// that and adds what is missing alone.
func TestDropInRebuild(t *testing.T) {
	dir := t.TempDir()
	if _, err := images.Layer(context.Background(), images.LayerOptions{Dest: "oci:" + dir + "/l", Program: testProgram(t), Shim: imagetest.TestShim}); err != nil {
		t.Fatal(err)
	}
	layers := imagetest.Must[[]v1.Layer](t)(imagetest.Open(t, "oci:"+dir+"/l:"+images.DropInTag).Image.Layers())
	base := imagetest.Stack(t, []imagetest.TestMember{imagetest.LoaderM(), imagetest.LeftM("lib/odd.so", true)})
	source := imagetest.StoreOCI(t, imagetest.Must[v1.Image](t)(mutate.AppendLayers(base, layers...)))
	r := imagetest.RebuildWith(t, source, "oci:"+dir+"/1:x", fallback.FallbackAuto)
	if !r.Unchanged || r.Findings.Uncovered().Left != 0 || r.Findings.Sites().Left != 1 {
		t.Errorf("auto: got %+v", r)
	}
	r = imagetest.RebuildWith(t, source, "oci:"+dir+"/2:x", fallback.FallbackAlways)
	if len(r.Findings.Fallback.Added) != 0 || !r.Findings.Fallback.Wrapped || imagetest.Entrypoint(t, "oci:"+dir+"/2:x") != "/vfix/vfix-trace /bin/sh" {
		t.Errorf("always: got %+v", r.Findings.Fallback)
	}
}

// TestDropInScan: libvfix.so of the drop-in layer covers what could be patched and is not.
func TestDropInScan(t *testing.T) {
	dir := t.TempDir()
	if _, err := images.Layer(context.Background(), images.LayerOptions{Dest: "oci:" + dir + "/l", Program: testProgram(t), Shim: imagetest.TestShim}); err != nil {
		t.Fatal(err)
	}
	layers := imagetest.Must[[]v1.Layer](t)(imagetest.Open(t, "oci:"+dir+"/l:"+images.DropInTag).Image.Layers())
	library := imagetest.LegacyM("lib/a", "1")
	library.Body[16] = 3 // e_type ET_DYN
	base := []imagetest.TestMember{imagetest.LoaderM(), library}
	img := imagetest.Must[v1.Image](t)(mutate.AppendLayers(imagetest.Stack(t, base), layers...))
	f, err := images.Scan(context.Background(), imagetest.StoreOCI(t, img), images.ScanOptions{Shim: imagetest.TestShim})
	if err != nil || len(f.Files) != 1 || f.Files[0].Covered != fallback.CoveredByLibrary || f.Files[0].Plan.Empty() {
		t.Fatalf("got %+v, error %v", f, err)
	}
	// The control: without the layer nothing covers it.
	f, err = images.Scan(context.Background(), imagetest.StoreOCI(t, imagetest.Stack(t, base)), images.ScanOptions{Shim: imagetest.TestShim})
	if err != nil || f.Files[0].Covered != "" {
		t.Errorf("without: got %+v, error %v", f, err)
	}
}

func TestDropInErrors(t *testing.T) {
	dir, program := t.TempDir(), testProgram(t)
	text := filepath.Join(dir, "text")
	library := filepath.Join(dir, "library")
	if err := os.WriteFile(text, []byte("#!/bin/sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(library, imagetest.FindingM("x", true).Body, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ dest, program, want string }{
		{"oci:" + dir + "/a", text, "not a static program"},
		{"oci:" + dir + "/a", library, "not a static program"},
		{"oci:" + dir + "/a", dir + "/missing", "no such file"},
		{dir + "/x.tar", program, "cannot tell the output format"},
		{"tar:" + dir, program, "not a regular file"},
		{"tar:" + dir + "/missing/x", program, "no directory"},
		{"dir:" + dir, program, "not written as a root filesystem"},
		{"x.tar", program, "cannot tell the output format"},
		{"./x", program, "cannot tell the output format"},
		{"oci:", program, "oci:"},
	} {
		_, err := images.Layer(context.Background(), images.LayerOptions{Dest: c.dest, Program: c.program, Shim: imagetest.TestShim})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s: got %v, want %q", c.dest, c.program, err, c.want)
		}
	}
	imagetest.NoDaemon(t)
	_, err := images.Layer(t.Context(), images.LayerOptions{Program: program, Shim: imagetest.TestShim})
	if !errors.Is(err, hinterr.ErrNoDaemon) {
		t.Errorf("no daemon: got %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := images.Layer(ended, images.LayerOptions{Dest: "tar:" + dir + "/x", Program: program, Shim: imagetest.TestShim}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
	t.Setenv("DOCKER_HOST", "")
	t.Setenv("DOCKER_CONTEXT", "none")
	_, err = images.Layer(t.Context(), images.LayerOptions{Program: program, Shim: imagetest.TestShim})
	if hint := hinterr.HintOf(err); !errors.Is(err, hinterr.ErrNoDaemon) || hint != "docker context ls" {
		t.Errorf("no such context: got %v with the hint %q", err, hint)
	}
	if left := imagetest.Must[[]os.DirEntry](t)(os.ReadDir(dir)); len(left) != 2 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := images.Layer(context.Background(), images.LayerOptions{Dest: "tar:" + dir + "/x", Program: program}); err == nil {
		t.Error("without a fallback: no error")
	}
}
