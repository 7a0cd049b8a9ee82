// The destination of a rebuild: examined before the image is read, written at the end, even if nothing
// had to be changed.

package images

import (
	"context"
	"errors"
	"strings"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// place writes the result, if there is something to write. If nothing had to be changed, the result is
// the base: if the user named a DEST, it is written there unchanged, as the user's next command expects an
// image under that name.
func place(ctx context.Context, s *contents.Session, own rebuilt, levels []rebuilt, to []media.Ref, o RebuildOptions) error {
	out, src := own.out, own.src
	res := media.Result{Image: src.Image, Index: src.Index, Source: src.Ref}
	for _, r := range append([]rebuilt{own}, levels...) {
		if r.img == nil {
			continue
		}
		out.Unchanged = false
		if res.Index != nil {
			var err error
			if res.Index, err = media.ReplaceInIndex(res.Index, r.src.Entry, r.img); err != nil {
				return err
			}
		}
	}
	if own.img != nil {
		res.Image = own.img
	}
	if own.proof != nil {
		res.Statement = own.proof
		defer func() {
			out.Provenance, out.Warnings = own.proof.Stored, append(out.Warnings, own.proof.Warnings...)
		}()
	}
	switch {
	case out.Unchanged && o.Dest == "", o.DryRun:
		out.Reference = baseReference(src)
		if out.Unchanged {
			out.Digest = src.Digest
		}
		return nil
	case out.Unchanged:
		progress.Note(s.Progress, "nothing to do: %s gets the base as it is", o.Dest)
	}
	if err := own.proof.CanWrite(); err != nil {
		return err
	}
	for _, dest := range to {
		st, err := sources.Put(ctx, dest, res, o.Media)
		if err != nil {
			return err
		}
		out.Stored, out.Reference, out.Digest = dest.String(), st.Reference, st.Digest
		out.Warnings = append(out.Warnings, st.Warnings...)
	}
	return own.proof.WriteFile(to[len(to)-1])
}

// destinations lists where the result goes, the last one naming it, and checks that it can go there, before
// the image is read.
func destinations(ctx context.Context, src *media.Source, o RebuildOptions) ([]media.Ref, error) {
	if dest, err := media.ParseRef(o.Dest); err == nil {
		if dest, err = media.ResolveDest(dest); err != nil {
			return nil, err
		}
		if err := sources.CheckNotInside(src, dest); err != nil {
			return nil, err
		}
	}
	if o.DryRun {
		return nil, nil
	}
	var dest media.Ref
	var err error
	if o.Dest != "" {
		dest, err = media.ParseRef(o.Dest)
	} else {
		dest, err = media.DefaultDest(ctx, src, o.Tag, o.Suffix, o.Media)
		if o.Push && errors.Is(err, hinterr.ErrNoDaemon) {
			// Nothing but the registry was needed.
			name, ok := pushName(src, o)
			if !ok {
				return nil, hinterr.With(err, "--push needs no daemon if you name the result: -t HOST/NAME:TAG")
			}
			return []media.Ref{{Transport: media.Registry, Name: name}}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if dest.Tag == "" && o.Dest != "" && o.Tag != "" {
		switch dest.Transport {
		case media.OCILayout, media.OCIArchive:
			dest.Tag = o.Tag // a tag alone is also one
		case media.DockerArchive:
			dest.Tag = media.Renamed(src.Ref, o.Tag)
		}
	}
	dests := []media.Ref{dest}
	if o.Push && dest.Transport != media.Registry {
		name := dest.Name
		switch dest.Transport {
		case media.OCILayout, media.OCIArchive, media.DockerArchive, media.Dir, media.SIF, media.Plain:
			if name = media.Renamed(src.Ref, o.Tag); o.Tag == "" {
				return nil, hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%v: no name to push under", dest), "name the result: -t REF")
			}
		}
		dests = append(dests, media.Ref{Transport: media.Registry, Name: name})
	}
	if o.Dest != "" { // otherwise DefaultDest has queried the engine
		err = sources.Ready(ctx, dest, o.Media)
	}
	return dests, err
}

// pushName is the name in a registry of a result that no daemon gets: the one that the user
// gave, else one beside the base, if that is in a registry.
func pushName(src *media.Source, o RebuildOptions) (name string, ok bool) {
	if o.Tag != "" {
		return media.Renamed(src.Ref, o.Tag), true
	}
	if src.Ref.Transport != media.Registry {
		return "", false
	}
	name, err := media.DefaultName(src.Ref, o.Suffix)
	return name, err == nil
}

// baseReference names the base so that a user can run or pull it.
func baseReference(src *media.Source) string {
	switch src.Ref.Transport {
	case media.Daemon:
		return src.Ref.Name
	case media.Registry:
		if strings.Contains(src.Ref.Name, "@") || src.Digest == "" {
			return src.Ref.Name
		}
		return src.Ref.Name + "@" + src.Digest
	}
	return src.Ref.String()
}
