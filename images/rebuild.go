// Rebuild: its options and result, and its stages.

package images

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/provenance"
	"vfix.dev/vfix/images/records"
	"vfix.dev/vfix/images/sources"
)

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
	Findings   *contents.Findings `json:"-"`
	Stored     string             `json:"-"`         // the DEST that the result, or the copy, was written to; "" for none
	Reference  string             `json:"reference"` // what a user can run or pull: with its digest if there is one
	Digest     string             `json:"digest"`    // of the derived image's manifest (of the index, if there is one)
	Unchanged  bool               `json:"unchanged"` // nothing to do, for no level: Reference names the base, or the copy of it in Dest
	BaseName   string             `json:"base_name"`
	BaseDigest string             `json:"base_digest"`
	LayerSize  int64              `json:"layer_size"` // compressed bytes of the added layer, 0 without one
	// Provenance says where the statement is: paths, and names of referrers with their digests.
	Provenance []string `json:"provenance"`
	// Packages are the patched files of which a package database has a record.
	Packages []records.Record `json:"packages"`
	// Signatures are those of the base that its registry has; they do not hold for the result.
	Signatures []Signature `json:"base_signatures"`
	// Fixed are the files with a fix that Rewriter.Fixes asks for.
	Fixed    []Fixed  `json:"-"`
	Warnings []string `json:"warnings"` // one line each, for people
	// Levels is what was done to the images of the same index for other levels of x86-64: their
	// Findings are those in Findings.Levels, Reference is "".
	Levels []*Rebuilt `json:"-"`
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

// RebuildSource writes the derived image of an open source: the stages of a rebuild. After an error
// beyond the scan the result has the findings.
func RebuildSource(ctx context.Context, s *contents.Session, src *media.Source, o RebuildOptions) (*Rebuilt, error) {
	to, err := destinations(ctx, src, o)
	if err != nil {
		return nil, err
	}
	base, err := openBase(ctx, src, o)
	if err != nil {
		return nil, err
	}
	own, err := rebuildImage(ctx, s, base, o)
	if err != nil {
		return own.out, err
	}
	defer own.close()
	levels, err := rebuildLevels(ctx, s, base, to, o)
	for _, l := range levels {
		defer l.close()
		own.out.level(platformOf(src), platformOf(l.src), l.out)
	}
	if err != nil {
		return own.out, err
	}
	return own.out, place(ctx, s, own, levels, to, o)
}

// base is an image that is rebuilt, and what is recorded of it in the result.
type base struct {
	*media.Source
	name, digest string
}

// rebuilt is what a rebuild made of one image. img is nil if there is nothing to do, proof if
// it gets no statement.
type rebuilt struct {
	src   *media.Source
	out   *Rebuilt
	img   *derivedImage
	proof *provenance.Proof
}

func (r rebuilt) close() {
	if r.img != nil {
		r.img.added.Close()
	}
}

// openBase makes an image of a source that has none, and keeps the layers of one that are needed twice.
func openBase(ctx context.Context, src *media.Source, o RebuildOptions) (base, error) {
	if src.Image == nil {
		if err := sources.WithRootImage(ctx, src, sources.RunConfig{}, o.Media); err != nil {
			return base{}, err
		}
	}
	if src.Keep != nil && elsewhere(src, o) {
		src.Keep()
	}
	digest, err := baseDigest(src)
	return base{src, media.BaseName(src.Ref), digest}, err
}

