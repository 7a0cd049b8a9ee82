// Making a SIF file of any image: its merged file system in a squashfs, with what Apptainer looks for
// in it, and the data objects that apptainer build writes beside it.

package sources

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/uuid"
	"github.com/sylabs/sif/v2/pkg/sif"

	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/jsonobject"
	"vfix.dev/vfix/rewriter/patch"
)

const (
	// sifLaunch makes the file a program (Apptainer, internal/pkg/build/assemblers/sif.go).
	sifLaunch = "#!/usr/bin/env run-singularity\n"
	// Names of data objects (Apptainer, pkg/image/sif.go).
	sifInspected = "inspect-metadata.json"
	sifOCIConfig = "oci-config.json"
	// newSquashBlock and gzip are what every version of Apptainer and squashfuse reads.
	newSquashBlock = 128 << 10 // bytes
)

// newSIF is a SIF file that is made of an image.
type newSIF struct {
	image      v1.Image
	config     *v1.ConfigFile
	created    time.Time // of the image, the epoch if it does not say
	definition string
	files      *apptainerFiles
}

// makeSIF writes an image as a SIF file. The same image gives the same bytes.
func makeSIF(ctx context.Context, out *atomicfile.File, r media.Result, o media.Options) ([]string, error) {
	n := &newSIF{image: r.Image, created: time.Unix(0, 0).UTC(), definition: definitionOf(r.Source)}
	var err error
	if n.config, err = r.Image.ConfigFile(); err != nil {
		return nil, err
	}
	if at := n.config.Created.Unix(); at > 0 && at <= math.MaxUint32 {
		n.created = time.Unix(at, 0).UTC()
	}
	var warnings []string
	err = withSquash(ctx, out, o, func(file string) (err error) {
		warnings, err = n.squash(ctx, file, o)
		return err
	}, func(root io.Reader, sum v1.Hash) error { return n.assemble(out, root, sum) })
	if err != nil {
		return nil, err
	}
	fi, err := out.Stat()
	if err != nil {
		return nil, err
	}
	const read, program = 0o444, 0o111 // who may read the file may execute it
	mode := fi.Mode().Perm()
	return warnings, out.Chmod(mode | mode&read>>2&program)
}

// withSquash makes a squashfs in a temporary file, and then assembles a SIF file of it.
func withSquash(ctx context.Context, out *atomicfile.File, o media.Options, make func(file string) error, assemble func(root io.Reader, sum v1.Hash) error) error {
	dir, remove, err := atomicfile.TempDir()
	if err != nil {
		return err
	}
	defer remove()
	file := filepath.Join(dir, "squashfs")
	if err := make(file); err != nil {
		return err
	}
	root, size, err := blob.OpenRegular(file)
	if err != nil {
		return err
	}
	defer root.Close()
	task := o.Progress.Start("write", out.Final, size)
	defer task.Done()
	sum, _, err := v1.SHA256(blob.Reading{Ctx: ctx, Reader: root})
	if err != nil {
		return err
	}
	return assemble(blob.Reading{Ctx: ctx, Reader: io.NewSectionReader(root, 0, size), T: task}, sum)
}

// squash makes the squashfs.
func (n *newSIF) squash(ctx context.Context, file string, o media.Options) ([]string, error) {
	s := contents.NewSession(0, o.Progress, patch.Options{})
	defer s.Close()
	s.Take = unexamined
	t, err := s.Image(ctx, n.image)
	if err != nil {
		return nil, err
	}
	if top := folderMeta(baseOf(n.image)); top != nil {
		root := *t.Root.Entry
		root.Meta = *top
		t.Root.Inode = &contents.Inode{Entry: &root, Layer: t.Root.Layer}
	}
	labels, err := n.labels()
	if err != nil {
		return nil, err
	}
	if n.files, err = newApptainerFiles(t, n.config, n.definition, labels, contents.Meta{Mtime: n.created}); err != nil {
		return nil, err
	}
	flat := &flattening{tree: t, extras: n.files.extras}
	super := squashSuper{mkfsTime: uint32(n.created.Unix()), BlockSize: newSquashBlock, Compression: "gzip"}
	if err := squashStream(ctx, func(w io.Writer) error { return flat.write(ctx, w) }, file, super, t.Root.Entry, o); err != nil {
		return nil, err
	}
	return flat.warnings(), nil
}

