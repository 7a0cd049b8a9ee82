package provenance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/provenance"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

func TestStatementBeside(t *testing.T) {
	source := imagetest.StoreOCI(t, imagetest.ProvedBase(t))
	dir := t.TempDir()
	for _, tc := range []struct{ dest, file string }{
		{"oci:" + dir + "/out:a/b:1", "out.a-b-1.intoto.json"},
		{"oci-archive:" + dir + "/o.tar:x", "o.tar.intoto.json"},
		{"docker-archive:" + dir + "/d.tar:x:1", "d.tar.intoto.json"},
	} {
		t.Run(tc.file, func(t *testing.T) {
			r := imagetest.RebuildProved(t, source, tc.dest, images.ProvenanceAuto)
			file := filepath.Join(dir, tc.file)
			if len(r.Provenance) != 1 || r.Provenance[0] != file {
				t.Errorf("got the statement at %q, want %s", r.Provenance, file)
			}
			v := imagetest.VerifyProved(t, tc.dest, "", source)
			imagetest.WantProblems(t, v)
			raw := imagetest.Must[[]byte](t)(os.ReadFile(file))
			if !bytes.Equal(v.Stated.Raw, raw) || v.Stated.From != file {
				t.Errorf("got another statement, from %s", v.Stated.From)
			}
			readByInToto(t, raw, r.Digest)
		})
	}
	// A layout named without its tag.
	if v := imagetest.VerifyProved(t, "oci:"+dir+"/out", "", ""); len(v.Problems) != 0 {
		t.Errorf("got problems %q", v.Problems)
	}
}

// readByInToto: in-toto's own types read the statement, and find it valid and complete.
func readByInToto(t testing.TB, raw []byte, digest string) {
	t.Helper()
	var s intoto.Statement
	if err := protojson.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	if got := "sha256:" + s.Subject[0].Digest["sha256"]; got != digest || s.PredicateType != provenance.PredicateType {
		t.Errorf("got subject %s and predicate type %s", got, s.PredicateType)
	}
	want := map[string]any{}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	again := map[string]any{}
	if err := json.Unmarshal(imagetest.Must[[]byte](t)(protojson.Marshal(&s)), &again); err != nil {
		t.Fatal(err)
	}
	if g, w := imagetest.Must[[]byte](t)(json.Marshal(again)), imagetest.Must[[]byte](t)(json.Marshal(want)); !bytes.Equal(g, w) {
		t.Errorf("in-toto reads\n%s\nwant\n%s", g, w)
	}
}

func TestStatementContent(t *testing.T) {
	source := imagetest.StoreOCI(t, imagetest.ProvedBase(t))
	file := t.TempDir() + "/st.json"
	r := imagetest.RebuildProved(t, source, "oci:"+t.TempDir()+"/out:x", file)
	if len(r.Provenance) != 1 || r.Provenance[0] != file {
		t.Errorf("got the statement at %q, want %s", r.Provenance, file)
	}
	st := imagetest.Must[*provenance.Stated](t)(provenance.ReadStatement(file)).Statement
	p := st.Predicate
	if p.Version != "1.2" || p.Base.Name != "base" || "sha256:"+p.Base.Digest["sha256"] != r.BaseDigest || len(p.Base.Layers) != 2 || len(p.Files) != 2 {
		t.Fatalf("got %+v", p)
	}
	c, a := p.Files[0], p.Files[1]
	if c.Path != "bin/c" || c.Layer != p.Base.Layers[1] || strings.Join(c.Dropped, " ") != "security.ima" ||
		a.Path != "lib/a" || strings.Join(a.Links, " ") != "lib/b" || a.Layer != p.Base.Layers[0] {
		t.Errorf("got %+v", p.Files)
	}
	if was, is := imagetest.Must[blob.StatedBytes](t)(blob.HashOf(bytes.NewReader(imagetest.LegacyELF("1")))), imagetest.Must[blob.StatedBytes](t)(blob.HashOf(bytes.NewReader(imagetest.FixedELF("1")))); a.Before != was || a.After != is {
		t.Errorf("got %+v to %+v, want %+v to %+v", a.Before, a.After, was, is)
	}
	s := a.Sites[0]
	if len(a.Sites) != 1 || s.Function != "time" || s.Form != "syscall" || !strings.Contains(s.Before, "48c7c0000460ffffd0") || s.After != "514153b8c90000000f05415b59c3" || s.Offset != imagetest.LegacyCode {
		t.Errorf("got sites %+v", a.Sites)
	}
	if strings.Contains(string(imagetest.Must[[]byte](t)(os.ReadFile(file))), filepath.Dir(file)) {
		t.Error("the statement names a directory of this machine")
	}
}

