package images

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// rebuild is one run of Rebuild.
type rebuild struct {
	src *Source
	o   RebuildOptions
	s   *session
	out *Rebuilt
}

func (r *rebuild) run(ctx context.Context) error {
	t, err := r.s.image(ctx, r.src.Image)
	if err != nil {
		return err
	}
	f, err := r.s.findings(ctx, t)
	if err != nil {
		return err
	}
	f.Source, f.Digest = r.src.Ref.String(), r.src.Digest
	r.out.Findings = f.Findings
	extras, err := r.planFallback(ctx, t, f)
	if err != nil {
		return err
	}
	hits := f.affected()
	if len(hits) == 0 && len(extras) == 0 && !f.Fallback.Wrapped {
		r.out.Unchanged = true
		return r.unchanged(ctx)
	}
	fallback := len(extras) > 0
	corrected, err := r.packages(ctx, t, hits)
	if err != nil {
		return err
	}
	extras = append(extras, corrected...)
	r.warnMarks(hits)
	r.signatures(ctx)
	added, err := r.s.newLayer(ctx, t, hits, extras)
	if err != nil {
		return err
	}
	defer added.Close()
	r.out.LayerSize = added.size
	noteDepth(len(t.layers)+1, r.s.progress)
	img, err := derive(r.src.Image, r.oci(), added, derivation{
		baseName: r.out.BaseName, baseDigest: r.out.BaseDigest, version: r.o.Version,
		fallback: fallback, traced: f.Fallback.Wrapped,
	})
	if err != nil {
		return err
	}
	if r.o.DryRun {
		r.out.Reference = r.baseReference()
		return nil
	}
	res := Result{Image: img}
	proof, err := r.prove(img, t, hits, extras)
	if err != nil {
		return err
	}
	if proof != nil {
		res.Statement = proof
	}
	defer r.tell(proof)
	if r.src.Index != nil {
		res.Index = ReplaceInIndex(r.src.Index, r.src.Entry, img)
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

// unchanged finishes a run that found nothing to do: the result is the base. Where the user
// named a DEST, the base is written there as it is: what is typed next expects something
// under that name.
func (r *rebuild) unchanged(ctx context.Context) error {
	if r.o.Dest != "" && !r.o.DryRun {
		note(r.s.progress, "nothing to do: %s gets the base as it is", r.o.Dest)
		if err := r.store(ctx, Result{Image: r.src.Image, Index: r.src.Index}, nil); err != nil {
			return err
		}
	}
	r.out.Reference, r.out.Digest = r.baseReference(), r.src.Digest
	return nil
}

// store writes the result to where the user wants it, and to the registry of its name
// where that was asked for.
func (r *rebuild) store(ctx context.Context, res Result, proof *proof) error {
	dests, err := r.dests(ctx)
	if err != nil {
		return err
	}
	if err := proof.canWrite(); err != nil {
		return err
	}
	for _, dest := range dests {
		st, err := Put(ctx, dest, res, r.o.Media)
		if err != nil {
			return err
		}
		r.out.Reference, r.out.Digest = st.Reference, st.Digest
	}
	return proof.writeFile(dests[len(dests)-1])
}

// dests lists where the result goes; the last one names it.
func (r *rebuild) dests(ctx context.Context) ([]Ref, error) {
	var dest Ref
	var err error
	if r.o.Dest != "" {
		dest, err = ParseRef(r.o.Dest)
	} else {
		dest, err = DefaultDest(ctx, r.src, r.o.Tag, r.o.Suffix, r.o.Media)
		if r.o.Push && errors.Is(err, ErrNoDaemon) {
			// Nothing but the registry was needed.
			if name, ok := r.pushName(); ok {
				return []Ref{{Transport: Registry, Name: name}}, nil
			}
		}
	}
	if err != nil {
		return nil, err
	}
	if dest.Tag == "" && r.o.Dest != "" && r.o.Tag != "" {
		switch dest.Transport {
		case OCILayout, OCIArchive, DockerArchive:
			dest.Tag = r.o.Tag
		}
	}
	dests := []Ref{dest}
	if r.o.Push && dest.Transport != Registry {
		name := dest.Name
		switch dest.Transport {
		case OCILayout, OCIArchive, DockerArchive, Plain:
			if name = r.o.Tag; name == "" {
				return nil, withHint(errorf(ErrUnsupported, "%v: no name to push under", dest), "name the result: -t REF")
			}
		}
		dests = append(dests, Ref{Transport: Registry, Name: name})
	}
	return dests, nil
}

// pushName is the name in a registry of a result that no daemon gets: the one that the user
// gave, else one beside the base, if that is in a registry.
func (r *rebuild) pushName() (name string, ok bool) {
	if r.o.Tag != "" {
		return r.o.Tag, true
	}
	if r.src.Ref.Transport != Registry {
		return "", false
	}
	name, err := defaultName(r.src.Ref, r.o.Suffix)
	return name, err == nil
}

// baseReference names the base so that a user can run or pull it.
func (r *rebuild) baseReference() string {
	switch r.src.Ref.Transport {
	case Daemon:
		return r.src.Ref.Name
	case Registry:
		if strings.Contains(r.src.Ref.Name, "@") || r.src.Digest == "" {
			return r.src.Ref.Name
		}
		return r.src.Ref.Name + "@" + r.src.Digest
	}
	return r.src.Ref.String()
}

// baseName is the name of the base that is recorded in the derived image: never a path of
// the machine that made it, which would make equal images differ.
func baseName(r Ref) string {
	switch r.Transport {
	case Daemon, Registry:
		return r.Name
	}
	if r.Tag != "" {
		return r.Tag
	}
	return filepath.Base(r.Name)
}

// baseDigest is the digest of the base that is recorded: of the platform's own manifest,
// or of the config (the image ID) where a daemon or docker archive has no manifest.
func baseDigest(src *Source) (string, error) {
	if src.made {
		return src.Digest, nil
	}
	var h v1.Hash
	var err error
	switch src.Ref.Transport {
	case Daemon, DockerArchive:
		h, err = src.Image.ConfigName()
	default:
		h, err = src.Image.Digest()
	}
	return h.String(), err
}
