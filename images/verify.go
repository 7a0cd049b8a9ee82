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

	"github.com/google/go-containerregistry/pkg/v1/types"

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
	v := &Verified{}
	return v, v.again(ctx, base, src, o)
}

// again makes the result again from its base, with the options in the label. Of two images it compares the config, which
// names the layers, and the index; else the files, as vfix patch also writes directories and tarballs.
func (v *Verified) again(ctx context.Context, base, src *source.Source, o VerifyOptions) error {
	images := base.Image != nil && src.Image != nil
	labels, again, err := optionsOf(base, src, o)
	if err != nil {
		return err
	}
	s := contents.NewSession(o.Jobs, o.Media.Progress, again.Rewriter)
	defer s.Close()
	if v.Findings, err = examine(ctx, s, src, &o.Shim); err != nil {
		return err
	}
	if isFile(base.Path) && isFile(src.Path) {
		return v.file(base.Path, src, o)
	}
	job, err := jobOf(ctx, base, again)
	if err != nil {
		return err
	}
	rebuilt := labels[keyVersion] != ""
	if images && rebuilt {
		v.names(job, labels, o.Version)
	}
	defer job.close()
	err = job.derive(ctx, s)
	switch {
	case err != nil:
	case images:
		err = v.image(job, src, rebuilt)
	case src.Image == nil:
		err = withRootImage(ctx, src, o.Media)
	}
	if err == nil && (!images || len(v.Problems) > 0) {
		err = v.layers(ctx, s, job, src)
	}
	if err == nil && len(v.Problems) == 0 && (rebuilt || !images) {
		v.Compared = len(job.changes.targets)
	}
	return err
}

// optionsOf are the labels of an image, and the options that it was made with; vfix patch has no fallback.
func optionsOf(base, src *source.Source, o VerifyOptions) (labels map[string]string, again RebuildOptions, err error) {
	again.ScanOptions = o.ScanOptions
	if src.Image != nil {
		config, err := src.Image.RawConfigFile()
		if err != nil {
			return nil, again, err
		}
		labels = labelsOf(config)
	}
	again.Version = labels[keyVersion]
	if src.Image != nil || base.Image != nil {
		err = readOptions(labels[keyOptions], &again)
	}
	return labels, again, err
}

// names gives the base the names that it has in the labels: they may be those of another copy of it.
func (v *Verified) names(j *Job, labels map[string]string, version string) {
	if made := labels[keyVersion]; made != version {
		v.skip("made by vfix %s, and this is vfix %s, which may patch in another way", made, version)
	}
	here := j.origin.labels()
	for _, key := range []string{keyBaseDigest, keyBaseName} {
		if labels[key] != here[key] {
			v.skip("label %s: got %q, of the base as it is given here %q", key, labels[key], here[key])
		}
	}
	j.origin.baseName, j.origin.baseDigest = labels[keyBaseName], labels[keyBaseDigest]
}

// image compares the config of an image with that of the derived image, and their indexes. An image that was not rebuilt
// may be the base.
func (v *Verified) image(j *Job, src *source.Source, rebuilt bool) error {
	is, err := src.Image.RawConfigFile()
	want, werr := j.src.Image.RawConfigFile()
	if j.img != nil && (rebuilt || !bytes.Equal(want, is)) {
		want, werr = j.img.RawConfigFile()
		for _, e := range j.changes.extras {
			v.Added = append(v.Added, e.Name)
		}
		slices.Sort(v.Added)
	}
	if err := errors.Join(err, werr); err != nil {
		return err
	}
	v.members("image config", parsed(want), parsed(is))
	return v.index(j.src, src)
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
	if t, err := src.Index.MediaType(); err == nil && t == types.OCIImageIndex { // as a layout has it
		if want, err = source.OCIIndex(want); err != nil {
			return err
		}
	}
	wanted, err := want.RawManifest()
	got, gerr := src.Index.RawManifest()
	if err := errors.Join(err, gerr); err != nil {
		return err
	}
	v.members("index", parsed(wanted), parsed(got))
	return nil
}

// layers names the paths that differ.
func (v *Verified) layers(ctx context.Context, s *contents.Session, j *Job, src *source.Source) error {
	derived := j.img
	if derived == nil {
		derived = j.src.Image
	}
	want, err := facts(ctx, s, derived)
	if err != nil {
		return err
	}
	got, err := facts(ctx, s, src.Image)
	v.members("", want, got)
	return err
}

// isFile reports whether a path is a file, and no tarball.
func isFile(path string) bool {
	fi, err := os.Stat(path)
	tarball, _ := source.IsTarball(path)
	return err == nil && fi.Mode().IsRegular() && !tarball
}

// file compares two ELF files.
func (v *Verified) file(base string, src *source.Source, o VerifyOptions) error {
	before, was, err := blob.OpenRegular(base)
	if err != nil {
		return err
	}
	defer before.Close()
	after, is, err := blob.OpenRegular(src.Path)
	if err != nil {
		return err
	}
	defer after.Close()
	options := o.Rewriter
	options.Dormant = contents.LosesVDSO(before)
	proved, err := patch.Verify(before, was, after, is, options)
	switch {
	case err != nil:
		v.problem("%s: %v", src.Title(), err)
	case len(proved.Changed) > 0:
		v.Compared++
	}
	return nil
}
