// Config and manifest of a derived image, compared with what a rebuild makes of the base's:
// they are derived once more, with the names that the image itself says of its base and of
// vfix's version, which must be the same wherever it says them.

package images

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/provenance"
	"vfix.dev/vfix/internal/jsonobject"
)

// skip lists what is not compared.
func (v *verification) skip(format string, args ...any) {
	v.out.NotCompared = append(v.out.NotCompared, fmt.Sprintf(format, args...))
}

// derived tells whether the source has a layer that the base has not.
func (v *verification) derived() bool { return len(v.after.T.Layers) == len(v.base.T.Layers)+1 }

// derivation is what the source's labels say of where it comes from.
func (v *verification) derivation(ctx context.Context, base, after jsonobject.Object) (derivation, error) {
	type runs struct {
		Entrypoint []string
		Labels     map[string]string
	}
	var b, a runs
	json.Unmarshal(base["config"], &b) // what is not of this form differs from what is derived
	json.Unmarshal(after["config"], &a)
	d := derivation{
		BaseName: a.Labels[keyBaseName], BaseDigest: a.Labels[keyBaseDigest], Version: a.Labels[keyVersion],
		calls: v.calls || len(v.out.Added) > 0, fallback: len(v.out.Added) > 0, repaired: repairsMade(v.out.Repaired),
	}
	first := func(e []string) bool { return len(e) > 0 && e[0] == fallback.TracePath }
	if !first(a.Entrypoint) || first(b.Entrypoint) {
		return d, nil
	}
	d.Traced = true
	e := v.shim.TraceFile()
	if k := v.after.T.At(e.Name); !v.shim.Present() || k == nil {
		v.problem("image config: config: Entrypoint: %s is not in the image", fallback.TracePath)
	} else if content, err := v.read(ctx, v.after, k.Inode); err != nil {
		return d, err
	} else if !bytes.Equal(content, e.Body) {
		v.problem("image config: config: Entrypoint: %s is not the one of this vfix", fallback.TracePath)
	}
	return d, nil
}

// config compares the image configs, and returns what the source says of its making.
func (v *verification) config(ctx context.Context) (from derivation, after []byte, err error) {
	want, err := v.base.Src.Image.RawConfigFile()
	if err != nil {
		return from, nil, fmt.Errorf("%v: image config: %w", v.base.Src.Ref, err)
	}
	if after, err = v.after.Src.Image.RawConfigFile(); err != nil {
		return from, nil, fmt.Errorf("%v: image config: %w", v.after.Src.Ref, err)
	}
	var b, a jsonobject.Object
	if err := json.Unmarshal(want, &b); err != nil {
		return from, nil, fmt.Errorf("%v: image config: %w", v.base.Src.Ref, err)
	}
	if err := json.Unmarshal(after, &a); err != nil {
		return from, nil, fmt.Errorf("%v: image config: %w", v.after.Src.Ref, err)
	}
	if v.squashed() {
		// A SIF file has its config in files, which are compared; the layers are one.
		delete(b, "rootfs")
		delete(a, "rootfs")
		v.object("image config", b, a)
		return from, after, nil
	}
	if v.derived() {
		if from, err = v.derivation(ctx, b, a); err != nil {
			return from, nil, err
		}
		layers := v.after.T.Layers
		if want, err = editConfig(want, len(layers)-1, layers[len(layers)-1].DiffID, from); err != nil {
			return from, nil, fmt.Errorf("%v: image config: %w", v.base.Src.Ref, err)
		}
		if err := v.baseDigest(from); err != nil {
			return from, nil, err
		}
	}
	return from, after, v.texts("image config", want, after)
}

// baseDigest notes where the name and the digest that the source gives its base are not those that
// the base has here. They may be those of another copy of it: the same layers and config under
// another manifest.
func (v *verification) baseDigest(from derivation) error {
	if name := media.BaseName(v.base.Src.Ref); from.BaseName != name {
		v.skip("label %s: %q is not the name of %v as it was given here", keyBaseName, from.BaseName, v.base.Src.Ref)
	}
	digests, err := provenance.DigestsOf(v.base.Src)
	if err != nil {
		return err
	}
	named, err := v1.NewHash(from.BaseDigest)
	if err == nil && slices.Contains(digests, named) {
		return nil
	}
	v.skip("label %s: %q is not the digest of %v as it is here", keyBaseDigest, from.BaseDigest, v.base.Src.Ref)
	return nil
}

// texts compares two JSON objects. A key that is there twice is a difference of its own:
// parsers do not agree on which one counts.
func (v *verification) texts(where string, want, got []byte) error {
	if key := duplicateKey(json.NewDecoder(bytes.NewReader(got))); key != "" {
		v.problem("%s: %s: there twice", where, key)
	}
	var w, g jsonobject.Object
	if err := json.Unmarshal(want, &w); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	if err := json.Unmarshal(got, &g); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	v.object(where, w, g)
	return nil
}

// duplicateKey returns a key that an object has twice, "" for none.
func duplicateKey(d *json.Decoder) string {
	t, _ := d.Token()
	seen := map[string]bool{}
	for t == json.Delim('{') && d.More() {
		k, err := d.Token()
		key, _ := k.(string)
		if err != nil || seen[key] {
			return key
		}
		seen[key] = true
		if key := duplicateKey(d); key != "" {
			return key
		}
	}
	for t == json.Delim('[') && d.More() {
		if key := duplicateKey(d); key != "" {
			return key
		}
	}
	if t == json.Delim('{') || t == json.Delim('[') {
		d.Token() // the end
	}
	return ""
}

// object compares two JSON objects, member by member.
func (v *verification) object(where string, want, got jsonobject.Object) {
	keys := map[string]bool{}
	for k := range want {
		keys[k] = true
	}
	for k := range got {
		keys[k] = true
	}
	for _, k := range contents.SortedKeys(keys) {
		w, g := want[k], got[k]
		var wo, gotObject jsonobject.Object
		switch {
		case w == nil:
			v.problem("%s: %s: got %s, want none", where, k, g)
		case g == nil:
			v.problem("%s: %s: missing, want %s", where, k, w)
		case json.Unmarshal(w, &wo) == nil && json.Unmarshal(g, &gotObject) == nil && wo != nil && gotObject != nil:
			v.object(where+": "+k, wo, gotObject)
		case !sameJSON(w, g):
			v.problem("%s: %s: got %s, want %s", where, k, g, w)
		}
	}
}

// sameJSON reports whether two texts are the same value: white space and the order of keys
// mean nothing.
func sameJSON(a, b []byte) bool {
	decode := func(raw []byte) (v any) {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		d.Decode(&v)
		return v
	}
	return reflect.DeepEqual(decode(a), decode(b))
}
