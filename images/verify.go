// Verify: its options and result, and the comparison of a source with its base.

package images

import (
	"context"
	"fmt"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/provenance"
	"vfix.dev/vfix/images/records"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/rewriter"
)

// verification is one run of Verify against a base.
type verification struct {
	s           *contents.Session
	shim        *fallback.Shim
	base, after *contents.Subject
	out         *Verified
	added       []added  // what only the source has
	repairs     []string // names of files of repairs among them
	calls       bool     // some changed file differs in a call site
	level       bool     // another image of an index that is compared already
}

func (v *verification) problem(format string, args ...any) {
	v.out.Problems = append(v.out.Problems, fmt.Sprintf(format, args...))
}

// run compares everything. What differs is a problem; an error is of reading alone.
func (v *verification) run(ctx context.Context) error {
	images := v.base.Src.Image != nil && v.after.Src.Image != nil
	same := images && v.layers()
	for _, w := range v.after.T.Others {
		v.skip("what %s show, file by file: it is not what overlay engines show", w.Engines)
	}
	if v.after.Src.Image != nil {
		if err := v.shim.Find(ctx, v.after.Src.Image, v.after.T, v.after.F.Findings, v.after.Fetch); err != nil {
			return err
		}
	}
	changed, err := v.fallback(ctx, v.names())
	if err != nil {
		return err
	}
	if err := v.contents(ctx, changed); err != nil {
		return err
	}
	v.repairsWhole()
	if v.base.Src.Image == nil && v.after.Src.Image == nil {
		return nil // neither has a config
	}
	if !images {
		v.skip("image config and manifest: %v and %v are not both images", v.after.Src.Ref, v.base.Src.Ref)
		return nil
	}
	return v.image(ctx, same)
}

// image compares what an image is beside its file system. sameLayers says that the base's
// layers are the source's first ones.
func (v *verification) image(ctx context.Context, sameLayers bool) error {
	from, config, err := v.config(ctx)
	if err != nil || !sameLayers || v.squashed() {
		return err
	}
	if v.derived() {
		if err := v.layer(ctx); err != nil {
			return err
		}
	}
	if err := v.manifest(ctx, from, config); err != nil {
		return err
	}
	if v.level {
		return nil
	}
	patched := map[string]string{}
	if v.base.Src.Index != nil && v.after.Src.Index != nil {
		for i, b := range append([]*media.Source{v.base.Src}, v.base.Src.Levels...) {
			all := append([]*media.Source{v.after.Src}, v.after.Src.Levels...)
			if i < len(all) && b.Entry.Digest != all[i].Entry.Digest {
				patched[b.Entry.Digest.String()] = all[i].Entry.Digest.String()
			}
		}
	}
	return v.index(patched)
}

// levels compares the images for other levels of x86-64 that both have.
func (v *verification) levels(ctx context.Context) error {
	base, after := v.base.Src.Levels, v.after.Src.Levels
	if len(base) != len(after) {
		v.skip("images for other levels of x86-64: got %d, the base has %d", len(after), len(base))
	}
	for i := range min(len(base), len(after)) {
		if err := v.oneLevel(ctx, base[i], after[i]); err != nil {
			return fmt.Errorf("%s: %w", platformOf(after[i]), err)
		}
	}
	return nil
}

func (v *verification) oneLevel(ctx context.Context, base, after *media.Source) (err error) {
	l := &verification{s: v.s, shim: v.shim, level: true}
	if l.base, err = v.s.OpenSubject(ctx, base); err != nil {
		return err
	}
	defer l.base.Close()
	if l.after, err = v.s.OpenSubject(ctx, after); err != nil {
		return err
	}
	defer l.after.Close()
	l.out = &Verified{Findings: l.after.F.Findings}
	if err := l.run(ctx); err != nil {
		return err
	}
	named := func(to *[]string, lines []string) {
		for _, text := range lines {
			*to = append(*to, platformOf(after)+": "+text)
		}
	}
	named(&v.out.Problems, l.out.Problems)
	named(&v.out.NotCompared, l.out.NotCompared)
	named(&v.out.Added, l.out.Added)
	named(&v.out.Corrected, l.out.Corrected)
	for _, r := range l.out.Repaired {
		v.out.Repaired = append(v.out.Repaired, Repaired{platformOf(after) + ": " + r.Path, r.Repair})
	}
	v.out.Compared += l.out.Compared
	v.out.Differences = append(v.out.Differences, l.out.Differences...)
	v.out.Findings.Platform, l.out.Findings.Platform = platformOf(v.after.Src), platformOf(after)
	v.out.Findings.Levels = append(v.out.Findings.Levels, l.out.Findings)
	return nil
}

