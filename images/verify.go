// Verify: its options and result, and the order of its steps. The expected image is made again
// from its base as a rebuild makes it, and compared byte by byte; only a difference is explained.

package images

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/provenance"
	"vfix.dev/vfix/images/records"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/fixes"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

// VerifyOptions are the choices of vfix verify.
type VerifyOptions struct {
	ScanOptions
	Against string // SOURCE of the base; "" checks the source alone
	// Provenance has the statement about the source found and checked; Statement is the file
	// that it is in, "" for where a rebuild leaves it.
	Provenance bool
	Statement  string
	Version    string // of this vfix
}

// Verified is what verify proved.
type Verified struct {
	Findings *contents.Findings `json:"-"`
	// Compared is how many patched files were proved to differ from the base in call sites
	// only.
	Compared int `json:"compared"`
	// Added are the files of the fallback that the base does not have, byte for byte those
	// of this vfix; sorted.
	Added []string `json:"added"`
	// Corrected are the package databases that differ only in the records of patched files,
	// as --update-dpkg makes them; sorted.
	Corrected []string `json:"corrected"`
	// Fixed are the changed files with a fix beyond call sites.
	Fixed []Fixed `json:"fixed"`
	// Problems is one line each for what differs otherwise, NotCompared for what was not
	// compared, and why.
	Problems    []string `json:"problems"`
	NotCompared []string `json:"not_compared"`
	// Differences are what differs in each changed file, where Rewriter.Explain asks for it.
	Differences []Difference `json:"-"`
	// Stated is the statement of provenance, if it was requested: what is not as it says
	// is among the problems.
	Stated *provenance.Stated `json:"-"`
}

// Verify checks that no live call site is left in a SOURCE and, with Against, that it is what
// vfix makes of that base.
func Verify(ctx context.Context, source string, o VerifyOptions) (*Verified, error) {
	o.Media = o.Media.WithDefaults()
	src, err := sources.Open(ctx, source, o.Media)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	c := &comparison{o: o}
	if o.Provenance {
		if c.stated, err = findStatement(ctx, src, o); err != nil {
			return nil, err
		}
	}
	if o.Against == "" && c.stated == nil {
		s := c.session(false)
		defer s.Close()
		f, err := fallback.Examine(ctx, s, src, &o.Shim)
		if err != nil {
			return nil, err
		}
		return &Verified{Findings: f.Findings}, scanLevels(ctx, s, src, f.Findings, &o.Shim)
	}
	if o.Against == "" {
		return c.pair(ctx, nil, src)
	}
	base, err := sources.Open(ctx, o.Against, o.Media)
	if err != nil {
		return nil, err
	}
	defer base.Close()
	if src.Ref.Transport == media.SIF && base.Ref.Transport != media.SIF && base.Image != nil {
		return nil, hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%v: a SIF file has one layer, with Apptainer's files in it: it is only compared with another SIF file", src.Ref),
			"make both of the same image: vfix convert %s -o sif:BASE.sif, then vfix rebuild BASE.sif", o.Against)
	}
	out, err := c.pair(ctx, base, src)
	if err != nil {
		return nil, err
	}
	if len(base.Levels) != len(src.Levels) {
		out.skip("images for other levels of x86-64: got %d, the base has %d", len(src.Levels), len(base.Levels))
	}
	for i := range min(len(base.Levels), len(src.Levels)) {
		platform := platformOf(src.Levels[i])
		l, err := (&comparison{o: o}).pair(ctx, base.Levels[i], src.Levels[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", platform, err)
		}
		out.level(platformOf(src), platform, l)
	}
	return out, out.index(base, src)
}

