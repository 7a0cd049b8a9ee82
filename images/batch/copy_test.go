package batch_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/batch"
	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/outcome"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

// A layer that is examined and copied to another registry is fetched once, however many images
// have it, and whatever there is to patch in it.
func TestFetchedOnce(t *testing.T) {
	for _, c := range []struct {
		name, template string
		atOnce         int
		room           int64
		most           int // times that the common layer is fetched
	}{
		{"another registry", "docker://%s/new/{name}:{tag}", 1, blob.DefaultTempLimit, 1},
		{"several at once", "docker://%s/new/{name}:{tag}", 3, blob.DefaultTempLimit, 1},
		{"no room to keep it", "docker://%s/new/{name}:{tag}", 1, 4096, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			imagetest.CleanTemp(t)
			from, to := imagetest.NewRegistry(t), imagetest.NewRegistry(t)
			items, base := batchOf(t, from)
			items = []outcome.Item{items[0], items[2], items[3]}
			from.Reset(nil)
			blob.Temp.SetLimit(c.room)
			defer blob.Temp.SetLimit(blob.DefaultTempLimit)
			_, o := listOptions(from, "")
			o.AtOnce = c.atOnce
			b, err := rebuild(context.Background(), t, items, batch.ListOptions{Template: fmt.Sprintf(c.template, to.Host)}, o)
			if err != nil || c.room == blob.DefaultTempLimit && statuses(b) != "done, done, unaffected" {
				t.Fatalf("%s, %v", statuses(b), err)
			}
			if n := from.Count("GET /v2/app0/blobs/"+base) + from.Count("GET /v2/app1/blobs/"+base); n == 0 || n > c.most {
				t.Errorf("the common layer was fetched %d times: %q", n, from.Seen)
			}
			for _, name := range []string{"app0", "app1", "odd"} {
				l := imagetest.Must[[]v1.Layer](t)(imagetest.Open(t, "docker://"+from.Host+"/"+name+":1").Image.Layers())
				digest := imagetest.Must[v1.Hash](t)(l[len(l)-1].Digest()).String()
				if n := from.Count("GET /v2/" + name + "/blobs/" + digest); n != 1 && c.most == 1 {
					t.Errorf("the top layer of %s was fetched %d times", name, n)
				}
			}
		})
	}
}

// A blob that is not the one of its digest is named by it, with where the result was to go.
func TestCorruptBlob(t *testing.T) {
	f := imagetest.NewRegistry(t)
	items, base := batchOf(t, f)
	spoiled := map[string]func(data []byte) []byte{
		"a byte":     func(data []byte) []byte { data[len(data)/2] ^= 1; return data },
		"the end":    func(data []byte) []byte { data[len(data)-1] ^= 1; return data },
		"its header": func(data []byte) []byte { data[2] = 99; return data },
		"all of it":  func(data []byte) []byte { return []byte(strings.Repeat("x", len(data))) },
	}
	resp := imagetest.Must[*http.Response](t)(http.Get("http://" + f.Host + "/v2/app0/blobs/" + base))
	good := imagetest.Must[[]byte](t)(io.ReadAll(resp.Body))
	resp.Body.Close()
	for what, spoil := range spoiled {
		f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/blobs/"+base) {
				return false
			}
			w.Write(spoil(bytes.Clone(good)))
			return true
		})
		lo, o := listOptions(f, "")
		b, err := rebuild(context.Background(), t, items[:1], lo, o)
		if err != nil || statuses(b) != "failed" {
			t.Fatalf("%s: %s, %v", what, statuses(b), err)
		}
		imagetest.WantErr(t, b.Outcomes[0].Err, hinterr.ErrDamaged, base, "does not match its digest")
		if want := "docker://" + f.Host + "/new/app0:1"; b.Outcomes[0].Dest != want {
			t.Errorf("%s: dest: got %q, want %s", what, b.Outcomes[0].Dest, want)
		}
	}
	lo, o := listOptions(f, "")
	b, err := rebuild(context.Background(), t, []outcome.Item{{Line: 1, Source: "docker://" + f.Host + "/none:1"}}, lo, o)
	if err != nil || b.Outcomes[0].Dest != "docker://"+f.Host+"/new/none:1" {
		t.Errorf("an image that is missing: dest %q, %v", b.Outcomes[0].Dest, err)
	}
}

// Each further try is reported and counted.
func TestRetriesAreCounted(t *testing.T) {
	f := imagetest.NewRegistry(t)
	items, _ := batchOf(t, f)
	var refused atomic.Int32
	f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/app0/manifests/") && refused.Add(1) <= 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	notes := &imagetest.Notes{}
	_, o := listOptions(f, "")
	o.Media = media.Options{Options: registry.Options{Retry: imagetest.Fast.Retry, Progress: notes, Meter: &registry.Meter{}}}
	o.RebuildOptions.ScanOptions = images.ScanOptions{Media: o.Media}
	b, err := rebuild(context.Background(), t, items[:1], batch.ListOptions{Template: "oci:" + t.TempDir() + "/x:{name}"}, o)
	if err != nil || statuses(b) != "done" {
		t.Fatalf("%s, %v", statuses(b), err)
	}
	total := o.Media.Meter.Total()
	if total.Retries != 2 || total.Requests < 5 || total.Received == 0 {
		t.Errorf("counted %+v", total)
	}
	if n := strings.Count(strings.Join(notes.Text, "\n"), "503 Service Unavailable: next try in"); n != 2 {
		t.Errorf("%d notes of it: %q", n, notes.Text)
	}
}
