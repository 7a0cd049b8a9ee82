package inventory_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/inventory"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

// listingDaemon is a fakeDaemon that has an image (tiny:1), one that it has lost, a container
// of the first, one of an image that is gone and one that ended. Requests for what is broken fail.
func listingDaemon(t *testing.T, img v1.Image, broken ...string) (host string) {
	t.Helper()
	d := imagetest.NewDaemon(t, img, "tiny:1")
	id := d.ID.String()
	d.Has[id] = d.Has["tiny:1"]
	lost := "sha256:" + strings.Repeat("b", 64)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		part := strings.TrimPrefix(r.URL.Path, "/v1.41/")
		switch {
		case slices.Contains(broken, part):
			w.WriteHeader(http.StatusInternalServerError)
		case part == "images/json":
			io.WriteString(w, `[{"Id":"`+lost+`","RepoTags":["<none>:<none>"]},{"Id":"`+id+`","RepoTags":["tiny:1","<none>:<none>","old:2"],"Created":86400}]`)
		case part == "version":
			io.WriteString(w, `{"Version":"29.1"}`)
		case part == "containers/json" && r.URL.Query().Has("all"):
			io.WriteString(w, `[{"Id":"c1","Names":["/one"]},{"Id":"c3","Names":["/ended"]}]`)
		case part == "containers/json":
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
	return "unix://" + sock
}

var inventoryOptions = images.ScanOptions{Media: source.Options{Platform: v1.Platform{OS: "linux", Architecture: "amd64"}}}

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
	if h := inv.Held[0]; h.Name != "tiny:1" || h.Container != "" || h.Err == nil || h.Sites != 0 {
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

// TestStock: the names, dates and versions of what an engine has, and which request failed.
func TestStock(t *testing.T) {
	imagetest.CleanTemp(t)
	o, tiny := inventoryOptions.Media, imagetest.TinyImage(t)
	host := listingDaemon(t, tiny)
	names, containers, err := inventory.LocalNames(t.Context(), o)
	if err != nil || strings.Join(names, " ") != "tiny:1 old:2" || strings.Join(containers, " ") != "one ended" {
		t.Errorf("got the names %q, %q, %v", names, containers, err)
	}
	engines, stock, err := inventory.Stock(t.Context(), o)
	want := []inventory.Stocked{{strings.Repeat("b", 12), time.Unix(0, 0).UTC()}, {"tiny:1", time.Unix(86400, 0).UTC()}}
	if err != nil || !slices.Equal(stock, want) || !slices.Equal(engines, []string{host + ": 29.1"}) {
		t.Errorf("got the stock %v of %q, %v", stock, engines, err)
	}
	list := func(newer time.Time, end error) (got []string, err error) {
		err = inventory.List(t.Context(), inventory.Engines, inventory.ListOptions{Media: o, Newer: newer, Each: func(i inventory.Listed) error {
			got = append(got, i.Source)
			return end
		}})
		return got, err
	}
	enough := errors.New("enough")
	for _, c := range []struct {
		newer time.Time
		end   error
		want  string
	}{
		{time.Time{}, nil, "docker-daemon:tiny:1 docker-daemon:old:2"},
		{time.Unix(86400, 0), nil, "docker-daemon:tiny:1 docker-daemon:old:2"},
		{time.Unix(86401, 0), nil, ""},
		{time.Time{}, enough, "docker-daemon:tiny:1"},
	} {
		if got, err := list(c.newer, c.end); strings.Join(got, " ") != c.want || !errors.Is(err, c.end) {
			t.Errorf("newer than %v: got %q, %v, want %q, %v", c.newer, got, err, c.want, c.end)
		}
	}
	for broken, fails := range map[string][4]bool{"images/json": {true, true, true, true}, "containers/json": {true, true, false, false}, "version": {2: true}} {
		host := listingDaemon(t, tiny, broken)
		_, take := inventory.Take(t.Context(), t.Context(), inventoryOptions)
		_, _, names := inventory.LocalNames(t.Context(), o)
		_, _, stock := inventory.Stock(t.Context(), o)
		_, list := list(time.Time{}, nil)
		for n, err := range []error{take, names, stock, list} {
			if (err != nil) != fails[n] || err != nil && n != 1 && !strings.Contains(err.Error(), host) { // completion prints no error
				t.Errorf("%s, call %d: got %v", broken, n, err)
			}
		}
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