// rebuildImage makes the derived image of one image, one call a stage.
func rebuildImage(ctx context.Context, s *contents.Session, from base, o RebuildOptions) (r rebuilt, err error) {
	out := &Rebuilt{BaseName: from.name, BaseDigest: from.digest}
	r = rebuilt{src: from.Source, out: out}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	sub, err := s.OpenSubject(ctx, from.Source)
	if err != nil {
		return r, err
	}
	defer sub.Close()
	out.Findings = sub.F.Findings
	c, err := findChanges(ctx, sub, &o.Shim, o.Fallback)
	if err != nil || c.none() {
		out.Unchanged = err == nil
		return r, err
	}
	out.Fixed = c.fixed
	if out.Packages, out.Warnings, err = c.correctPackages(ctx, sub, o.UpdateDpkg); err != nil {
		return r, err
	}
	out.Warnings = append(out.Warnings, c.xattrWarnings()...)
	if out.Signatures, err = findSignatures(ctx, from.Source, o.Media); err != nil && ctx.Err() == nil {
		out.Warnings = append(out.Warnings, fmt.Sprintf("whether the base is signed could not be found out: %v", err))
	}
	added, err := s.NewLayer(ctx, sub.T, c.targets, c.extras)
	if err != nil {
		return r, err
	}
	out.LayerSize = added.PackedSize
	media.NoteDepth(len(sub.T.Layers)+1, s.Progress)
	if r.img, err = derive(from.Image, ociForm(from.Index), added, c.derivation(from.name, from.digest, o.Version, !hasManifest(from.Source))); err != nil {
		added.Close()
		return r, err
	}
	if o.Provenance != "" && o.Provenance != ProvenanceNone && !o.DryRun {
		r.proof, err = prove(r.img, sub.T, c, o.Provenance)
	}
	return r, err
}

// rebuildLevels rebuilds the other images of the index, if the result can be an index. Results from before an
// error are returned with it.
func rebuildLevels(ctx context.Context, s *contents.Session, from base, to []media.Ref, o RebuildOptions) (all []rebuilt, err error) {
	holdsIndex := func(d media.Ref) bool { return d.Transport != media.SIF && d.HasManifests() }
	if !o.DryRun && !slices.ContainsFunc(to, holdsIndex) {
		return nil, nil
	}
	o.Provenance = ProvenanceNone // it is about the image that was chosen
	for _, l := range from.Levels {
		r, err := rebuildImage(ctx, s, base{l, from.name, l.Digest}, o)
		if err != nil {
			return all, fmt.Errorf("%s: %w", platformOf(l), err)
		}
		all = append(all, r)
	}
	return all, nil
}

// level takes what was done to another image of the index.
func (r *Rebuilt) level(own, platform string, o *Rebuilt) {
	r.Findings.Platform, o.Findings.Platform = own, platform
	r.Findings.Levels = append(r.Findings.Levels, o.Findings)
	r.Levels = append(r.Levels, o)
	for _, w := range o.Warnings {
		r.Warnings = append(r.Warnings, platform+": "+w)
	}
}

// hasManifest reports whether a source has the image's manifest: a daemon, an archive of
// its and a SIF file have none.
func hasManifest(src *media.Source) bool {
	return !src.Made && src.Ref.Transport != media.SIF && src.Ref.HasManifests()
}

// ociForm reports whether the derived image becomes an OCI image: it does, except for one that
// stays in a docker manifest list, idx, with others of docker's kind.
func ociForm(idx v1.ImageIndex) bool {
	if idx == nil {
		return true
	}
	t, _ := idx.MediaType()
	return t != types.DockerManifestList
}

// baseDigest is the digest of the base that is recorded: of the platform's own manifest,
// or of the config (the image ID) where a daemon or docker archive has no manifest.
func baseDigest(src *media.Source) (string, error) {
	if src.Made {
		return src.Digest, nil
	}
	digest := src.Image.Digest
	if !src.Ref.HasManifests() {
		digest = src.Image.ConfigName
	}
	h, err := digest()
	return h.String(), err
}

// elsewhere reports whether the layers of an image in a registry are copied to another place, and not
// only examined.
func elsewhere(src *media.Source, o RebuildOptions) bool {
	if o.DryRun {
		return false
	}
	dest, err := media.ParseRef(o.Dest)
	switch {
	case o.Dest == "":
		return !o.Push
	case err != nil || dest.Transport != media.Registry:
		return err == nil
	}
	from, _, _ := strings.Cut(src.Ref.Name, "/")
	to, _, _ := strings.Cut(dest.Name, "/")
	return from != to
}
