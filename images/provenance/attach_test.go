package provenance_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/provenance"
	"vfix.dev/vfix/tests/imagetest"
)

var errBroken = errors.New("broken")

// broken is an image whose manifest cannot be made.
type broken struct{ v1.Image }

func (broken) Digest() (v1.Hash, error)     { return v1.Hash{}, errBroken }
func (broken) RawManifest() ([]byte, error) { return nil, errBroken }

// TestUnknownSubject: without its digest nothing is written about a result, and none of it.
func TestUnknownSubject(t *testing.T) {
	img := broken{imagetest.ProvedBase(t)}
	tag := imagetest.Must[name.Tag](t)(name.NewTag("localhost/a:1"))
	wrote := func() error { t.Error("the result is written"); return nil }
	good := imagetest.Must[v1.Hash](t)(empty.Index.Digest()).String()
	dir := t.TempDir()
	dest := media.Ref{Transport: media.OCIArchive, Name: dir + "/a.tar"}
	for what, got := range map[string]error{
		"push":                  (&provenance.Proof{}).Push(t.Context(), media.Ref{}, tag, media.Result{Image: img}, func(name.Reference) error { return wrote() }, media.Options{}),
		"push of an index":      (&provenance.Proof{}).Push(t.Context(), media.Ref{}, tag, media.Result{Image: img, Index: empty.Index}, func(name.Reference) error { return wrote() }, media.Options{}),
		"beside, of an index":   (&provenance.Proof{}).Beside(dest, media.Result{Image: img, Index: empty.Index}, media.Stored{Digest: good}, wrote),
		"beside, no digest":     (&provenance.Proof{}).Beside(dest, media.Result{Image: img}, media.Stored{Digest: "sha256:x"}, wrote),
		"elsewhere, no digest":  (&provenance.Proof{}).Note(media.Stored{Digest: "sha256:x"}),
		"a file, no digest yet": (&provenance.Proof{File: dir + "/f"}).Beside(dest, media.Result{Image: img}, media.Stored{Digest: ""}, wrote),
	} {
		if got == nil {
			t.Errorf("%s: no error", what)
		}
	}
	imagetest.WantEmpty(t, dir)
}

// TestStatementInFile: a statement at a place of its own names what every place of the result is known by, and nothing stays
// of the attempt to write it.
func TestStatementInFile(t *testing.T) {
	dir := t.TempDir()
	img := imagetest.ProvedBase(t)
	idx := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: img})
	digest := func(of interface{ Digest() (v1.Hash, error) }) v1.Hash {
		return imagetest.Must[v1.Hash](t)(of.Digest())
	}
	other := digest(empty.Image)
	p := &provenance.Proof{File: dir + "/st.json"}
	if err := p.CanWrite(); err != nil {
		t.Fatal(err)
	}
	imagetest.WantEmpty(t, dir)
	wrote := 0
	write := func() error { wrote++; return nil }
	dest := media.Ref{Transport: media.OCILayout, Name: dir + "/out"}
	if err := errors.Join(
		p.Beside(dest, media.Result{Image: img, Index: idx}, media.Stored{Digest: digest(idx).String()}, write),
		p.Note(media.Stored{Digest: other.String()}),
		p.WriteFile(dest),
	); err != nil || wrote != 1 {
		t.Fatal(wrote, err)
	}
	imagetest.WantEmpty(t, dir, "st.json")
	st := imagetest.Must[*provenance.Stated](t)(provenance.ReadStatement(p.File)).Statement
	for what, h := range map[string]v1.Hash{"the index": digest(idx), "the image": digest(img), "what another place has": other} {
		if !st.HasSubject([]v1.Hash{h}) {
			t.Errorf("%s is not a subject: %+v", what, st.Subject)
		}
	}
	if len(p.Stored) != 1 || p.Stored[0] != p.File {
		t.Errorf("stored at %q", p.Stored)
	}

	// Beside: if the result is not written, its statement is not; if the statement's name is taken, that is an error.
	p = &provenance.Proof{}
	refused := p.Beside(dest, media.Result{Image: img}, media.Stored{Digest: digest(img).String()}, func() error { return errBroken })
	if !errors.Is(refused, errBroken) {
		t.Error(refused)
	}
	imagetest.WantEmpty(t, dir, "st.json")
	for what, err := range map[string]error{
		"beside": func() error {
			return p.Beside(dest, media.Result{Image: img}, media.Stored{Digest: digest(img).String()}, func() error { return os.Mkdir(dir+"/out.intoto.json", 0o700) })
		}(),
		"in a file": func() error {
			p := &provenance.Proof{File: dir + "/taken"}
			return errors.Join(os.Mkdir(p.File, 0o700), p.WriteFile(dest))
		}(),
	} {
		if err == nil {
			t.Errorf("%s: no error, and stored at %q", what, p.Stored)
		}
	}
	left := imagetest.Must[[]string](t)(filepath.Glob(dir + "/*"))
	if len(left) != 3 || len(p.Stored) != 0 {
		t.Errorf("there is %q, stored at %q", left, p.Stored)
	}
}