// TestStatementFalse: whatever of a statement is not so is a problem; the control is that it
// is not as it was made.
func TestStatementFalse(t *testing.T) {
	source := imagetest.StoreOCI(t, imagetest.Must[v1.Image](t)(mutate.AppendLayers(imagetest.Stack(t, []imagetest.TestMember{imagetest.LoaderM()}), imagetest.Must[[]v1.Layer](t)(imagetest.ProvedBase(t).Layers())...)))
	dest := "oci:" + t.TempDir() + "/out:x"
	shim := imagetest.TestShim
	if _, err := images.Rebuild(context.Background(), source, images.RebuildOptions{
		Dest: dest, Version: "1", Provenance: images.ProvenanceAuto, Fallback: fallback.FallbackAlways, ScanOptions: images.ScanOptions{Shim: shim},
	}); err != nil {
		t.Fatal(err)
	}
	ref := imagetest.Must[media.Ref](t)(media.ParseRef(dest))
	good := string(imagetest.Must[[]byte](t)(os.ReadFile(provenance.StatementPath(ref))))
	zeros := strings.Repeat("0", 64)
	for _, tc := range []struct {
		name, want string
		change     func(*provenance.Statement)
	}{
		{"as it is", "", func(*provenance.Statement) {}},
		{"subject", "about another image", func(s *provenance.Statement) { s.Subject[0].Digest["sha256"] = zeros }},
		{"config", "derived: config: sha256: got", func(s *provenance.Statement) { s.Predicate.Derived.Config["sha256"] = zeros }},
		{"base layer", "base: layers: got", func(s *provenance.Statement) { s.Predicate.Base.Layers[1] = zeros }},
		{"fewer layers", "base: layers: got", func(s *provenance.Statement) { s.Predicate.Base.Layers = s.Predicate.Base.Layers[1:] }},
		{"hash before", "files: lib/a: before: sha256: got", func(s *provenance.Statement) { s.Predicate.Files[1].Before.SHA256 = zeros }},
		{"size after", "files: lib/a: after: size: got", func(s *provenance.Statement) { s.Predicate.Files[1].After.Size++ }},
		{"layer", "files: lib/a: layer: got", func(s *provenance.Statement) { s.Predicate.Files[1].Layer = zeros }},
		{"bytes before", "files: lib/a: sites: offset 164: before: got", func(s *provenance.Statement) { s.Predicate.Files[1].Sites[0].Before = "48c7c0000060ffffd0" }},
		{"bytes after", "sites: offset 164: after: got", func(s *provenance.Statement) { s.Predicate.Files[1].Sites[0].After = "48c7c0c90000000f04" }},
		{"no site", "files: lib/a: sites: got", func(s *provenance.Statement) { s.Predicate.Files[1].Sites = nil }},
		{"offset beyond", "files: lib/a: sites: offset 9223372036854775808: got", func(s *provenance.Statement) { s.Predicate.Files[1].Sites[0].Offset = 1 << 63 }},
		{"overlap", "files: lib/a: edits: offset 164: got", func(s *provenance.Statement) {
			s.Predicate.Files[1].Edits = []provenance.StatedEdit{{What: "x", StatedRun: s.Predicate.Files[1].Sites[0].StatedRun}}
		}},
		{"not hex", "sites: offset 164: after: got", func(s *provenance.Statement) { s.Predicate.Files[1].Sites[0].After = "zz" }},
		{"appended", "files: lib/a: appended: size: got", func(s *provenance.Statement) { s.Predicate.Files[1].Appended.Size = 1 }},
		{"xattrs", "files: bin/c: droppedXattrs: got", func(s *provenance.Statement) { s.Predicate.Files[0].Dropped = nil }},
		{"no hard link", "files: lib/a: links: got", func(s *provenance.Statement) { s.Predicate.Files[1].Links = []string{"etc/x", "lib/b"} }},
		{"hard link left out", "files: lib/a: links: got", func(s *provenance.Statement) { s.Predicate.Files[1].Links = nil }},
		{"file left out", "files: lib/a: missing", func(s *provenance.Statement) { s.Predicate.Files = s.Predicate.Files[:1] }},
		{"file of the base", "files: bin/c: missing", func(s *provenance.Statement) { s.Predicate.Files[0].Path = "etc/x" }},
		{"no such file", "files: ../x: got", func(s *provenance.Statement) { s.Predicate.Files[0].Path = "../x" }},
		{"added left out", "added: etc/ld.so.preload: missing", func(s *provenance.Statement) { s.Predicate.Added = s.Predicate.Added[1:] }},
		{"added hash", "added: etc/ld.so.preload: sha256: got", func(s *provenance.Statement) { s.Predicate.Added[0].SHA256 = zeros }},
		{"added link", "added: etc/ld.so.preload: link: got", func(s *provenance.Statement) { s.Predicate.Added[0].Link = "x" }},
		{"added nothing", "added: nowhere: got", func(s *provenance.Statement) { s.Predicate.Added[0].Path = "nowhere" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := imagetest.Must[*provenance.Statement](t)(provenance.ParseStatement([]byte(good)))
			tc.change(s)
			file := imagetest.Write(t, t.TempDir()+"/st.json", imagetest.Must[[]byte](t)(s.Encode()))
			v, err := images.Verify(context.Background(), dest, images.VerifyOptions{Statement: file, Provenance: true, ScanOptions: images.ScanOptions{Shim: shim}})
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(v.Problems, "\n")
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("got problems\n%s\nwant one with %q", got, tc.want)
			}
		})
	}
}

