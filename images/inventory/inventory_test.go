package inventory_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/inventory"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

// listingDaemon is a fakeDaemon that has an image (tiny:1), one that it has lost, a container
// of the first and one of an image that is gone.
func listingDaemon(t *testing.T, img v1.Image) {
	t.Helper()
	d := imagetest.NewDaemon(t, img, "tiny:1")
	id := d.ID.String()
	d.Has[id] = d.Has["tiny:1"]
	lost := "sha256:" + strings.Repeat("b", 64)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/images/json"):
			io.WriteString(w, `[{"Id":"`+lost+`","RepoTags":["<none>:<none>"]},{"Id":"`+id+`","RepoTags":["tiny:1"]}]`)
		case strings.HasSuffix(r.URL.Path, "/containers/json"):
			io.WriteString(w, `[{"Id":"c1","Names":["/one"],"Image":"tiny:1","ImageID":"`+id+`"},{"Id":"c2","Names":[],"Image":"gone","ImageID":"sha256:cc"}]`)
		default:
			d.ServeHTTP(w, r)
		}
	})
	sock := filepath.Join(filepath.Dir(d.Sock), "l.sock")
	l := imagetest.Must[net.Listener](t)(net.Listen("unix", sock))
	s := &http.Server{Handler: handler}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	t.Setenv("DOCKER_HOST", "unix://"+sock)
}

var inventoryOptions = images.ScanOptions{Media: media.Options{Platform: v1.Platform{OS: "linux", Architecture: "amd64"}}}

func TestInventory(t *testing.T) {
	imagetest.CleanTemp(t)
	listingDaemon(t, imagetest.TinyImage(t))
	ctx := t.Context()
	inv, err := inventory.Take(ctx, ctx, inventoryOptions)
	if err != nil {
		t.Fatal(err)
	}
	if len(inv.Engines) != 1 || len(inv.Held) != 3 {
		t.Fatalf("got %+v", inv)
	}
	// The image of a running container comes first.
	if h := inv.Held[0]; h.Name != "tiny:1" || h.Container != "" || h.Err != nil || h.Sites != 0 {
		t.Errorf("image: got %+v", h)
	}
	if h := inv.Held[1]; h.Name != strings.Repeat("b", 12) || !errors.Is(h.Err, hinterr.ErrNotFound) {
		t.Errorf("the lost image: got %+v", h)
	}
	if h := inv.Held[2]; h.Container != "one" || h.Name != "tiny:1" {
		t.Errorf("container: got %+v", h)
	}
	if strings.Join(inv.LeftOut, " ") != "c2" {
		t.Errorf("left out: got %v, want the container of an image that is gone", inv.LeftOut)
	}
}

// TestInventoryEnds: what there is no time for is named; a caller that gives up gets an error.
func TestInventoryEnds(t *testing.T) {
	imagetest.CleanTemp(t)
	listingDaemon(t, imagetest.TinyImage(t))
	enough, stop := context.WithCancel(t.Context())
	stop()
	inv, err := inventory.Take(t.Context(), enough, inventoryOptions)
	if err != nil || len(inv.Held) != 0 || len(inv.LeftOut) != 4 {
		t.Errorf("no time: got %+v, %v", inv, err)
	}
	if inv, err := inventory.Take(enough, enough, inventoryOptions); err == nil {
		t.Errorf("given up: got %+v", inv)
	}
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "none"))
	if _, err := inventory.Take(t.Context(), t.Context(), inventoryOptions); !errors.Is(err, hinterr.ErrNoDaemon) {
		t.Errorf("no engine: got %v", err)
	}
}

// TestInventoryCaught: call sites that the fallback in an image catches do not count, as for a scan.
func TestInventoryCaught(t *testing.T) {
	imagetest.CleanTemp(t)
	library := imagetest.FileM("vfix/x86_64/libvfix.so", imagetest.TestShim.Library)
	library.Mode = 0o755
	legacy := imagetest.LegacyM("lib/a.so", "1")
	legacy.Body[16] = 3 // e_type ET_DYN
	members := []imagetest.TestMember{imagetest.LoaderM(), legacy}
	o := inventoryOptions
	o.Shim = imagetest.TestShim
	for want, img := range map[int]v1.Image{
		1: imagetest.Stack(t, members),
		0: imagetest.Stack(t, append(members, library, imagetest.FileM("etc/ld.so.preload", []byte("/vfix/x86_64/libvfix.so\n")))),
	} {
		listingDaemon(t, img)
		inv, err := inventory.Take(t.Context(), t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if h := inv.Held[0]; h.Sites != want || h.Files != want || h.Err != nil {
			t.Errorf("got %+v, want %d call sites", h, want)
		}
	}
}
