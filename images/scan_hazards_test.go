package images_test

import (
	"fmt"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/tests/imagetest"
)

// TestHazardsOfImage: of what is visible; an init is a hazard where a container starts with it.
func TestHazardsOfImage(t *testing.T) {
	jvm := imagetest.ModernELF("\x00 for linux-amd64 JRE (17.0.9+9), built on\x00memory.limit_in_bytes\x00/proc/cgroups\x00")
	init := imagetest.ModernELF("\x00systemd 219 running in %ssystem mode\x00")
	base := imagetest.Stack(t,
		[]imagetest.TestMember{
			imagetest.FileM("usr/lib/systemd/systemd", init), imagetest.SymM("sbin", "usr/sbin"), imagetest.SymM("usr/sbin/init", "../lib/systemd/systemd"),
			imagetest.FileM("jdk/libjvm.so", jvm), imagetest.FileM("old/libjvm.so", jvm),
		},
		[]imagetest.TestMember{imagetest.FileM("old/.wh.libjvm.so", nil)})
	const java, both = "[java-cgroups jdk/libjvm.so]", "[java-cgroups jdk/libjvm.so init-cgroup-v2 usr/lib/systemd/systemd]"
	for _, c := range []struct {
		entrypoint, cmd []string
		want            string
	}{
		{nil, []string{"/sbin/init"}, both},
		{[]string{"init"}, []string{"--log-level=debug"}, both},
		{nil, []string{"/usr/lib/systemd/systemd"}, both},
		{[]string{"/vfix/vfix-trace"}, []string{"/usr/sbin/init"}, both},
		{[]string{"/bin/app"}, []string{"/sbin/init"}, java},
		{nil, nil, java},
	} {
		img := imagetest.Must[v1.Image](t)(mutate.Config(base, v1.Config{Entrypoint: c.entrypoint, Cmd: c.cmd}))
		f, err := images.Scan(t.Context(), imagetest.StoreOCI(t, img), images.ScanOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var got []any
		for _, h := range f.Hazards {
			got = append(got, h.Kind, h.Path)
			if h.Layer == "" || h.Version == "" {
				t.Errorf("no layer or version: %+v", h)
			}
		}
		if text := fmt.Sprint(got); text != c.want {
			t.Errorf("%v %v: got %s, want %s", c.entrypoint, c.cmd, text, c.want)
		}
	}
}
