package lists_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/lists"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

func TestRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "list")
	for text, want := range map[string]string{
		"# a comment\n\n app:1 # one\noci:a:b\tdocker://r.example/a:1\napp:1\n": "3 app:1>, 4 oci:a:b>docker://r.example/a:1",
		"a b c\n":         "error line 1: 3 words",
		"ok\nfoo://x\n":   "error line 2: unknown prefix",
		"# nothing\n":     "error no image in the list",
		"\ufeffapp:2\r\n": "1 app:2>",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		items, err := lists.Read(name, lists.Part{})
		var got []string
		for _, i := range items {
			got = append(got, fmt.Sprintf("%d %s>%s", i.Line, i.Source, i.Dest))
		}
		if fails, ok := strings.CutPrefix(want, "error "); ok {
			if err == nil || !strings.Contains(err.Error(), fails) || hinterr.HintOf(err) == "" {
				t.Errorf("%q: got %v, want an error with %q and a hint", text, err, fails)
			}
		} else if err != nil || strings.Join(got, ", ") != want {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
}

// Each line is in one part, whatever the other lines are.
func TestParts(t *testing.T) {
	name := filepath.Join(t.TempDir(), "list")
	var text strings.Builder
	for n := range 100 {
		fmt.Fprintf(&text, "app:%d\n", n)
	}
	if err := os.WriteFile(name, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for n := range 3 {
		part := imagetest.Must[[]lists.Item](t)(lists.Read(name, lists.Part{Index: n, Of: 3}))
		if len(part) < 15 {
			t.Errorf("part %d has %d lines of 100", n, len(part))
		}
		for _, i := range part {
			seen[i.Source]++
		}
	}
	for source, n := range seen {
		if n != 1 {
			t.Errorf("%s is in %d parts", source, n)
		}
	}
	if len(seen) != 100 {
		t.Errorf("got %d lines", len(seen))
	}
}

// fleet is a list of an image to patch, one that needs nothing, and one that is missing; out is where the results go.
func fleet(t *testing.T) (items []lists.Item, out string) {
	out = t.TempDir()
	legacy := imagetest.StoreOCI(t, imagetest.Stack(t, []imagetest.TestMember{imagetest.LegacyM("lib/a", "1")}))
	modern := imagetest.StoreOCI(t, imagetest.Stack(t, []imagetest.TestMember{imagetest.ModernM("lib/b")}))
	for n, source := range []string{legacy, modern, "oci:" + out + "/none:x"} {
		items = append(items, lists.Item{Line: n + 1, Source: source, Dest: fmt.Sprintf("oci:%s/%d:x", out, n)})
	}
	return items, out
}

func statuses(all []lists.Image) string {
	var words []string
	for _, i := range all {
		word := string(i.Status)
		if i.Before {
			word += " before"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// A second run finds what is done by its label; other options, or another version, do it again.
func TestRebuildAgain(t *testing.T) {
	imagetest.CleanTemp(t)
	items, _ := fleet(t)
	o := lists.Options{RebuildOptions: images.RebuildOptions{Version: "1", Fallback: "never", ScanOptions: images.ScanOptions{Media: imagetest.Fast}}}
	finished := 0
	o.Each = func(lists.Image) { finished++ }
	for _, run := range []struct {
		version, want string
	}{
		{"1", "done, unaffected, failed"}, {"1", "done before, unaffected, failed"}, {"2", "done, unaffected, failed"},
	} {
		o.Version = run.version
		all := lists.Rebuild(t.Context(), items, o)
		if got := statuses(all); got != run.want {
			t.Errorf("got %s, want %s", got, run.want)
		}
		if all[0].Reference != items[0].Dest || !strings.HasPrefix(all[0].Digest, "sha256:") || all[0].BaseDigest == "" || all[2].Err == nil {
			t.Errorf("got %+v", all)
		}
	}
	if finished != 9 {
		t.Errorf("Each was called %d times", finished)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := statuses(lists.Rebuild(ctx, items, o)); got != "not run, not run, not run" {
		t.Errorf("cancelled: got %s", got)
	}
}

// Two images with the same DEST, in different spellings: the second one fails.
func TestDuplicateDest(t *testing.T) {
	items, out := fleet(t)
	items[1].Dest = "oci:" + out + "/./0:x"
	all := lists.Rebuild(t.Context(), items[:2], lists.Options{RebuildOptions: images.RebuildOptions{ScanOptions: images.ScanOptions{Jobs: 1}}})
	if got := statuses(all); got != "done, failed" || !strings.Contains(all[1].Err.Error(), "duplicate destination: line 1") {
		t.Errorf("got %s, %v", got, all[1].Err)
	}
}

func TestScan(t *testing.T) {
	items, _ := fleet(t)
	all := lists.Scan(t.Context(), items, lists.Options{})
	if got := statuses(all); got != "affected, unaffected, failed" || all[0].Patched != 1 || all[0].LeftOver != 0 || all[0].Files != 1 {
		t.Errorf("got %s, %+v", got, all[0])
	}
}

// A rebuild of an image with call sites that vfix cannot patch, and no fallback, leaves it affected.
func TestRebuildLeaves(t *testing.T) {
	odd := imagetest.StoreOCI(t, imagetest.Stack(t, []imagetest.TestMember{imagetest.LeftM("lib/odd.so", true)}))
	o := lists.Options{RebuildOptions: images.RebuildOptions{Fallback: "never", DryRun: true}}
	all := lists.Rebuild(t.Context(), []lists.Item{{Line: 1, Source: odd}}, o)
	if got := statuses(all); got != "affected" || all[0].LeftOver != 1 || all[0].Patched != 0 {
		t.Errorf("got %s, %+v", got, all[0])
	}
}

// The second run reports what the first one left: call sites, and parts that it could not examine.
func TestRebuildLeavesAgain(t *testing.T) {
	legacy := imagetest.LegacyM("lib/a", "1")
	for name, left := range map[string]imagetest.TestMember{
		"call site": imagetest.LeftM("lib/odd.so", true), "squashfs": imagetest.FileM("opt/app.snap", []byte("hsqs"+strings.Repeat("\x00", 100))),
	} {
		odd := imagetest.StoreOCI(t, imagetest.Stack(t, []imagetest.TestMember{legacy, left}))
		items := []lists.Item{{Line: 1, Source: odd, Dest: "oci:" + t.TempDir() + "/fixed"}}
		o := lists.Options{RebuildOptions: images.RebuildOptions{Fallback: "never"}}
		first, again := lists.Rebuild(t.Context(), items, o)[0], lists.Rebuild(t.Context(), items, o)[0]
		if first.LeftOver == 0 && !first.Incomplete {
			t.Errorf("%s: got %+v", name, first)
		}
		if !again.Before || again.LeftOver != first.LeftOver || again.Incomplete != first.Incomplete || !slices.Equal(again.Warnings, first.Warnings) {
			t.Errorf("%s: got %+v, want what is left as in %+v", name, again, first)
		}
	}
}

func TestTemplate(t *testing.T) {
	items, out := fleet(t)
	items[0].Dest = ""
	all := lists.Rebuild(t.Context(), items[:1], lists.Options{Template: "oci:" + out + "/{name}:{tag}-x"})
	if all[0].Status != lists.Done || !strings.HasPrefix(all[0].Reference, "oci:"+out+"/") || strings.Contains(all[0].Reference, "{") {
		t.Errorf("got %+v", all[0])
	}
	for template, want := range map[string]string{"docker://r.example/{repository}:{tag}": "", "docker://r.example/a:1": "nothing in braces", "docker://r.example/{x}:1": "want {registry}"} {
		if err := lists.CheckTemplate(template); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", template, err, want)
		}
	}
}

func TestFillTemplate(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0123456789abcdef", 4)
	for from, want := range map[string]string{
		"redis:2.8": "docker.io/library/redis redis 2.8", "docker://r.example:5000/team/a": "r.example:5000/team/a a latest",
		"docker://r.example/a" + digest: "r.example/a a 0123456789ab", "docker://r.example/a:1" + digest: "r.example/a a 1",
		"oci:dir/base:x": "docker.io/library/base base x", "docker-archive:some.tar": "docker.io/library/some some latest",
	} {
		ref := imagetest.Must[source.Ref](t)(source.ParseRef(from))
		if ref.Guessed {
			ref.Transport = source.Daemon // as opened
		}
		if got, err := lists.FillTemplate("{registry}/{repository} {name} {tag}", ref); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", from, got, err, want)
		}
	}
}

func TestReport(t *testing.T) {
	all := []lists.Image{
		{Item: lists.Item{Line: 3, Source: "=cmd|x"}, Status: lists.Failed, Error: "an <error>", Hint: "a hint"},
		{Item: lists.Item{Line: 1, Source: "app:1", Dest: "app:2"}, Status: lists.Done, Before: true, Reference: "app@sha256:ab", LayerSize: 1024, Patched: 2, Warnings: []string{"a", "b"}},
	}
	r := lists.Report{Title: "A title", About: "About it", Sums: "The sums", Next: "go on", All: all}
	for ending, want := range map[string][]string{
		".csv":   {"line,source,dest,status,", "\n3,'=cmd|x,,failed,", "\n1,app:1,app:2,done,true,", ",1024,", ",a; b,"},
		".jsonl": {`{"line":3,"source":"=cmd|x",`, `"error":"an <error>"`, "\n" + `{"line":1,`, `"warnings":["a","b"]`},
		".html":  {"<title>A title: report", "<p>The sums</p>", "<p>Next: go on</p>", `id="failed"`, "an &lt;error&gt;<small>a hint</small>", "by an earlier run", "About it", "</html>"},
	} {
		name := filepath.Join(t.TempDir(), "report"+ending)
		if err := r.Write(name); err != nil {
			t.Fatal(err)
		}
		rest := string(imagetest.Must[[]byte](t)(os.ReadFile(name)))
		for _, text := range want { // in this order
			before, after, found := strings.Cut(rest, text)
			if rest = after; !found {
				t.Fatalf("%s: no %q in %q", ending, text, before)
			}
		}
	}
	if err := r.Write(t.TempDir() + "/none/x.csv"); err == nil || !strings.HasPrefix(err.Error(), "report: ") {
		t.Errorf("no directory: got %v", err)
	}
}

// The images of a local engine, by their tags.
func TestListEngine(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/images/json") {
			io.WriteString(w, `[{"Id":"sha256:aa","RepoTags":["<none>:<none>"]},{"Id":"sha256:bb","RepoTags":["tiny:1","old:2"]}]`)
		}
	})
	dir := imagetest.Must[string](t)(os.MkdirTemp("", "l"))
	t.Cleanup(func() { os.RemoveAll(dir) })
	l := imagetest.Must[net.Listener](t)(net.Listen("unix", dir+"/l.sock"))
	s := &http.Server{Handler: handler}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	t.Setenv("DOCKER_HOST", "unix://"+dir+"/l.sock")
	var got []string
	o := lists.ListOptions{Each: func(image string) error { got = append(got, image); return nil }}
	if err := lists.List(t.Context(), lists.Engines, o); err != nil || strings.Join(got, " ") != "docker-daemon:tiny:1 docker-daemon:old:2" {
		t.Errorf("got %q, %v", got, err)
	}
}
