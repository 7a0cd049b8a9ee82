// A SIF file from any image: its merged file system in a squashfs, with Apptainer's files in it, and the data
// objects that apptainer build writes.

package sources

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/uuid"
	"github.com/sylabs/sif/v2/pkg/sif"

	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/jsonobject"
)

const (
	// sifLaunch makes the file executable (Apptainer, internal/pkg/build/assemblers/sif.go).
	sifLaunch = "#!/usr/bin/env run-singularity\n"
	// Names of data objects (Apptainer, pkg/image/sif.go).
	sifInspected = "inspect-metadata.json"
	sifOCIConfig = "oci-config.json"
	// Every version of Apptainer and squashfuse can read newSquashBlock and gzip.
	newSquashBlock = 128 << 10 // bytes
)

// newSIF is a SIF file that is made from an image.
type newSIF struct {
	image      v1.Image
	config     *v1.ConfigFile
	created    time.Time // of the image, the epoch if it has none
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
	super := squashSuper{mkfsTime: uint32(n.created.Unix()), BlockSize: newSquashBlock, Compression: "gzip"}
	warnings, err := writeSIF(ctx, out, r.Image, super, n.extras, n.container, o)
	if err != nil {
		return nil, err
	}
	fi, err := out.Stat()
	if err != nil {
		return nil, err
	}
	const read, program = 0o444, 0o111 // users who may read the file may execute it
	mode := fi.Mode().Perm()
	return warnings, out.Chmod(mode | mode&read>>2&program)
}

// extras returns the files that are added to the merged file system.
func (n *newSIF) extras(t *contents.Tree) ([]contents.Extra, error) {
	if top := madeOf(baseOf(n.image)).top; top != nil {
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
	return n.files.extras, nil
}

// baseOf returns the image that an image was derived from, else the image itself.
func baseOf(img v1.Image) v1.Image {
	if d, ok := img.(withAddedLayer); ok {
		return d.Base()
	}
	return img
}

// bootstraps are the agents of definition files for such an image.
var bootstraps = map[media.Transport]string{
	media.Daemon: "docker-daemon", media.Registry: "docker", media.DockerArchive: "docker-archive",
	media.OCILayout: "oci", media.OCIArchive: "oci-archive",
}

// definitionOf returns the definition file of an image from a source, as apptainer build writes it.
func definitionOf(src media.Ref) string {
	return fmt.Sprintf("bootstrap: %s\nfrom: %s\n\n", cmp.Or(bootstraps[src.Transport], "localimage"), media.BaseName(src))
}

// labels returns the image's labels, and those of apptainer build (internal/pkg/build/metadata.go, addBuildLabels)
// that do not depend on the time and tools of the build.
func (n *newSIF) labels() (string, error) {
	all := map[string]string{}
	maps.Copy(all, n.config.Config.Labels)
	all["org.label-schema.schema-version"] = "1.0"
	all["org.label-schema.build-arch"] = n.config.Architecture
	text, err := json.MarshalIndent(all, "", "\t")
	return string(text), err
}

// container describes the SIF file. Its ID is derived from its content.
func (n *newSIF) container(root io.Reader, sum []byte) ([]sif.CreateOpt, error) {
	raw, err := n.image.RawConfigFile()
	if err != nil {
		return nil, err
	}
	var c jsonobject.Object
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("image config: %w", err)
	}
	var all []sif.DescriptorInput
	add := func(kind sif.DataType, content io.Reader, opts ...sif.DescriptorInputOpt) {
		if err == nil {
			var in sif.DescriptorInput
			in, err = sif.NewDescriptorInput(kind, content, append(opts, sif.OptObjectTime(n.created))...)
			all = append(all, in)
		}
	}
	add(sif.DataDeffile, strings.NewReader(n.definition))
	if n.files.metadata != nil {
		add(sif.DataGenericJSON, bytes.NewReader(n.files.metadata), sif.OptObjectName(sifInspected))
	}
	if len(c["config"]) > 0 {
		add(sif.DataGenericJSON, bytes.NewReader(c["config"]), sif.OptObjectName(sifOCIConfig))
	}
	add(sif.DataPartition, root, sif.OptPartitionMetadata(sif.FsSquash, sif.PartPrimSys, n.config.Architecture))
	return []sif.CreateOpt{
		sif.OptCreateWithLaunchScript(sifLaunch),
		sif.OptCreateWithID(uuid.NewSHA1(uuid.Nil, append(sum, raw...)).String()),
		sif.OptCreateWithTime(n.created),
		sif.OptCreateWithDescriptors(all...),
	}, err
}
