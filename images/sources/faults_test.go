package sources_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/tests/imagetest"
)

// Whichever call of an image or its layers fails, its destination has nothing, or the same as without that.
func TestPutFaults(t *testing.T) {
	imagetest.CleanTemp(t)
	reg := imagetest.NewRegistry(t)
	img := imagetest.Stack(t, []imagetest.TestMember{imagetest.DirM("bin"), imagetest.LegacyM("bin/a", "1"), imagetest.LinkM("bin/b", "bin/a")}, []imagetest.TestMember{imagetest.FileM("x", imagetest.Noise(5000))})
	n := 0
	for to, least := range map[media.Transport]int64{media.OCILayout: 10, media.OCIArchive: 10, media.DockerArchive: 10, media.Dir: 5, media.SIF: 5, media.Registry: 10} {
		t.Run(string(to), func(t *testing.T) {
			imagetest.EachFault(t, least, func(f *imagetest.Faults) (string, error) {
				dir := t.TempDir()
				dest := media.Ref{Transport: to, Name: filepath.Join(dir, "out")}
				if n++; to == media.Registry {
					dest.Name = fmt.Sprintf("%s/out%d:1", reg.Host, n)
				}
				o := imagetest.Fast
				o.Progress = f
				st, err := sources.Put(t.Context(), dest, media.Result{Image: imagetest.FaultyImage{Image: img, F: f}}, o)
				if err != nil {
					imagetest.WantEmpty(t, dir)
					if to == media.Registry {
						imagetest.OpenErr(t, dest.String())
					}
					return "", err
				}
				got := fmt.Sprint(st.Digest, st.Warnings)
				switch to {
				case media.OCIArchive, media.DockerArchive:
					got += fmt.Sprintf("%x", sha256.Sum256(imagetest.Must[[]byte](t)(os.ReadFile(dest.Name))))
				case media.Dir:
					got += imagetest.FileListing(t, dest.Name)
				default:
					layers := imagetest.Must[[]v1.Layer](t)(imagetest.Open(t, dest.String()).Image.Layers())
					got += fmt.Sprint(len(layers), imagetest.Must[v1.Hash](t)(layers[0].DiffID()))
				}
				return got, nil
			})
		})
	}
}
