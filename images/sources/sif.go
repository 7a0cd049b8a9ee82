// Apptainer's and Singularity's SIF files: a header, up to several dozen data objects, and among these one
// partition with the root filesystem, a squashfs. As a SOURCE, a SIF file is an image of one layer with those
// files. singularity's own module reads and writes the container, after this file has checked the sizes that it
// would allocate.

package sources

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/sylabs/sif/v2/pkg/sif"

	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
)

// Layout of the header (sylabs/sif, pkg/sif/sif.go, struct header): launch script, magic, version, architecture,
// ID, two times, and then the numbers of descriptors.
const (
	sifMagicAt       = 32
	sifMagic         = "SIF_MAGIC"
	sifTotalAt       = 32 + 10 + 3 + 3 + 16 + 8 + 8 + 8
	sifHeaderLen     = sifTotalAt + 5*8
	sifDescriptorLen = 585 // struct rawDescriptor, as in the file
	// maxSIFObjects is the maximum number of data objects in a file; apptainer reserves 48.
	maxSIFObjects = 4096
)

// isSIF reports whether head is the start of a SIF file.
func isSIF(head []byte) bool {
	return len(head) > sifMagicAt && bytes.HasPrefix(head[sifMagicAt:], []byte(sifMagic))
}

// sifFile is an open SIF file with a squashfs as its root filesystem.
type sifFile struct {
	f       *os.File
	path    string
	img     *sif.FileImage
	root    sif.Descriptor
	Super   squashSuper
	content plainTar // the files of the squashfs
	others  []string // other partitions: overlays
}

func (s *sifFile) Close() error {
	if s.content.Kept != nil {
		s.content.Close()
	}
	return s.f.Close()
}

// Squashfs returns the root partition.
func (s *sifFile) Squashfs() *io.SectionReader {
	return io.NewSectionReader(s.f, s.root.Offset(), s.root.Size())
}

// loadSIF opens a SIF file and checks every offset in it.
func loadSIF(name string) (_ *sifFile, err error) {
	f, size, err := blob.OpenRegular(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, hinterr.Errorf(hinterr.ErrNotFound, "%s: no such file", name)
	}
	if err != nil {
		return nil, err
	}
	s := &sifFile{f: f, path: name}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	head := make([]byte, sifHeaderLen)
	if _, err := f.ReadAt(head, 0); err != nil || !isSIF(head) {
		return nil, hinterr.Damaged("%s: not a SIF file", name)
	}
	total := binary.LittleEndian.Uint64(head[sifTotalAt:])
	offset := binary.LittleEndian.Uint64(head[sifTotalAt+8:])
	length := binary.LittleEndian.Uint64(head[sifTotalAt+16:])
	if total > maxSIFObjects || length < total*sifDescriptorLen || offset > uint64(size) || length > uint64(size)-offset {
		return nil, hinterr.Damaged("%s: %d descriptors in %d bytes at %#x of a file of %d bytes", name, total, length, offset, size)
	}
	if s.img, err = sif.LoadContainer(f, sif.OptLoadWithCloseOnUnload(false)); err != nil {
		return nil, hinterr.Damaged("%s: %v", name, err)
	}
	if err := s.findRoot(size); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

func (s *sifFile) findRoot(size int64) error {
	var err error
	roots := 0
	s.img.WithDescriptors(func(d sif.Descriptor) bool {
		switch {
		case d.Offset() < 0 || d.Size() < 0 || d.Offset() > size || d.Size() > size-d.Offset():
			err = hinterr.Damaged("data object %d: %d bytes at %#x of a file of %d bytes", d.ID(), d.Size(), d.Offset(), size)
		case d.DataType() == sif.DataOCIRootIndex:
			err = hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "an OCI-SIF file, which has an OCI image instead of a root filesystem"),
				"push it to a registry with singularity push or oras, and use it from there")
		case d.DataType() == sif.DataPartition:
			if _, part, _, perr := d.PartitionMetadata(); perr == nil && part == sif.PartPrimSys {
				s.root = d
				roots++
			} else {
				s.others = append(s.others, fmt.Sprintf("partition %d", d.ID()))
			}
		}
		return err != nil
	})
	if err != nil {
		return err
	}
	if roots != 1 {
		return hinterr.Damaged("%d root filesystems, want one", roots)
	}
	fsType, _, arch, err := s.root.PartitionMetadata()
	if err != nil {
		return hinterr.Damaged("%v", err)
	}
	switch {
	case fsType == sif.FsEncryptedSquashfs:
		return hinterr.Errorf(hinterr.ErrUnsupported, "the root filesystem is encrypted")
	case fsType != sif.FsSquash:
		return hinterr.Errorf(hinterr.ErrUnsupported, "the root filesystem is %v, not a squashfs", fsType)
	case arch != "amd64" && arch != "unknown":
		return hinterr.Errorf(hinterr.ErrPlatform, "the root filesystem is for %s, want amd64", arch)
	}
	s.Super, err = readSquashSuper(s.Squashfs())
	return err
}

func openSIF(ctx context.Context, ref media.Ref, o media.Options) (*media.Source, error) {
	s, err := loadSIF(ref.Name)
	if err != nil {
		return nil, err
	}
	src := &media.Source{Ref: ref, Beside: s.others}
	src.AtEnd(s.Close)
	if err = s.unpack(ctx, o); err == nil {
		err = s.take(src, o)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("%s: %w", ref.Name, err)
	}
	return src, nil
}

// unpack reads the squashfs, which the programs for it need in a file of its own.
func (s *sifFile) unpack(ctx context.Context, o media.Options) error {
	task := o.Progress.Start("read", s.path, s.root.Size())
	defer task.Done()
	// A confined program that is not root must be able to read it, but no other user.
	dir, remove, err := atomicfile.TempDir()
	if err != nil {
		return err
	}
	defer remove()
	temp, err := os.Create(filepath.Join(dir, "squashfs"))
	if err != nil {
		return err
	}
	defer temp.Close()
	const readable = 0o644
	if err := temp.Chmod(readable); err != nil {
		return err
	}
	if _, err := blob.CopyTo(ctx, temp, s.Squashfs(), task); err != nil {
		return err
	}
	s.content, err = keepTar(func(w io.Writer) error { return unsquash(ctx, w, temp.Name(), o) })
	return err
}

// take adds an image of one layer to a source. Its entrypoint is the runscript, if it exists.
func (s *sifFile) take(src *media.Source, o media.Options) error {
	run := RunConfig{}
	for m, err := range blob.Members(s.content.Open()) {
		if err != nil {
			return err
		}
		if m.Path == sifRunscript {
			run.Entrypoint = []string{"/" + sifRunscript}
		}
	}
	made := oneLayer{
		Descriptor: v1.Descriptor{MediaType: types.DockerUncompressedLayer, Size: s.content.N, Digest: s.content.diffID},
		open:       func() (io.ReadCloser, error) { return s.content.Open(), nil }, sif: s,
	}
	return made.take(src, types.DockerManifestSchema2, run, s.content.diffID, "a SIF file", o)
}
