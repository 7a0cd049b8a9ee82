package batch_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/batch"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/outcome"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

// listOf makes a list of items, each in its own line.
func listOf(t *testing.T, items []outcome.Item, o batch.ListOptions) (*batch.List, error) {
	t.Helper()
	var b strings.Builder
	line := 1
	for _, i := range items {
		for ; line < i.Line; line++ {
			b.WriteString("\n")
		}
		b.WriteString(i.Source + " " + i.Dest)
		line = i.Line
	}
	return openText(t, b.String(), o)
}

func openText(t *testing.T, text string, o batch.ListOptions) (*batch.List, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "list")
	imagetest.Write(t, path, []byte(text))
	l, err := batch.OpenList(path, o)
	if err == nil {
		t.Cleanup(l.Close)
	}
	return l, err
}

func itemsOf(t *testing.T, l *batch.List) []outcome.Item {
	t.Helper()
	var items []outcome.Item
	if err := l.Each(func(i outcome.Item) error { items = append(items, i); return nil }); err != nil {
		t.Fatal(err)
	}
	return items
}

// ran is what became of a list.
type ran struct {
	*batch.Batch
	Outcomes []outcome.Image // in the order of the list
}

// rebuild is batch.Rebuild with the outcomes.
func rebuild(ctx context.Context, t *testing.T, items []outcome.Item, lo batch.ListOptions, o batch.Options) (*ran, error) {
	t.Helper()
	l, err := listOf(t, items, lo)
	if err != nil {
		t.Fatal(err)
	}
	known, reported := map[int]outcome.Image{}, o.Each
	o.Each = func(out outcome.Image) error {
		known[out.Line] = out
		if reported != nil {
			return reported(out)
		}
		return nil
	}
	b, err := batch.Rebuild(ctx, l, o)
	r := &ran{Batch: b}
	for _, i := range itemsOf(t, l) {
		out, ok := known[i.Line]
		if !ok {
			out = outcome.Image{Item: i, Status: outcome.NotRun}
		}
		r.Outcomes = append(r.Outcomes, out)
	}
	if b != nil {
		of := map[outcome.Status]int{}
		for _, o := range r.Outcomes {
			of[o.Status]++
		}
		for s, n := range b.Of {
			if of[s] != n {
				t.Errorf("%d are counted as %s, and %d are", n, s, of[s])
			}
		}
	}
	return r, err
}

