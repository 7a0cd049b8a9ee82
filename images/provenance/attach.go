// Where a statement goes. A registry gets it as a referrer of what was pushed (distribution
// spec, "Listing Referrers"; without that API the referrers tag sha256-HEX, which go-
// containerregistry keeps). An archive or layout gets a file beside it; a daemon has no
// place for one.

package provenance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/jsonobject"
	"vfix.dev/vfix/internal/progress"
)

const (
	// inTotoMediaType is that of a statement without an envelope (in-toto attestation,
	// spec/v1/envelope.md; buildkit's attestations also use it so).
	inTotoMediaType = "application/vnd.in-toto+json"
	// predicateKey is the annotation by which buildkit, docker scout and others recognize what a
	// statement states without reading it (moby/buildkit, docs/attestations/attestation-storage.md).
	predicateKey = "in-toto.io/predicate-type"
	// statementSuffix ends the name of a file with a statement (in-toto attestation, spec/v1/bundle.md
	// has .intoto.jsonl for several a file).
	statementSuffix = ".intoto.json"
	// emptyConfig is the config of a manifest that has none (image-spec manifest.md,
	// "Guidance for an Empty Descriptor").
	emptyConfig     = "{}"
	EmptyConfigType = types.MediaType("application/vnd.oci.empty.v1+json")
)

// Proof is the statement about a result, and what became of it.
type Proof struct {
	Doc Predicate
	// File is the place that the user chose for the statement; "" is beside an archive or layout.
	File string
	// subjects are the digests of the result in all its places so far.
	subjects []v1.Hash
	// Stored has the places of the statement, warnings those at which it could not be put.
	Stored, Warnings []string
}

// subjectsOf are the digests by which a stored result may be requested: that of its index,
// and of the image's own manifest.
func subjectsOf(r media.Result, st media.Stored) ([]v1.Hash, error) {
	h, err := v1.NewHash(st.Digest)
	if err != nil || r.Index == nil {
		return []v1.Hash{h}, err
	}
	img, err := r.Image.Digest()
	return UniqueHashes([]v1.Hash{h, img}), err
}

// state makes the statement about a result that has these digests somewhere, under a name.
func (p *Proof) state(dest media.Ref, digests []v1.Hash) ([]byte, error) {
	s := Statement{Type: statementType, Subject: []Artifact{}, PredicateType: PredicateType, Predicate: p.Doc}
	for _, d := range digests {
		s.Subject = append(s.Subject, Artifact{Name: media.BaseName(dest), Digest: DigestSet(d)})
	}
	return s.Encode()
}

// Beside calls write to write an archive or layout, and puts the statement beside it.
func (p *Proof) Beside(dest media.Ref, r media.Result, st media.Stored, write func() error) error {
	subjects, err := subjectsOf(r, st)
	if err != nil {
		return err
	}
	p.addSubjects(subjects)
	if p.File != "" {
		return write() // the statement is written when all places are known
	}
	// The caller has the lock on dest, which covers the statement beside it.
	f, err := p.begin(dest, subjects, statementPath(dest), func(final string) string {
		return filepath.Join(filepath.Dir(final), filepath.Base(atomicfile.HeldName(dest.Name)))
	})
	if err != nil {
		return err
	}
	defer f.Discard()
	if err := write(); err != nil {
		return err
	}
	return p.commit(f)
}

func (p *Proof) addSubjects(more []v1.Hash) {
	p.subjects = UniqueHashes(append(p.subjects, more...))
}

// begin writes the statement to a file without a name yet; temp makes the one it has until then.
func (p *Proof) begin(dest media.Ref, subjects []v1.Hash, path string, temp func(string) string) (*atomicfile.File, error) {
	raw, err := p.state(dest, subjects)
	if err != nil {
		return nil, err
	}
	f, err := atomicfile.CreateNamed(path, temp)
	if err != nil {
		return nil, fmt.Errorf("statement of provenance: %w", err)
	}
	if _, err := f.Write(raw); err != nil {
		f.Discard()
		return nil, fmt.Errorf("statement of provenance %s: %w", path, err)
	}
	return f, nil
}

func (p *Proof) commit(f *atomicfile.File) error {
	if err := f.Commit(); err != nil {
		return fmt.Errorf("statement of provenance: %w", err)
	}
	p.Stored = append(p.Stored, f.Final)
	return nil
}

// Note remembers the digest of a result that has no statement beside it.
func (p *Proof) Note(st media.Stored) error {
	h, err := v1.NewHash(st.Digest)
	p.addSubjects([]v1.Hash{h})
	return err
}

// statementPath is the file beside an archive or layout: its name and, as a layout holds
// several images, the tag. Other characters than a file name should have become a hyphen.
func statementPath(r media.Ref) string {
	path := filepath.Clean(r.Name)
	if r.Transport == media.OCILayout && r.Tag != "" {
		path += "." + regexp.MustCompile(`[^A-Za-z0-9._-]+`).ReplaceAllString(r.Tag, "-")
	}
	return path + statementSuffix
}

// referrer is the manifest that ties a statement to its subject (image-spec manifest.md,
// "Guidelines for Artifact Usage"). It has no date: the same statement has the same digest.
type referrer struct {
	statement []byte
	subject   v1.Descriptor
}

