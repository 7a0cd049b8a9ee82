package ociruntime

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/rootfs"
)

// Relative paths of layers are found from the mountpoint and from the upper layer, and nowhere else.
func TestNearby(t *testing.T) {
	dir := t.TempDir()
	for _, at := range []string{"snapshots/1/fs", "containers/x/merged"} {
		if err := os.MkdirAll(filepath.Join(dir, at), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ layer, mountpoint, upper, want string }{
		{"/abs", "", "", "/abs"},
		{"1/fs", "/run/x", dir + "/snapshots/2/fs", dir + "/snapshots/1/fs"},
		{"snapshots/1/fs", dir + "/containers/x/merged", "", dir + "/snapshots/1/fs"},
		{"snapshots/2/fs", dir + "/containers/x/merged", dir + "/snapshots/1/fs", ""},
		{"1/fs", "relative", "", ""},
	} {
		got, err := nearby(c.layer, c.mountpoint, c.upper)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%+v: got %q, %v", c, got, err)
		}
	}
}

// An overlay has the properties of its worst layer; one whose layer another overlay covers is not looked at for ever.
func TestUncertain(t *testing.T) {
	dir := t.TempDir()
	fd, err := unix.Open(dir, unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if !rootfs.KindOf(fd).Has(rootfs.Certain) {
		t.Skip("the temporary directory is on another file system")
	}
	proc, err := unix.Open("/proc", unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(proc)
	var fs unix.Statfs_t
	if err := unix.Fstatfs(proc, &fs); err != nil || fs.Flags&unix.ST_NOEXEC != 0 {
		t.Skip("no program runs from /proc here")
	}
	id, err := rootfs.MountOf(proc)
	if err != nil {
		t.Fatal(err)
	}
	k := &container{}
	at := func(kind, options string) []mount {
		k.machine = parseMounts(fmt.Appendf(nil, "%d 1 0:9 / /proc rw - %s x rw%s\n", id, kind, options))
		return k.machine
	}
	for _, c := range []struct{ kind, options, trusted, want string }{
		{"proc", "", "", ""},
		{"9p", "", "", "9p: "},
		{"9p", "", "nfs4,9p", ""},
		{"fuse.fuse-overlayfs", "", "", ""},
		{"overlay", ",lowerdir=" + dir, "", ""},
		{"overlay", ",lowerdir=" + dir + ":/proc/sys,upperdir=" + dir, "", "layer /proc/sys: an unknown file system: "},
		{"overlay", ",lowerdir=/none:" + dir, "", ""},
		{"overlay", ",lowerdir=none:" + dir, "", "layer none: "},
		{"overlay", ",lowerdir+=" + dir + ",datadir+=/proc/sys", "", "layer /proc/sys: "},
		{"overlay", ",lowerdir=/proc:" + dir, "", ""}, // which it covers itself
	} {
		k.TrustedFilesystems = c.trusted
		if got := k.uncertain(proc, at(c.kind, c.options)); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%+v: got %q", c, got)
		}
	}
	if why := k.uncertain(fd, nil); why != "" {
		t.Errorf("the temporary directory: %s", why)
	}
}