// TestStatementReferrer: what is pushed has its statement as a referrer, with the referrers
// API and without it; the index and the image each.
func TestStatementReferrer(t *testing.T) {
	imagetest.NoDaemon(t)
	for _, api := range []bool{false, true} {
		f := imagetest.NewRegistryWith(t, api)
		base := "docker://" + f.Host + "/old/app:1"
		imagetest.Put(t, base, media.Result{Image: imagetest.ProvedBase(t)})
		dest := "docker://" + f.Host + "/new/app:1"
		r := imagetest.RebuildProved(t, base, dest, images.ProvenanceAuto)
		if len(r.Provenance) != 1 || !strings.HasPrefix(r.Provenance[0], f.Host+"/new/app@sha256:") || len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], "bin/c: security.ima dropped") {
			t.Errorf("api %v: got %q, %q", api, r.Provenance, r.Warnings)
		}
		v := imagetest.VerifyProved(t, dest, "", base)
		imagetest.WantProblems(t, v)
		readByInToto(t, v.Stated.Raw, r.Digest)
		again := imagetest.RebuildProved(t, base, dest, images.ProvenanceAuto)
		if again.Provenance[0] != r.Provenance[0] || again.Digest != r.Digest {
			t.Errorf("api %v: twice the same gives %+v and %+v", api, r, again)
		}
		repo := imagetest.Must[name.Repository](t)(name.NewRepository(f.Host + "/new/app"))
		all := imagetest.Must[[]v1.Descriptor](t)(provenance.ReferrersOf(repo, imagetest.Must[v1.Hash](t)(v1.NewHash(r.Digest)), []remote.Option{}))
		if len(all) != 1 || all[0].MediaType != types.OCIManifestSchema1 {
			t.Errorf("api %v: got referrers %+v", api, all)
		}
		_, err := remote.Head(repo.Tag(strings.Replace(r.Digest, ":", "-", 1)))
		if (err == nil) == api {
			t.Errorf("api %v: the tag for registries without it: %v", api, err)
		}
	}
}

