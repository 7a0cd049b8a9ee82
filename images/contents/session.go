// A session examines sources. It has the layers that one command has read, and the contents that it keeps.

package contents

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/rewriter/patch"
)

// MaxLayersAtOnce bounds memory on machines with many processors: each layer that is being read needs its own
// buffers, below 10 MiB, and a zstd window.
const MaxLayersAtOnce = 4

// maxRemembered is the number of members of all layers that a session remembers, of 350 to 450 bytes each: about 25
// installations of an old Debian.
const maxRemembered = 300_000

// Session is the work of one command: the results for layers, and contents that are needed again. Several sources
// share a session, so that a common layer is read once.
type Session struct {
	Options  patch.Options
	Progress progress.Reporter
	jobs     int
	spool    blob.Spool

	reading *semaphore.Weighted // layers, in parallel
	layers  sync.Map            // *knownLayer by diff ID
	members atomic.Int64        // of layers
}

// knownLayer is a layer that was read, or that the holder of its lock reads.
type knownLayer struct {
	sync.Mutex
	idx *layerIndex // nil until it was read
}

// NewSession returns a session that examines files on jobs processors, on all for 0 or less; p may be nil.
func NewSession(jobs int, p progress.Reporter, o patch.Options) *Session {
	if jobs <= 0 {
		jobs = runtime.NumCPU()
	}
	if p == nil {
		p = progress.Silent{}
	}
	return &Session{Options: o, jobs: jobs, Progress: p, reading: semaphore.NewWeighted(int64(min(jobs, MaxLayersAtOnce)))}
}

func (s *Session) Close() { s.spool.Close() }

// Scan examines a source: an image, a directory, a tarball or a file.
func (s *Session) Scan(ctx context.Context, src *source.Source) (*Findings, error) {
	scan := s.scanPath
	if src.Image != nil {
		scan = s.scanImage
	}
	f, err := scan(ctx, src)
	if err != nil {
		return nil, err
	}
	f.Source, f.Digest = src.Ref.String(), src.Digest
	return f, nil
}

func (s *Session) scanImage(ctx context.Context, src *source.Source) (*Findings, error) {
	t, err := s.Image(ctx, src.Image)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", src.Title(), err)
	}
	return t.Findings(), nil
}

func (s *Session) scanPath(ctx context.Context, src *source.Source) (*Findings, error) {
	tarball, err := source.IsTarball(src.Path)
	if err != nil {
		return nil, err
	}
	if tarball {
		f, err := s.Tarball(ctx, src.Path, src.Title())
		if err != nil {
			return nil, err
		}
		if missing := f.Tree.missing(); len(missing) > 0 && f.Uncovered().Live == 0 {
			f.Loads = &Loads{Missing: missing}
		}
		return f, nil
	}
	d, err := OpenDisk(src.Path)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	d.Path = "" // names are relative
	if d.Only != "" {
		d.Path = cmp.Or(src.Ref.Name, src.Path)
	}
	return d.Scan(ctx, s)
}

// Image reads all layers of an image in parallel, each once, and returns its merged file system. It waits for
// layers that another caller reads; the first error cancels the others.
func (s *Session) Image(ctx context.Context, img v1.Image) (*Tree, error) {
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	read := make([]*layerIndex, len(layers))
	g, reading := errgroup.WithContext(ctx)
	for i, l := range layers {
		id, err := l.DiffID()
		if err != nil {
			return nil, fmt.Errorf("layer %d: diff ID: %w", i, err)
		}
		g.Go(func() (err error) {
			read[i], err = s.layer(reading, id, l)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	t := NewTree()
	t.Config, t.progress = config.Config, s.Progress
	for i, l := range layers {
		if err := t.stack(read[i], l); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// layer returns a layer that was read before, or reads it. A layer that could not be read is read again: another image
// may have it whole. If a session has read too many members, it forgets all layers.
func (s *Session) layer(ctx context.Context, id v1.Hash, l v1.Layer) (*layerIndex, error) {
	at, _ := s.layers.LoadOrStore(id, &knownLayer{})
	known := at.(*knownLayer)
	known.Lock()
	defer known.Unlock()
	if known.idx != nil {
		return known.idx, nil
	}
	if s.reading.Acquire(ctx, 1) != nil {
		return nil, context.Cause(ctx)
	}
	defer s.reading.Release(1)
	idx, err := s.readLayer(ctx, l)
	if err != nil {
		return nil, err
	}
	known.idx = idx
	if s.members.Add(int64(len(idx.Entries))) > maxRemembered {
		s.layers.Clear()
		s.members.Store(0)
	}
	return idx, nil
}
