package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func TestReadList(t *testing.T) {
	items, err := ReadList(strings.NewReader("\ufeff# all of them\r\napp:1\r\n\n  app:2\tdocker://x/y:2 # twice\n app:1\napp:2 oci:z:2#no-comment\n#end"))
	want := []Item{{2, "app:1", ""}, {4, "app:2", "docker://x/y:2"}, {6, "app:2", "oci:z:2#no-comment"}}
	if err != nil || fmt.Sprint(items) != fmt.Sprint(want) {
		t.Errorf("got %v, %v", items, err)
	}
	for text, want := range map[string]string{
		"a b c":                  "line 1: 3 words",
		"a\nb docker://":         "line 2: ",
		"ostree:x y":             "line 1: ",
		strings.Repeat("x", 1e5): "line 1: ",
	} {
		if _, err := ReadList(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: got %v", text, err)
		}
	}
}

// Parts of a list are all of it, in order, and differ by one at most.
func TestShard(t *testing.T) {
	for size := range 12 {
		items := make([]Item, size)
		for n := range items {
			items[n].Line = n
		}
		for all := 1; all < 9; all++ {
			var got []Item
			for n := range all {
				part := Shard(items, n, all)
				if len(part) < size/all || len(part) > size/all+1 {
					t.Errorf("part %d/%d of %d has %d", n, all, size, len(part))
				}
				got = append(got, part...)
			}
			if fmt.Sprint(got) != fmt.Sprint(items) {
				t.Errorf("%d in %d parts: %v", size, all, got)
			}
		}
	}
}