func (r referrer) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// RawManifest is encoded from a struct, as v1.Manifest has no artifactType.
func (r referrer) RawManifest() ([]byte, error) {
	notes := map[string]string{predicateKey: PredicateType}
	config, _, err := v1.SHA256(strings.NewReader(emptyConfig))
	if err != nil {
		return nil, err
	}
	layer := v1.Descriptor{MediaType: inTotoMediaType, Annotations: notes}
	if layer.Digest, layer.Size, err = v1.SHA256(bytes.NewReader(r.statement)); err != nil {
		return nil, err
	}
	return jsonobject.Encode(struct {
		SchemaVersion int               `json:"schemaVersion"`
		MediaType     types.MediaType   `json:"mediaType"`
		ArtifactType  string            `json:"artifactType"`
		Config        v1.Descriptor     `json:"config"`
		Layers        []v1.Descriptor   `json:"layers"`
		Subject       v1.Descriptor     `json:"subject"`
		Annotations   map[string]string `json:"annotations"`
	}{
		2, types.OCIManifestSchema1, inTotoMediaType,
		v1.Descriptor{MediaType: EmptyConfigType, Digest: config, Size: int64(len(emptyConfig)), Data: []byte(emptyConfig)},
		[]v1.Descriptor{layer}, r.subject, notes,
	})
}

// attach pushes a statement to a repository as a referrer of each subject.
func (p *Proof) attach(ctx context.Context, dest media.Ref, tag name.Tag, subjects []v1.Descriptor, o media.Options, opts []remote.Option) error {
	repo := tag.Context()
	digests := make([]v1.Hash, len(subjects))
	for i, s := range subjects {
		digests[i] = s.Digest
	}
	p.addSubjects(digests)
	raw, err := p.state(dest, digests)
	if err != nil {
		return err
	}
	if err := registry.NewUploads(o.Net, tag, progress.Silent{}).Bytes(ctx, []byte(emptyConfig), raw); err != nil {
		return err
	}
	for _, s := range subjects {
		r := referrer{raw, v1.Descriptor{MediaType: s.MediaType, Digest: s.Digest, Size: s.Size}}
		h, err := partial.Digest(r)
		if err != nil {
			return err
		}
		at := repo.Digest(h.String())
		if err := remote.Put(at, r, opts...); err != nil {
			return err
		}
		p.Stored = append(p.Stored, strings.TrimPrefix(repo.Name(), name.DefaultRegistry+"/")+"@"+h.String())
	}
	return nil
}

// CanWrite checks that the file can be written, before anything else is written.
func (p *Proof) CanWrite() error {
	if p == nil || p.File == "" {
		return nil
	}
	f, err := p.begin(media.Ref{}, nil, p.File, atomicfile.TempName)
	if err == nil {
		f.Discard()
	}
	return err
}

// WriteFile writes the statement at the place that the user chose, about all places of the result.
func (p *Proof) WriteFile(last media.Ref) error {
	if p == nil || p.File == "" {
		return nil
	}
	f, err := p.begin(last, p.subjects, p.File, atomicfile.TempName)
	if err != nil {
		return err
	}
	defer f.Discard()
	return p.commit(f)
}

// provenAs are the descriptors of what a registry gets: the index, if there is one, and the
// image's manifest.
func provenAs(r media.Result) ([]v1.Descriptor, error) {
	img, err := partial.Descriptor(r.Image)
	if err != nil {
		return nil, err
	}
	if r.Index == nil {
		return []v1.Descriptor{*img}, nil
	}
	idx, err := partial.Descriptor(r.Index)
	if err != nil {
		return nil, err
	}
	return []v1.Descriptor{*idx, *img}, nil
}

// Push calls write to push a result by its digest, then pushes its statement, and
// then the tag: that never names a result without a statement.
func (p *Proof) Push(ctx context.Context, dest media.Ref, tag name.Tag, r media.Result, write func(name.Reference) error, o media.Options) error {
	subjects, err := provenAs(r)
	if err != nil {
		return err
	}
	if err := write(tag.Context().Digest(subjects[0].Digest.String())); err != nil {
		return err
	}
	opts, err := o.Net.Options(ctx, tag.Context(), true)
	if err != nil {
		return err
	}
	if err := p.attach(ctx, dest, tag, subjects, o, opts); err != nil {
		if err = p.refused(tag.RegistryStr(), err); err != nil {
			return err
		}
	}
	u := registry.NewUploads(o.Net, tag, progress.Silent{})
	if r.Index != nil {
		return u.Manifest(ctx, tag, r.Index)
	}
	return u.Manifest(ctx, tag, r.Image)
}

// refused judges an error of attach: where a registry refuses a manifest of this kind, as some of before
// image-spec 1.1 do, with an answer that another try would not change, that is a warning.
func (p *Proof) refused(host string, err error) error {
	const without = "--provenance FILE keeps it in a file, --provenance none does without"
	if e, is := errors.AsType[*transport.Error](err); is {
		switch e.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden: // of such a manifest, not of images
			return hinterr.With(fmt.Errorf("statement of provenance: %w", err), "the registry accepted the image, but not its statement: %s", without)
		case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnsupportedMediaType:
			p.Warnings = append(p.Warnings, fmt.Sprintf(
				"registry %s takes no statement of provenance (%d %s): %s", host, e.StatusCode, http.StatusText(e.StatusCode), without))
			return nil
		}
	}
	return fmt.Errorf("statement of provenance: %w", err)
}
