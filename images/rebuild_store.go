// Where the result of a rebuild goes, also where nothing had to be changed.

package images

import (
	"context"
	"errors"
	"strings"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/provenance"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// unchanged finishes a run that found nothing to do: the result is the base. Where the user
// named a DEST, the base is written there as it is: what is typed next expects something
// under that name.
func (r *rebuild) unchanged(ctx context.Context) error {
	if r.o.Dest != "" && !r.o.DryRun {
		progress.Note(r.s.Progress, "nothing to do: %s gets the base as it is", r.o.Dest)
		if err := r.store(ctx, media.Result{Image: r.src.Image, Index: r.src.Index, Source: r.src.Ref}, nil); err != nil {
			return err
		}
	}
	if r.out.Stored == "" {
		r.out.Reference, r.out.Digest = r.baseReference(), r.src.Digest
	}
	return nil
}

// store writes the result to where the user wants it, and to the registry of its name
// where that was asked for.
func (r *rebuild) store(ctx context.Context, res media.Result, proof *provenance.Proof) error {
	if err := proof.CanWrite(); err != nil {
		return err
	}
	for _, dest := range r.to {
		st, err := sources.Put(ctx, dest, res, r.o.Media)
		if err != nil {
			return err
		}
		r.out.Stored, r.out.Reference, r.out.Digest = dest.String(), st.Reference, st.Digest
		r.out.Warnings = append(r.out.Warnings, st.Warnings...)
	}
	return proof.WriteFile(r.to[len(r.to)-1])
}

// dests lists where the result goes, and checks that it can go there, before the image is read.
func (r *rebuild) dests(ctx context.Context) ([]media.Ref, error) {
	var dest media.Ref
	var err error
	if r.o.Dest != "" {
		dest, err = media.ParseRef(r.o.Dest)
	} else {
		dest, err = media.DefaultDest(ctx, r.src, r.o.Tag, r.o.Suffix, r.o.Media)
		if r.o.Push && errors.Is(err, hinterr.ErrNoDaemon) {
			// Nothing but the registry was needed.
			name, ok := r.pushName()
			if !ok {
				return nil, hinterr.With(err, "--push needs no daemon if you name the result: -t HOST/NAME:TAG")
			}
			return []media.Ref{{Transport: media.Registry, Name: name}}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if dest.Tag == "" && r.o.Dest != "" && r.o.Tag != "" {
		switch dest.Transport {
		case media.OCILayout, media.OCIArchive:
			dest.Tag = r.o.Tag // a tag alone is one, too
		case media.DockerArchive:
			dest.Tag = media.Renamed(r.src.Ref, r.o.Tag)
		}
	}
	dests := []media.Ref{dest}
	if r.o.Push && dest.Transport != media.Registry {
		name := dest.Name
		switch dest.Transport {
		case media.OCILayout, media.OCIArchive, media.DockerArchive, media.Dir, media.SIF, media.Plain:
			if name = media.Renamed(r.src.Ref, r.o.Tag); r.o.Tag == "" {
				return nil, hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%v: no name to push under", dest), "name the result: -t REF")
			}
		}
		dests = append(dests, media.Ref{Transport: media.Registry, Name: name})
	}
	if r.o.Dest != "" { // that of no name has been asked
		err = sources.Ready(ctx, dest, r.o.Media)
	}
	return dests, err
}

// pushName is the name in a registry of a result that no daemon gets: the one that the user
// gave, else one beside the base, if that is in a registry.
func (r *rebuild) pushName() (name string, ok bool) {
	if r.o.Tag != "" {
		return media.Renamed(r.src.Ref, r.o.Tag), true
	}
	if r.src.Ref.Transport != media.Registry {
		return "", false
	}
	name, err := media.DefaultName(r.src.Ref, r.o.Suffix)
	return name, err == nil
}

// baseReference names the base so that a user can run or pull it.
func (r *rebuild) baseReference() string {
	switch r.src.Ref.Transport {
	case media.Daemon:
		return r.src.Ref.Name
	case media.Registry:
		if strings.Contains(r.src.Ref.Name, "@") || r.src.Digest == "" {
			return r.src.Ref.Name
		}
		return r.src.Ref.Name + "@" + r.src.Digest
	}
	return r.src.Ref.String()
}
