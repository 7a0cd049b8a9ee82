package images_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/patch"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/tests/imagetest"
)

// seenImage calls seen whenever its layers are read.
type seenImage struct {
	v1.Image
	seen func()
}

func (i seenImage) Layers() ([]v1.Layer, error) {
	i.seen()
	return i.Image.Layers()
}

// An unfinished file has a name by which the next run knows it.
func TestBegunUnderHeldName(t *testing.T) {
	img := imagetest.Stack(t, []imagetest.TestMember{imagetest.LegacyM("bin/old", "1")})
	for _, to := range []media.Transport{media.Dir, media.SIF} {
		out := t.TempDir() + "/out"
		held := atomicfile.HeldName(out)
		begun := 0
		_, err := sources.Put(context.Background(), media.Ref{Transport: to, Name: out}, media.Result{Image: seenImage{img, func() {
			all, _ := filepath.Glob(filepath.Dir(out) + "/.vfix-*")
			for _, name := range all {
				begun++
				if len(name) != len(held) {
					t.Errorf("%s: %s, want a name like %s", to, name, held)
				}
			}
		}}}, media.Options{})
		if err != nil || begun == 0 {
			t.Errorf("%s: %v, %d seen", to, err, begun)
		}
	}
}

// The remains of a directory or file of a killed run are removed by the next run that writes it.
func TestKilledRunsLeaveNothing(t *testing.T) {
	img := imagetest.Stack(t, []imagetest.TestMember{imagetest.LegacyM("bin/old", "1")})
	in := t.TempDir()
	imagetest.Write(t, in+"/old", imagetest.LegacyELF("1"))
	for name, write := range map[string]func(out string) error{
		"rebuild -o dir:": func(out string) error {
			_, err := sources.Put(context.Background(), media.Ref{Transport: media.Dir, Name: out}, media.Result{Image: img}, media.Options{})
			return err
		},
		"patch -o DIR": func(out string) error {
			_, err := patch.All(context.Background(), []string{in}, patch.Options{Output: out})
			return err
		},
		"patch -o FILE": func(out string) error {
			_, err := patch.All(context.Background(), []string{in + "/old"}, patch.Options{Output: out})
			return err
		},
		"convert -o sif:": func(out string) error {
			_, err := sources.Put(context.Background(), media.Ref{Transport: media.SIF, Name: out}, media.Result{Image: img}, media.Options{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			out := dir + "/out"
			for _, of := range []string{out, dir + "/another"} {
				if err := os.MkdirAll(atomicfile.HeldName(of)+"/a", 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := write(out); err != nil {
				t.Fatal(err)
			}
			left, _ := filepath.Glob(dir + "/.vfix-*")
			if len(left) != 1 { // that of another
				t.Errorf("left: %q", left)
			}
			if _, err := os.Stat(out); err != nil {
				t.Error(err)
			}
		})
	}
}
