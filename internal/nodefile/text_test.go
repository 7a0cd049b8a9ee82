package nodefile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	dir := t.TempDir()
	for _, size := range []int{0, 1, 4<<10 - 1, 4 << 10, 4<<10 + 1, 100_000} {
		path, want := filepath.Join(dir, "f"), bytes.Repeat([]byte("0123456789abcde"), size/15+1)[:size]
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Text(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: got %d, %v", size, len(got), err)
		}
	}
	if _, err := Text(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), dir+"/none") {
		t.Errorf("a missing file: got %v", err)
	}
	if _, err := Text(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a directory: got %v", err)
	}
}
