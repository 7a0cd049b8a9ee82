// Many images in one run: what they share is read once and sent once, one that fails does
// not stop the others, and what was done is remembered.

package batch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/rewriter"
)

// Options are the choices of vfix rebuild --from-file. Of RebuildOptions Dest and Tag
// mean nothing: Template and the list say where each image goes.
type Options struct {
	images.RebuildOptions
	// Template makes the DEST of an image that the list has none for (see Template); ""
	// is what a rebuild of it alone would do.
	Template string
	AtOnce   int    // images at once; 0 is one per processor, at most maxImagesAtOnce
	Part     Part   // of the list that is worked at
	State    string // file that remembers what was done, or a directory of such files; "" for none
	FailFast bool   // the first failure ends the run
	// Each is told of every image when it is finished. It is called by one goroutine at a time.
	Each func(Outcome)
}

// maxImagesAtOnce is how many images are worked at when nobody says how many: more would
// only wait for the layers that are read at once.
const maxImagesAtOnce = contents.MaxLayersAtOnce

// Status is what became of an image.
type Status string

// The statuses.
const (
	StatusDone       Status = "done"       // a derived image was written, or would be
	StatusUnaffected Status = "unaffected" // nothing to do
	StatusFailed     Status = "failed"
	StatusNotRun     Status = "not run" // the run ended before
)

// Outcome is what became of one image of a list.
type Outcome struct {
	Item
	Status Status
	// Before says that an earlier run with the same state file did it.
	Before    bool
	Reference string // as Rebuilt
	Digest    string
	// BaseDigest is what the source called the image when it was read.
	BaseDigest string
	Files      int // files with references to the page
	Patched    int // call sites
	LeftOver   int // call sites that stay and no fallback covers
	LayerSize  int64
	Warnings   []string
	Err        error // of StatusFailed

	stored string // images.Rebuilt.Stored
}

// Batch is the outcomes in the order of the list.
type Batch struct{ Outcomes []Outcome }

// Count counts the images with a status.
func (b *Batch) Count(s Status) int {
	n := 0
	for _, o := range b.Outcomes {
		if o.Status == s {
			n++
		}
	}
	return n
}

// batch is one run of RebuildAll.
type batch struct {
	o     Options
	s     *contents.Session
	state *state

	mu    sync.Mutex
	out   []Outcome
	dests map[string]Item // who goes where
	taken map[int]Item    // lines, also of other parts, whose DEST the line has, by line
	shut  map[string]int  // images that a registry refused, one after the other
}

// errFailFast ends a run after the first failure.
var errFailFast = errors.New("stopped after the first failure")

// Rebuild rebuilds the images of a part of a list, of which items are all. The error is of the run
// itself: a list or state file that cannot be used, a registry that refuses everything, or the end
// of ctx; what became of the images until then is in Batch.
func Rebuild(ctx context.Context, items []Item, o Options) (*Batch, error) {
	o.Media = o.Media.WithDefaults()
	if o.AtOnce <= 0 {
		o.AtOnce = min(runtime.NumCPU(), maxImagesAtOnce)
	}
	b := &batch{o: o, dests: map[string]Item{}, taken: taken(items, o.Template), shut: map[string]int{}}
	for _, i := range items {
		if o.Part.has(i) {
			b.out = append(b.out, Outcome{Item: i, Status: StatusNotRun})
		}
	}
	if o.State != "" {
		var err error
		if b.state, err = openState(ctx, o.State, o.Part, o.Media.Progress); err != nil {
			return nil, err
		}
		defer b.state.Close()
	}
	b.s = images.RebuildSession(o.RebuildOptions)
	defer b.s.Close()
	err := b.run(ctx)
	if errors.Is(err, errFailFast) {
		err = nil
	}
	return &Batch{b.out}, err
}

// run works at several images at once, in the order of the list.
func (b *batch) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(b.o.AtOnce, len(b.out)) {
		wg.Go(func() {
			for n := range next {
				if err := b.finish(ctx, n, b.one(ctx, b.out[n].Item)); err != nil {
					cancel(err)
				}
			}
		})
	}
	for n := range b.out {
		select {
		case next <- n:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}

// finish notes an outcome; an error ends the run.
func (b *batch) finish(ctx context.Context, n int, out Outcome) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if out.Status == StatusFailed && ctx.Err() != nil {
		return nil // it was the end of the run that ended it
	}
	b.out[n] = out
	if b.state != nil && !out.Before && !b.o.DryRun {
		if err := b.state.add(out, b.o.fingerprint()); err != nil {
			return fmt.Errorf("state file %s: %w", b.o.State, err)
		}
	}
	if b.o.Each != nil {
		b.o.Each(out)
	}
	if err := b.refused(out); err != nil {
		return err
	}
	if out.Status == StatusFailed && b.o.FailFast {
		return errFailFast
	}
	return nil
}