// level takes what was proved of another image of the index.
func (v *Verified) level(own, platform string, l *Verified) {
	named := func(to *[]string, lines []string) {
		for _, text := range lines {
			*to = append(*to, platform+": "+text)
		}
	}
	named(&v.Problems, l.Problems)
	named(&v.NotCompared, l.NotCompared)
	named(&v.Added, l.Added)
	named(&v.Corrected, l.Corrected)
	for _, r := range l.Fixed {
		v.Fixed = append(v.Fixed, Fixed{platform + ": " + r.Path, r.Fix})
	}
	v.Compared += l.Compared
	v.Differences = append(v.Differences, l.Differences...)
	v.Findings.Platform, l.Findings.Platform = own, platform
	v.Findings.Levels = append(v.Findings.Levels, l.Findings)
}

// problem notes what differs, skip what is not compared.
func (v *Verified) problem(format string, args ...any) {
	v.Problems = append(v.Problems, fmt.Sprintf(format, args...))
}

func (v *Verified) skip(format string, args ...any) {
	v.NotCompared = append(v.NotCompared, fmt.Sprintf(format, args...))
}

// comparison is that of one source with what vfix makes of its base.
type comparison struct {
	o           VerifyOptions
	stated      *provenance.Stated // nil if it was not requested
	layered     bool               // both are images whose layers are kept
	undone      bool               // the base is the source without its last layer
	stacked     bool               // the source has the base's layers, and one more at most
	base, after *contents.Subject
	bases       *contents.Session    // of the base
	c           *changes             // what vfix makes of the base
	added       *contents.AddedLayer // with the files of that; nil if there is nothing to do
	from        derivation           // the origin according to the source's labels
	said        map[string]bool      // the names of files about which there is a problem
	out         *Verified
}

// session makes the session that examines one side.
func (v *comparison) session(sums bool, fixes ...find.Fix) *contents.Session {
	o := v.o.Rewriter
	o.Fixes = fixes
	s := contents.NewSession(v.o.Jobs, v.o.Media.Progress, o)
	s.Sums, s.Keep = sums, records.IsDpkgRecord
	return s
}

// pair compares a source with what vfix makes of its base. Which options a rebuild had is seen from
// what it added; of fixes, which may add nothing, both are tried. A nil base is the source without
// its last layer.
func (v *comparison) pair(ctx context.Context, base, src *media.Source) (*Verified, error) {
	v.layered = src.Image != nil && (base == nil || base.Image != nil && base.Ref.Transport != media.SIF)
	s := v.session(!v.layered)
	defer s.Close()
	var err error
	if v.after, err = s.OpenSubject(ctx, src); err != nil {
		return nil, err
	}
	defer v.after.Close()
	if src.Image != nil {
		if err := v.o.Shim.Find(ctx, src.Image, v.after.T, v.after.F.Findings); err != nil {
			return nil, err
		}
	}
	if v.undone = base == nil; v.undone {
		if base, err = undone(v.after, v.stated.Statement.Predicate.Derived.Traced); err != nil {
			return nil, err
		}
	}
	var fixed []find.Fix
	for _, r := range find.Fixes {
		if v.after.T.Find(fixes.Of(r).File.Name) != nil {
			fixed = append(fixed, r)
		}
	}
	if err := v.run(ctx, base, s, fixed); err != nil || len(v.out.Problems) == 0 {
		return v.out, err
	}
	out, other := v.out, find.Fixes
	if len(fixed) > 0 {
		other = nil
	}
	if err := v.run(ctx, base, s, other); err == nil && len(v.out.Problems) < len(out.Problems) {
		out = v.out
	}
	return out, nil
}

