package lists_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"vfix.dev/vfix/images/lists"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/textutil"
	"vfix.dev/vfix/tests/imagetest"
)

// all lists a SOURCE; the host of f is written as R.
func all(f *imagetest.FakeRegistry, source string, o lists.ListOptions) (string, error) {
	var got []string
	o.Media.Pause = imagetest.Fast.Pause
	o.Each = func(image string) error {
		got = append(got, strings.ReplaceAll(image, f.Host, "R"))
		return nil
	}
	err := lists.List(context.Background(), strings.ReplaceAll(source, "R", f.Host), o)
	slices.Sort(got)
	return strings.Join(got, " "), err
}

func TestListRegistry(t *testing.T) {
	f := imagetest.NewRegistry(t)
	img := imagetest.ImageOf(t, imagetest.BytesLayer(t, imagetest.TarMembers(t, imagetest.FileM("etc/x", nil))))
	for _, name := range []string{"app:1", "app:2", "team/a:1", "teams:1", "team/a:sha256-" + strings.Repeat("0", 64), "team/a:sha256-" + strings.Repeat("0", 64) + ".sig"} {
		imagetest.Put(t, "docker://"+f.Host+"/"+name, source.Result{Image: img})
	}
	pattern := func(globs ...string) lists.ListOptions {
		var o lists.ListOptions
		for _, g := range globs {
			o.Match = append(o.Match, textutil.ImagePattern(g))
		}
		return o
	}
	const every = "docker://R/app:1 docker://R/app:2 docker://R/team/a:1 docker://R/teams:1"
	for _, c := range []struct {
		typed string
		o     lists.ListOptions
		want  string
	}{
		{"docker://R", lists.ListOptions{}, every},
		{"docker://R/", lists.ListOptions{}, every},
		{"docker://R/team", lists.ListOptions{}, "docker://R/team/a:1"},
		{"docker://R/team/a", lists.ListOptions{}, "docker://R/team/a:1"},
		{"docker://R", pattern("app:*", "teams:?"), "docker://R/app:1 docker://R/app:2 docker://R/teams:1"},
		{"docker://R", pattern("docker://*:2"), "docker://R/app:2"},
		{"docker://R", pattern("pp:1"), ""},
	} {
		f.Reset(nil)
		if got, err := all(f, c.typed, c.o); err != nil || got != c.want {
			t.Errorf("%s %v: got %s, %v, want %s", c.typed, c.o.Match, got, err, c.want)
		}
		if n := f.Count("/manifests/"); n > 0 {
			t.Errorf("%s: %d manifests were read", c.typed, n)
		}
	}
	// One repository that cannot be read leaves the others; no list of repositories leaves one.
	f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/v2/app/tags") {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	})
	got, err := all(f, "docker://R", lists.ListOptions{})
	imagetest.WantErr(t, err, hinterr.ErrUnauthorized, "app: list of tags: ")
	if got != "docker://R/team/a:1 docker://R/teams:1" {
		t.Errorf("got %s", got)
	}
	f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/v2/_catalog") {
			w.WriteHeader(http.StatusNotFound)
			return true
		}
		return false
	})
	if got, err := all(f, "docker://R/app", lists.ListOptions{}); err != nil || got != "docker://R/app:1 docker://R/app:2" {
		t.Errorf("no catalog: got %s, %v", got, err)
	}
	_, err = all(f, "docker://R", lists.ListOptions{})
	imagetest.WantErr(t, err, hinterr.ErrNotFound, "registry "+f.Host+": list of repositories: ", "404")
	if hint := hinterr.HintOf(err); !strings.Contains(hint, "docker://"+f.Host+"/REPOSITORY") {
		t.Errorf("no catalog: got the hint %q", hint)
	}
	f.Reset(nil)
	if got, err := all(f, "docker://R/none", lists.ListOptions{}); !errors.Is(err, hinterr.ErrNotFound) || got != "" {
		t.Errorf("nothing there: got %s, %v", got, err)
	}
	// Tags are what the registry says.
	f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/v2/app/tags") {
			io.WriteString(w, `{"name":"app","tags":["1","2 docker://R/teams:1","3\ndocker://R/x:1","\u00a0"]}`)
			return true
		}
		return false
	})
	if got, err := all(f, "docker://R/app", lists.ListOptions{}); err != nil || got != "docker://R/app:1" {
		t.Errorf("odd tags: got %s, %v", got, err)
	}
	// A list of pages that does not end is an error.
	for path, typed := range map[string]string{"/v2/_catalog": "docker://R", "/v2/app/tags/list": "docker://R/app"} {
		f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == path {
				w.Header().Set("Link", "<"+path+"?last=app>; rel=next")
			}
			return false
		})
		var o lists.ListOptions
		o.Media.Stall = 50 * time.Millisecond
		if _, err := all(f, typed, o); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "list of ") {
			t.Errorf("%s: got %v", path, err)
		}
	}
	f.Reset(nil)
	enough, calls := errors.New("enough"), 0
	err = lists.List(context.Background(), "docker://"+f.Host, lists.ListOptions{Each: func(string) error { calls++; return enough }})
	if !errors.Is(err, enough) || calls != 1 {
		t.Errorf("got %v, after %d images", err, calls)
	}
}