// squashed reports whether both are SIF files: one has one squashfs, which is made anew.
func (v *verification) squashed() bool {
	return v.base.Src.Ref.Transport == media.SIF && v.after.Src.Ref.Transport == media.SIF
}

// layers compares which layers there are: the base's, and one more at most. It reports
// whether that is so.
func (v *verification) layers() bool {
	if v.squashed() {
		return true
	}
	base, after := v.base.T.Layers, v.after.T.Layers
	for i, l := range base {
		if i >= len(after) {
			v.problem("layer %d: missing, want %v", i, l.DiffID)
			return false
		}
		if after[i].DiffID != l.DiffID {
			v.problem("layer %d: got %v, want the base's %v", i, after[i].DiffID, l.DiffID)
			return false
		}
	}
	if len(after) > len(base)+1 {
		v.problem("got %d layers, want the %d of the base and one more", len(after), len(base))
		return false
	}
	return true
}

// pair is a file whose content differs, in both file systems.
type pair struct {
	name        string
	base, after *contents.Inode
}

// names compares which names there are, what they are and their metadata. It returns the
// files whose contents differ, each inode once.
func (v *verification) names() []pair {
	after := byName(v.after.T)
	base := v.baseNames(after)
	firstBase, firstAfter := firstNames(base), firstNames(after)
	var changed []pair
	if d := v.after.T.Root.Meta.Differs(&v.base.T.Root.Meta); d != "" {
		v.problem("the root directory: %s", d)
	}
	seen := map[*contents.Inode]bool{}
	all := map[string]bool{}
	for n := range base {
		all[n] = true
	}
	for n := range after {
		all[n] = true
	}
	for _, name := range contents.SortedKeys(all) {
		b, a := base[name], after[name]
		switch {
		case a == nil:
			v.problem("%s: missing", name)
			continue
		case b == nil:
			v.added = append(v.added, added{name, a})
			continue
		case a.Entry == b.Entry:
			continue // of a layer that both have
		case a.Kind != b.Kind || a.Flag != b.Flag:
			v.problem("%s: another kind of file", name)
			continue
		case a.Link != b.Link:
			v.problem("%s: symlink: got %q, want %q", name, a.Link, b.Link)
		}
		want := &b.Meta
		if a.Kind == contents.KindFile && a.Sum != nil && b.Sum != nil && *a.Sum != *b.Sum {
			want = want.Unmarked()
		}
		if d := a.Meta.Differs(want); d != "" {
			v.problem("%s: %s", name, d)
		}
		if a.Kind == contents.KindDir {
			continue
		}
		if ga, gb := firstAfter[a.Inode], firstBase[b.Inode]; ga != gb {
			v.problem("%s: hard links: got those of %s, want those of %s", name, ga, gb)
		}
		if a.Kind != contents.KindFile || seen[a.Inode] {
			continue
		}
		seen[a.Inode] = true
		switch {
		case a.Sum == nil || b.Sum == nil:
			v.problem("%s: not compared: larger than %d bytes", name, int64(contents.MaxELF))
		case *a.Sum != *b.Sum:
			changed = append(changed, pair{name, b.Inode, a.Inode})
		}
	}
	return changed
}

// baseNames are the names of the base, and those of the source under which a rebuild writes files
// of the base for other engines than overlay ones.
func (v *verification) baseNames(after map[string]*contents.Node) map[string]*contents.Node {
	base := byName(v.base.T)
	if len(v.base.T.Others) == 0 {
		return base
	}
	for i, names := range v.base.T.Names() {
		for _, name := range names {
			if base[name] == nil && after[name] != nil {
				base[name] = &contents.Node{Inode: i, Named: i.Layer}
			}
		}
	}
	for name, a := range after {
		if k := v.base.T.Shown(name); base[name] == nil && k != nil && k.Kids != nil && a.Implied {
			base[name] = a
		}
	}
	return base
}

func byName(t *contents.Tree) map[string]*contents.Node {
	all := map[string]*contents.Node{}
	t.Walk(func(name string, k *contents.Node) { all[name] = k })
	return all
}

// firstNames tells the first name of each inode: two names are hard links of each other
// where it is the same.
func firstNames(names map[string]*contents.Node) map[*contents.Inode]string {
	first := map[*contents.Inode]string{}
	for name, k := range names {
		if f, ok := first[k.Inode]; !ok || name < f {
			first[k.Inode] = name
		}
	}
	return first
}

