// Convert: an image in another format or place, with nothing changed in it.

package images

import (
	"context"
	"fmt"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
)

// ConvertOptions are the choices of vfix convert.
type ConvertOptions struct {
	Media media.Options
	Dest  string // DEST as typed
	Run   sources.RunConfig
}

// Converted is what a conversion did.
type Converted struct {
	Source       string   `json:"source"`        // as resolved, with its transport
	SourceDigest string   `json:"source_digest"` // what the source itself calls the image; "" for a root filesystem
	Reference    string   `json:"reference"`
	Digest       string   `json:"digest"` // of the manifest or index as it was written, or the image ID
	Layers       int      `json:"layers"`
	Warnings     []string `json:"-"` // one line each, for people
}

// Convert writes an image in another format or place, and changes nothing in it: layers and
// config keep their bytes as far as the written format has room for them. A source without
// config gets one: a schema 1 manifest and an old archive that of their history, a root
// filesystem that of o.Run. The same input gives the same digest. A DEST dir:DIR gets
// the root filesystem; it has no digest, and no config.
func Convert(ctx context.Context, source string, o ConvertOptions) (*Converted, error) {
	dest, err := media.ParseRef(o.Dest)
	if err != nil {
		return nil, fmt.Errorf("-o: %w", err)
	}
	src, err := sources.Open(ctx, source, o.Media)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	if err := sources.CheckNotInside(src, dest); err != nil {
		return nil, err
	}
	if err := sources.Ready(ctx, dest, o.Media); err != nil {
		return nil, err
	}
	out := &Converted{Source: src.Ref.String(), SourceDigest: src.Digest}
	switch {
	case src.Image == nil:
		err = sources.WithRootImage(ctx, src, o.Run, o.Media)
	case !o.Run.IsZero():
		err = hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%v: an image with a config of its own, which vfix does not change", src.Ref),
			"--entrypoint, --cmd, --env, --workdir and --user are for root filesystems")
	}
	if err != nil {
		return nil, err
	}
	layers, err := src.Image.Layers()
	if err != nil {
		return nil, err
	}
	out.Layers = len(layers)
	st, err := sources.Put(ctx, dest, media.Result{Image: src.Image, Index: src.Index, Source: src.Ref}, o.Media)
	if err != nil {
		return nil, err
	}
	out.Reference, out.Digest, out.Warnings = st.Reference, st.Digest, st.Warnings
	return out, nil
}
