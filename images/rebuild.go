// Rebuild: its options and result, and the order of its steps.

package images

import (
	"context"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/records"
	"vfix.dev/vfix/images/sources"
)

// rebuild is one run of Rebuild.
type rebuild struct {
	src *media.Source
	o   RebuildOptions
	s   *contents.Session
	out *Rebuilt
}

func (r *rebuild) run(ctx context.Context) error {
	t, err := r.s.Image(ctx, r.src.Image)
	if err != nil {
		return err
	}
	f, err := r.s.Findings(ctx, t)
	if err != nil {
		return err
	}
	f.Source, f.Digest = r.src.Ref.String(), r.src.Digest
	r.out.Findings = f.Findings
	extras, err := r.planFallback(ctx, t, f)
	if err != nil {
		return err
	}
	targets := f.ToPatch()
	if len(targets) == 0 && len(extras) == 0 && !f.Fallback.Wrapped {
		r.out.Unchanged = true
		return r.unchanged(ctx)
	}
	fallback := len(extras) > 0
	corrected, err := r.packages(ctx, t, targets)
	if err != nil {
		return err
	}
	extras = append(extras, corrected...)
	r.warnMarks(targets)
	r.signatures(ctx)
	added, err := r.s.NewLayer(ctx, t, targets, extras)
	if err != nil {
		return err
	}
	defer added.Close()
	r.out.LayerSize = added.PackedSize
	media.NoteDepth(len(t.Layers)+1, r.s.Progress)
	img, err := derive(r.src.Image, r.oci(), added, derivation{
		BaseName: r.out.BaseName, BaseDigest: r.out.BaseDigest, Version: r.o.Version,
		fallback: fallback, Traced: f.Fallback.Wrapped, made: !hasManifest(r.src),
	})
	if err != nil {
		return err
	}
	if r.o.DryRun {
		r.out.Reference = r.baseReference()
		return nil
	}
	res := media.Result{Image: img}
	proof, err := r.prove(img, t, targets, extras)
	if err != nil {
		return err
	}
	if proof != nil {
		res.Statement = proof
	}
	defer r.tell(proof)
	if r.src.Index != nil {
		res.Index = media.ReplaceInIndex(r.src.Index, r.src.Entry, img)
	}
	return r.store(ctx, res, proof)
}

// oci reports whether the derived image is to be an OCI image: it is, but for one that
// stays in a docker manifest list with others of docker's kind.
func (r *rebuild) oci() bool {
	if r.src.Index == nil {
		return true
	}
	t, err := r.src.Index.MediaType()
	return err != nil || t != types.DockerManifestList
}

// baseDigest is the digest of the base that is recorded: of the platform's own manifest,
// or of the config (the image ID) where a daemon or docker archive has no manifest.
func baseDigest(src *media.Source) (string, error) {
	if src.Made {
		return src.Digest, nil
	}
	var h v1.Hash
	var err error
	switch src.Ref.Transport {
	case media.Daemon, media.DockerArchive:
		h, err = src.Image.ConfigName()
	default:
		h, err = src.Image.Digest()
	}
	return h.String(), err
}

// RebuildOptions are the choices of vfix rebuild.
type RebuildOptions struct {
	ScanOptions
	Dest     string // DEST as typed; "" means the daemon
	Tag      string // -t: the name and tag of the result
	Suffix   string // --tag-suffix, "-vfix"
	Push     bool   // to the registry of the result's name
	DryRun   bool
	Version  string        // of vfix, for the history entry and annotations
	Fallback fallback.Mode // when the fallback is added
	// UpdateDpkg corrects dpkg's md5sums of patched files, in the added layer.
	UpdateDpkg bool
	// Provenance is ProvenanceAuto, ProvenanceNone or "", or the file that gets the statement.
	Provenance string
}

// Rebuilt is what a rebuild did.
// After an error beyond the scan, Findings is set and Reference is "".
type Rebuilt struct {
	Findings             *contents.Findings
	Unchanged            bool   // nothing to do: Reference names the base, or the copy of it in Dest
	Stored               string // the DEST that the result, or the copy, was written to; "" for none
	Reference            string // what a user can run or pull: with its digest where there is one
	Digest               string // of the derived image's manifest (of the index, where there is one)
	BaseName, BaseDigest string
	LayerSize            int64 // compressed bytes of the added layer
	// Provenance says where the statement is: paths, and names of referrers with their digests.
	Provenance []string
	// Signatures are those of the base that its registry has; they do not hold for the result.
	Signatures []Signature
	// Packages are the patched files of which a package database has a record.
	Packages []records.Record
	Warnings []string // one line each, for people
}

// Rebuild writes the derived image of a SOURCE.
func Rebuild(ctx context.Context, source string, o RebuildOptions) (*Rebuilt, error) {
	o.Media = o.Media.WithDefaults()
	src, err := sources.Open(ctx, source, o.Media)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	s := RebuildSession(o)
	defer s.Close()
	return RebuildSource(ctx, s, src, o)
}

// RebuildSession is the session of one rebuild, or of many.
func RebuildSession(o RebuildOptions) *contents.Session {
	s := contents.NewSession(o.Jobs, o.Media.Progress, o.Rewriter)
	s.Keep = records.IsDpkgRecord
	return s
}

// RebuildSource writes the derived image of an open source.
func RebuildSource(ctx context.Context, s *contents.Session, src *media.Source, o RebuildOptions) (*Rebuilt, error) {
	if src.Image == nil {
		if err := sources.WithRootImage(ctx, src, sources.RunConfig{}, o.Media); err != nil {
			return nil, err
		}
	}
	r := &rebuild{src: src, o: o, s: s, out: &Rebuilt{BaseName: media.BaseName(src.Ref)}}
	var err error
	if r.out.BaseDigest, err = baseDigest(src); err != nil {
		return nil, err
	}
	return r.out, r.run(ctx)
}
