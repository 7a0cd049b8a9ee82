package hotfix

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vfix.dev/vfix/host/store"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
)

func TestMountedCopies(t *testing.T) {
	proc := t.TempDir()
	used, other := strings.Repeat("a", 64), strings.Repeat("b", 64)
	for pid, text := range map[string]string{
		"7":    "36 35 98:0 /var/lib/vfix/hotfix/" + used + " /lib/libc.so.6 ro - ext4 /dev/root rw\n37 35 98:0 /x /y rw - ext4 /dev/root rw\n",
		"8":    "36 35 98:0 / / rw - ext4 /dev/root rw\nnonsense\n",
		"self": "36 35 98:0 /var/lib/vfix/hotfix/" + other + " /lib/libc.so.6 ro - ext4 /dev/root rw\n",
	} {
		if err := os.Mkdir(filepath.Join(proc, pid), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, pid, "mountinfo"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := mountedCopies(proc)
	if len(got) != 1 || strings.Join(got[used], " ") != "process 7" {
		t.Errorf("got %v, want %s of process 7", got, used)
	}
}

// Without an engine to ask nothing is removed: a stopped container may need it.
func TestCopiesWithoutEngine(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix://"+t.TempDir()+"/none.sock")
	dir := t.TempDir()
	name := strings.Repeat("a", 64)
	path := store.At(dir).Path(name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("copy"), 0o600)); err != nil {
		t.Fatal(err)
	}
	all, answered, err := Copies(context.Background(), dir, media.Options{})
	if err != nil || answered || len(all) != 1 || all[0].Size == 0 || all[0].Path != path || len(all[0].By) != 0 {
		t.Errorf("got %+v, asked %v, error %v", all, answered, err)
	}
	if removed, _, err := Prune(context.Background(), dir, media.Options{}); !errors.Is(err, hinterr.ErrNoDaemon) || len(removed) > 0 {
		t.Errorf("got %+v, error %v, want no removal", removed, err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// A directory that was never made has no copies.
func TestCopiesOfNoDir(t *testing.T) {
	if all, _, err := Copies(t.Context(), t.TempDir()+"/none", media.Options{}); err != nil || len(all) != 0 {
		t.Errorf("got %v, %v", all, err)
	}
}