func TestTemplate(t *testing.T) {
	const all = "docker://new/{registry}/{repository}/{name}:{tag}-x"
	hex := strings.Repeat("0123456789abcdef", 4)
	for _, c := range []struct {
		ref  Ref
		want string
	}{
		{Ref{Transport: Registry, Name: "reg.example:5000/a/b:1.2"}, "docker://new/reg.example:5000/a/b/b:1.2-x"},
		{Ref{Transport: Daemon, Name: "redis"}, "docker://new/docker.io/library/redis/redis:latest-x"},
		{Ref{Transport: Registry, Name: "r.example/a@sha256:" + hex}, "docker://new/r.example/a/a:0123456789ab-x"},
		{Ref{Transport: Registry, Name: "r.example/a:7@sha256:" + hex}, "docker://new/r.example/a/a:7-x"},
		{Ref{Transport: DockerArchive, Name: "/srv/My App.tar"}, "docker://new/docker.io/library/my-app/my-app:latest-x"},
		{Ref{Transport: OCILayout, Name: "/srv/l", Tag: "x.example/p/q:3"}, "docker://new/x.example/p/q/q:3-x"},
	} {
		if got, err := fillTemplate(all, c.ref); err != nil || got != c.want {
			t.Errorf("%v: got %s, %v", c.ref, got, err)
		}
	}
	for text, ok := range map[string]bool{all: true, "oci:{name}:{tag}": true, "oci:x": false, "oci:{image}": false, "docker://{": false, "sif:{name}": false} {
		if err := CheckTemplate(text); (err == nil) != ok && !strings.HasPrefix(text, "sif:") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// batchOf is a list of images: app0 and app1 share a base, odd has nothing to patch, bad is
// no image; and a count of how often the base was read.
func batchOf(t *testing.T, f *fakeRegistry) ([]Item, string) {
	t.Helper()
	base := bytesLayer(t, tarMembers(t, legacyM("usr/bin/old", "base")))
	for n := range 2 {
		top := bytesLayer(t, tarMembers(t, fileM(fmt.Sprintf("etc/app%d", n), []byte("x"))))
		put(t, fmt.Sprintf("docker://%s/app%d:1", f.host, n), Result{Image: imageOf(t, base, top)})
	}
	put(t, "docker://"+f.host+"/odd:1", Result{Image: imageOf(t, bytesLayer(t, tarMembers(t, fileM("etc/odd", nil))))})
	return []Item{
		{Line: 1, Source: "docker://" + f.host + "/app0:1"},
		{Line: 2, Source: "docker://" + f.host + "/bad:1"},
		{Line: 3, Source: "docker://" + f.host + "/app1:1"},
		{Line: 4, Source: "docker://" + f.host + "/odd:1"},
	}, must[v1.Hash](t)(base.Digest()).String()
}

func statuses(b *Batch) string {
	var all []string
	for _, o := range b.Outcomes {
		s := string(o.Status)
		if o.Before {
			s += " before"
		}
		all = append(all, s)
	}
	return strings.Join(all, ", ")
}

func TestRebuildAll(t *testing.T) {
	cleanTemp(t)
	f := newRegistry(t)
	items, base := batchOf(t, f)
	f.reset(nil)
	stateFile := filepath.Join(t.TempDir(), "state")
	o := BatchOptions{
		RebuildOptions: RebuildOptions{ScanOptions: ScanOptions{Media: fast}, Version: "1.2", Suffix: "-vfix"},
		Template:       "docker://" + f.host + "/new/{name}:{tag}", State: stateFile, AtOnce: 3,
	}
	var told []string
	o.Each = func(out Outcome) { told = append(told, out.Source) }
	b, err := RebuildAll(context.Background(), items, o)
	if err != nil || statuses(b) != "done, failed, done, unaffected" || len(told) != 4 {
		t.Fatalf("%s, %v, told of %q", statuses(b), err, told)
	}
	if n := f.count("GET /v2/app0/blobs/"+base) + f.count("GET /v2/app1/blobs/"+base); n != 1 {
		t.Errorf("the common layer was read %d times", n)
	}
	wantErr(t, b.Outcomes[1].Err, ErrNotFound, "no such image")
	first := b.Outcomes[0]
	if first.Patched == 0 || first.Files != 1 || first.Reference != f.host+"/new/app0:1@"+first.Digest || first.LayerSize == 0 {
		t.Errorf("%+v", first)
	}
	for _, name := range []string{"app0", "app1", "odd"} {
		open(t, "docker://"+f.host+"/new/"+name+":1")
	}

	// Again: what is done is skipped, what failed is tried again, what moved is done again.
	put(t, "docker://"+f.host+"/bad:1", Result{Image: imageOf(t, bytesLayer(t, tarMembers(t, legacyM("bin/late", "1"))))})
	put(t, "docker://"+f.host+"/odd:1", Result{Image: imageOf(t, bytesLayer(t, tarMembers(t, legacyM("bin/moved", "1"))))})
	f.reset(nil)
	b, err = RebuildAll(context.Background(), items, o)
	if err != nil || statuses(b) != "done before, done, done before, done" || b.Outcomes[0].Reference != first.Reference || b.Outcomes[0].Patched != first.Patched {
		t.Errorf("%s, %v", statuses(b), err)
	}
	if f.count("/blobs/"+base) != 0 {
		t.Errorf("what was done is read again: %q", f.seen)
	}

	// Other options, other results: nothing is skipped.
	o.Version = "1.3"
	if b, err = RebuildAll(context.Background(), items, o); err != nil || strings.Contains(statuses(b), "before") {
		t.Errorf("%s, %v", statuses(b), err)
	}

	// A run that was killed left half a line; the last of two lines counts.
	data := must[[]byte](t)(os.ReadFile(stateFile))
	write(t, stateFile, data[:len(data)-20])
	if b, err = RebuildAll(context.Background(), items, o); err != nil || strings.Count(statuses(b), "before") != 3 {
		t.Errorf("%s, %v", statuses(b), err)
	}
	for n, line := range strings.Split(strings.TrimSuffix(string(must[[]byte](t)(os.ReadFile(stateFile))), "\n"), "\n") {
		if !strings.HasPrefix(line, `{"schema":1,`) || !strings.HasSuffix(line, "}") {
			t.Errorf("line %d: %s", n, line)
		}
	}
	write(t, stateFile, []byte("my diary\n"))
	if _, err = RebuildAll(context.Background(), items, o); !errors.Is(err, ErrDamaged) {
		t.Errorf("another file: %v", err)
	}
	write(t, stateFile, []byte("my diary"))
	if _, err = RebuildAll(context.Background(), items, o); !errors.Is(err, ErrDamaged) || string(must[[]byte](t)(os.ReadFile(stateFile))) != "my diary" {
		t.Errorf("another file: %v", err)
	}
}

// Two images do not go to one place, and the first failure can be the last.
func TestRebuildAllStops(t *testing.T) {
	cleanTemp(t)
	f := newRegistry(t)
	items, _ := batchOf(t, f)
	o := BatchOptions{RebuildOptions: RebuildOptions{ScanOptions: ScanOptions{Media: fast}}, AtOnce: 1}
	dir := t.TempDir()
	same := []Item{items[0], items[2]}
	for n := range same {
		same[n].Dest = "oci:" + dir + "/x:1"
	}
	b, err := RebuildAll(context.Background(), same, o)
	if err != nil || statuses(b) != "done, failed" {
		t.Errorf("%s, %v", statuses(b), err)
	}
	wantErr(t, b.Outcomes[1].Err, nil, "line 1", "goes there, too")

	o.FailFast, o.Template = true, "oci:"+dir+"/{name}:{tag}"
	b, err = RebuildAll(context.Background(), items, o)
	if err != nil || statuses(b) != "done, failed, not run, not run" {
		t.Errorf("%s, %v", statuses(b), err)
	}

	// Ending the run is no failure of the image that was under way.
	why := errors.New("stopped by hand")
	ctx, cancel := context.WithCancelCause(context.Background())
	o.FailFast = false
	o.State = filepath.Join(dir, "state")
	o.Each = func(out Outcome) {
		if out.Line == 2 {
			cancel(why)
		}
	}
	b, err = RebuildAll(ctx, items, o)
	if !errors.Is(err, why) || statuses(b) != "done, failed, not run, not run" {
		t.Errorf("%s, %v", statuses(b), err)
	}
	if text := string(must[[]byte](t)(os.ReadFile(o.State))); strings.Count(text, "\n") != 2 {
		t.Errorf("state:\n%s", text)
	}
}

// The cache reads a layer once for all who want it, again where that failed, and forgets.
func TestLayerCache(t *testing.T) {
	c := newLayerCache(2)
	c.most = 10
	id := func(n int) v1.Hash { return v1.Hash{Algorithm: "sha256", Hex: fmt.Sprint(n)} }
	var mu sync.Mutex
	reads := map[int]int{}
	get := func(n int, err error) (*layerIndex, error) {
		return c.get(context.Background(), id(n), func() (*layerIndex, error) {
			mu.Lock()
			reads[n]++
			mu.Unlock()
			time.Sleep(time.Millisecond)
			return &layerIndex{entries: make([]entry, 4)}, err
		})
	}
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			if _, err := get(n%2, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if reads[0] != 1 || reads[1] != 1 {
		t.Errorf("read %v", reads)
	}
	bad := errors.New("damaged")
	if _, err := get(2, bad); err != bad {
		t.Errorf("got %v", err)
	}
	get(0, nil)
	get(2, nil) // 12 entries: 1 was not asked for the longest time
	get(0, nil)
	get(1, nil)
	if reads[0] != 1 || reads[1] != 2 || reads[2] != 2 || c.entries > c.most {
		t.Errorf("read %v, %d entries", reads, c.entries)
	}
}
