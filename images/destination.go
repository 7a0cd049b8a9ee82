// The destination of a rebuild: it is checked before the image is read.

package images

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/hinterr"
)

// destination returns where the result goes; nil for a dry run. It checks that it can go there.
func destination(ctx context.Context, src *source.Source, o RebuildOptions) (*source.Ref, error) {
	if o.Dest == "" {
		return unnamedDestination(ctx, src, o)
	}
	dest, err := source.ParseRef(o.Dest)
	if err == nil {
		dest, err = source.ResolveDest(dest)
	}
	if err != nil {
		return nil, err
	}
	if dest.Transport == source.Dir && src.Image == nil && source.Inside(src.Path, dest.Name) {
		return nil, source.ErrInside(dest.Name, src.Path)
	}
	isArchive := dest.Transport == source.DockerArchive || dest.Transport == source.OCIArchive
	if isArchive && sameFile(src.Ref.Name, dest.Name) {
		return nil, hinterr.With(fmt.Errorf("%s: input and output are the same file", dest.Name), "name another one: a base does not change")
	}
	if o.DryRun {
		return nil, nil
	}
	if dest.Tag == "" && o.Tag != "" {
		switch dest.Transport {
		case source.DockerArchive:
			if dest.Tag, err = source.ResultName(src.Ref, o.Tag, ""); err != nil {
				return nil, err
			}
		case source.OCILayout, source.OCIArchive:
			dest.Tag = o.Tag // a tag alone is also one
		}
	}
	return &dest, source.Ready(ctx, dest, o.Media)
}

func sameFile(a, b string) bool {
	is, err := os.Stat(a)
	other, otherErr := os.Stat(b)
	return err == nil && otherErr == nil && os.SameFile(is, other)
}

// unnamedDestination is the local engine, or with --push the registry of the result's name.
func unnamedDestination(ctx context.Context, src *source.Source, o RebuildOptions) (*source.Ref, error) {
	switch {
	case o.DryRun:
		return nil, nil
	case !o.Push:
		dest, err := source.DefaultDest(ctx, src, o.Tag, o.Suffix, o.Media)
		return &dest, err
	}
	named := src.Ref.Transport == source.Registry || src.Ref.Transport == source.Daemon
	if !named && o.Tag == "" {
		return nil, hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%v: no name to push under", src.Ref), "name the result: -t HOST/NAME:TAG")
	}
	name, err := source.ResultName(src.Ref, o.Tag, o.Suffix)
	return &source.Ref{Transport: source.Registry, Name: name}, err
}

// sameRegistry reports whether an image stays in its registry, where its layers are.
func sameRegistry(from, to source.Ref) bool {
	host, _, _ := strings.Cut(from.Name, "/")
	return to.Transport == source.Registry && from.Transport == to.Transport && strings.HasPrefix(to.Name, host+"/")
}

// baseReference names the base so that a user can run or pull it.
func baseReference(src *source.Source) string {
	switch src.Ref.Transport {
	case source.Daemon:
		return src.Ref.Name
	case source.Registry:
		if strings.Contains(src.Ref.Name, "@") || src.Digest == "" {
			return src.Ref.Name
		}
		return src.Ref.Name + "@" + src.Digest
	}
	return src.Ref.String()
}

// Earlier is the result of an earlier rebuild, with what that left.
type Earlier struct {
	Reference, Digest string
	LeftOver          int    // call sites that no fallback covers
	Incomplete        string // what could not be examined; "" for nothing
}

// Earlier looks at the destination for the result of an earlier rebuild of the same base by the same vfix with the same
// options.
func (j *Job) Earlier(ctx context.Context) (was Earlier, done bool) {
	if j.dest == nil || j.dest.Transport == source.Dir {
		return was, false
	}
	old, err := source.Open(ctx, j.dest.String(), j.o.Media)
	if err != nil {
		return was, false
	}
	defer old.Close()
	if old.Image == nil {
		return was, false
	}
	config, _ := old.Image.RawConfigFile() // a damaged one has no labels
	labels := labelsOf(config)
	for key, value := range j.origin.labels() {
		if labels[key] != value {
			return was, false
		}
	}
	left, _ := strconv.Atoi(labels[keyLeft])
	return Earlier{baseReference(old), old.Digest, left, labels[keyIncomplete]}, true
}