// contents has the rewriter prove that each pair differs in call sites only.
func (v *verification) contents(ctx context.Context, changed []pair) error {
	if len(changed) == 0 {
		return nil
	}
	bases := make([]*contents.Inode, len(changed))
	afters := make([]*contents.Inode, len(changed))
	for i, p := range changed {
		bases[i], afters[i] = p.base, p.after
	}
	before, err := v.base.Fetch(ctx, bases)
	if err != nil {
		return err
	}
	after, err := v.after.Fetch(ctx, afters)
	if err != nil {
		return err
	}
	changes := records.NewFileChanges(v.base.T)
	var databases []pair
	for _, p := range changed {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, ok := records.IsMD5Sums(p.name); ok {
			databases = append(databases, p)
			continue
		}
		b, a := before[p.base], after[p.after]
		proved, err := rewriter.Verify(b, b.Size(), a, a.Size(), v.s.Options)
		if err := v.explain(p.name, proved, err, b, a); err != nil {
			return err
		}
		if err != nil {
			v.problem("%s: %v", p.name, err)
			continue
		}
		v.out.Compared++
		v.repaired(p.name, proved)
		if err := addPair(changes, p, b, a); err != nil {
			return err
		}
	}
	return v.databases(databases, changes, before, after)
}

// VerifyOptions are the choices of vfix verify.
type VerifyOptions struct {
	ScanOptions
	Against string // SOURCE of the base; "" checks the source alone
	// Provenance has the statement about the source found and checked; Statement is the file
	// that it is in, "" for where a rebuild leaves it.
	Provenance bool
	Statement  string
}

// Verified is what verify proved.
type Verified struct {
	Findings *contents.Findings
	// Compared is how many files differ from the base and were proved to differ in call
	// sites only. Problems is one line each for what differs otherwise.
	Compared int
	Problems []string
	// NotCompared is one line each for what was not compared, and why.
	NotCompared []string
	// Added are the files of the fallback that the base does not have, byte for byte those
	// of this vfix; sorted.
	Added []string
	// Repaired are the changed files with a repair beyond call sites.
	Repaired []Repaired
	// Corrected are the package databases that differ only in the records of patched files,
	// as --update-dpkg makes them; sorted.
	Corrected []string
	// Differences are what differs in each changed file, where Rewriter.Explain asks for it.
	Differences []Difference
	// Stated is the statement of provenance, where it was asked for: what is not as it says
	// is among the problems.
	Stated *provenance.Stated
}

// Verify checks that no live call site is left in a SOURCE and, with Against, that it
// differs from that base in patched call sites only.
func Verify(ctx context.Context, source string, o VerifyOptions) (*Verified, error) {
	o.Media = o.Media.WithDefaults()
	src, err := sources.Open(ctx, source, o.Media)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	s := contents.NewSession(o.Jobs, o.Media.Progress, o.Rewriter)
	defer s.Close()
	if o.Against == "" {
		if o.Provenance {
			return verifyStated(ctx, s, src, nil, o)
		}
		f, err := fallback.Covered(ctx, s, src, &o.Shim)
		if err != nil {
			return nil, err
		}
		return &Verified{Findings: f.Findings}, scanLevels(ctx, s, src, f.Findings, &o.Shim)
	}
	s.Sums = true
	baseSrc, err := sources.Open(ctx, o.Against, o.Media)
	if err != nil {
		return nil, err
	}
	defer baseSrc.Close()
	if src.Ref.Transport == media.SIF && baseSrc.Ref.Transport != media.SIF && baseSrc.Image != nil {
		return nil, hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%v: a SIF file has one layer, with Apptainer's files in it: it is only compared with another SIF file", src.Ref),
			"make both of the same image: vfix convert %s -o sif:BASE.sif, then vfix rebuild BASE.sif", o.Against)
	}
	v := &verification{s: s, shim: &o.Shim}
	if v.base, err = s.OpenSubject(ctx, baseSrc); err != nil {
		return nil, err
	}
	defer v.base.Close()
	if v.after, err = s.OpenSubject(ctx, src); err != nil {
		return nil, err
	}
	defer v.after.Close()
	v.out = &Verified{Findings: v.after.F.Findings}
	if err := v.run(ctx); err != nil {
		return v.out, err
	}
	if err := v.levels(ctx); err != nil || !o.Provenance {
		return v.out, err
	}
	stated, err := verifyStated(ctx, s, src, baseSrc, o)
	if err != nil {
		return nil, err
	}
	v.out.Stated = stated.Stated
	v.out.Problems = append(v.out.Problems, stated.Problems...)
	v.out.NotCompared = append(v.out.NotCompared, stated.NotCompared...)
	return v.out, nil
}
