// Rebuild: its options and result, and the order of its steps.

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

// rebuild is one run of Rebuild.
type rebuild struct {
	src *media.Source
	o   RebuildOptions
	s   *contents.Session
	to  []media.Ref // where the result goes; the last one names it
	out *Rebuilt
}

func (r *rebuild) run(ctx context.Context) error {
	res := media.Result{Image: r.src.Image, Index: r.src.Index, Source: r.src.Ref}
	made, err := r.make(ctx)
	if err != nil {
		return err
	}
	if made != nil {
		defer made.img.added.Close()
		res = r.with(res, made)
	}
	for _, l := range r.levels() {
		other := &rebuild{src: l, o: r.o, s: r.s, to: r.to, out: &Rebuilt{BaseName: r.out.BaseName, BaseDigest: l.Digest}}
		other.o.Provenance = ProvenanceNone
		changed, err := other.make(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", platformOf(l), err)
		}
		r.out.level(platformOf(r.src), platformOf(l), other.out)
		if changed != nil {
			defer changed.img.added.Close()
			res.Index = other.with(res, changed).Index
		}
	}
	return r.finish(ctx, res, made)
}

// levels are the other images of the index, where the result can be an index.
func (r *rebuild) levels() []*media.Source {
	if len(r.src.Levels) == 0 || r.o.DryRun {
		return r.src.Levels
	}
	alone := func(d media.Ref) bool {
		return d.Transport == media.Daemon || d.Transport == media.DockerArchive || d.Transport == media.SIF
	}
	if !slices.ContainsFunc(r.to, func(d media.Ref) bool { return !alone(d) }) {
		return nil
	}
	return r.src.Levels
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

// finish writes the result, where there is something to write.
func (r *rebuild) finish(ctx context.Context, res media.Result, made *derived) error {
	r.out.Unchanged = made == nil && !slices.ContainsFunc(r.out.Levels, func(l *Rebuilt) bool { return !l.Unchanged })
	switch {
	case r.out.Unchanged:
		return r.unchanged(ctx)
	case r.o.DryRun:
		r.out.Reference = r.baseReference()
		return nil
	case made == nil:
		return r.store(ctx, res, nil)
	}
	defer r.tell(made.proof)
	return r.store(ctx, res, made.proof)
}

// hasManifest reports whether a source has the image's manifest: a daemon, an archive of
// its and a SIF file have none.
func hasManifest(src *media.Source) bool {
	switch src.Ref.Transport {
	case media.Daemon, media.DockerArchive, media.SIF:
		return false
	}
	return !src.Made
}

// derived is a derived image and what is stated about it, which may be nil.
type derived struct {
	img   *derivedImage
	proof *provenance.Proof
}

// with puts a derived image into the result.
func (r *rebuild) with(res media.Result, made *derived) media.Result {
	res.Image = made.img
	if made.proof != nil {
		res.Statement = made.proof
	}
	if r.src.Index != nil {
		res.Index = media.ReplaceInIndex(res.Index, r.src.Entry, made.img)
	}
	return res
}

// make makes the derived image; nil says that there is nothing to do.
func (r *rebuild) make(ctx context.Context) (_ *derived, err error) {
	sub, err := r.s.OpenSubject(ctx, r.src)
	if err != nil {
		return nil, err
	}
	defer sub.Close()
	r.out.Findings = sub.F.Findings
	c, err := findChanges(ctx, sub, &r.o.Shim, r.o.Fallback)
	if err != nil {
		return nil, err
	}
	if c.none() {
		r.out.Unchanged = true
		return nil, nil
	}
	r.out.Repaired = c.repaired
	if err := r.packages(ctx, sub, c); err != nil {
		return nil, err
	}
	r.warnMarks(c.targets)
	r.signatures(ctx)
	added, err := r.s.NewLayer(ctx, sub.T, c.targets, c.extras)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			added.Close()
		}
	}()
	r.out.LayerSize = added.PackedSize
	media.NoteDepth(len(sub.T.Layers)+1, r.s.Progress)
	img, err := derive(r.src.Image, r.oci(), added, c.derivation(r.out.BaseName, r.out.BaseDigest, r.o.Version, !hasManifest(r.src)))
	if err != nil {
		return nil, err
	}
	made := &derived{img: img}
	if r.o.Provenance == "" || r.o.Provenance == ProvenanceNone || r.o.DryRun {
		return made, nil
	}
	made.proof, err = r.prove(img, sub.T, c)
	return made, err
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
	Unchanged            bool   // nothing to do, for no level: Reference names the base, or the copy of it in Dest
	Stored               string // the DEST that the result, or the copy, was written to; "" for none
	Reference            string // what a user can run or pull: with its digest where there is one
	Digest               string // of the derived image's manifest (of the index, where there is one)
	BaseName, BaseDigest string
	LayerSize            int64 // compressed bytes of the added layer, 0 where there is none
	// Provenance says where the statement is: paths, and names of referrers with their digests.
	Provenance []string
	// Signatures are those of the base that its registry has; they do not hold for the result.
	Signatures []Signature
	// Packages are the patched files of which a package database has a record.
	Packages []records.Record
	// Repaired are the files with a repair that Rewriter.Repairs asks for.
	Repaired []Repaired
	Warnings []string // one line each, for people
	// Levels is what was done to the images of the same index for other levels of x86-64: their
	// Findings are those in Findings.Levels, Reference is "".
	Levels []*Rebuilt
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
	if dest, err := media.ParseRef(o.Dest); err == nil && o.Dest != "" {
		if dest, err = media.ResolveDest(dest); err != nil {
			return nil, err
		}
		if err := sources.CheckNotInside(src, dest); err != nil {
			return nil, err
		}
	}
	r := &rebuild{src: src, o: o, s: s, out: &Rebuilt{BaseName: media.BaseName(src.Ref)}}
	var err error
	if !o.DryRun {
		if r.to, err = r.dests(ctx); err != nil {
			return nil, err
		}
	}
	if src.Image == nil {
		if err := sources.WithRootImage(ctx, src, sources.RunConfig{}, o.Media); err != nil {
			return nil, err
		}
	}
	if r.out.BaseDigest, err = baseDigest(src); err != nil {
		return nil, err
	}
	if src.Keep != nil && r.elsewhere() {
		src.Keep()
	}
	return r.out, r.run(ctx)
}

// elsewhere reports whether the layers of an image in a registry are copied to another place, and not
// only examined.
func (r *rebuild) elsewhere() bool {
	if r.o.DryRun {
		return false
	}
	dest, err := media.ParseRef(r.o.Dest)
	switch {
	case r.o.Dest == "":
		return !r.o.Push
	case err != nil || dest.Transport != media.Registry:
		return err == nil
	}
	from, _, _ := strings.Cut(r.src.Ref.Name, "/")
	to, _, _ := strings.Cut(dest.Name, "/")
	return from != to
}
