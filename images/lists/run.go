// The loop over the images of a list.

package lists

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/source"
)

// Status is what became of an image.
type Status string

// The statuses.
const (
	Done       Status = "done"       // a derived image was written, or would be
	Unaffected Status = "unaffected" // nothing to do
	Affected   Status = "affected"   // there are call sites; a rebuild can change nothing about them
	Incomplete Status = "incomplete" // no call site, but part of it could not be examined
	Failed     Status = "failed"
	NotRun     Status = "not run" // the run ended before
)

// Statuses are all of them, in the order of reports.
var Statuses = []Status{Failed, Incomplete, Affected, Done, Unaffected, NotRun}

// Image is a line of a list and what became of it.
type Image struct {
	Item
	Status Status `json:"status"`
	// Before reports that an earlier run did it.
	Before     bool     `json:"before"`
	Reference  string   `json:"reference"` // as images.Rebuilt
	Digest     string   `json:"digest"`
	BaseDigest string   `json:"base_digest"` // what the source called the image when it was read
	Files      int      `json:"files"`       // with references to the page
	Patched    int      `json:"patched"`     // call sites
	LeftOver   int      `json:"left_over"`   // call sites that stay and no fallback covers
	Fixed      int      `json:"fixed"`       // files with a fix besides; of a scan: that can have one
	LayerSize  int64    `json:"layer_size"`  // bytes
	Hazards    []string `json:"hazards"`     // their kinds, each once
	Warnings   []string `json:"warnings"`
	Error      string   `json:"error"` // Err for people, and what to do about it
	Hint       string   `json:"hint"`

	Err        error `json:"-"` // of Failed
	Incomplete bool  `json:"-"` // part of it could not be examined
}

// Options are the choices for a list. Jobs is also the number of images at once; 0 is one per processor, at most
// contents.MaxLayersAtOnce. Dest and Tag of RebuildOptions are ignored: the list and its template name each
// image's destination.
type Options struct {
	images.RebuildOptions
	Template string // makes the DEST of an image that the list has none for; "" for none
	// Each gets every image when it is finished. It is called by one goroutine at a time.
	Each func(Image)
}

// run is one run over a list.
type run struct {
	o      Options
	s      *contents.Session
	work   func(*run, context.Context, *Image, *source.Source) error
	mu     sync.Mutex
	claims map[string]Item
}

// Rebuild rebuilds the images of a list. Layers that they share are read once, and an image that fails does not stop
// the others. Images that the end of ctx prevented are NotRun.
func Rebuild(ctx context.Context, items []Item, o Options) []Image {
	return each(ctx, items, o, (*run).rebuild)
}

// Scan examines the images of a list.
func Scan(ctx context.Context, items []Item, o Options) []Image {
	return each(ctx, items, o, (*run).scan)
}

func each(ctx context.Context, items []Item, o Options, work func(*run, context.Context, *Image, *source.Source) error) []Image {
	o.Media = o.Media.WithDefaults()
	r := &run{o: o, work: work, claims: map[string]Item{}, s: contents.NewSession(o.Jobs, o.Media.Progress, o.Rewriter)}
	defer r.s.Close()
	var g errgroup.Group
	g.SetLimit(o.Jobs)
	if o.Jobs <= 0 {
		g.SetLimit(min(runtime.NumCPU(), contents.MaxLayersAtOnce))
	}
	all := make([]Image, len(items))
	for n, i := range items {
		g.Go(func() error {
			all[n] = r.one(ctx, i)
			return nil
		})
	}
	g.Wait()
	return all
}

func (r *run) one(ctx context.Context, i Item) Image {
	out := Image{Item: i, Status: NotRun}
	if ctx.Err() != nil {
		return out
	}
	src, err := source.Open(ctx, i.Source, r.o.Media)
	if err == nil {
		out.BaseDigest = src.Digest
		err = r.work(r, ctx, &out, src)
		src.Close()
	}
	switch {
	case ctx.Err() != nil:
		return Image{Item: i, Status: NotRun}
	case err != nil:
		out.Status, out.Err, out.Reference = Failed, err, ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.o.Each != nil {
		r.o.Each(out)
	}
	return out
}

// rebuild rebuilds one image, if its DEST does not have the result.
func (r *run) rebuild(ctx context.Context, out *Image, src *source.Source) (err error) {
	o := r.o.RebuildOptions
	if o.Dest = out.Dest; o.Dest == "" && r.o.Template != "" {
		if o.Dest, err = fillTemplate(r.o.Template, src.Ref); err != nil {
			return err
		}
	}
	if err := r.claim(out.Item, o.Dest); err != nil {
		return err
	}
	job, err := images.NewJob(ctx, src, o)
	if err != nil {
		return err
	}
	if was, done := job.Earlier(ctx); done {
		out.Status, out.Before, out.Reference, out.Digest, out.LeftOver = Done, true, was.Reference, was.Digest, was.LeftOver
		out.incomplete(was.Incomplete)
		return nil
	}
	done, err := job.Run(ctx, r.s)
	if err != nil {
		return err
	}
	out.Reference, out.Digest, out.LayerSize, out.Warnings = done.Reference, done.Digest, done.LayerSize, slices.Clone(done.Warnings)
	out.LeftOver = done.Findings.Uncovered().Left
	out.take(done.Findings, out.LeftOver > 0)
	if !done.Unchanged {
		out.Status = Done
	}
	return nil
}

func (r *run) scan(ctx context.Context, out *Image, src *source.Source) error {
	f, err := images.ScanSource(ctx, r.s, src, r.o.ScanOptions)
	if err != nil {
		return err
	}
	sites := f.Uncovered().Live
	out.take(f, sites > 0)
	out.Patched = min(out.Patched, sites)
	out.LeftOver = sites - out.Patched
	return nil
}

// take counts what was found in an image, and the call sites that can be, or were, patched.
func (i *Image) take(f *contents.Findings, affected bool) {
	i.Status, i.Files = Unaffected, len(f.Files)+len(f.Packed)
	if affected {
		i.Status = Affected
	}
	for n := range f.Files {
		if f.Files[n].Plan.Redirected() {
			i.Fixed++
		}
		sites := f.Files[n].Sites()
		i.Patched += sites.Live - sites.Left
	}
	for _, h := range f.Hazards {
		if kind := string(h.Kind); !slices.Contains(i.Hazards, kind) {
			i.Hazards = append(i.Hazards, kind)
		}
	}
	i.incomplete(f.IncompleteText())
}

// incomplete notes what could not be examined, "" for nothing.
func (i *Image) incomplete(text string) {
	if text == "" {
		return
	}
	i.Incomplete, i.Warnings = true, append(i.Warnings, text)
	if i.Status == Unaffected {
		i.Status = Incomplete
	}
}
