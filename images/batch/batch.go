// Many images in one run: shared layers are read once and sent once, an image that fails does
// not stop the others, and finished work is remembered.

package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/outcome"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/rewriter/patch"
)

// Options are the choices of vfix rebuild --from-file. Dest and Tag of RebuildOptions
// are ignored: the list and its template name each image's destination.
type Options struct {
	images.RebuildOptions
	AtOnce   int           // images at once; 0 is one per processor, at most maxImagesAtOnce
	State    string        // file that remembers what was done, or a directory of such files; "" for none
	FailFast bool          // the first failure ends the run
	Limit    time.Duration // how long one image may take; 0 for no limit
	// Each gets every image when it is finished. It is called by one goroutine at a time;
	// an error ends the run.
	Each func(outcome.Image) error
}

// maxImagesAtOnce limits the default number of images in parallel: more would only wait for
// the layers that are being read.
const maxImagesAtOnce = contents.MaxLayersAtOnce

// Batch counts what became of the images of a list.
type Batch struct {
	Of       map[outcome.Status]int
	Before   int // done by an earlier run
	LeftOver int // remaining call sites of all images that no fallback covers
	Open     int // images that have such
	Unread   int // images with files that could not be examined
	Hazards  int // images that have hazards
	Retries  int // requests to registries that were sent again
}

// All is how many images there are.
func (b *Batch) All() int {
	n := 0
	for _, of := range b.Of {
		n += of
	}
	return n
}

// Report counts an outcome and hands it to Each.
func (o *Options) Report(b *Batch, out outcome.Image) error {
	b.Of[out.Status]++
	if out.Before {
		b.Before++
	}
	if out.LeftOver > 0 {
		b.LeftOver += out.LeftOver
		b.Open++
	}
	if out.Unread > 0 {
		b.Unread++
	}
	if len(out.Hazards) > 0 {
		b.Hazards++
	}
	if o.Each == nil {
		return nil
	}
	return o.Each(out)
}

// batch is one run over a list.
type batch struct {
	o     Options
	list  *List
	verb  string // "" for rebuild
	s     *contents.Session
	state *state

	mu     sync.Mutex
	sums   *Batch
	claims claims
	shut   map[string]int // images that a registry refused, one after the other
}

// errFailFast ends a run after the first failure.
var errFailFast = errors.New("stopped after the first failure")

// Rebuild rebuilds the images of a list. The error is of the run itself: a list or state file
// that cannot be used, a registry that refuses everything, or the end of ctx; Batch then counts
// the outcomes so far.
func Rebuild(ctx context.Context, list *List, o Options) (*Batch, error) {
	return (&batch{o: o, list: list}).all(ctx)
}

func (b *batch) all(ctx context.Context) (*Batch, error) {
	o, list := b.o, b.list
	if o.Media.Meter == nil {
		o.Media.Meter = &registry.Meter{}
	}
	o.Media = o.Media.WithDefaults()
	if o.AtOnce <= 0 {
		o.AtOnce = min(runtime.NumCPU(), maxImagesAtOnce)
	}
	b.o, b.claims, b.shut = o, claims{}, map[string]int{}
	b.sums = &Batch{Of: map[outcome.Status]int{outcome.NotRun: list.Count()}}
	if o.State != "" {
		var err error
		if b.state, err = openState(ctx, o.State, list.o.Part, o.Media.Progress); err != nil {
			return nil, err
		}
		defer b.state.Close()
	}
	b.s = contents.NewSession(o.Jobs, o.Media.Progress, o.Rewriter)
	defer b.s.Close()
	err := b.run(ctx)
	if errors.Is(err, errFailFast) {
		err = nil
	}
	b.sums.Retries = int(o.Media.Meter.Total().Retries)
	return b.sums, err
}

// run works at several images at once.
func (b *batch) run(parent context.Context) error {
	g, ctx := errgroup.WithContext(parent)
	g.SetLimit(b.o.AtOnce)
	err := b.list.inTurn(func(i outcome.Item) error {
		if ctx.Err() == nil {
			g.Go(func() error { return b.finish(ctx, b.one(ctx, i)) })
		}
		return context.Cause(ctx)
	})
	return cmp.Or(g.Wait(), err, context.Cause(parent))
}

