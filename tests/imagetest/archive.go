// Archives as docker save writes them, and tests with every decompressor.

package imagetest

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/zstd"
)

// DockerSave makes an archive as docker save wrote them from 1.10 to 24: a directory a layer,
// plain layers, and a symlink for a layer that is there twice.
func DockerSave(t testing.TB, img v1.Image, tags ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	m := savedImage{RepoTags: tags}
	for n, l := range Must[[]v1.Layer](t)(img.Layers()) {
		plain := Must[[]byte](t)(io.ReadAll(Must[io.ReadCloser](t)(l.Uncompressed())))
		id := strings.Repeat(string(rune('a'+n)), 64)
		tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: id + "/", Mode: 0o755})
		TarBytes(tw, id+"/VERSION", []byte("1.0"))
		TarBytes(tw, id+"/real", plain)
		tw.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: id + "/layer.tar", Linkname: "../" + id + "/real"})
		m.Layers = append(m.Layers, id+"/layer.tar")
	}
	m.Config = Must[v1.Hash](t)(img.ConfigName()).Hex + ".json"
	TarBytes(tw, m.Config, Must[[]byte](t)(img.RawConfigFile()))
	TarBytes(tw, "manifest.json", Must[[]byte](t)(json.Marshal([]savedImage{m})))
	TarBytes(tw, "repositories", []byte("{}"))
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func ZstdOf(t testing.TB, data []byte) []byte {
	t.Helper()
	z := Must[*zstd.Encoder](t)(zstd.NewWriter(nil))
	return z.EncodeAll(data, nil)
}

// Decompressors runs a test with each decompressor that is installed.
func Decompressors(t *testing.T, f func(t *testing.T)) {
	t.Run("igzip", func(t *testing.T) {
		if _, err := exec.LookPath("igzip"); err != nil {
			t.Skip(err)
		}
		f(t)
	})
	t.Run("go", func(t *testing.T) {
		t.Setenv("PATH", "")
		f(t)
	})
}

// Noise does not compress, so that a bit of it that is changed is not lost.
func Noise(n int) []byte {
	b := make([]byte, n)
	x := uint64(88172645463325252) // xorshift64 (Marsaglia 2003)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}

// savedImage is an image in the manifest.json of docker save.
type savedImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// TarBytes writes a file into a tar stream.
func TarBytes(tw *tar.Writer, name string, data []byte) error {
	if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(data)), Mode: 0o644}); err != nil {
		return err
	}
	_, err := tw.Write(data)
	return err
}
