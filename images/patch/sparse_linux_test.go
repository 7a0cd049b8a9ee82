package patch_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"vfix.dev/vfix/images/patch"
	"vfix.dev/vfix/tests/imagetest"
	"vfix.dev/vfix/tests/tinyelf"
)

// TestPatchKeepsHoles: a file of holes, as databases and virtual machines have in their programs'
// segments, is one afterwards.
func TestPatchKeepsHoles(t *testing.T) {
	const size, most = 8 << 20, 64 << 10
	write := func() (dir, file string) {
		dir = t.TempDir()
		file = filepath.Join(dir, "program")
		b := tinyelf.Bytes(1)
		for _, field := range []int{32, 40} { // p_filesz, p_memsz of the first program header
			binary.LittleEndian.PutUint64(b[64+field:], size)
		}
		if err := os.WriteFile(file, b, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(file, size); err != nil {
			t.Fatal(err)
		}
		return dir, file
	}
	check := func(what, file string) {
		t.Helper()
		fi := imagetest.Stat(t, file)
		if used := fi.Sys().(*syscall.Stat_t).Blocks * 512; used > most || fi.Size() <= size {
			t.Errorf("%s: %d bytes take %d on the disk, want at most %d", what, fi.Size(), used, most)
		}
	}
	_, file := write()
	imagetest.Patch(t, patch.Options{InPlace: true}, file)
	check("in place", file)
	dir, file := write()
	out := filepath.Join(t.TempDir(), "out")
	imagetest.Patch(t, patch.Options{Output: out}, file)
	check("a copy", out)
	out = filepath.Join(t.TempDir(), "directory")
	imagetest.Patch(t, patch.Options{Output: out}, dir)
	check("a directory", out+"/program")
}
