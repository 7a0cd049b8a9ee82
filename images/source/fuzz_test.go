package source_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"vfix.dev/vfix/images/source"
)

// FuzzOpen: no file makes vfix panic, and an image that was opened has its layers.
func FuzzOpen(f *testing.F) {
	dir := f.TempDir()
	img := imageOf(f, "linux/amd64", tarOf(f, "a", "a"))
	for _, dest := range []string{"oci-archive:" + dir + "/a:x", "docker-archive:" + dir + "/b:x:1"} {
		put(f, dest, source.Result{Image: img}, fast)
	}
	for _, name := range []string{"a", "b"} {
		f.Add(must(os.ReadFile(filepath.Join(dir, name)))(f))
	}
	id := oldID(0)
	f.Add(tarOf(f, "repositories", `{"x":{"1":"`+id+`"}}`, id+"/json", oldJSON(0, ""), id+"/layer.tar", string(tarOf(f, "a", "1"))))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "x")
		os.WriteFile(path, data, 0o644)
		src, err := source.Open(t.Context(), path, fast)
		if err != nil {
			return
		}
		defer src.Close()
		if src.Image == nil {
			return
		}
		layers, err := src.Image.Layers()
		for _, l := range layers {
			if r, err := l.Uncompressed(); err == nil {
				io.Copy(io.Discard, io.LimitReader(r, 1<<20))
				r.Close()
			}
		}
		if err != nil {
			t.Error(err)
		}
	})
}
