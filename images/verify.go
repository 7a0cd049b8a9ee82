package images

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/rewriter"
)

// subject is a source whose file system is compared.
type subject struct {
	src *Source
	t   *merged
	f   *found
	// fetch makes the contents of files readable; what it returns lasts as long as the
	// session.
	fetch func(context.Context, []*inode) (map[*inode]*io.SectionReader, error)
	close func()
}

// verification is one run of Verify against a base.
type verification struct {
	s           *session
	shim        *Shim
	base, after *subject
	out         *Verified
	added       []added // what only the source has
}

func (v *verification) problem(format string, args ...any) {
	v.out.Problems = append(v.out.Problems, fmt.Sprintf(format, args...))
}

// run compares everything. What differs is a problem; an error is of reading alone.
func (v *verification) run(ctx context.Context) error {
	if v.base.src.Image != nil && v.after.src.Image != nil {
		if err := v.configs(); err != nil {
			return err
		}
		v.layers()
	}
	if v.after.src.Image != nil {
		if err := v.shim.findFallback(ctx, v.after.src.Image, v.after.t, v.after.f.Findings, v.after.fetch); err != nil {
			return err
		}
	}
	changed, err := v.fallback(ctx, v.names())
	if err != nil {
		return err
	}
	return v.contents(ctx, changed)
}

// layers compares which layers there are: the base's come first. A SIF file has one
// squashfs, which is made anew: what is in it is compared, as it is for every image.
func (v *verification) layers() {
	if v.base.src.Ref.Transport == SIF && v.after.src.Ref.Transport == SIF {
		return
	}
	base, after := v.base.t.layers, v.after.t.layers
	for i, l := range base {
		if i >= len(after) {
			v.problem("layer %d: missing, want %v", i, l.diffID)
			return
		}
		if after[i].diffID != l.diffID {
			v.problem("layer %d: got %v, want the base's %v", i, after[i].diffID, l.diffID)
			return
		}
	}
}

// configs compares the image configs. The derived one has more history, more diff IDs and
// vfix's own labels, and nothing else that is new.
func (v *verification) configs() error {
	base, err := comparableConfig(v.base.src.Image)
	if err != nil {
		return fmt.Errorf("%v: image config: %w", v.base.src.Ref, err)
	}
	after, err := comparableConfig(v.after.src.Image)
	if err != nil {
		return fmt.Errorf("%v: image config: %w", v.after.src.Ref, err)
	}
	if v.shim.present() {
		unwrap(base, after)
	}
	v.object("image config", base, after)
	return nil
}

// comparableConfig is an image config without what a rebuild adds.
func comparableConfig(img v1.Image) (map[string]any, error) {
	raw, err := img.RawConfigFile()
	if err != nil {
		return nil, err
	}
	var c map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&c); err != nil {
		return nil, err
	}
	if h, ok := c["history"].([]any); ok {
		c["history"] = slices.DeleteFunc(h, func(e any) bool {
			m, _ := e.(map[string]any)
			by, _ := m["created_by"].(string)
			return strings.HasPrefix(by, "vfix ")
		})
	}
	delete(c, "rootfs") // layers compares it
	if o, ok := c["config"].(map[string]any); ok {
		if l, ok := o["Labels"].(map[string]any); ok {
			for k := range (derivation{}).keys() {
				delete(l, k)
			}
		}
	}
	return prune(c).(map[string]any), nil
}

// prune drops members that are null or empty: they mean the same as missing ones.
func prune(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	for k, e := range m {
		e = prune(e)
		m[k] = e
		if r := reflect.ValueOf(e); e == nil || (r.Kind() == reflect.Map || r.Kind() == reflect.Slice) && r.Len() == 0 {
			delete(m, k)
		}
	}
	return m
}

