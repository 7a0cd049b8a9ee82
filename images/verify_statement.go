// The statement about an image: it is also made again, from the image's own layers if no base is
// given, and compared.

package images

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/provenance"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/jsonobject"
)

func findStatement(ctx context.Context, src *media.Source, o VerifyOptions) (*provenance.Stated, error) {
	if src.Image == nil {
		return nil, hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%v: not an image: no statement is made about directories and files", src.Ref),
			"compare it with what it was: vfix verify --against")
	}
	return provenance.Find(ctx, src, o.Statement, o.Media)
}

// undone is a derived image without what a rebuild put into it: its base, as far as possible. Whether
// vfix-trace was before the entrypoint of a base that has it is as stated.
func undone(after *contents.Subject, stated bool) (*media.Source, error) {
	src := after.Src
	layers, err := src.Image.Layers()
	raw, rerr := src.Image.RawConfigFile()
	if err := cmp.Or(err, rerr); err != nil {
		return nil, err
	}
	if len(layers) == 0 {
		return nil, hinterr.Errorf(hinterr.ErrUnsupported, "%v: no layers", src.Ref)
	}
	t, err := contents.Merge(after.T.Layers[:len(layers)-1])
	if err != nil {
		return nil, err
	}
	if t.At(strings.TrimPrefix(fallback.TracePath, "/")) == nil {
		stated = true
	}
	var c jsonobject.Object
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("%v: image config: %w", src.Ref, err)
	}
	last := func(all *[]json.RawMessage) error {
		*all = (*all)[:max(0, len(*all)-1)]
		return nil
	}
	if err = jsonobject.Edit(c, "rootfs.diff_ids", last); err == nil {
		err = jsonobject.Edit(c, "history", last)
	}
	if err == nil && stated && fallback.EntrypointIsTraced(raw) {
		err = jsonobject.Edit(c, "config.Entrypoint", func(e *[]string) error {
			*e = (*e)[1:]
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("%v: image config: %w", src.Ref, err)
	}
	config, err := jsonobject.Encode(c)
	return &media.Source{Ref: src.Ref, Image: blob.NewEditedImage(config, layers[:len(layers)-1], src.Image.RawManifest)}, err
}

// statement compares the statement with the one that vfix makes.
func (v *comparison) statement() error {
	digests, err := provenance.DigestsOf(v.after.Src)
	if err != nil {
		return err
	}
	st := v.stated.Statement
	if !st.HasSubject(digests) {
		v.out.problem("statement: it is about another image: none of its %d subjects is %v", len(st.Subject), v.after.Src.Ref)
	}
	v.out.skip("statement: subject[].name: a result can be renamed")
	for _, a := range st.Subject {
		if !a.Is(digests) {
			v.out.skip("statement: subject[].digest: %v: another place or the index of the image", a.Digest)
		}
	}
	if !v.derived() {
		v.out.problem("statement: %v has no layer that vfix made", v.after.Src.Ref)
		return nil
	}
	if v.undone && v.base.T.At(strings.TrimPrefix(fallback.TracePath, "/")) != nil {
		v.out.skip("statement: derived.entrypointWrapped: the base also has vfix-trace")
	}
	if !v.undone {
		bases, err := provenance.DigestsOf(v.base.Src)
		if err != nil {
			return err
		}
		if a := st.Predicate.Base.Artifact; !a.Is(bases) {
			v.out.problem("statement: its base is %s with the digest %v, and not %v", a.Name, a.Digest, v.base.Src.Ref)
		}
	}
	want, err := v.c.state(v.base.T, v.from, digests[0], v.after.T.Layers[len(v.after.T.Layers)-1].DiffID)
	if err != nil {
		v.out.problem("statement: %v", err)
		return nil
	}
	text, err := jsonobject.Encode(want)
	if err != nil {
		return err
	}
	var got jsonobject.Object
	if err := json.Unmarshal(v.stated.Raw, &got); err != nil {
		return err
	}
	if len(got) != len(provenance.Members) {
		v.out.skip("statement: some members: this version of vfix does not know them")
	}
	return v.out.texts("statement", text, got["predicate"])
}
