package plugin

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/moby/sys/mountinfo"

	"vfix.dev/vfix/host/nri"
)

// A file is replaced if its content differs, and an error is returned if it cannot be.
func TestInstall(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	path := filepath.Join(dir, programName)
	install := func(dir, content string) error {
		h := &hooker{Options: Options{Options: nri.Options{Dir: dir}, Hook: []byte(content)}}
		return h.install()
	}
	for _, content := range []string{"", "program", "program", "another one"} {
		before, _ := os.Stat(path)
		if err := install(dir, content); err != nil {
			t.Fatalf("%q: %v", content, err)
		}
		after, err := os.Stat(path)
		if err != nil || after.Mode() != 0o755 {
			t.Fatalf("%q: got %v, %v", content, after, err)
		}
		if got, _ := os.ReadFile(path); string(got) != content {
			t.Errorf("got %q, want %q", got, content)
		}
		if before != nil && before.Size() == after.Size() && !os.SameFile(before, after) {
			t.Error("the same program is written again")
		}
	}
	if err := install(path, ""); err == nil {
		t.Error("below a file: no error")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(path, "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := install(dir, "program"); err == nil {
		t.Error("over a directory: no error")
	}
}

// A directory of the container's image is not the node's.
func TestInImage(t *testing.T) {
	overlay, other := &mountinfo.Info{Mountpoint: "/", FSType: "overlay"}, &mountinfo.Info{Mountpoint: "/", FSType: "ext4"}
	volume := &mountinfo.Info{Mountpoint: "/opt/vfix", FSType: "ext4"}
	for name, tc := range map[string]struct {
		mounts []*mountinfo.Info
		want   bool
	}{
		"image": {[]*mountinfo.Info{overlay}, true}, "volume": {[]*mountinfo.Info{overlay, volume}, false}, "node": {[]*mountinfo.Info{other}, false},
	} {
		if got := inImage(tc.mounts, "/opt/vfix/nri"); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}
