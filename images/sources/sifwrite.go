// Writes SIF files. From another one, it makes a new squashfs with the patched files, and keeps the other data
// objects except for signatures, which are about the replaced bytes.

package sources

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/uuid"
	"github.com/sylabs/sif/v2/pkg/sif"

	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/rewriter/patch"
)

// withAddedLayer is an image that was derived from another one by adding a layer.
type withAddedLayer interface {
	Base() v1.Image
	// Traced reports that the entrypoint of the base was put under vfix-trace.
	Traced() bool
}

func putSIF(ctx context.Context, dest media.Ref, r media.Result, o media.Options) (media.Stored, error) {
	st := media.Stored{Reference: dest.String()}
	out, release, err := atomicfile.CreateLocked(ctx, dest.Name, o.Progress)
	if err != nil {
		return st, fmt.Errorf("%s: %w", dest.Name, err)
	}
	defer release()
	if base := madeOf(baseOf(r.Image)).sif; base != nil {
		err = base.putAgain(ctx, out, r.Image, o)
	} else {
		st.Warnings, err = makeSIF(ctx, out, r, o)
		if d, ok := r.Image.(withAddedLayer); ok && d.Traced() {
			st.Warnings = append(st.Warnings, "only apptainer run starts programs under vfix-trace; apptainer exec and apptainer shell do not")
		}
	}
	if err == nil {
		err = out.Commit()
	}
	if err != nil {
		return media.Stored{}, fmt.Errorf("%s: %w", dest.Name, err)
	}
	return st, nil
}

// writeSIF writes a SIF file with the merged file system of an image as a squashfs in the form of like. extras
// returns files to add, and may be nil; container describes the file, for a squashfs with that SHA-256.
func writeSIF(ctx context.Context, out *atomicfile.File, img v1.Image, like squashSuper, extras func(*contents.Tree) ([]contents.Extra, error),
	container func(root io.Reader, sum []byte) ([]sif.CreateOpt, error), o media.Options) ([]string, error) {
	dir, remove, err := atomicfile.TempDir()
	if err != nil {
		return nil, err
	}
	defer remove()
	file := filepath.Join(dir, "squashfs")
	warnings, err := squashImage(ctx, img, file, like, extras, o)
	if err != nil {
		return nil, err
	}
	root, size, err := blob.OpenRegular(file)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	task := o.Progress.Start("write", out.Final, size)
	defer task.Done()
	sum := sha256.New()
	if _, err := blob.CopyTo(ctx, sum, root, nil); err != nil {
		return nil, err
	}
	opts, err := container(blob.Reading{Ctx: ctx, Reader: io.NewSectionReader(root, 0, size), T: task}, sum.Sum(nil))
	if err != nil {
		return nil, err
	}
	c, err := sif.CreateContainer(out.File, append(opts, sif.OptCreateWithCloseOnUnload(false))...)
	if err != nil {
		return nil, err
	}
	return warnings, c.UnloadContainer()
}

func squashImage(ctx context.Context, img v1.Image, file string, like squashSuper, extras func(*contents.Tree) ([]contents.Extra, error), o media.Options) ([]string, error) {
	s := contents.NewSession(0, o.Progress, patch.Options{})
	defer s.Close()
	// The files are read again for the output.
	s.Take = func(context.Context, v1.Hash, *contents.Entry, io.Reader) error { return nil }
	t, err := s.Image(ctx, img)
	if err != nil {
		return nil, err
	}
	flat := &flattening{tree: t}
	if extras != nil {
		if flat.extras, err = extras(t); err != nil {
			return nil, err
		}
	}
	err = blob.Piped(func(w io.Writer) error { return flat.write(ctx, w) },
		func(r io.Reader) error { return squash(ctx, r, file, like, t.Root.Entry, o) })
	return flat.warnings(), err
}

