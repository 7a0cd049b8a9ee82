package images

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
)

func rebuildProved(t testing.TB, source, dest, where string) *Rebuilt {
	t.Helper()
	r, err := Rebuild(context.Background(), source, RebuildOptions{
		Dest: dest, Version: "1.2", Provenance: where, ScanOptions: ScanOptions{Media: fast},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func verifyProved(t testing.TB, source, statement, against string) *Verified {
	t.Helper()
	v, err := Verify(context.Background(), source, VerifyOptions{Provenance: true, Statement: statement, Against: against, ScanOptions: ScanOptions{Media: fast}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// provedBase has hard links, xattrs that vouch for content, and a file over two layers.
func provedBase(t testing.TB) v1.Image {
	marked := legacyM("bin/c", "2")
	marked.PAXRecords = map[string]string{"SCHILY.xattr.security.ima": "\x03\x02sig", "SCHILY.xattr.user.kept": "1"}
	return stack(t,
		[]testMember{dirM("lib"), legacyM("lib/a", "1"), linkM("lib/b", "lib/a"), fileM("etc/x", []byte("x"))},
		[]testMember{marked})
}

func TestStatementBeside(t *testing.T) {
	source := storeOCI(t, provedBase(t))
	dir := t.TempDir()
	for _, tc := range []struct{ dest, file string }{
		{"oci:" + dir + "/out:a/b:1", "out.a-b-1.intoto.json"},
		{"oci-archive:" + dir + "/o.tar:x", "o.tar.intoto.json"},
		{"docker-archive:" + dir + "/d.tar:x:1", "d.tar.intoto.json"},
	} {
		t.Run(tc.file, func(t *testing.T) {
			r := rebuildProved(t, source, tc.dest, ProvenanceAuto)
			file := filepath.Join(dir, tc.file)
			if len(r.Provenance) != 1 || r.Provenance[0] != file {
				t.Errorf("got the statement at %q, want %s", r.Provenance, file)
			}
			v := verifyProved(t, tc.dest, "", source)
			wantProblems(t, v)
			raw := must[[]byte](t)(os.ReadFile(file))
			if !bytes.Equal(v.Stated.Raw, raw) || v.Stated.From != file {
				t.Errorf("got another statement, from %s", v.Stated.From)
			}
			readByInToto(t, raw, r.Digest)
		})
	}
	// A layout named without its tag.
	if v := verifyProved(t, "oci:"+dir+"/out", "", ""); len(v.Problems) != 0 {
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
	if got := "sha256:" + s.Subject[0].Digest["sha256"]; got != digest || s.PredicateType != PredicateType {
		t.Errorf("got subject %s and predicate type %s", got, s.PredicateType)
	}
	want := map[string]any{}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	again := map[string]any{}
	if err := json.Unmarshal(must[[]byte](t)(protojson.Marshal(&s)), &again); err != nil {
		t.Fatal(err)
	}
	if g, w := must[[]byte](t)(json.Marshal(again)), must[[]byte](t)(json.Marshal(want)); !bytes.Equal(g, w) {
		t.Errorf("in-toto reads\n%s\nwant\n%s", g, w)
	}
}

func TestStatementContent(t *testing.T) {
	source := storeOCI(t, provedBase(t))
	file := t.TempDir() + "/st.json"
	r := rebuildProved(t, source, "oci:"+t.TempDir()+"/out:x", file)
	if len(r.Provenance) != 1 || r.Provenance[0] != file {
		t.Errorf("got the statement at %q, want %s", r.Provenance, file)
	}
	st := must[*Stated](t)(readStatement(file)).Statement
	p := st.Predicate
	if p.Version != "1.2" || p.Base.Name != "base" || "sha256:"+p.Base.Digest["sha256"] != r.BaseDigest || len(p.Base.Layers) != 2 || len(p.Files) != 2 {
		t.Fatalf("got %+v", p)
	}
	c, a := p.Files[0], p.Files[1]
	if c.Path != "bin/c" || c.Layer != p.Base.Layers[1] || strings.Join(c.Dropped, " ") != "security.ima" ||
		a.Path != "lib/a" || strings.Join(a.Links, " ") != "lib/b" || a.Layer != p.Base.Layers[0] {
		t.Errorf("got %+v", p.Files)
	}
	if was, is := must[StatedBytes](t)(hashOf(bytes.NewReader(legacyELF("1")))), must[StatedBytes](t)(hashOf(bytes.NewReader(fixedELF("1")))); a.Before != was || a.After != is {
		t.Errorf("got %+v to %+v, want %+v to %+v", a.Before, a.After, was, is)
	}
	s := a.Sites[0]
	if len(a.Sites) != 1 || s.Function != "time" || s.Form != "syscall" || s.Before != "48c7c0000460ffffd0" || s.After != "48c7c0c90000000f05" || s.Offset != legacyCode {
		t.Errorf("got sites %+v", a.Sites)
	}
	if strings.Contains(string(must[[]byte](t)(os.ReadFile(file))), filepath.Dir(file)) {
		t.Error("the statement names a folder of this machine")
	}
}

// TestStatementFalse: whatever of a statement is not so is a problem; the control is that it
// is none as it was made.
func TestStatementFalse(t *testing.T) {
	source := storeOCI(t, must[v1.Image](t)(mutate.AppendLayers(stack(t, []testMember{loaderM()}), must[[]v1.Layer](t)(provedBase(t).Layers())...)))
	dest := "oci:" + t.TempDir() + "/out:x"
	shim := testShim
	if _, err := Rebuild(context.Background(), source, RebuildOptions{
		Dest: dest, Version: "1", Provenance: ProvenanceAuto, Fallback: FallbackAlways, ScanOptions: ScanOptions{Shim: shim},
	}); err != nil {
		t.Fatal(err)
	}
	ref := must[Ref](t)(ParseRef(dest))
	good := string(must[[]byte](t)(os.ReadFile(statementPath(ref))))
	zeros := strings.Repeat("0", 64)
	for _, tc := range []struct {
		name, want string
		change     func(*Statement)
	}{
		{"as it is", "", func(*Statement) {}},
		{"subject", "about another image", func(s *Statement) { s.Subject[0].Digest["sha256"] = zeros }},
		{"config", "image config: got", func(s *Statement) { s.Predicate.Derived.Config["sha256"] = zeros }},
		{"base layer", "layer 1: got", func(s *Statement) { s.Predicate.Base.Layers[1] = zeros }},
		{"fewer layers", "got 4 layers, stated 3", func(s *Statement) { s.Predicate.Base.Layers = s.Predicate.Base.Layers[1:] }},
		{"hash before", "lib/a: before: got", func(s *Statement) { s.Predicate.Files[1].Before.SHA256 = zeros }},
		{"size after", "lib/a: after: got", func(s *Statement) { s.Predicate.Files[1].After.Size++ }},
		{"layer", "lib/a: got a file of layer", func(s *Statement) { s.Predicate.Files[1].Layer = zeros }},
		{"bytes before", "lib/a: offset", func(s *Statement) { s.Predicate.Files[1].Sites[0].Before = "48c7c0000060ffffd0" }},
		{"bytes after", "changed, and not as stated", func(s *Statement) { s.Predicate.Files[1].Sites[0].After = "48c7c0c90000000f04" }},
		{"no site", "changed, and not as stated", func(s *Statement) { s.Predicate.Files[1].Sites = nil }},
		{"offset beyond", "the end of the file", func(s *Statement) { s.Predicate.Files[1].Sites[0].Offset = 1 << 63 }},
		{"overlap", "overlap others", func(s *Statement) {
			s.Predicate.Files[1].Edits = []StatedEdit{{"x", s.Predicate.Files[1].Sites[0].StatedRun}}
		}},
		{"not hex", "in hex", func(s *Statement) { s.Predicate.Files[1].Sites[0].After = "zz" }},
		{"appended", "appended: got", func(s *Statement) { s.Predicate.Files[1].Appended.Size = 1 }},
		{"xattrs", "dropped xattrs", func(s *Statement) { s.Predicate.Files[0].Dropped = nil }},
		{"no hard link", "etc/x: no hard link", func(s *Statement) { s.Predicate.Files[1].Links = []string{"etc/x", "lib/b"} }},
		{"hard link left out", "lib/b: in the added layer, and not stated", func(s *Statement) { s.Predicate.Files[1].Links = nil }},
		{"file left out", "lib/a: in the added layer, and not stated", func(s *Statement) { s.Predicate.Files = s.Predicate.Files[:1] }},
		{"file of the base", "etc/x: no file of the added layer", func(s *Statement) { s.Predicate.Files[0].Path = "etc/x" }},
		{"no such file", "../x: no file of the added layer", func(s *Statement) { s.Predicate.Files[0].Path = "../x" }},
		{"added left out", "ld.so.preload: in the added layer, and not stated", func(s *Statement) { s.Predicate.Added = s.Predicate.Added[1:] }},
		{"added hash", "etc/ld.so.preload: got sha256", func(s *Statement) { s.Predicate.Added[0].SHA256 = zeros }},
		{"added link", "no symlink to", func(s *Statement) { s.Predicate.Added[0].Link = "x" }},
		{"added nothing", "nowhere: no file of the added layer", func(s *Statement) { s.Predicate.Added[0].Path = "nowhere" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := must[*Statement](t)(parseStatement([]byte(good)))
			tc.change(s)
			file := write(t, t.TempDir()+"/st.json", must[[]byte](t)(s.encode()))
			v, err := Verify(context.Background(), dest, VerifyOptions{Statement: file, Provenance: true, ScanOptions: ScanOptions{Shim: shim}})
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
	noDaemon(t)
	for _, api := range []bool{false, true} {
		f := newRegistryWith(t, api)
		base := "docker://" + f.host + "/old/app:1"
		put(t, base, Result{Image: provedBase(t)})
		dest := "docker://" + f.host + "/new/app:1"
		r := rebuildProved(t, base, dest, ProvenanceAuto)
		if len(r.Provenance) != 1 || !strings.HasPrefix(r.Provenance[0], f.host+"/new/app@sha256:") || len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], "bin/c: security.ima dropped") {
			t.Errorf("api %v: got %q, %q", api, r.Provenance, r.Warnings)
		}
		v := verifyProved(t, dest, "", base)
		wantProblems(t, v)
		readByInToto(t, v.Stated.Raw, r.Digest)
		again := rebuildProved(t, base, dest, ProvenanceAuto)
		if again.Provenance[0] != r.Provenance[0] || again.Digest != r.Digest {
			t.Errorf("api %v: twice the same gives %+v and %+v", api, r, again)
		}
		repo := must[name.Repository](t)(name.NewRepository(f.host + "/new/app"))
		all := must[[]v1.Descriptor](t)(referrersOf(repo, must[v1.Hash](t)(v1.NewHash(r.Digest)), []remote.Option{}))
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
	noDaemon(t)
	f := newRegistryWith(t, true)
	idx := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: provedBase(t), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}},
		mutate.IndexAddendum{Add: platformImage(t, "arm64", "two"), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64"}}})
	base, dest := "docker://"+f.host+"/a:idx", "docker://"+f.host+"/b:idx"
	put(t, base, Result{Image: must[v1.Image](t)(idx.Image(must[*v1.IndexManifest](t)(idx.IndexManifest()).Manifests[0].Digest)), Index: idx})
	r := rebuildProved(t, base, dest, ProvenanceAuto)
	if len(r.Provenance) != 2 {
		t.Fatalf("got referrers %q, want one of the index and one of the image", r.Provenance)
	}
	wantProblems(t, verifyProved(t, dest, "", base))
	image := open(t, dest)
	at := "docker://" + f.host + "/b@" + image.Entry.Digest.String()
	if image.Entry.Digest.String() == r.Digest {
		t.Fatal("the image is the index")
	}
	wantProblems(t, verifyProved(t, at, "", ""))
}

// TestStatementRefused: a registry that takes no such manifest gets the image all the same.
func TestStatementRefused(t *testing.T) {
	noDaemon(t)
	f := newRegistryWith(t, false)
	base := "docker://" + f.host + "/a:1"
	put(t, base, Result{Image: provedBase(t)})
	f.reset(func(w http.ResponseWriter, r *http.Request) bool {
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
	r := rebuildProved(t, base, "docker://"+f.host+"/b:1", ProvenanceAuto)
	if len(r.Provenance) != 0 || len(r.Warnings) != 2 || !strings.Contains(r.Warnings[1], "--provenance FILE") {
		t.Errorf("got %q, %q", r.Provenance, r.Warnings)
	}
	_, err := Verify(context.Background(), "docker://"+f.host+"/b:1", VerifyOptions{Provenance: true, ScanOptions: ScanOptions{Media: fast}})
	wantErr(t, err, ErrNotFound, "no statement of provenance refers to it")
}

func TestStatementMissing(t *testing.T) {
	source := storeOCI(t, provedBase(t))
	dir := t.TempDir()
	dest := "oci:" + dir + "/out:x"
	rebuildProved(t, source, dest, ProvenanceNone)
	wantEmpty(t, dir, "out")
	_, err := Verify(context.Background(), dest, VerifyOptions{Provenance: true})
	wantErr(t, err, ErrNotFound, "out.x.intoto.json is not there")
	if hint := hintOf(err); !strings.Contains(hint, "--statement") {
		t.Errorf("got hint %q", hint)
	}
	for text, want := range map[string]string{
		"{}": "got type", "[": "statement:",
		`{"_type":"` + statementType + `","predicateType":"https://slsa.dev/provenance/v1"}`: "predicate type",
	} {
		_, err := Verify(context.Background(), dest, VerifyOptions{Provenance: true, Statement: write(t, dir+"/s.json", []byte(text))})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// TestStatementUnwritable: where the statement cannot be written, neither is the result.
func TestStatementUnwritable(t *testing.T) {
	source := storeOCI(t, provedBase(t))
	for _, dest := range []string{"oci:%/out:x", "oci-archive:%/out:x", "docker-archive:%/out:x"} {
		dir := t.TempDir()
		ref := must[Ref](t)(ParseRef(strings.Replace(dest, "%", dir, 1)))
		taken := filepath.Base(statementPath(ref))
		if err := os.Mkdir(dir+"/"+taken, 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := Rebuild(context.Background(), source, RebuildOptions{Dest: ref.String(), Provenance: ProvenanceAuto})
		if err == nil || !strings.Contains(err.Error(), taken) {
			t.Errorf("%s: got %v", dest, err)
		}
		wantEmpty(t, dir, taken)
		_, err = Rebuild(context.Background(), source, RebuildOptions{Dest: ref.String(), Provenance: dir + "/none/st.json"})
		if err == nil || !strings.Contains(err.Error(), "st.json") && !strings.Contains(err.Error(), "none") {
			t.Errorf("%s: got %v", dest, err)
		}
		wantEmpty(t, dir, taken)
	}
}

func FuzzParseStatement(f *testing.F) {
	f.Add([]byte(`{"_type":"` + statementType + `","predicateType":"` + PredicateType + `","subject":[{"digest":{"sha256":"00"}}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if s, err := parseStatement(raw); err == nil {
			s.hasSubject([]v1.Hash{{Algorithm: "sha256", Hex: "00"}})
			if _, err := s.encode(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestStatementNames: names that are not UTF-8 are found again.
func TestStatementNames(t *testing.T) {
	source := storeOCI(t, stack(t, []testMember{legacyM("a\xff\xfeb", "1"), linkM("c\xffd", "a\xff\xfeb"), legacyM("\u00fc", "2")}))
	dest := "oci:" + t.TempDir() + "/out:x"
	rebuildProved(t, source, dest, ProvenanceAuto)
	wantProblems(t, verifyProved(t, dest, "", source))
}
