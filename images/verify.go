// Verify: a source is examined again; with a base, vfix makes the result again from the base, with the options in the
// source's label, and compares.

package images

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/rewriter/patch"
)

// VerifyOptions are the choices of vfix verify.
type VerifyOptions struct {
	ScanOptions
	Against string // SOURCE of the base; "" examines the source alone
	Version string // of this vfix
}

// Verified is what verify proved.
type Verified struct {
	Findings *contents.Findings `json:"-"`
	// Compared is how many patched files differ from the base in what the rewriter changes only.
	Compared int `json:"compared"`
	// Added are the files that a rebuild adds, sorted.
	Added []string `json:"added"`
	// Problems is one line each for what differs otherwise, at most maxProblems; More counts the others.
	Problems []string `json:"problems"`
	More     int      `json:"more_problems"`
	// NotCompared says what was not compared, and why.
	NotCompared []string `json:"not_compared"`
}

// maxProblems is how many differences are named.
const maxProblems = 20

func (v *Verified) problem(format string, args ...any) {
	if len(v.Problems) == maxProblems {
		v.More++
		return
	}
	v.Problems = append(v.Problems, fmt.Sprintf(format, args...))
}

func (v *Verified) skip(format string, args ...any) {
	v.NotCompared = append(v.NotCompared, fmt.Sprintf(format, args...))
}

// Verify examines a SOURCE as Scan does and, with Against, compares it with what vfix makes of that base.
func Verify(ctx context.Context, name string, o VerifyOptions) (*Verified, error) {
	if o.Against == "" {
		f, err := Scan(ctx, name, o.ScanOptions)
		return &Verified{Findings: f}, err
	}
	o.Media = o.Media.WithDefaults()
	src, err := source.Open(ctx, name, o.Media)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	base, err := source.Open(ctx, o.Against, o.Media)
	if err != nil {
		return nil, err
	}
	defer base.Close()
	if (src.Image == nil) != (base.Image == nil) {
		return nil, hinterr.Errorf(hinterr.ErrUnsupported, "%v and %v: an image is only compared with an image", src.Ref, base.Ref)
	}
	if src.Image == nil {
		return verifyFiles(ctx, base, src, o)
	}
	return verifyImage(ctx, base, src, o)
}

// verifyImage makes the derived image again and compares the layers, the config and the annotations.
func verifyImage(ctx context.Context, base, src *source.Source, o VerifyOptions) (*Verified, error) {
	config, err := src.Image.RawConfigFile()
	if err != nil {
		return nil, err
	}
	labels := labelsOf(config)
	again := RebuildOptions{ScanOptions: o.ScanOptions, Version: labels[keyVersion], DryRun: true}
	if err := readOptions(labels[keyOptions], &again); err != nil {
		return nil, err
	}
	s := contents.NewSession(o.Jobs, o.Media.Progress, again.Rewriter)
	defer s.Close()
	f, err := fallback.Examine(ctx, s, src, &o.Shim)
	if err != nil {
		return nil, err
	}
	out := &Verified{Findings: f.Findings}
	d, err := derive(ctx, s, base, again)
	if d != nil {
		defer d.close()
	}
	if err != nil {
		return nil, err
	}
	if made := labels[keyVersion]; made != "" && made != o.Version {
		out.skip("made by vfix %s, and this is vfix %s, which may patch in another way", made, o.Version)
	}
	want := &derivedImage{Image: base.Image}
	wanted, err := base.Image.RawConfigFile()
	if err == nil && labels[keyVersion] == "" && bytes.Equal(config, wanted) {
		return out, out.index(base, src) // the base itself
	}
	if d.img != nil {
		out.baseNamed(labels, d.origin)
		d.origin = origin{labels[keyBaseName], labels[keyBaseDigest], labels[keyVersion], labels[keyOptions], d.origin.made}
		if want, err = newDerivedImage(base, d.added, d.origin, d.changes); err == nil {
			wanted, err = want.RawConfigFile()
		}
		for _, e := range d.changes.extras {
			out.Added = append(out.Added, e.Name)
		}
		slices.Sort(out.Added)
		out.Compared = len(d.changes.targets)
	}
	if err != nil {
		return nil, err
	}
	if same, err := out.jsonSame("image config", wanted, config); err != nil || same {
		return out, errors.Join(err, out.index(base, src))
	}
	return out, out.layers(ctx, o, d, src)
}

// index compares the indexes that the images were chosen from, in which only the patched image differs.
func (v *Verified) index(base, src *source.Source) error {
	if base.Index == nil || src.Index == nil {
		if base.Index != nil || src.Index != nil {
			v.skip("images of other platforms: only one of the two is an index")
		}
		return nil
	}
	want, err := source.ReplaceInIndex(base.Index, base.Entry, src.Image)
	if err != nil {
		return err
	}
	wanted, err := want.RawManifest()
	got, gerr := src.Index.RawManifest()
	if err := errors.Join(err, gerr); err != nil {
		return err
	}
	_, err = v.jsonSame("index", wanted, got)
	return err
}

// baseNamed notes whether the name and digest that the source gives its base are those of the base as it is given here:
// they may be those of another copy of it.
func (v *Verified) baseNamed(labels map[string]string, here origin) {
	if labels[keyBaseName] != here.baseName {
		v.skip("label %s: %q is not the name of the base as it is given here", keyBaseName, labels[keyBaseName])
	}
	if labels[keyBaseDigest] != here.baseDigest {
		v.skip("label %s: %q is not the digest of the base as it is given here", keyBaseDigest, labels[keyBaseDigest])
	}
}