// putAgain writes the SIF file, or an image that was derived from it. It keeps the mode, as such files are
// programs.
func (s *sifFile) putAgain(ctx context.Context, out *atomicfile.File, img v1.Image, o media.Options) error {
	fi, err := s.f.Stat()
	if err != nil {
		return err
	}
	derived, ok := img.(withAddedLayer)
	switch {
	case !ok: // nothing to do: the unchanged base
		_, err = blob.CopyTo(ctx, out, io.NewSectionReader(s.f, 0, 1<<62), nil)
	case derived.Traced():
		err = hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "a SIF file's runscript cannot be run under vfix-trace"),
			"omit the fallback: --fallback never")
	default:
		_, err = writeSIF(ctx, out, img, s.Super, nil, func(root io.Reader, sum []byte) ([]sif.CreateOpt, error) { return s.container(root, sum, o) }, o)
	}
	if err != nil {
		return err
	}
	return out.Chmod(fi.Mode().Perm())
}

// container describes the new file. Its ID is derived from the old one and the new content, and it keeps the old
// times: equal input gives equal files.
func (s *sifFile) container(root io.Reader, sum []byte, o media.Options) ([]sif.CreateOpt, error) {
	// The new IDs of the data objects that are kept, which start at 1.
	var kept []sif.Descriptor
	number := map[uint32]uint32{}
	signed := false
	s.img.WithDescriptors(func(d sif.Descriptor) bool {
		if d.DataType() == sif.DataSignature {
			signed = true
			return false
		}
		kept = append(kept, d)
		number[d.ID()] = uint32(len(kept))
		return false
	})
	var all []sif.DescriptorInput
	for _, d := range kept {
		in, err := s.object(d, root, number)
		if err != nil {
			return nil, fmt.Errorf("data object %d: %w", d.ID(), err)
		}
		all = append(all, in)
	}
	if signed {
		progress.Note(o.Progress, "%s: its signature is not valid for the new bytes: omitted; sign it again: apptainer sign", s.path)
	}
	old, err := uuid.Parse(s.img.ID())
	if err != nil {
		return nil, hinterr.Damaged("%v", err)
	}
	return []sif.CreateOpt{
		sif.OptCreateWithLaunchScript(s.img.LaunchScript()),
		sif.OptCreateWithID(uuid.NewSHA1(old, sum).String()),
		sif.OptCreateWithTime(s.img.CreatedAt()),
		sif.OptCreateWithDescriptorCapacity(max(s.img.DescriptorsTotal(), int64(len(all)))),
		sif.OptCreateWithDescriptors(all...),
	}, nil
}

func (s *sifFile) object(d sif.Descriptor, root io.Reader, number map[uint32]uint32) (sif.DescriptorInput, error) {
	opts := []sif.DescriptorInputOpt{sif.OptNoGroup(), sif.OptObjectName(d.Name()), sif.OptObjectTime(d.CreatedAt())}
	if g := d.GroupID(); g != 0 {
		opts = append(opts, sif.OptGroupID(g))
	}
	if id, isGroup := d.LinkedID(); id != 0 && isGroup {
		opts = append(opts, sif.OptLinkedGroupID(id))
	} else if id != 0 && number[id] != 0 {
		opts = append(opts, sif.OptLinkedID(number[id]))
	}
	content := d.GetReader()
	if d.DataType() == sif.DataPartition {
		fsType, part, arch, err := d.PartitionMetadata()
		if err != nil {
			return sif.DescriptorInput{}, err
		}
		if part == sif.PartPrimSys {
			content = root
		}
		opts = append(opts, sif.OptPartitionMetadata(fsType, part, arch))
	} else {
		var extra rawExtra
		if err := d.GetMetadata(&extra); err != nil {
			return sif.DescriptorInput{}, err
		}
		opts = append(opts, sif.OptMetadata(extra))
	}
	return sif.NewDescriptorInput(d.DataType(), content, opts...)
}

// rawExtra is a descriptor's private data, unchanged.
type rawExtra []byte

// MarshalBinary and UnmarshalBinary implement encoding.BinaryMarshaler and its counterpart.
func (e rawExtra) MarshalBinary() ([]byte, error) { return e, nil }

func (e *rawExtra) UnmarshalBinary(b []byte) error {
	*e = append(rawExtra(nil), b...)
	return nil
}
