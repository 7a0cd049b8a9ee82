// Many images in one run: what they share is read once and sent once, one that fails does
// not stop the others, and what was done is remembered.

package batch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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
	State    string // file that remembers what was done, "" for none
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
}

// errFailFast ends a run after the first failure.
var errFailFast = errors.New("stopped after the first failure")

// RebuildAll rebuilds many images. The error is of the run itself: a list or state file
// that cannot be used, or the end of ctx; what became of the images until then is in Batch.
func Rebuild(ctx context.Context, items []Item, o Options) (*Batch, error) {
	o.Media = o.Media.WithDefaults()
	if o.AtOnce <= 0 {
		o.AtOnce = min(runtime.NumCPU(), maxImagesAtOnce)
	}
	b := &batch{o: o, out: make([]Outcome, len(items)), dests: map[string]Item{}}
	for n, i := range items {
		b.out[n] = Outcome{Item: i, Status: StatusNotRun}
	}
	if o.State != "" {
		var err error
		if b.state, err = openState(ctx, o.State, o.Media.Progress); err != nil {
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
	if out.Status == StatusFailed && b.o.FailFast {
		return errFailFast
	}
	return nil
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
	if before, ok := b.state.done(*out, b.o.fingerprint()); ok {
		*out = before
		return nil
	}
	r, err := images.RebuildSource(ctx, b.s, src, o)
	if err != nil {
		return err
	}
	out.take(r)
	return nil
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
	r, err := media.ParseRef(dest)
	if err != nil {
		return "", err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if other, taken := b.dests[r.String()]; taken && other.Line != out.Line {
		return "", hinterr.With(fmt.Errorf("%s: line %d, %s, goes there, too", dest, other.Line, other.Source),
			"name another DEST behind one of the two in the list")
	}
	b.dests[r.String()] = out.Item
	return dest, nil
}

// take fills in what a rebuild did.
func (o *Outcome) take(r *images.Rebuilt) {
	o.Status = StatusDone
	if r.Unchanged {
		o.Status = StatusUnaffected
	}
	o.Reference, o.Digest, o.LayerSize, o.Warnings = r.Reference, r.Digest, r.LayerSize, r.Warnings
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
