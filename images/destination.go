// The destination of a rebuild: it is checked before the image is read.

package images

import (
	"context"
	"maps"
	"strings"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
)

// destination returns where the result goes; nil for a dry run. It checks that it can go there.
func destination(ctx context.Context, src *media.Source, o RebuildOptions) (*media.Ref, error) {
	if o.Dest == "" {
		return unnamedDestination(ctx, src, o)
	}
	dest, err := media.ParseRef(o.Dest)
	if err != nil {
		return nil, err
	}
	if dest, err = media.ResolveDest(dest); err != nil {
		return nil, err
	}
	if err := sources.CheckNotInside(src, dest); err != nil {
		return nil, err
	}
	if o.DryRun {
		return nil, nil
	}
	if dest.Tag == "" {
		dest.Tag = tagInFile(src.Ref, dest.Transport, o.Tag)
	}
	return &dest, sources.Ready(ctx, dest, o.Media)
}

// tagInFile is the tag of the result in an archive or a layout if DEST has none.
func tagInFile(src media.Ref, to media.Transport, tag string) string {
	switch {
	case tag == "":
		return ""
	case to == media.DockerArchive:
		return media.Renamed(src, tag)
	case to == media.OCILayout, to == media.OCIArchive:
		return tag // a tag alone is also one
	}
	return ""
}

// unnamedDestination is the local engine, or with --push the registry of the result's name.
func unnamedDestination(ctx context.Context, src *media.Source, o RebuildOptions) (*media.Ref, error) {
	switch {
	case o.DryRun:
		return nil, nil
	case !o.Push:
		dest, err := media.DefaultDest(ctx, src, o.Tag, o.Suffix, o.Media)
		return &dest, err
	}
	named := src.Ref.Transport == media.Registry || src.Ref.Transport == media.Daemon
	name, err := media.DefaultName(src.Ref, o.Suffix)
	switch {
	case o.Tag != "":
		name = media.Renamed(src.Ref, o.Tag)
	case err != nil:
		return nil, err
	case !named:
		return nil, hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%v: no name to push under", src.Ref), "name the result: -t HOST/NAME:TAG")
	}
	return &media.Ref{Transport: media.Registry, Name: name}, nil
}

// copiesLayers reports whether the layers of an image in a registry are copied to another place, and not only examined.
func copiesLayers(src *media.Source, o RebuildOptions) bool {
	if o.DryRun || o.Dest == "" && o.Push {
		return false
	}
	dest, err := media.ParseRef(o.Dest)
	if o.Dest == "" || err == nil && dest.Transport != media.Registry {
		return true
	}
	from, _, _ := strings.Cut(src.Ref.Name, "/")
	to, _, _ := strings.Cut(dest.Name, "/")
	return err == nil && from != to
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

// AlreadyRebuilt looks for the result of an earlier rebuild of the same base by the same vfix with the same options at
// the destination.
func AlreadyRebuilt(ctx context.Context, src *media.Source, o RebuildOptions) (was media.Stored, done bool) {
	if src.Image == nil || o.DryRun {
		return was, false
	}
	dest, err := destination(ctx, src, o)
	if err != nil || dest.Transport == media.Dir {
		return was, false
	}
	old, err := sources.Open(ctx, dest.String(), o.Media)
	if err != nil {
		return was, false
	}
	defer old.Close()
	from, err := originOf(src, o)
	if err != nil || old.Image == nil {
		return was, false
	}
	config, err := old.Image.RawConfigFile()
	if err != nil || !maps.Equal(vfixLabels(config), from.labels()) {
		return was, false
	}
	return media.Stored{Reference: baseReference(old), Digest: old.Digest}, true
}