// finish notes an outcome; an error ends the run.
func (b *batch) finish(ctx context.Context, out outcome.Image) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if out.Status == outcome.Failed && ctx.Err() != nil {
		return nil // it was the end of the run that ended it
	}
	if b.state != nil && !out.Before && !b.o.DryRun {
		if err := b.state.add(out, b.verb, b.fingerprint()); err != nil {
			return hinterr.With(fmt.Errorf("state file %s: %w", b.state.path, err),
				"free some space on its file system, then run the command again to resume")
		}
	}
	b.sums.Of[outcome.NotRun]--
	if err := b.o.Report(b.sums, out); err != nil {
		return err
	}
	if err := b.refused(out); err != nil {
		return err
	}
	if out.Status == outcome.Failed && b.o.FailFast {
		return errFailFast
	}
	return nil
}

// maxRefused is how many images in a row a registry may refuse before the run assumes that it
// refuses the next ones as well.
const maxRefused = 20

// refused counts the images that a registry refuses; the error ends the run.
func (b *batch) refused(out outcome.Image) error {
	ref, err := media.ParseRef(out.Source)
	if err != nil || ref.Transport != media.Registry {
		return nil
	}
	host, _, _ := strings.Cut(ref.Name, "/")
	if !errors.Is(out.Err, hinterr.ErrUnauthorized) {
		b.shut[host] = 0
		return nil
	}
	if b.shut[host]++; b.shut[host] < maxRefused {
		return nil
	}
	return hinterr.With(fmt.Errorf("registry %s: it refused the last %d images", host, maxRefused),
		"docker login %s, then run the command again: with --state it goes on with what is not done", host)
}

// one rebuilds or scans one image. An error is its outcome.
func (b *batch) one(ctx context.Context, i outcome.Item) outcome.Image {
	out := outcome.Image{Item: i}
	if b.o.Limit > 0 {
		late := hinterr.With(fmt.Errorf("%s: not finished within %v", i.Source, b.o.Limit), "run the command again to retry, or give it more time with --timeout")
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, b.o.Limit, late)
		defer cancel()
	}
	err := b.work(ctx, &out)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = context.Cause(ctx)
	}
	if err != nil {
		out.Status, out.Err, out.Reference = outcome.Failed, err, ""
	}
	return out
}

func (b *batch) work(ctx context.Context, out *outcome.Image) error {
	digest, held, err := b.held(ctx, out)
	if held || err != nil {
		return err
	}
	src, err := sources.Open(ctx, out.Source, b.o.Media)
	if err != nil {
		return err
	}
	defer src.Close()
	out.BaseDigest = src.Digest
	if out.Dest, err = b.dest(*out, src.Ref); err != nil {
		return err
	}
	if src.Digest != digest {
		if held, err := b.before(ctx, out); held || err != nil {
			return err
		}
	}
	if b.verb == scanVerb {
		return b.scan(ctx, out, src)
	}
	o := b.o.RebuildOptions
	o.Dest = out.Dest
	r, err := images.RebuildSource(ctx, b.s, src, o)
	if err != nil {
		return err
	}
	take(out, r)
	return nil
}

// held is before for an image of a registry, without opening it: an unchanged image costs one
// HEAD for itself and one for its result. digest is the one that the
// registry gave it, "" if it was not queried.
func (b *batch) held(ctx context.Context, out *outcome.Image) (digest string, held bool, err error) {
	ref, err := media.ParseRef(out.Source)
	if err != nil || ref.Transport != media.Registry {
		return "", false, err
	}
	if out.Dest, err = b.dest(*out, ref); err != nil || b.state == nil {
		return "", false, err
	}
	if _, ok, err := b.state.find(b.key(out.Item), b.fingerprint()); !ok {
		return "", false, err
	}
	if digest, err = media.RegistryDigest(ctx, ref, b.o.Media); err != nil {
		return "", false, err
	}
	try := *out
	try.BaseDigest = digest
	if held, err = b.before(ctx, &try); held {
		*out = try
	}
	return digest, held, err
}