func TestListPods(t *testing.T) {
	f := &imagetest.FakeRegistry{Host: "R"}
	list := func(text string, match ...*regexp.Regexp) (string, error) {
		return all(f, "-", lists.ListOptions{Stdin: strings.NewReader(text), Match: match})
	}
	const pod = `{"kind":"Pod","metadata":{"annotations":{"image":"no:1"}},"spec":{"image":"no:2","initContainers":[{"name":"i","image":"init:1"}],
		"containers":[{"image":"old.example/app:1","env":[{"name":"image","value":"x","image":"no:3"}],"ports":[{"image":"no:5"}]},{"image":"redis"},{"image":""}],"ephemeralContainers":[{"image":"debug:1"}]},
		"status":{"containerStatuses":[{"image":"no:4"}]}}`
	const want = "docker://debug:1 docker://init:1 docker://old.example/app:1 docker://redis"
	for what, text := range map[string]string{
		"a pod":   pod,
		"a list":  `{"kind":"List","items":[` + pod + "," + pod + `]}`,
		"two":     pod + "\n" + pod,
		"marked":  "\ufeff" + pod,
		"cronjob": `{"spec":{"jobTemplate":{"spec":{"template":` + pod + `}}}}`,
	} {
		if got, err := list(text); err != nil || got != want {
			t.Errorf("%s: got %s, %v", what, got, err)
		}
	}
	if got, err := list(`{"spec":{"containers":[{"image":"a:1 docker://R/b:1"},{"image":"a:1\ndocker://R/b:1"},{"image":"a:1"}]}}`); err != nil || got != "docker://a:1" {
		t.Errorf("names of two words: got %s, %v", got, err)
	}
	if got, err := list(pod, textutil.ImagePattern("app:*")); err != nil || got != "docker://old.example/app:1" {
		t.Errorf("--match: got %s, %v", got, err)
	}
	for what, text := range map[string]string{"nothing": "", "half": pod[:len(pod)/2], "no JSON": "NAME READY", "deep": strings.Repeat("[", 1e5), "an odd image": `{"spec":{"containers":[{"image":7}]}}`} {
		if _, err := list(text); !errors.Is(err, hinterr.ErrDamaged) || !strings.Contains(err.Error(), "stdin: ") || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%s: got %v", what, err)
		}
	}
	enough := errors.New("enough")
	stdin := strings.NewReader(pod)
	if err := lists.List(t.Context(), "-", lists.ListOptions{Stdin: stdin, Each: func(string) error { return enough }}); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
	if _, err := all(f, "oci:x", lists.ListOptions{Stdin: io.MultiReader()}); !errors.Is(err, hinterr.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
}
