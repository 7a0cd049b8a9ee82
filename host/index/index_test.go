package index

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// in puts a command of an engine into PATH, in place of all others.
func in(t *testing.T, commands map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range commands {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
}

func TestLayers(t *testing.T) {
	const known = `[ "$6" = known ] || { echo noise >&2; echo "no such image" >&2; exit 1; }; `
	in(t, map[string]string{
		"docker": known + `echo '{"Name":"overlay2","Data":{"LowerDir":"/a:/b","UpperDir":"/c","WorkDir":"/w"}}'`,
		"podman": `case $6 in one) echo '{"Name":"overlay","Data":{"UpperDir":"/d"}}' ;; vfs) echo '{"Name":"vfs","Data":{"dir":"/x"}}' ;; *) echo null ;; esac`,
	})
	for _, c := range []struct {
		engine, image string
		want          []string
		err           string
	}{
		{"", "known", []string{"/c", "/a", "/b"}, ""},
		{"", "one", []string{"/d"}, ""},
		{"docker", "one", nil, `docker: exit status 1: "no such image"`},
		{"podman", "vfs", nil, `its storage driver ("vfs") does not name the layers`},
		{"podman", "null", nil, "does not name the layers"},
		{"", "vfs", nil, "no engine has it"},
		{"containerd", "known", nil, "executable file not found"},
	} {
		got, err := Layers(t.Context(), c.engine, c.image)
		if !slices.Equal(got, c.want) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s, %s: got %v, %v, want %v, %s", c.engine, c.image, got, err, c.want, c.err)
		}
	}
}

// Each engine's events are followed, and again when the engine has gone.
func TestWatch(t *testing.T) {
	defer func(was time.Duration) { again = was }(again)
	again = time.Millisecond
	in(t, map[string]string{
		"docker": `echo sha256:1; echo sha256:2; echo gone >&2; exit 1`,
		"ctr": `echo '2026-01-02 03:04:05.6 +0000 UTC k8s.io /images/create {"name":"docker.io/library/a:1"}'
echo '2026-01-02 03:04:05.6 +0000 UTC k8s.io /images/create {"name":"sha256:abc"}'
echo '2026-01-02 03:04:05.6 +0000 UTC k8s.io /images/delete {"name":"docker.io/library/b:1"}'
exec /bin/sleep 60`,
	})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	found, said := make(chan string, 1000), make(chan string, 1000)
	done := make(chan error)
	go func() {
		done <- Watch(ctx, "", func(engine, image string) {
			select {
			case found <- engine + " " + image:
			default:
			}
		}, func(format string, args ...any) { said <- fmt.Sprintf(format, args...) })
	}()
	count := map[string]int{}
	for count["docker sha256:1"] < 2 || count["docker sha256:2"] < 2 || count["containerd docker.io/library/a:1"] < 1 {
		select {
		case f := <-found:
			count[f]++
		case <-ctx.Done():
			t.Fatalf("got %v", count)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(count) != 3 {
		t.Errorf("got %v", count)
	}
	if text := <-said; !strings.Contains(text, `"gone"; retrying`) || len(said) != 0 {
		t.Errorf("said %s, and %d more", text, len(said))
	}
	in(t, nil)
	if err := Watch(t.Context(), "", nil, nil); err == nil || !strings.Contains(err.Error(), "docker, podman, containerd") {
		t.Errorf("no engine: got %v", err)
	}
}