// squashStream makes a squashfs of the tar stream that write writes.
func squashStream(ctx context.Context, write func(io.Writer) error, file string, like squashSuper, root *contents.Entry, o media.Options) error {
	return blob.Piped(write, func(r io.Reader) error { return squash(ctx, r, file, like, root, o) })
}

// baseOf is the image that an image was derived from, else the image itself.
func baseOf(img v1.Image) v1.Image {
	if d, ok := img.(withAddedLayer); ok {
		return d.Base()
	}
	return img
}

// bootstraps are the agents of definition files that name such an image.
var bootstraps = map[media.Transport]string{
	media.Daemon: "docker-daemon", media.Registry: "docker", media.DockerArchive: "docker-archive",
	media.OCILayout: "oci", media.OCIArchive: "oci-archive", media.Dir: "localimage",
}

// definitionOf is the definition file of an image from a source, in the form of those that
// apptainer build writes.
func definitionOf(src media.Ref) string {
	agent := bootstraps[src.Transport]
	if agent == "" {
		agent = "localimage"
	}
	return fmt.Sprintf("bootstrap: %s\nfrom: %s\n\n", agent, media.BaseName(src))
}

// labels are the image's, and those that do not depend on when and with what the file was made among
// those that apptainer build adds (internal/pkg/build/metadata.go, addBuildLabels).
func (n *newSIF) labels() (string, error) {
	all := map[string]string{}
	maps.Copy(all, n.config.Config.Labels)
	all["org.label-schema.schema-version"] = "1.0"
	all["org.label-schema.build-arch"] = n.config.Architecture
	text, err := json.MarshalIndent(all, "", "\t")
	return string(text), err
}

// assemble writes the container. Its ID is made of its content.
func (n *newSIF) assemble(out *atomicfile.File, root io.Reader, sum v1.Hash) error {
	raw, err := n.image.RawConfigFile()
	if err != nil {
		return err
	}
	var c jsonobject.Object
	if err := json.Unmarshal(raw, &c); err != nil {
		return fmt.Errorf("image config: %w", err)
	}
	var all []sif.DescriptorInput
	add := func(kind sif.DataType, content io.Reader, opts ...sif.DescriptorInputOpt) {
		if err == nil {
			var in sif.DescriptorInput
			in, err = sif.NewDescriptorInput(kind, content, append(opts, sif.OptObjectTime(n.created))...)
			all = append(all, in)
		}
	}
	add(sif.DataDeffile, bytes.NewReader([]byte(n.definition)))
	if n.files.metadata != nil {
		add(sif.DataGenericJSON, bytes.NewReader(n.files.metadata), sif.OptObjectName(sifInspected))
	}
	if len(c["config"]) > 0 {
		add(sif.DataGenericJSON, bytes.NewReader(c["config"]), sif.OptObjectName(sifOCIConfig))
	}
	add(sif.DataPartition, root, sif.OptPartitionMetadata(sif.FsSquash, sif.PartPrimSys, n.config.Architecture))
	if err != nil {
		return err
	}
	digest, err := hex.DecodeString(sum.Hex)
	if err != nil {
		return err
	}
	file, err := sif.CreateContainer(out.File,
		sif.OptCreateWithLaunchScript(sifLaunch),
		sif.OptCreateWithID(uuid.NewSHA1(uuid.Nil, append(digest, raw...)).String()),
		sif.OptCreateWithTime(n.created),
		sif.OptCreateWithDescriptors(all...),
		sif.OptCreateWithCloseOnUnload(false))
	if err != nil {
		return err
	}
	return file.UnloadContainer()
}
