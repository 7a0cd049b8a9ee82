package filecopy

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/iotest"
)

func TestCopy(t *testing.T) {
	data := bytes.Repeat([]byte("x"), buffer+1)
	for name, want := range map[string][]byte{
		"empty": nil, "short": []byte("x"), "data": data, "zeros": make([]byte, 20*buffer+5),
		"hole inside": append(append(bytes.Clone(data), make([]byte, 20*buffer)...), data...),
		"small holes": bytes.Repeat(append([]byte("x"), make([]byte, 8*block-1)...), 20),
		"hole behind": append(bytes.Clone(data), make([]byte, 20*buffer)...),
	} {
		f, err := os.Create(filepath.Join(t.TempDir(), "f"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		n, err := CopySparse(f, iotest.HalfReader(bytes.NewReader(want)))
		got, rerr := os.ReadFile(f.Name())
		if err != nil || rerr != nil || n != int64(len(want)) || !bytes.Equal(got, want) {
			t.Errorf("%s: got %d bytes, %v, %v, want %d", name, n, err, rerr, len(want))
		}
		fi, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		const most = 3*buffer + 2*block
		if used := fi.Sys().(*syscall.Stat_t).Blocks * 512; used > most {
			t.Errorf("%s: takes %d bytes on the disk, want at most %d", name, used, most)
		}
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, want := range []error{io.ErrClosedPipe, io.ErrUnexpectedEOF} {
		if _, err := CopySparse(f, io.MultiReader(bytes.NewReader(data), iotest.ErrReader(want))); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}