func (v *verification) object(where string, base, after map[string]any) {
	keys := map[string]bool{}
	for k := range base {
		keys[k] = true
	}
	for k := range after {
		keys[k] = true
	}
	for _, k := range sortedKeys(keys) {
		b, a := base[k], after[k]
		bm, _ := b.(map[string]any)
		am, _ := a.(map[string]any)
		switch {
		case bm != nil && am != nil:
			v.object(where+": "+k, bm, am)
		case !reflect.DeepEqual(a, b):
			v.problem("%s: %s: got %v, want %v", where, k, a, b)
		}
	}
}

// pair is a file whose content differs, in both file systems.
type pair struct {
	name        string
	base, after *inode
}

// names compares which names there are, what they are and their metadata. It returns the
// files whose contents differ, each inode once.
func (v *verification) names() []pair {
	base, after := byName(v.base.t), byName(v.after.t)
	firstBase, firstAfter := firstNames(base), firstNames(after)
	var changed []pair
	seen := map[*inode]bool{}
	all := map[string]bool{}
	for n := range base {
		all[n] = true
	}
	for n := range after {
		all[n] = true
	}
	for _, name := range sortedKeys(all) {
		b, a := base[name], after[name]
		switch {
		case a == nil:
			v.problem("%s: missing", name)
			continue
		case b == nil:
			v.added = append(v.added, added{name, a})
			continue
		case a.entry == b.entry:
			continue // of a layer that both have
		case a.kind != b.kind || a.flag != b.flag:
			v.problem("%s: another kind of file", name)
			continue
		case a.link != b.link:
			v.problem("%s: symlink: got %q, want %q", name, a.link, b.link)
		}
		want := &b.meta
		if a.kind == kindFile && a.sum != nil && b.sum != nil && *a.sum != *b.sum {
			want = want.unmarked()
		}
		if d := a.meta.differs(want); d != "" {
			v.problem("%s: %s", name, d)
		}
		if a.kind == kindDir {
			continue
		}
		if ga, gb := firstAfter[a.inode], firstBase[b.inode]; ga != gb {
			v.problem("%s: hard links: got those of %s, want those of %s", name, ga, gb)
		}
		if a.kind != kindFile || seen[a.inode] {
			continue
		}
		seen[a.inode] = true
		switch {
		case a.sum == nil || b.sum == nil:
			v.problem("%s: not compared: larger than %d bytes", name, int64(maxELF))
		case *a.sum != *b.sum:
			changed = append(changed, pair{name, b.inode, a.inode})
		}
	}
	return changed
}

func byName(t *merged) map[string]*node {
	all := map[string]*node{}
	t.walk(func(name string, k *node) { all[name] = k })
	return all
}

// firstNames tells the first name of each inode: two names are hard links of each other
// where it is the same.
func firstNames(names map[string]*node) map[*inode]string {
	first := map[*inode]string{}
	for name, k := range names {
		if f, ok := first[k.inode]; !ok || name < f {
			first[k.inode] = name
		}
	}
	return first
}

// contents has the rewriter prove that each pair differs in call sites only.
func (v *verification) contents(ctx context.Context, changed []pair) error {
	if len(changed) == 0 {
		return nil
	}
	bases := make([]*inode, len(changed))
	afters := make([]*inode, len(changed))
	for i, p := range changed {
		bases[i], afters[i] = p.base, p.after
	}
	before, err := v.base.fetch(ctx, bases)
	if err != nil {
		return err
	}
	after, err := v.after.fetch(ctx, afters)
	if err != nil {
		return err
	}
	changes := newFileChanges(v.base.t)
	var databases []pair
	for _, p := range changed {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, ok := isMD5Sums(p.name); ok {
			databases = append(databases, p)
			continue
		}
		b, a := before[p.base], after[p.after]
		proved, err := rewriter.Verify(b, b.Size(), a, a.Size(), v.s.options)
		if err := v.explain(p.name, proved, err, b, a); err != nil {
			return err
		}
		if err != nil {
			v.problem("%s: %v", p.name, err)
			continue
		}
		v.out.Compared++
		if err := addPair(changes, p, b, a); err != nil {
			return err
		}
	}
	return v.databases(databases, changes, before, after)
}
