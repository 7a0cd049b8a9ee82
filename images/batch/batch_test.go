package batch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/batch"
	"vfix.dev/vfix/images/internal/imagetest"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
)

func TestReadList(t *testing.T) {
	items, err := batch.ReadList(strings.NewReader("\ufeff# all of them\r\napp:1\r\n\n  app:2\tdocker://x/y:2 # twice\n app:1\napp:2 oci:z:2#no-comment\n#end"))
	want := []batch.Item{{Line: 2, Source: "app:1", Dest: ""}, {Line: 4, Source: "app:2", Dest: "docker://x/y:2"}, {Line: 6, Source: "app:2", Dest: "oci:z:2#no-comment"}}
	if err != nil || fmt.Sprint(items) != fmt.Sprint(want) {
		t.Errorf("got %v, %v", items, err)
	}
	for text, want := range map[string]string{
		"a b c":                  "line 1: 3 words",
		"a\nb docker://":         "line 2: ",
		"ostree:x y":             "line 1: ",
		strings.Repeat("x", 1e5): "line 1: ",
	} {
		if _, err := batch.ReadList(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: got %v", text, err)
		}
	}
}

// Parts of a list are all of it, in order, and differ by one at most.
func TestShard(t *testing.T) {
	for size := range 12 {
		items := make([]batch.Item, size)
		for n := range items {
			items[n].Line = n
		}
		for all := 1; all < 9; all++ {
			var got []batch.Item
			for n := range all {
				part := batch.Shard(items, n, all)
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
		ref  media.Ref
		want string
	}{
		{media.Ref{Transport: media.Registry, Name: "reg.example:5000/a/b:1.2"}, "docker://new/reg.example:5000/a/b/b:1.2-x"},
		{media.Ref{Transport: media.Daemon, Name: "redis"}, "docker://new/docker.io/library/redis/redis:latest-x"},
		{media.Ref{Transport: media.Registry, Name: "r.example/a@sha256:" + hex}, "docker://new/r.example/a/a:0123456789ab-x"},
		{media.Ref{Transport: media.Registry, Name: "r.example/a:7@sha256:" + hex}, "docker://new/r.example/a/a:7-x"},
		{media.Ref{Transport: media.DockerArchive, Name: "/srv/My App.tar"}, "docker://new/docker.io/library/my-app/my-app:latest-x"},
		{media.Ref{Transport: media.OCILayout, Name: "/srv/l", Tag: "x.example/p/q:3"}, "docker://new/x.example/p/q/q:3-x"},
	} {
		if got, err := batch.FillTemplate(all, c.ref); err != nil || got != c.want {
			t.Errorf("%v: got %s, %v", c.ref, got, err)
		}
	}
	for text, ok := range map[string]bool{all: true, "oci:{name}:{tag}": true, "oci:x": false, "oci:{image}": false, "docker://{": false, "sif:{name}": false} {
		if err := batch.CheckTemplate(text); (err == nil) != ok && !strings.HasPrefix(text, "sif:") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// batchOf is a list of images: app0 and app1 share a base, odd has nothing to patch, bad is
// no image; and a count of how often the base was read.
func batchOf(t *testing.T, f *imagetest.FakeRegistry) ([]batch.Item, string) {
	t.Helper()
	base := imagetest.BytesLayer(t, imagetest.TarMembers(t, imagetest.LegacyM("usr/bin/old", "base")))
	for n := range 2 {
		top := imagetest.BytesLayer(t, imagetest.TarMembers(t, imagetest.FileM(fmt.Sprintf("etc/app%d", n), []byte("x"))))
		imagetest.Put(t, fmt.Sprintf("docker://%s/app%d:1", f.Host, n), media.Result{Image: imagetest.ImageOf(t, base, top)})
	}
	imagetest.Put(t, "docker://"+f.Host+"/odd:1", media.Result{Image: imagetest.ImageOf(t, imagetest.BytesLayer(t, imagetest.TarMembers(t, imagetest.FileM("etc/odd", nil))))})
	return []batch.Item{
		{Line: 1, Source: "docker://" + f.Host + "/app0:1"},
		{Line: 2, Source: "docker://" + f.Host + "/bad:1"},
		{Line: 3, Source: "docker://" + f.Host + "/app1:1"},
		{Line: 4, Source: "docker://" + f.Host + "/odd:1"},
	}, imagetest.Must[v1.Hash](t)(base.Digest()).String()
}

func statuses(b *batch.Batch) string {
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
	imagetest.CleanTemp(t)
	f := imagetest.NewRegistry(t)
	items, base := batchOf(t, f)
	f.Reset(nil)
	stateFile := filepath.Join(t.TempDir(), "state")
	o := batch.Options{
		RebuildOptions: images.RebuildOptions{ScanOptions: images.ScanOptions{Media: imagetest.Fast}, Version: "1.2", Suffix: "-vfix"},
		Template:       "docker://" + f.Host + "/new/{name}:{tag}", State: stateFile, AtOnce: 3,
	}
	var told []string
	o.Each = func(out batch.Outcome) { told = append(told, out.Source) }
	b, err := batch.Rebuild(context.Background(), items, o)
	if err != nil || statuses(b) != "done, failed, done, unaffected" || len(told) != 4 {
		t.Fatalf("%s, %v, told of %q", statuses(b), err, told)
	}
	if n := f.Count("GET /v2/app0/blobs/"+base) + f.Count("GET /v2/app1/blobs/"+base); n != 1 {
		t.Errorf("the common layer was read %d times", n)
	}
	imagetest.WantErr(t, b.Outcomes[1].Err, hinterr.ErrNotFound, "no such image")
	first := b.Outcomes[0]
	if first.Patched == 0 || first.Files != 1 || first.Reference != f.Host+"/new/app0:1@"+first.Digest || first.LayerSize == 0 {
		t.Errorf("%+v", first)
	}
	for _, name := range []string{"app0", "app1", "odd"} {
		imagetest.Open(t, "docker://"+f.Host+"/new/"+name+":1")
	}

	// Again: what is done is skipped, what failed is tried again, what moved is done again.
	imagetest.Put(t, "docker://"+f.Host+"/bad:1", media.Result{Image: imagetest.ImageOf(t, imagetest.BytesLayer(t, imagetest.TarMembers(t, imagetest.LegacyM("bin/late", "1"))))})
	imagetest.Put(t, "docker://"+f.Host+"/odd:1", media.Result{Image: imagetest.ImageOf(t, imagetest.BytesLayer(t, imagetest.TarMembers(t, imagetest.LegacyM("bin/moved", "1"))))})
	f.Reset(nil)
	b, err = batch.Rebuild(context.Background(), items, o)
	if err != nil || statuses(b) != "done before, done, done before, done" || b.Outcomes[0].Reference != first.Reference || b.Outcomes[0].Patched != first.Patched {
		t.Errorf("%s, %v", statuses(b), err)
	}
	if f.Count("/blobs/"+base) != 0 {
		t.Errorf("what was done is read again: %q", f.Seen)
	}

	// Other options, other results: nothing is skipped.
	o.Version = "1.3"
	if b, err = batch.Rebuild(context.Background(), items, o); err != nil || strings.Contains(statuses(b), "before") {
		t.Errorf("%s, %v", statuses(b), err)
	}

	// A run that was killed left half a line; the last of two lines counts.
	data := imagetest.Must[[]byte](t)(os.ReadFile(stateFile))
	imagetest.Write(t, stateFile, data[:len(data)-20])
	if b, err = batch.Rebuild(context.Background(), items, o); err != nil || strings.Count(statuses(b), "before") != 3 {
		t.Errorf("%s, %v", statuses(b), err)
	}
	for n, line := range strings.Split(strings.TrimSuffix(string(imagetest.Must[[]byte](t)(os.ReadFile(stateFile))), "\n"), "\n") {
		if !strings.HasPrefix(line, `{"schema":1,`) || !strings.HasSuffix(line, "}") {
			t.Errorf("line %d: %s", n, line)
		}
	}
	imagetest.Write(t, stateFile, []byte("my diary\n"))
	if _, err = batch.Rebuild(context.Background(), items, o); !errors.Is(err, hinterr.ErrDamaged) {
		t.Errorf("another file: %v", err)
	}
	imagetest.Write(t, stateFile, []byte("my diary"))
	if _, err = batch.Rebuild(context.Background(), items, o); !errors.Is(err, hinterr.ErrDamaged) || string(imagetest.Must[[]byte](t)(os.ReadFile(stateFile))) != "my diary" {
		t.Errorf("another file: %v", err)
	}
}

// Two images do not go to one place, and the first failure can be the last.
func TestRebuildAllStops(t *testing.T) {
	imagetest.CleanTemp(t)
	f := imagetest.NewRegistry(t)
	items, _ := batchOf(t, f)
	o := batch.Options{RebuildOptions: images.RebuildOptions{ScanOptions: images.ScanOptions{Media: imagetest.Fast}}, AtOnce: 1}
	dir := t.TempDir()
	same := []batch.Item{items[0], items[2]}
	for n := range same {
		same[n].Dest = "oci:" + dir + "/x:1"
	}
	b, err := batch.Rebuild(context.Background(), same, o)
	if err != nil || statuses(b) != "done, failed" {
		t.Errorf("%s, %v", statuses(b), err)
	}
	imagetest.WantErr(t, b.Outcomes[1].Err, nil, "line 1", "goes there, too")

	o.FailFast, o.Template = true, "oci:"+dir+"/{name}:{tag}"
	b, err = batch.Rebuild(context.Background(), items, o)
	if err != nil || statuses(b) != "done, failed, not run, not run" {
		t.Errorf("%s, %v", statuses(b), err)
	}

	// Ending the run is no failure of the image that was under way.
	why := errors.New("stopped by hand")
	ctx, cancel := context.WithCancelCause(context.Background())
	o.FailFast = false
	o.State = filepath.Join(dir, "state")
	o.Each = func(out batch.Outcome) {
		if out.Line == 2 {
			cancel(why)
		}
	}
	b, err = batch.Rebuild(ctx, items, o)
	if !errors.Is(err, why) || statuses(b) != "done, failed, not run, not run" {
		t.Errorf("%s, %v", statuses(b), err)
	}
	if text := string(imagetest.Must[[]byte](t)(os.ReadFile(o.State))); strings.Count(text, "\n") != 2 {
		t.Errorf("state:\n%s", text)
	}
}