func TestStatementOfIndex(t *testing.T) {
	imagetest.NoDaemon(t)
	f := imagetest.NewRegistryWith(t, true)
	idx := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: imagetest.ProvedBase(t), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}},
		mutate.IndexAddendum{Add: imagetest.PlatformImage(t, "arm64", "two"), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64"}}})
	base, dest := "docker://"+f.Host+"/a:idx", "docker://"+f.Host+"/b:idx"
	imagetest.Put(t, base, media.Result{Image: imagetest.Must[v1.Image](t)(idx.Image(imagetest.Must[*v1.IndexManifest](t)(idx.IndexManifest()).Manifests[0].Digest)), Index: idx})
	r := imagetest.RebuildProved(t, base, dest, images.ProvenanceAuto)
	if len(r.Provenance) != 2 {
		t.Fatalf("got referrers %q, want one of the index and one of the image", r.Provenance)
	}
	imagetest.WantProblems(t, imagetest.VerifyProved(t, dest, "", base))
	image := imagetest.Open(t, dest)
	at := "docker://" + f.Host + "/b@" + image.Entry.Digest.String()
	if image.Entry.Digest.String() == r.Digest {
		t.Fatal("the image is the index")
	}
	imagetest.WantProblems(t, imagetest.VerifyProved(t, at, "", ""))
}

// TestStatementRefused: a registry that takes no such manifest gets the image all the same.
func TestStatementRefused(t *testing.T) {
	imagetest.NoDaemon(t)
	f := imagetest.NewRegistryWith(t, false)
	base := "docker://" + f.Host + "/a:1"
	imagetest.Put(t, base, media.Result{Image: imagetest.ProvedBase(t)})
	f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/manifests/") {
			return false
		}
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if !bytes.Contains(body, []byte("artifactType")) {
			return false
		}
		w.WriteHeader(http.StatusBadRequest)
		return true
	})
	r := imagetest.RebuildProved(t, base, "docker://"+f.Host+"/b:1", images.ProvenanceAuto)
	if len(r.Provenance) != 0 || len(r.Warnings) != 2 || !strings.Contains(r.Warnings[1], "--provenance FILE") {
		t.Errorf("got %q, %q", r.Provenance, r.Warnings)
	}
	_, err := images.Verify(context.Background(), "docker://"+f.Host+"/b:1", images.VerifyOptions{Provenance: true, ScanOptions: images.ScanOptions{Media: imagetest.Fast}})
	imagetest.WantErr(t, err, hinterr.ErrNotFound, "no statement of provenance refers to it")
}

// TestStatementDenied: where a registry takes the image and denies its statement, or answers the tag with a page, the
// error says so, and the hint does not advise a login for what was just pushed.
func TestStatementDenied(t *testing.T) {
	imagetest.NoDaemon(t)
	f := imagetest.NewRegistryWith(t, false)
	base := "docker://" + f.Host + "/a:1"
	imagetest.Put(t, base, media.Result{Image: imagetest.ProvedBase(t)})
	for _, c := range []struct {
		name, says, hint string
		answer           func(path string, statement bool) int // 0: as usual
	}{
		{"403 for the statement", "403 Forbidden", "not its statement: --provenance FILE keeps it in a file, --provenance none", func(_ string, statement bool) int {
			if statement {
				return http.StatusForbidden
			}
			return 0
		}},
		{"403 for the tag", "no access", "docker login", func(path string, _ bool) int {
			if strings.HasSuffix(path, "/manifests/1") {
				return http.StatusForbidden
			}
			return 0
		}},
		{"a page for the tag", "under this name", "", func(path string, _ bool) int {
			if strings.HasSuffix(path, "/manifests/1") {
				return http.StatusOK
			}
			return 0
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/manifests/") {
					return false
				}
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				status := c.answer(r.URL.Path, bytes.Contains(body, []byte("artifactType")))
				if status == 0 {
					return false
				}
				w.WriteHeader(status)
				return true
			})
			_, err := images.Rebuild(context.Background(), base, images.RebuildOptions{
				Dest: "docker://" + f.Host + "/b/" + strings.ReplaceAll(c.name, " ", "-") + ":1", Version: "1", Provenance: images.ProvenanceAuto,
				ScanOptions: images.ScanOptions{Media: imagetest.Fast},
			})
			imagetest.WantErr(t, err, nil, "registry "+f.Host, c.says)
			if hint := hinterr.HintOf(err); !strings.Contains(hint, c.hint) {
				t.Errorf("got hint %q", hint)
			}
		})
	}
}