// maxRefused is how many images of a registry may be refused, one after the other, before it is
// taken for granted that the next ones would be.
const maxRefused = 20

// refused counts what a registry refuses; the error ends the run.
func (b *batch) refused(out Outcome) error {
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

// one rebuilds one image. What goes wrong is its outcome.
func (b *batch) one(ctx context.Context, i Item) Outcome {
	out := Outcome{Item: i}
	err := b.rebuild(ctx, &out)
	if err != nil {
		out.Status, out.Err, out.Reference = StatusFailed, err, ""
	}
	return out
}

func (b *batch) rebuild(ctx context.Context, out *Outcome) error {
	asked, held, err := b.held(ctx, out)
	if held || err != nil {
		return err
	}
	src, err := sources.Open(ctx, out.Source, b.o.Media)
	if err != nil {
		return err
	}
	defer src.Close()
	out.BaseDigest = src.Digest
	o := b.o.RebuildOptions
	if o.Dest, err = b.dest(*out, src.Ref); err != nil {
		return err
	}
	out.Dest = o.Dest
	if src.Digest != asked {
		if held, err := b.before(ctx, out); held || err != nil {
			return err
		}
	}
	r, err := images.RebuildSource(ctx, b.s, src, o)
	if err != nil {
		return err
	}
	out.take(r)
	return nil
}

// held is before for an image of a registry, which is not opened for it: an image that did not
// change since costs one HEAD there and one where its result is. asked is the digest that the
// registry gave it, "" where it was not asked.
func (b *batch) held(ctx context.Context, out *Outcome) (asked string, held bool, err error) {
	ref, err := media.ParseRef(out.Source)
	if err != nil || b.state == nil || ref.Transport != media.Registry {
		return "", false, err
	}
	try := *out
	if try.Dest, err = b.dest(try, ref); err != nil {
		return "", false, err
	}
	if !b.state.knows(try, b.o.fingerprint()) {
		return "", false, nil
	}
	if asked, err = media.RegistryDigest(ctx, ref, b.o.Media); err != nil {
		return "", false, err
	}
	try.BaseDigest = asked
	if held, err = b.before(ctx, &try); held {
		*out = try
	}
	return asked, held, err
}

// before reports whether an earlier run did an image, of the same base with the same options, and
// its result is still there; out becomes what it was then.
func (b *batch) before(ctx context.Context, out *Outcome) (bool, error) {
	l, ok := b.state.done(*out, b.o.fingerprint())
	if !ok {
		return false, nil
	}
	if l.stored != "" {
		if ok, err := sources.Holds(ctx, l.stored, l.Digest, b.o.Media); !ok || err != nil {
			return false, err
		}
	}
	*out = l
	return true, nil
}

// dest says where an image goes, and that no other one goes there.
func (b *batch) dest(out Outcome, ref media.Ref) (string, error) {
	dest := out.Dest
	if dest == "" && b.o.Template != "" {
		var err error
		if dest, err = fillTemplate(b.o.Template, ref); err != nil {
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
	other, taken := b.taken[out.Line]
	if !taken {
		if other, taken = b.dests[key]; other.Line == out.Line {
			taken = false
		}
	}
	if taken {
		return "", hinterr.With(fmt.Errorf("%s: line %d, %s, goes there, too", dest, other.Line, other.Source),
			"name another DEST behind one of the two in the list")
	}
	b.dests[key] = out.Item
	return dest, nil
}

// take fills in what a rebuild did.
func (o *Outcome) take(r *images.Rebuilt) {
	o.Status = StatusDone
	if r.Unchanged {
		o.Status = StatusUnaffected
	}
	o.stored, o.Reference, o.Digest, o.LayerSize, o.Warnings = r.Stored, r.Reference, r.Digest, r.LayerSize, r.Warnings
	for _, f := range r.Findings.All() {
		o.Files, o.LeftOver = o.Files+len(f.Files), o.LeftOver+f.Uncovered()
		for i := range f.Files {
			for _, p := range f.Files[i].Plan.Patches {
				if p.Form != rewriter.Left {
					o.Patched++
				}
			}
		}
	}
}

// fingerprint tells whether an earlier run would have made the same of the same base.
func (o *Options) fingerprint() string {
	return fmt.Sprintf("%s %s %s %v %s %v %s %s %v", o.Version, o.Fallback, o.Provenance, o.UpdateDpkg, o.Suffix, o.Push, o.Template, o.Media.Platform.String(), o.Media.EveryLevel)
}