// before reports whether an earlier run did an image, of the same base with the same options, and
// its result is still there; out becomes what it was then. A failure is tried again, and so is what
// has no digest to compare, and what went to a place that was not noted.
func (b *batch) before(ctx context.Context, out *outcome.Image) (bool, error) {
	if b.state == nil {
		return false, nil
	}
	l, ok, err := b.state.find(b.key(out.Item), b.fingerprint())
	if !ok || err != nil || l.BaseDigest != out.BaseDigest || l.Stored == "" && (l.Status == outcome.Done || l.Dest != "") {
		return false, err
	}
	if l.Stored != "" {
		if ok, err := sources.Holds(ctx, l.Stored, l.Digest, b.o.Media); !ok || err != nil {
			return false, err
		}
	}
	item := out.Item
	*out = l.Image
	out.Item, out.Before, out.Stored, out.Unread = item, true, l.Stored, l.Unread
	return true, nil
}

// dest returns where an image goes, after a check that no other one goes there; a scan has no destination.
func (b *batch) dest(out outcome.Image, ref media.Ref) (string, error) {
	if b.verb == scanVerb {
		return "", nil
	}
	dest := out.Dest
	if dest == "" && b.list.o.Template != "" {
		var err error
		if dest, err = fillTemplate(b.list.o.Template, ref); err != nil {
			return "", err
		}
	}
	if dest == "" {
		return "", nil
	}
	key, err := destKey(dest)
	if err != nil {
		return "", err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	other, taken, err := b.list.goesTo(key, out.Item, b.claims)
	if err != nil {
		return "", err
	}
	if taken {
		return "", hinterr.With(fmt.Errorf("%s: duplicate destination: line %d (%s) already writes there", dest, other.Line, other.Source),
			"name another DEST behind one of the two in the list")
	}
	return dest, nil
}

func take(o *outcome.Image, r *images.Rebuilt) {
	o.Status = outcome.Done
	if r.Unchanged {
		o.Status = outcome.Unaffected
	}
	o.Stored, o.Reference, o.Digest, o.LayerSize, o.Warnings = r.Stored, r.Reference, r.Digest, r.LayerSize, slices.Clone(r.Warnings)
	unread(o, r.Findings)
	for _, f := range r.Findings.All() {
		o.LeftOver += f.Uncovered()
		files(o, f)
		for i := range f.Files {
			for _, p := range f.Files[i].Plan.Patches {
				if p.Form != patch.Left {
					o.Patched++
				}
			}
		}
	}
}

// unread notes what could not be examined: an image of which only that is known is not unaffected.
func unread(o *outcome.Image, all *contents.Findings) {
	for _, f := range all.All() {
		if f.Complete() {
			continue
		}
		o.Unread += max(f.Unread(), 1)
		o.Warnings = append(o.Warnings, f.IncompleteText())
	}
	if o.Unread > 0 && o.Status == outcome.Unaffected {
		o.Status = outcome.Incomplete
	}
}

// files counts the files that were found, and notes what else ends the programs of an image.
func files(o *outcome.Image, f *contents.Findings) {
	o.Files += len(f.Files)
	for i := range f.Files {
		if f.Files[i].Plan.Redirected() {
			o.Fixed++
		}
	}
	for _, h := range f.Hazards {
		if kind := string(h.Kind); !slices.Contains(o.Hazards, kind) {
			o.Hazards = append(o.Hazards, kind)
		}
	}
}

// key identifies an image in state files.
func (b *batch) key(i outcome.Item) stateKey { return stateKey{b.verb, i.Source, i.Dest} }

// fingerprint shows whether an earlier run would have made the same of the same base.
func (b *batch) fingerprint() string {
	o := &b.o
	fix := ""
	for _, r := range o.Rewriter.Fixes {
		fix += " fix " + string(r)
	}
	if b.verb == scanVerb {
		return fmt.Sprintf("%s %s %s %v", b.verb, o.Version, o.Media.Platform.String(), o.Media.EveryLevel) + fix
	}
	return fix + fmt.Sprintf("%s %s %s %v %s %v %s %s %v", o.Version, o.Fallback, o.Provenance, false, o.Suffix, o.Push, b.list.o.Template, o.Media.Platform.String(), o.Media.EveryLevel)
}