func TestStatementMissing(t *testing.T) {
	source := imagetest.StoreOCI(t, imagetest.ProvedBase(t))
	dir := t.TempDir()
	dest := "oci:" + dir + "/out:x"
	imagetest.RebuildProved(t, source, dest, images.ProvenanceNone)
	imagetest.WantEmpty(t, dir, "out")
	_, err := images.Verify(context.Background(), dest, images.VerifyOptions{Provenance: true})
	imagetest.WantErr(t, err, hinterr.ErrNotFound, "out.x.intoto.json is not there")
	if hint := hinterr.HintOf(err); !strings.Contains(hint, "--statement") {
		t.Errorf("got hint %q", hint)
	}
	for text, want := range map[string]string{
		"{}": "got type", "[": "statement:",
		`{"_type":"` + provenance.StatementType + `","predicateType":"https://slsa.dev/provenance/v1"}`: "predicate type",
	} {
		_, err := images.Verify(context.Background(), dest, images.VerifyOptions{Provenance: true, Statement: imagetest.Write(t, dir+"/s.json", []byte(text))})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// TestStatementUnwritable: where the statement cannot be written, neither is the result.
func TestStatementUnwritable(t *testing.T) {
	source := imagetest.StoreOCI(t, imagetest.ProvedBase(t))
	for _, dest := range []string{"oci:%/out:x", "oci-archive:%/out:x", "docker-archive:%/out:x"} {
		dir := t.TempDir()
		ref := imagetest.Must[media.Ref](t)(media.ParseRef(strings.Replace(dest, "%", dir, 1)))
		taken := filepath.Base(provenance.StatementPath(ref))
		if err := os.Mkdir(dir+"/"+taken, 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := images.Rebuild(context.Background(), source, images.RebuildOptions{Dest: ref.String(), Provenance: images.ProvenanceAuto})
		if err == nil || !strings.Contains(err.Error(), taken) {
			t.Errorf("%s: got %v", dest, err)
		}
		imagetest.WantEmpty(t, dir, taken)
		_, err = images.Rebuild(context.Background(), source, images.RebuildOptions{Dest: ref.String(), Provenance: dir + "/none/st.json"})
		if err == nil || !strings.Contains(err.Error(), "st.json") && !strings.Contains(err.Error(), "none") {
			t.Errorf("%s: got %v", dest, err)
		}
		imagetest.WantEmpty(t, dir, taken)
	}
}

func FuzzParseStatement(f *testing.F) {
	f.Add([]byte(`{"_type":"` + provenance.StatementType + `","predicateType":"` + provenance.PredicateType + `","subject":[{"digest":{"sha256":"00"}}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if s, err := provenance.ParseStatement(raw); err == nil {
			s.HasSubject([]v1.Hash{{Algorithm: "sha256", Hex: "00"}})
			if _, err := s.Encode(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestStatementNames: names that are not UTF-8 are found again.
func TestStatementNames(t *testing.T) {
	source := imagetest.StoreOCI(t, imagetest.Stack(t, []imagetest.TestMember{imagetest.LegacyM("a\xff\xfeb", "1"), imagetest.LinkM("c\xffd", "a\xff\xfeb"), imagetest.LegacyM("\u00fc", "2")}))
	dest := "oci:" + t.TempDir() + "/out:x"
	imagetest.RebuildProved(t, source, dest, images.ProvenanceAuto)
	imagetest.WantProblems(t, imagetest.VerifyProved(t, dest, "", source))
}
