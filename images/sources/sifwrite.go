// Writing SIF files. Out of another one, the squashfs is made again with the patched files in it; the
// other data objects are kept, except for signatures: they are about the bytes that were replaced.

package sources

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"os"

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

// withAddedLayer is an image that was made of another one by adding a layer.
type withAddedLayer interface {
	Base() v1.Image
	// Traced says that the entrypoint of the base was put under vfix-trace.
	Traced() bool
}

// putSIF writes an image as a SIF file.
func putSIF(ctx context.Context, dest media.Ref, r media.Result, o media.Options) (media.Stored, error) {
	st := media.Stored{Reference: dest.String()}
	out, release, err := atomicfile.CreateLocked(ctx, dest.Name, o.Progress)
	if err != nil {
		return st, fmt.Errorf("%s: %w", dest.Name, err)
	}
	defer release()
	if base := sifOf(baseOf(r.Image)); base != nil {
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

// putAgain writes the SIF file, or an image that was derived from it. It keeps the mode: such files are
// programs.
func (s *sifFile) putAgain(ctx context.Context, out *atomicfile.File, img v1.Image, o media.Options) error {
	fi, err := s.f.Stat()
	if err != nil {
		return err
	}
	derived, ok := img.(withAddedLayer)
	switch {
	case !ok: // nothing to do: the base as it is
		_, err = blob.CopyTo(ctx, out, io.NewSectionReader(s.f, 0, 1<<62), nil)
	case derived.Traced():
		err = hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "a SIF file's runscript cannot be run under vfix-trace"),
			"leave the fallback out: --fallback never")
	default:
		err = withSquash(ctx, out, o, func(file string) error { return s.squash(ctx, file, img, o) },
			func(root io.Reader, sum v1.Hash) error { return s.assemble(out.File, root, sum, o) })
	}
	if err != nil {
		return err
	}
	return out.Chmod(fi.Mode().Perm())
}

// squash makes the new squashfs.
func (s *sifFile) squash(ctx context.Context, file string, img v1.Image, o media.Options) error {
	session := contents.NewSession(0, o.Progress, patch.Options{})
	defer session.Close()
	session.Take = unexamined
	t, err := session.Image(ctx, img)
	if err != nil {
		return err
	}
	flat := &flattening{tree: t}
	return squashStream(ctx, func(w io.Writer) error { return flat.write(ctx, w) }, file, s.Super, t.Root.Entry, o)
}

// assemble writes the container. Its ID is made of the old one and of the new content, its
// times are the old ones: the same input gives the same file.
func (s *sifFile) assemble(out *os.File, root io.Reader, sum v1.Hash, o media.Options) error {
	var all []sif.DescriptorInput
	var failed error
	dropped := 0
	number := s.numbers()
	s.img.WithDescriptors(func(d sif.Descriptor) bool {
		if d.DataType() == sif.DataSignature {
			dropped++
			return false
		}
		in, err := s.object(d, root, number)
		if err != nil {
			failed = fmt.Errorf("data object %d: %w", d.ID(), err)
		}
		all = append(all, in)
		return failed != nil
	})
	if failed != nil {
		return failed
	}
	if dropped > 0 {
		progress.Note(o.Progress, "%s: its signature is not valid for the new bytes: omitted; sign it again: apptainer sign", s.path)
	}
	old, err := uuid.Parse(s.img.ID())
	if err != nil {
		return hinterr.Damaged("%v", err)
	}
	digest, err := hex.DecodeString(sum.Hex)
	if err != nil {
		return err
	}
	c, err := sif.CreateContainer(out,
		sif.OptCreateWithLaunchScript(s.img.LaunchScript()),
		sif.OptCreateWithID(uuid.NewSHA1(old, digest).String()),
		sif.OptCreateWithTime(s.img.CreatedAt()),
		sif.OptCreateWithDescriptorCapacity(max(s.img.DescriptorsTotal(), int64(len(all)))),
		sif.OptCreateWithDescriptors(all...),
		sif.OptCreateWithCloseOnUnload(false))
	if err != nil {
		return err
	}
	return c.UnloadContainer()
}

// numbers says which ID each data object that is kept will have: they count from 1.
func (s *sifFile) numbers() map[uint32]uint32 {
	number := map[uint32]uint32{}
	s.img.WithDescriptors(func(d sif.Descriptor) bool {
		if d.DataType() != sif.DataSignature {
			number[d.ID()] = uint32(len(number) + 1)
		}
		return false
	})
	return number
}

// object describes one data object of the new file.
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

// rawExtra is a descriptor's private data as it is.
type rawExtra []byte

// MarshalBinary and UnmarshalBinary implement encoding.BinaryMarshaler and its counterpart.
func (e rawExtra) MarshalBinary() ([]byte, error) { return e, nil }

func (e *rawExtra) UnmarshalBinary(b []byte) error {
	*e = append(rawExtra(nil), b...)
	return nil
}