func TestReadList(t *testing.T) {
	_, err := batch.OpenList(filepath.Join(t.TempDir(), "none"), batch.ListOptions{})
	imagetest.WantErr(t, err, fs.ErrNotExist, "none")
	if hint := hinterr.HintOf(err); !strings.Contains(hint, "vfix help lists") {
		t.Errorf("no such list: got the hint %q", hint)
	}
	l, err := openText(t, "\ufeff# all of them\r\napp:1\r\n\n  app:2\tdocker://x/y:2 # twice\n app:1\napp:2 oci:z:2#no-comment\n#end", batch.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	items := itemsOf(t, l)
	want := []outcome.Item{{Line: 2, Source: "app:1", Dest: ""}, {Line: 4, Source: "app:2", Dest: "docker://x/y:2"}, {Line: 6, Source: "app:2", Dest: "oci:z:2#no-comment"}}
	if fmt.Sprint(items) != fmt.Sprint(want) || l.All() != 3 {
		t.Errorf("got %v", items)
	}
	// As Windows PowerShell writes what 'vfix list' prints.
	if l, err = openText(t, "\xff\xfea\x00:\x001\x00\r\x00\n\x00b\x00\r\x00\n\x00", batch.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(itemsOf(t, l)); got != fmt.Sprint([]outcome.Item{{Line: 1, Source: "a:1"}, {Line: 2, Source: "b"}}) {
		t.Errorf("UTF-16: got %s", got)
	}
	for text, want := range map[string]string{
		"a b c":                  "line 1: 3 words",
		"a\nb docker://":         "line 2: ",
		"ostree:x y":             "line 1: ",
		strings.Repeat("x", 1e5): "line 1: ",
	} {
		if _, err := openText(t, text, batch.ListOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: got %v", text, err)
		}
	}
}

// Each line is in one part, and a line that is put in moves no other one.
func TestParts(t *testing.T) {
	parts := func(items []outcome.Item, of int) map[string]int {
		in := map[string]int{}
		for n := range of {
			part := batch.Part{Index: n, Of: of}
			for _, i := range items {
				if part.Has(i) {
					if other, twice := in[i.Source]; twice {
						t.Errorf("%s: in part %d and %d of %d", i.Source, other, n, of)
					}
					in[i.Source] = n
				}
			}
			l := imagetest.Must[*batch.List](t)(listOf(t, items, batch.ListOptions{Part: part}))
			if got := l.Count(); got < len(items)/of/2 || got != len(itemsOf(t, l)) {
				t.Errorf("part %d of %d has %d of %d", n, of, got, len(items))
			}
		}
		if len(in) != len(items) {
			t.Errorf("%d of %d are in a part", len(in), len(items))
		}
		return in
	}
	var items []outcome.Item
	for n := range 1000 {
		items = append(items, outcome.Item{Line: n + 1, Source: fmt.Sprintf("docker://r.example/team/app%d:1", n)})
	}
	before := parts(items, 8)
	after := parts(append([]outcome.Item{{Source: "docker://r.example/new:1"}}, items...), 8)
	for source, n := range before {
		if after[source] != n {
			t.Errorf("%s went from part %d to %d", source, n, after[source])
		}
	}
	if all := imagetest.Must[*batch.List](t)(listOf(t, items, batch.ListOptions{})); all.Count() != len(items) {
		t.Errorf("the whole list has %d of %d", all.Count(), len(items))
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
// not an image; and a count of how often the base was read.
func batchOf(t *testing.T, f *imagetest.FakeRegistry) ([]outcome.Item, string) {
	t.Helper()
	base := imagetest.BytesLayer(t, imagetest.TarMembers(t, imagetest.LegacyM("usr/bin/old", "base")))
	for n := range 2 {
		top := imagetest.BytesLayer(t, imagetest.TarMembers(t, imagetest.FileM(fmt.Sprintf("etc/app%d", n), []byte("x"))))
		imagetest.Put(t, fmt.Sprintf("docker://%s/app%d:1", f.Host, n), media.Result{Image: imagetest.ImageOf(t, base, top)})
	}
	imagetest.Put(t, "docker://"+f.Host+"/odd:1", media.Result{Image: imagetest.ImageOf(t, imagetest.BytesLayer(t, imagetest.TarMembers(t, imagetest.FileM("etc/odd", nil))))})
	return []outcome.Item{
		{Line: 1, Source: "docker://" + f.Host + "/app0:1"},
		{Line: 2, Source: "docker://" + f.Host + "/bad:1"},
		{Line: 3, Source: "docker://" + f.Host + "/app1:1"},
		{Line: 4, Source: "docker://" + f.Host + "/odd:1"},
	}, imagetest.Must[v1.Hash](t)(base.Digest()).String()
}

func statuses(b *ran) string {
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
		State:          stateFile, AtOnce: 3,
	}
	lo := batch.ListOptions{Template: "docker://" + f.Host + "/new/{name}:{tag}"}
	var reported []string
	o.Each = func(out outcome.Image) error { reported = append(reported, out.Source); return nil }
	b, err := rebuild(context.Background(), t, items, lo, o)
	if err != nil || statuses(b) != "done, failed, done, unaffected" || len(reported) != 4 {
		t.Fatalf("%s, %v, reported %q", statuses(b), err, reported)
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
	b, err = rebuild(context.Background(), t, items, lo, o)
	if err != nil || statuses(b) != "done before, done, done before, done" || b.Outcomes[0].Reference != first.Reference || b.Outcomes[0].Patched != first.Patched {
		t.Errorf("%s, %v", statuses(b), err)
	}
	if f.Count("/blobs/"+base) != 0 {
		t.Errorf("what was done is read again: %q", f.Seen)
	}

	// Other options, other results: nothing is skipped.
	o.Version = "1.3"
	if b, err = rebuild(context.Background(), t, items, lo, o); err != nil || strings.Contains(statuses(b), "before") {
		t.Errorf("%s, %v", statuses(b), err)
	}

	// A run that was killed left half a line; the last of two lines counts.
	data := imagetest.Must[[]byte](t)(os.ReadFile(stateFile))
	imagetest.Write(t, stateFile, data[:len(data)-20])
	if b, err = rebuild(context.Background(), t, items, lo, o); err != nil || strings.Count(statuses(b), "before") != 3 {
		t.Errorf("%s, %v", statuses(b), err)
	}
	for n, line := range strings.Split(strings.TrimSuffix(string(imagetest.Must[[]byte](t)(os.ReadFile(stateFile))), "\n"), "\n") {
		if !strings.HasPrefix(line, `{"schema":1,`) || !strings.HasSuffix(line, "}") {
			t.Errorf("line %d: %s", n, line)
		}
	}
	imagetest.Write(t, stateFile, []byte("my diary\n"))
	if _, err = rebuild(context.Background(), t, items, lo, o); !errors.Is(err, hinterr.ErrDamaged) {
		t.Errorf("another file: %v", err)
	}
	imagetest.Write(t, stateFile, []byte("my diary"))
	if _, err = rebuild(context.Background(), t, items, lo, o); !errors.Is(err, hinterr.ErrDamaged) || string(imagetest.Must[[]byte](t)(os.ReadFile(stateFile))) != "my diary" {
		t.Errorf("another file: %v", err)
	}
}

// Two images do not go to one place, and the first failure can be the last.
func TestRebuildAllStops(t *testing.T) {
	imagetest.CleanTemp(t)
	f := imagetest.NewRegistry(t)
	items, _ := batchOf(t, f)
	o := batch.Options{RebuildOptions: images.RebuildOptions{ScanOptions: images.ScanOptions{Media: imagetest.Fast}}, AtOnce: 1}
	var lo batch.ListOptions
	dir := t.TempDir()
	same := []outcome.Item{items[0], items[2]}
	for n := range same {
		same[n].Dest = "oci:" + dir + "/x:1"
	}
	b, err := rebuild(context.Background(), t, same, lo, o)
	if err != nil || statuses(b) != "done, failed" {
		t.Errorf("%s, %v", statuses(b), err)
	}
	imagetest.WantErr(t, b.Outcomes[1].Err, nil, "line 1", "duplicate destination")

	o.FailFast, lo.Template = true, "oci:"+dir+"/{name}:{tag}"
	b, err = rebuild(context.Background(), t, items, lo, o)
	if err != nil || statuses(b) != "done, failed, not run, not run" {
		t.Errorf("%s, %v", statuses(b), err)
	}

	// Ending the run is not a failure of the image that was under way.
	why := errors.New("stopped by hand")
	ctx, cancel := context.WithCancelCause(context.Background())
	o.FailFast = false
	o.State = filepath.Join(dir, "state")
	o.Each = func(out outcome.Image) error {
		if out.Line == 2 {
			cancel(why)
		}
		return nil
	}
	b, err = rebuild(ctx, t, items, lo, o)
	if !errors.Is(err, why) || statuses(b) != "done, failed, not run, not run" {
		t.Errorf("%s, %v", statuses(b), err)
	}
	if text := string(imagetest.Must[[]byte](t)(os.ReadFile(o.State))); strings.Count(text, "\n") != 2 {
		t.Errorf("state:\n%s", text)
	}
}

// listOptions are those of a list of a registry's images that go back there.
func listOptions(f *imagetest.FakeRegistry, state string) (batch.ListOptions, batch.Options) {
	return batch.ListOptions{Template: "docker://" + f.Host + "/new/{name}:{tag}"}, batch.Options{
		RebuildOptions: images.RebuildOptions{ScanOptions: images.ScanOptions{Media: imagetest.Fast}, Version: "1.2", Suffix: "-vfix"},
		State:          state,
	}
}

// An image whose registry hangs ends at its own limit, and the others are done.
func TestLimitOfOneImage(t *testing.T) {
	f := imagetest.NewRegistry(t)
	items, _ := batchOf(t, f)
	items = []outcome.Item{items[0], items[2], items[3]}
	lo, o := listOptions(f, "")
	o.Limit, o.AtOnce = 2*time.Second, 1
	f.Reset(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/app0/manifests") {
			<-r.Context().Done()
		}
		return r.Context().Err() != nil
	})
	began := time.Now()
	b, err := rebuild(context.Background(), t, items, lo, o)
	if err != nil || statuses(b) != "failed, done, unaffected" {
		t.Fatalf("got %s, %v", statuses(b), err)
	}
	if got := b.Outcomes[0].Err.Error(); !strings.Contains(got, "not finished within 2s") || time.Since(began) > time.Minute {
		t.Errorf("got %s after %v", got, time.Since(began))
	}
}

// The results of an earlier run are looked for: a result that is gone or another is made again. An
// image that did not change costs two requests.
func TestResultIsGone(t *testing.T) {
	f := imagetest.NewRegistry(t)
	items, _ := batchOf(t, f)
	items = []outcome.Item{items[0], items[2], items[3]}
	lo, o := listOptions(f, filepath.Join(t.TempDir(), "state"))
	run := func(want string) *ran {
		t.Helper()
		f.Reset(nil)
		b, err := rebuild(context.Background(), t, items, lo, o)
		if err != nil || statuses(b) != want {
			t.Fatalf("got %s, %v, want %s", statuses(b), err, want)
		}
		return b
	}
	first := run("done, done, unaffected")
	if got := first.Outcomes[2].Reference; !strings.HasPrefix(got, f.Host+"/new/odd:1@") {
		t.Errorf("the copy of the unaffected image: got reference %s", got)
	}
	run("done before, done before, unaffected before")
	requests := slices.DeleteFunc(slices.Clone(f.Seen), func(s string) bool { return s == "GET /v2/" }) // once a registry
	if len(requests) != 2*len(items) || f.Count("HEAD ") != len(requests) {
		t.Errorf("%d requests for %d images: %q", len(requests), len(items), requests)
	}

	// A registry that does not answer HEAD, or not with a digest, is sent a GET of the manifest.
	f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodHead {
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
		return r.Method == http.MethodHead
	})
	if b, err := rebuild(context.Background(), t, items, lo, o); err != nil || statuses(b) != "done before, done before, unaffected before" {
		t.Errorf("without HEAD: %s, %v", statuses(b), err)
	}

	delete := func(name string) {
		digest := imagetest.Must[v1.Hash](t)(imagetest.Open(t, "docker://"+f.Host+name).Image.Digest())
		repo, _, _ := strings.Cut(name, ":")
		for _, path := range []string{digest.String(), "1"} {
			req := imagetest.Must[*http.Request](t)(http.NewRequest(http.MethodDelete, "http://"+f.Host+"/v2"+repo+"/manifests/"+path, nil))
			imagetest.Must[*http.Response](t)(http.DefaultClient.Do(req)).Body.Close()
		}
	}
	delete("/new/app0:1")
	delete("/new/odd:1")
	run("done, done before, unaffected")
	for _, name := range []string{"app0", "odd"} {
		if n := f.Count("HEAD /v2/new/" + name + "/manifests/1"); n != 1 {
			t.Errorf("whether the result of %s is there was asked %d times: %q", name, n, f.Seen)
		}
	}
	imagetest.Open(t, "docker://"+f.Host+"/new/odd:1")
	imagetest.Put(t, "docker://"+f.Host+"/new/app1:1", media.Result{Image: imagetest.Open(t, "docker://"+f.Host+"/odd:1").Image})
	run("done before, done, unaffected before")
}

// Two lines with one DEST are found whichever parts they are in; a state directory serves
// whatever parts the list is in.
func TestPartsShare(t *testing.T) {
	f := imagetest.NewRegistry(t)
	items, _ := batchOf(t, f)
	items = []outcome.Item{items[0], items[2], items[3], {Line: 9, Source: items[3].Source, Dest: "docker://" + f.Host + "/new/app0:1"}}
	lo, o := listOptions(f, t.TempDir())
	for _, run := range []struct {
		parts int
		want  map[outcome.Status]int
		done  bool
	}{
		{3, map[outcome.Status]int{outcome.Done: 2, outcome.Unaffected: 1, outcome.Failed: 1}, false},
		{7, map[outcome.Status]int{outcome.Done: 2, outcome.Unaffected: 1, outcome.Failed: 1}, true},
		{1, map[outcome.Status]int{outcome.Done: 2, outcome.Unaffected: 1, outcome.Failed: 1}, true},
	} {
		got := map[outcome.Status]int{}
		for n := range run.parts {
			lo.Part = batch.Part{Index: n, Of: run.parts}
			b, err := rebuild(context.Background(), t, items, lo, o)
			if err != nil {
				t.Fatal(err)
			}
			for _, out := range b.Outcomes {
				got[out.Status]++
				if out.Status == outcome.Failed {
					if out.Line != 9 {
						t.Errorf("line %d failed: %v", out.Line, out.Err)
					}
					imagetest.WantErr(t, out.Err, nil, "line 1", "duplicate destination")
				} else if out.Before != run.done {
					t.Errorf("%d parts: %s: before is %v", run.parts, out.Source, out.Before)
				}
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(run.want) {
			t.Errorf("%d parts: got %v, want %v", run.parts, got, run.want)
		}
	}
}

// A registry that refuses everything ends the run, and one that refuses something does not.
func TestRefused(t *testing.T) {
	f := imagetest.NewRegistry(t)
	items, _ := batchOf(t, f)
	good, also := items[0], items[2]
	items = nil
	for n := range 100 {
		i := good
		if n == 30 {
			i = also
		}
		i.Line = n + 1
		if n != 15 && n != 30 {
			i.Source = fmt.Sprintf("docker://%s/secret%d:1", f.Host, n)
		}
		items = append(items, i)
	}
	f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/secret") {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	})
	lo, o := listOptions(f, "")
	o.AtOnce, lo.Template = 1, ""
	o.DryRun = true
	b, err := rebuild(context.Background(), t, items, lo, o)
	imagetest.WantErr(t, err, nil, f.Host, "refused the last 20 images")
	if got := b.Of[outcome.Failed]; got != 15+14+20 || b.Of[outcome.NotRun] != 100-15-14-20-2 {
		t.Errorf("%d failed: %s", got, statuses(b))
	}
}
