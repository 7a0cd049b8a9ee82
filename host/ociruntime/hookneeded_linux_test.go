package ociruntime

import (
	"testing"

	"github.com/moby/sys/mountinfo"

	"vfix.dev/vfix/host/rootfs"
)

// TestNotMade: a hook that sees no /proc where config.json has it looks at another place than the container's.
func TestNotMade(t *testing.T) {
	root, err := rootfs.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	proc := specMount{Destination: "/proc", Type: "proc", Source: "proc"}
	k := &container{root: root, spec: &spec{Mounts: []specMount{proc, {Destination: "/dev/mqueue", Type: "mqueue"}}}}
	if got := k.notMade(); got == "" {
		t.Error("nothing is mounted: got nothing")
	}
	k.mounts = []mount{{&mountinfo.Info{Mountpoint: root.Path + "/proc"}}}
	if got := k.notMade(); got != "" {
		t.Errorf("got %s", got)
	}
}
