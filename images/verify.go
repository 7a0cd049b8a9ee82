// Verify: a source is examined again; with a base, vfix makes the result again from the base, with the options in the
// source's label, and compares.

package images

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/source"
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
	if src.Image == nil || base.Image == nil {
		return verifyFiles(ctx, base, src, o)
	}
	return verifyImage(ctx, base, src, o)
}

// verifyImage makes the derived image again and compares the config, which names the layers, and the index.
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
	f, err := examine(ctx, s, src, &o.Shim)
	if err != nil {
		return nil, err
	}
	out := &Verified{Findings: f}
	d, err := deriveAgain(ctx, s, base, again)
	if err != nil {
		return nil, err
	}
	defer d.close()
	wanted, err := out.config(d, labels, config, o)
	if err == nil {
		err = errors.Join(out.same("image config", wanted, config), out.index(base, src))
	}
	if err == nil && len(out.Problems) > 0 {
		err = out.layers(ctx, o, d, src)
	}
	if len(out.Problems) == 0 && d.img != nil && labels[keyVersion] != "" {
		out.Compared = len(d.changes.targets)
	}
	return out, err
}

// deriveAgain makes the derived image of a base as an earlier rebuild made it.
func deriveAgain(ctx context.Context, s *contents.Session, base *source.Source, o RebuildOptions) (*derivation, error) {
	if base.Image == nil {
		if err := withRootImage(ctx, base, o.Media); err != nil {
			return nil, err
		}
	}
	from, err := originOf(base, o)
	if err != nil {
		return nil, err
	}
	d, err := (&Job{src: base, origin: from, o: o}).derive(ctx, s)
	if err != nil && d != nil {
		d.close()
	}
	return d, err
}

// config returns the config of the derived image, with the names that the source gives its base: they may be those of
// another copy of it. The config of a source without labels may be the base's own.
func (v *Verified) config(d *derivation, labels map[string]string, is []byte, o VerifyOptions) ([]byte, error) {
	base, err := d.src.Image.RawConfigFile()
	if err != nil || d.img == nil || labels[keyVersion] == "" && bytes.Equal(base, is) {
		return base, err
	}
	if made := labels[keyVersion]; made != o.Version {
		v.skip("made by vfix %s, and this is vfix %s, which may patch in another way", made, o.Version)
	}
	for key, here := range map[string]string{keyBaseName: d.origin.baseName, keyBaseDigest: d.origin.baseDigest} {
		if labels[key] != here {
			v.skip("label %s: got %q, of the base as it is given here %q", key, labels[key], here)
		}
	}
	for _, e := range d.changes.extras {
		v.Added = append(v.Added, e.Name)
	}
	slices.Sort(v.Added)
	slices.Sort(v.NotCompared)
	from := origin{labels[keyBaseName], labels[keyBaseDigest], labels[keyVersion], labels[keyOptions], d.origin.made}
	img, err := newDerivedImage(d.src, d.added, from, d.changes)
	if err != nil {
		return nil, err
	}
	return img.RawConfigFile()
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
	return v.same("index", wanted, got)
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

// verifyFiles compares directories, tarballs or files, of which vfix patch changes the files only, or a directory with
// the image that it was rebuilt from.
func verifyFiles(ctx context.Context, base, src *source.Source, o VerifyOptions) (*Verified, error) {
	s := contents.NewSession(o.Jobs, o.Media.Progress, o.Rewriter)
	defer s.Close()
	f, err := examine(ctx, s, src, &o.Shim)
	if err != nil {
		return nil, err
	}
	out := &Verified{Findings: f}
	again := RebuildOptions{ScanOptions: o.ScanOptions, DryRun: true}
	if base.Image != nil {
		_ = readOptions("", &again) // the defaults of a rebuild
	} else if isFile(base.Path) && isFile(src.Path) {
		return out, out.verifyFile(base.Path, src.Path, o)
	}
	if src.Image == nil { // it becomes an image of one layer
		if err := withRootImage(ctx, src, o.Media); err != nil {
			return nil, err
		}
	}
	d, err := deriveAgain(ctx, s, base, again)
	if err != nil {
		return nil, err
	}
	defer d.close()
	err = out.layers(ctx, o, d, src)
	if err == nil && len(out.Problems) == 0 {
		out.Compared = len(d.changes.targets)
	}
	return out, err
}

// isFile reports whether a path is a file, and no tarball.
func isFile(path string) bool {
	fi, err := os.Stat(path)
	tarball, _ := contents.IsTarball(path)
	return err == nil && fi.Mode().IsRegular() && !tarball
}

// verifyFile compares two ELF files.
func (v *Verified) verifyFile(base, path string, o VerifyOptions) error {
	before, was, err := blob.OpenRegular(base)
	if err != nil {
		return err
	}
	defer before.Close()
	after, is, err := blob.OpenRegular(path)
	if err != nil {
		return err
	}
	defer after.Close()
	options := o.Rewriter
	options.Dormant = contents.LosesVDSO(before)
	proved, err := patch.Verify(before, was, after, is, options)
	switch {
	case err != nil:
		v.problem("%s: %v", path, err)
	case len(proved.Changed) > 0:
		v.Compared++
	}
	return nil
}