// run compares everything. A difference is a problem; an error is of reading alone.
func (v *comparison) run(ctx context.Context, base *media.Source, s *contents.Session, fixes []find.Fix) (err error) {
	v.out, v.said, v.added, v.stacked = &Verified{Findings: v.after.F.Findings, Stated: v.stated}, map[string]bool{}, nil, false
	if v.bases = s; len(fixes) > 0 {
		v.bases = v.session(!v.layered, fixes...)
		defer v.bases.Close()
	}
	if v.base, err = v.bases.OpenSubject(ctx, base); err != nil {
		return err
	}
	defer v.base.Close()
	if err := v.again(ctx); err != nil {
		return err
	}
	if v.added != nil {
		defer v.added.Close()
	}
	if err := v.prove(ctx); err != nil {
		return err
	}
	if v.layered {
		err = v.layers(ctx)
	} else {
		err = errors.Join(v.trees(ctx, v.base.T, v.after.T, v.bases), v.archives(ctx))
	}
	if err != nil {
		return err
	}
	wrong := func(name string) bool { return v.said[name] }
	v.out.Added, v.out.Corrected = slices.DeleteFunc(v.out.Added, wrong), slices.DeleteFunc(v.out.Corrected, wrong)
	slices.Sort(v.out.Added)
	slices.Sort(v.out.Corrected)
	if err := v.image(); err != nil {
		return err
	}
	if v.stated != nil {
		if err := v.statement(); err != nil {
			return err
		}
	}
	if made := v.from.Version; len(v.out.Problems) > 0 && v.o.Version != "" && made != "" && made != v.o.Version {
		v.out.problem("made by vfix %s, and this is vfix %s, which may patch in another way: verify it with vfix %s", made, v.o.Version, made)
	}
	return nil
}

// again repeats the changes that vfix makes to the base.
func (v *comparison) again(ctx context.Context) (err error) {
	if v.c, err = v.chosen(ctx); err != nil {
		return err
	}
	fresh := false
	v.after.T.Walk(func(name string, k *contents.Node) {
		fresh = fresh || records.IsDpkgRecord(name, k.Size) && v.fresh(name)
	})
	if fresh {
		_, corrected, err := records.DpkgRecords(ctx, v.base, v.c.targets)
		if err != nil {
			return err
		}
		v.c.extras = append(v.c.extras, corrected...)
	}
	if v.c.none() {
		return nil
	}
	for _, e := range v.c.extras {
		switch {
		case e.Was != nil:
			v.out.Corrected = append(v.out.Corrected, e.Name)
		case slices.Contains(v.o.Shim.Names(), e.Name):
			v.out.Added = append(v.out.Added, e.Name)
		}
	}
	v.added, err = v.bases.NewLayer(ctx, v.base.T, v.c.targets, v.c.extras)
	return err
}

// chosen are the changes under that choice of --fallback with which the source has just those of
// its files that the base does not have.
func (v *comparison) chosen(ctx context.Context) (*changes, error) {
	modes := []fallback.Mode{fallback.FallbackAuto, fallback.FallbackAlways, fallback.FallbackNever}
	if !v.o.Shim.Present() {
		modes = modes[2:]
	}
	var first *changes
	var failed error
	for _, mode := range modes {
		c, err := findChanges(ctx, v.base, &v.o.Shim, mode)
		if err != nil {
			failed = err
			continue
		}
		if v.fits(c) {
			return c, nil
		}
		if first == nil {
			first = c
		}
	}
	if first == nil {
		return nil, failed
	}
	return first, nil
}

func (v *comparison) fits(c *changes) bool {
	if v.layered && v.traced() != c.traced {
		return false
	}
	extras := map[string]bool{}
	for _, e := range c.extras {
		extras[e.Name] = true
	}
	for _, name := range v.o.Shim.Names() {
		if v.fresh(name) != extras[name] {
			return false
		}
	}
	return true
}

// traced reports whether the source runs under vfix-trace, other than its base.
func (v *comparison) traced() bool {
	after, _ := v.after.Src.Image.RawConfigFile() // an error comes when it is compared
	base, _ := v.base.Src.Image.RawConfigFile()
	return fallback.EntrypointIsTraced(after) && !fallback.EntrypointIsTraced(base)
}

