package plugin

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/nri/pkg/api"
)

func TestProcessOf(t *testing.T) {
	proc := t.TempDir()
	for pid, groups := range map[string]string{
		"1": "0::/\n", "40": "0::/pods/crio-conmon-abc\n", "41": "12:memory:/pods/crio-abcd\n0::/\n",
		"42": "12:memory:/../../pods/crio-abc\n0::/\n", "43": "0::/kubepods.slice/crio-def.scope/container\n",
	} {
		dir := filepath.Join(proc, pid)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup"), []byte(groups), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const running, created, stopped = api.ContainerState_CONTAINER_RUNNING, api.ContainerState_CONTAINER_CREATED, api.ContainerState_CONTAINER_STOPPED
	for name, tc := range map[string]struct {
		c    *api.Container
		want int
		bad  bool
	}{
		"reported":   {c: &api.Container{Id: "abc", Pid: 7, State: created}, want: 7},
		"cgroupfs":   {c: &api.Container{Id: "abc", State: created}, want: 42},
		"systemd":    {c: &api.Container{Id: "def", State: running}, want: 43},
		"has ended":  {c: &api.Container{Id: "abc", State: stopped}},
		"none there": {c: &api.Container{Id: "ab", State: running}, bad: true},
	} {
		if got, err := processOf(proc, tc.c); got != tc.want || (err != nil) != tc.bad {
			t.Errorf("%s: got %d, %v", name, got, err)
		}
	}
}
