// The drop-in layer: an image with the fallback, vfix itself, and hooks that make dpkg and yum
// run vfix on the files that they unpack. COPY --from puts it on any base.

package images

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/addedfiles"
	"vfix.dev/vfix/internal/atomicfile"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/rewriter/patch"
)

// programName is vfix itself in the drop-in layer; the hooks call it.
const programName = addedfiles.Dir + "/vfix"

// dropInTag names the drop-in layer if the user gives no name.
const dropInTag = "vfix:latest"

// tarPrefix begins a DEST that is a plain tar archive.
const tarPrefix = "tar:"

// The hooks of dpkg and yum.
var (
	//go:embed base/dpkg.cfg
	dpkgConfig []byte
	//go:embed base/vfix.py
	yumPlugin []byte
	//go:embed base/vfix.conf
	yumConfig []byte
)

// LayerOptions are the choices of vfix layer.
type LayerOptions struct {
	Media   source.Options
	Dest    string // DEST as typed, or tar:FILE; "" means the daemon, as vfix:latest
	Program string // path of the static linux/amd64 vfix that goes in
	Version string
	Shim    fallback.Shim
}

// Layered is what Layer wrote.
type Layered struct {
	Reference string   `json:"reference"` // what a Dockerfile's COPY --from names, or the path of the tar
	Digest    string   `json:"digest"`    // of the image's manifest; "" for a tar
	Files     []string `json:"contents"`  // in it, sorted
	Size      int64    `json:"size"`      // bytes: of the compressed layer, or of the tar
}

// Layer writes the drop-in layer.
func Layer(ctx context.Context, o LayerOptions) (*Layered, error) {
	if !o.Shim.Present() {
		return nil, hinterr.Errorf(hinterr.ErrUnsupported, "this vfix was built without the fallback")
	}
	extras, err := dropIn(&o.Shim, o.Program)
	if err != nil {
		return nil, err
	}
	out := &Layered{}
	for _, e := range extras {
		out.Files = append(out.Files, e.Name)
	}
	slices.Sort(out.Files)
	layer, err := contents.NewLayer(ctx, contents.NewTree(), nil, extras)
	if err != nil {
		return nil, err
	}
	defer layer.Close()
	if path, ok := strings.CutPrefix(o.Dest, tarPrefix); ok {
		r, err := layer.Uncompressed()
		if err != nil {
			return nil, err
		}
		plain, err := io.ReadAll(r)
		if err == nil {
			err = atomicfile.Write(path, plain)
		}
		out.Reference, out.Size = path, int64(len(plain))
		return out, err
	}
	dest, err := dropInDest(o.Dest)
	if err != nil {
		return nil, err
	}
	img, err := dropInImage(layer, o.Version)
	if err != nil {
		return nil, err
	}
	st, err := source.Put(ctx, dest, source.Result{Image: img}, o.Media)
	out.Reference, out.Digest, out.Size = st.Reference, st.Digest, layer.PackedSize
	return out, err
}

// dropInDest parses a DEST and gives it a name if it has none.
func dropInDest(typed string) (source.Ref, error) {
	if typed == "" {
		return source.Ref{Transport: source.Daemon, Name: dropInTag}, nil
	}
	dest, err := source.ParseRef(typed)
	if err != nil {
		return dest, err
	}
	switch dest.Transport {
	case source.Dir:
		return dest, hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%v: a layer is not written as a root filesystem", dest),
			"-o tar:%s.tar for a plain tarball, to unpack where you want it", strings.TrimSuffix(dest.Name, "/"))
	case source.OCILayout, source.OCIArchive, source.DockerArchive:
		if dest.Tag == "" {
			dest.Tag = dropInTag
		}
	}
	return dest, nil
}

// dropIn returns the files of the layer. Its vfix, the file at path, must run in any image: a static program for
// linux/amd64.
func dropIn(s *fallback.Shim, path string) ([]contents.Extra, error) {
	program, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r, err := patch.Scan(bytes.NewReader(program), int64(len(program)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.Skipped != nil || !r.Static {
		return nil, hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%s: not a static program for linux/amd64", path),
			"name one: --program FILE")
	}
	text := func(name string, body []byte) contents.Extra {
		return contents.Extra{Name: name, Mode: 0o644, Body: body}
	}
	return append(s.LibraryFiles(true), s.TraceFile(),
		contents.Extra{Name: programName, Mode: 0o755, Body: program},
		text(addedfiles.Preload, addedfiles.WithPreloadLine(nil, true)),
		text("etc/dpkg/dpkg.cfg.d/vfix", dpkgConfig),
		text("usr/lib/yum-plugins/vfix.py", yumPlugin),
		text("etc/yum/pluginconf.d/vfix.conf", yumConfig),
	), nil
}

// dropInImage makes an image of the layer. Its entrypoint is vfix, so that the image
// can also be run. The same files make the same image: its date is the epoch.
func dropInImage(layer v1.Layer, version string) (v1.Image, error) {
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	img = mutate.ConfigMediaType(img, types.OCIConfigJSON)
	epoch := v1.Time{Time: time.Unix(0, 0).UTC()}
	img, err := mutate.ConfigFile(img, &v1.ConfigFile{
		Architecture: "amd64", OS: "linux", Created: epoch,
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{Entrypoint: []string{"/" + programName}, Labels: map[string]string{keyVersion: version}},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(img, mutate.Addendum{
		Layer: layer, MediaType: types.OCILayer,
		History: v1.History{Created: epoch, CreatedBy: "vfix " + version + " layer"},
	})
}