// fresh reports whether the source has a file of this name, other than the base.
func (v *comparison) fresh(name string) bool {
	a, b := v.after.T.At(name), v.base.T.At(name)
	switch {
	case a == nil:
		return false
	case v.layered:
		return a.Layer >= len(v.base.T.Layers)
	}
	return b == nil || a.Kind != b.Kind || a.Link != b.Link || a.Sum != nil && b.Sum != nil && *a.Sum != *b.Sum
}

// prove makes the rewriter prove from the bytes that each patched file differs from the base's in call
// sites only.
func (v *comparison) prove(ctx context.Context) error {
	var there []*contents.Inode
	var targets []contents.Target
	for _, h := range v.c.targets {
		if k := v.after.T.At(h.Names[0]); k != nil && k.Kind == contents.KindFile && (v.fresh(h.Names[0]) || !v.layered) {
			there, targets = append(there, k.Inode), append(targets, h)
		}
	}
	if len(there) == 0 {
		return nil
	}
	got, err := v.after.T.Fetch(ctx, there)
	if err != nil {
		return err
	}
	for i, h := range targets {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		name, before, after := h.Names[0], h.ELF.Content, got[there[i]]
		proved, err := patch.Verify(before, before.Size(), after, after.Size(), v.bases.Options)
		if err := v.explain(name, proved, err, before, after); err != nil {
			return err
		}
		if err != nil {
			v.differs(name, "%v", err)
			continue
		}
		v.out.Compared++
		if d := proved.Redirect; d != nil {
			v.out.Fixed = append(v.out.Fixed, Fixed{name, d.Fix})
		}
	}
	return nil
}

// differs notes a problem of a file, which is then not reported again.
func (v *comparison) differs(name, format string, args ...any) {
	v.said[name] = true
	v.out.problem("%s: %s", name, fmt.Sprintf(format, args...))
}

// layers compares the layers with the base's and the one that vfix adds. Under other layers, or more of them, the
// file systems are compared.
func (v *comparison) layers(ctx context.Context) error {
	base, after := v.base.T.Layers, v.after.T.Layers
	n := 0
	for n < min(len(base), len(after)) && base[n].DiffID == after[n].DiffID {
		n++
	}
	v.stacked = n == len(base) && len(after) <= n+1
	switch more := len(after) > len(base); {
	case v.stacked && v.added == nil && !more, v.stacked && v.added != nil && more && after[n].DiffID == v.added.PlainDigest:
		return nil
	case v.stacked && more:
		return v.layer(ctx)
	case v.stacked:
		v.out.problem("added layer: missing, want %v", v.added.PlainDigest)
		return nil
	case n == len(base):
		v.out.problem("got %d layers, want the %d of the base and one more", len(after), n)
	case n == len(after):
		v.out.problem("layer %d: missing, want %v", n, base[n].DiffID)
	default:
		v.out.problem("layer %d: got %v, want the base's %v", n, after[n].DiffID, base[n].DiffID)
	}
	s := v.session(true) // what layers hold was read without the sums of files
	defer s.Close()
	want, err := s.Image(ctx, v.base.Src.Image)
	if err != nil {
		return err
	}
	got, err := s.Image(ctx, v.after.Src.Image)
	if err != nil {
		return err
	}
	return v.trees(ctx, want, got, s)
}

// derived reports whether the source has the layer more that it should have.
func (v *comparison) derived() bool {
	return v.added != nil && len(v.after.T.Layers) == len(v.base.T.Layers)+1
}

// image compares all of an image except its file system.
func (v *comparison) image() error {
	switch base, after := v.base.Src.Image, v.after.Src.Image; {
	case base == nil && after == nil:
		return nil // neither has a config
	case base == nil || after == nil:
		v.out.skip("image config and manifest: %v and %v are not both images", v.after.Src.Ref, v.base.Src.Ref)
		return nil
	}
	config, err := v.config()
	if err != nil || !v.stacked || v.undone {
		return err
	}
	return v.manifest(config)
}
