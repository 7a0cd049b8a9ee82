package images_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/tidwall/gjson"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/tests/imagetest"
)

// Changes of a derived image that agree with each other, as somebody makes them who knows the format: whole layers with their
// history, diff ID and descriptor, labels with annotations; every digest is right.

// stacked is an image as lists that change together; descriptors, diff IDs and history are JSON.
type stacked struct{ descriptors, diffIDs, history []string }

func raws(doc []byte, path string) (all []string) {
	for _, e := range gjson.GetBytes(doc, path).Array() {
		all = append(all, e.Raw)
	}
	return all
}

// withRaws is a document with another list, its other bytes as they are.
func withRaws(doc []byte, path string, all []string) []byte {
	r := gjson.GetBytes(doc, path)
	return slices.Concat(doc[:r.Index], []byte("["+strings.Join(all, ",")+"]"), doc[r.Index+len(r.Raw):])
}

func TestVerifyNoticesConsistentChanges(t *testing.T) {
	tried := 0
	for _, mode := range []fallback.Mode{fallback.FallbackNever, fallback.FallbackAlways} {
		index := mutationBase(t)
		amd := imagetest.Must[*v1.IndexManifest](t)(index.IndexManifest()).Manifests[0].Digest
		source, dest := "oci:"+t.TempDir()+"/base", t.TempDir()+"/out"
		imagetest.Put(t, source, media.Result{Image: imagetest.Must[v1.Image](t)(index.Image(amd)), Index: index})
		imagetest.RebuildWith(t, source, "oci:"+dest, mode)
		was := takeApart(t, dest)
		base := stacked{raws(was.manifest, "layers"), raws(was.config, "rootfs.diff_ids"), raws(was.config, "history")}
		n := len(base.descriptors)
		if n != 3 || len(base.diffIDs) != n || len(base.history) != n {
			t.Fatalf("got %+v, want 3 layers", base)
		}
		// A layer of somebody's own, and one without anything.
		other := map[string][3]string{}
		for name, members := range map[string][]imagetest.TestMember{"full": {imagetest.FileM("lib/a", []byte("mine"))}, "empty": nil} {
			l := imagetest.BytesLayer(t, imagetest.TarMembers(t, members...))
			digest, size, diffID := imagetest.Must[v1.Hash](t)(l.Digest()), imagetest.Must[int64](t)(l.Size()), imagetest.Must[v1.Hash](t)(l.DiffID())
			r := imagetest.Must[io.ReadCloser](t)(l.Compressed())
			was.blobs[digest.String()] = imagetest.Must[[]byte](t)(io.ReadAll(r))
			r.Close()
			other[name] = [3]string{
				fmt.Sprintf(`{"mediaType":%s,"size":%d,"digest":"%v"}`, gjson.Get(base.descriptors[0], "mediaType").Raw, size, digest),
				fmt.Sprintf(`"%v"`, diffID), `{"created_by":"somebody"}`,
			}
		}
		// Where the base has been since, verify cannot know: another name of it is listed as not compared.
		check := func(what string, p parts) {
			v, err := images.Verify(context.Background(), p.store(t, was), images.VerifyOptions{Against: source, ScanOptions: images.ScanOptions{Shim: imagetest.TestShim}})
			if noticed := err != nil || len(v.Problems)+len(v.NotCompared) > 0; noticed == (what == "control") {
				t.Errorf("%v, %s: noticed: got %v: %v, %+v", mode, what, noticed, err, v)
			}
		}
		restack := func(what string, change func(*stacked)) {
			s := stacked{slices.Clone(base.descriptors), slices.Clone(base.diffIDs), slices.Clone(base.history)}
			change(&s)
			p := *was
			p.config = withRaws(withRaws(was.config, "rootfs.diff_ids", s.diffIDs), "history", s.history)
			p.manifest = withRaws(was.manifest, "layers", s.descriptors)
			tried++
			check(what, p)
		}
		put := func(s *stacked, at, end int, with ...[3]string) {
			for i, list := range []*[]string{&s.descriptors, &s.diffIDs, &s.history} {
				var mine []string
				for _, w := range with {
					mine = append(mine, w[i])
				}
				*list = slices.Replace(*list, at, end, mine...)
			}
		}
		restack("control", func(*stacked) {})
		for i := range n {
			of := [3]string{base.descriptors[i], base.diffIDs[i], base.history[i]}
			restack(fmt.Sprint("layer dropped ", i), func(s *stacked) { put(s, i, i+1) })
			restack(fmt.Sprint("layer twice ", i), func(s *stacked) { put(s, i, i, of) })
			restack(fmt.Sprint("history dropped ", i), func(s *stacked) { s.history = slices.Delete(s.history, i, i+1) })
			for name, with := range other {
				restack(fmt.Sprint("layer replaced ", i, name), func(s *stacked) { put(s, i, i+1, with) })
				restack(fmt.Sprint("layer before ", i, name), func(s *stacked) { put(s, i, i, with) })
				restack(fmt.Sprint("layer at the end ", i, name), func(s *stacked) { put(s, n, n, with); put(s, i, i+1, with) })
			}
			restack(fmt.Sprint("step without a layer before ", i), func(s *stacked) {
				s.history = slices.Insert(s.history, i, `{"created_by":"x","empty_layer":true}`)
			})
			for j := range i {
				restack(fmt.Sprint("layers change places ", i, j), func(s *stacked) {
					for _, list := range [][]string{s.descriptors, s.diffIDs, s.history} {
						list[i], list[j] = list[j], list[i]
					}
				})
				if base.history[i] == base.history[j] {
					continue
				}
				restack(fmt.Sprint("history changes places ", i, j), func(s *stacked) { s.history[i], s.history[j] = s.history[j], s.history[i] })
			}
		}
		restack("a layer at the end", func(s *stacked) { put(s, n, n, other["full"]) })
		// The base in labels and annotations, everywhere alike.
		var labels map[string]string
		if err := json.Unmarshal([]byte(gjson.GetBytes(was.config, "config.Labels").Raw), &labels); err != nil || len(labels) == 0 {
			t.Fatalf("labels: got %v, %v", labels, err)
		}
		for key, value := range labels {
			for _, as := range []string{value + "0", ""} {
				p := *was
				for _, doc := range []*[]byte{&p.config, &p.manifest, &p.index} {
					*doc = []byte(strings.ReplaceAll(string(*doc), `"`+key+`":"`+value+`"`, `"`+key+`":"`+as+`"`))
				}
				tried++
				check(fmt.Sprintf("%s: %q", key, as), p)
			}
		}
	}
	if tried < 60 {
		t.Errorf("got %d changes to try, want 60", tried)
	}
	t.Logf("%d changes", tried)
}