// layers names the paths that differ, if the layers do.
func (v *Verified) layers(ctx context.Context, o VerifyOptions, d *derivation, src *source.Source) error {
	s := contents.NewSession(o.Jobs, o.Media.Progress, patch.Options{})
	defer s.Close()
	s.Sums = true
	want, err := s.Image(ctx, d.src.Image)
	if err == nil && d.added != nil {
		err = s.AddLayer(ctx, want, d.added)
	}
	if err != nil {
		return err
	}
	got, err := s.Image(ctx, src.Image)
	if err == nil {
		v.entries(want.Entries(), got.Entries())
	}
	return err
}

// verifyFiles compares directories, tarballs or files, of which vfix patch changes the files only.
func verifyFiles(ctx context.Context, base, src *source.Source, o VerifyOptions) (*Verified, error) {
	s := contents.NewSession(o.Jobs, o.Media.Progress, o.Rewriter)
	defer s.Close()
	f, err := fallback.Examine(ctx, s, src, &o.Shim)
	if err != nil {
		return nil, err
	}
	out := &Verified{Findings: f.Findings}
	if single, err := out.verifyFile(base.Path, src.Path, o); single || err != nil {
		return out, err
	}
	s.Sums = true // directories and tarballs become images of one layer
	for _, one := range []*source.Source{base, src} {
		if err := withRootImage(ctx, one, o.Media); err != nil {
			return nil, err
		}
	}
	before, err := s.OpenSubject(ctx, base)
	if err != nil {
		return nil, err
	}
	want := before.T
	if targets := before.F.ToPatch(); len(targets) > 0 {
		added, err := s.NewLayer(ctx, before.T, targets, nil)
		if err != nil {
			return nil, err
		}
		defer added.Close()
		if err := s.AddLayer(ctx, want, added); err != nil {
			return nil, err
		}
	}
	got, err := s.Image(ctx, src.Image)
	if err != nil {
		return nil, err
	}
	if out.entries(want.Entries(), got.Entries()); len(out.Problems) == 0 {
		out.Compared = len(before.F.ToPatch())
	}
	return out, nil
}

// verifyFile compares two ELF files; single reports that they are files, and no tarballs.
func (v *Verified) verifyFile(base, path string, o VerifyOptions) (single bool, err error) {
	for _, name := range []string{base, path} {
		if fi, err := os.Stat(name); err != nil || fi.IsDir() {
			return false, err
		}
		if tarball, err := contents.IsTarball(name); tarball || err != nil {
			return false, err
		}
	}
	before, err := os.Open(base)
	if err != nil {
		return true, err
	}
	defer before.Close()
	after, err := os.Open(path)
	if err != nil {
		return true, err
	}
	defer after.Close()
	was, err := before.Stat()
	is, isErr := after.Stat()
	if err := errors.Join(err, isErr); err != nil {
		return true, err
	}
	options := o.Rewriter
	options.Dormant = contents.LosesVDSO(before)
	proved, err := patch.Verify(before, was.Size(), after, is.Size(), options)
	switch {
	case err != nil:
		v.problem("%s: %v", path, err)
	case len(proved.Changed) > 0:
		v.Compared++
	}
	return true, nil
}

// entries compares files by name: their types, metadata and contents.
func (v *Verified) entries(want, got map[string]*contents.Entry) {
	all := maps.Clone(want)
	maps.Copy(all, got)
	for _, name := range contents.SortedKeys(all) {
		title := "/" + name
		switch w, g := want[name], got[name]; {
		case g == nil:
			v.problem("%s: missing", title)
		case w == nil:
			v.problem("%s: vfix adds no such file", title)
		case w.Kind != g.Kind || w.Flag != g.Flag:
			v.problem("%s: another kind of file", title)
		case w.Link != g.Link:
			v.problem("%s: link: got %q, want %q", title, g.Link, w.Link)
		case g.Meta.Differs(&w.Meta) != "":
			v.problem("%s: %s", title, g.Meta.Differs(&w.Meta))
		case w.Sum != nil && g.Sum != nil && *w.Sum != *g.Sum:
			v.problem("%s: other content than vfix writes", title)
		}
	}
}

// jsonSame compares two JSON texts member by member, and names the members that differ.
func (v *Verified) jsonSame(where string, want, got []byte) (bool, error) {
	var w, g map[string]any
	if err := json.Unmarshal(want, &w); err != nil {
		return false, fmt.Errorf("%s: %w", where, err)
	}
	if err := json.Unmarshal(got, &g); err != nil {
		return false, fmt.Errorf("%s: %w", where, err)
	}
	before := len(v.Problems) + v.More
	v.members(where, w, g)
	return before == len(v.Problems)+v.More, nil
}

func (v *Verified) members(where string, want, got any) {
	w, isW := want.(map[string]any)
	g, isG := got.(map[string]any)
	switch {
	case reflect.DeepEqual(want, got):
		return
	case !isW || !isG:
		v.problem("%s: got %s, want %s", where, short(got), short(want))
		return
	}
	all := maps.Clone(w)
	maps.Copy(all, g)
	for _, k := range contents.SortedKeys(all) {
		v.members(where+": "+k, w[k], g[k])
	}
}

// short is the beginning of a long value.
func short(value any) string {
	const most = 200 // bytes
	raw, _ := json.Marshal(value)
	if len(raw) > most {
		return strings.ToValidUTF8(string(raw[:most]), "") + "…"
	}
	return string(raw)
}
