// A session: the layers that one command has read, and the contents that it keeps.

package contents

import (
	"context"
	"fmt"
	"io"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/rewriter/patch"
)

// MaxLayersAtOnce bounds memory on machines with many processors: each layer that is being read needs its own
// buffers, below 10 MiB, and a zstd window.
const MaxLayersAtOnce = 4

// Session is the work of one command: the results for layers, and contents that are needed again. Several sources
// share a session, so that a common layer is read once.
type Session struct {
	Options  patch.Options
	jobs     int
	Progress progress.Reporter
	// Sums requests the SHA-256 of every regular file, for comparisons.
	Sums bool
	// Keep selects files, by name and size in bytes, whose contents are kept besides those of ELF files; nil:
	// none.
	Keep func(name string, size int64) bool
	// Take, if not nil, gets the content of each regular file of a layer, with the layer's diff ID, instead of an
	// examination. It is called for several layers in parallel.
	Take  func(ctx context.Context, layer v1.Hash, e *Entry, r io.Reader) error
	spool blob.Spool

	layers *layerCache
}

// NewSession returns a session that examines files on jobs processors, on all for 0 or less; p may be nil.
func NewSession(jobs int, p progress.Reporter, o patch.Options) *Session {
	if jobs <= 0 {
		jobs = runtime.NumCPU()
	}
	if p == nil {
		p = progress.Silent{}
	}
	return &Session{Options: o, jobs: jobs, Progress: p, layers: newLayerCache(min(jobs, MaxLayersAtOnce))}
}

func (s *Session) Close() { s.spool.Close() }

// Image reads all layers of an image in parallel, each once, and returns its merged file system. It waits for
// layers that another caller reads; the first error cancels the others.
func (s *Session) Image(ctx context.Context, img v1.Image) (*Tree, error) {
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	ids, first := make([]v1.Hash, len(layers)), map[v1.Hash]int{}
	for i, l := range layers {
		if ids[i], err = l.DiffID(); err != nil {
			return nil, fmt.Errorf("layer %d: diff ID: %w", i, err)
		}
		if _, again := first[ids[i]]; !again {
			first[ids[i]] = i
		}
	}
	read := make([]*layerIndex, len(layers))
	g, reading := errgroup.WithContext(ctx)
	for i, id := range ids {
		if first[id] != i {
			continue
		}
		g.Go(func() (err error) {
			read[i], err = s.layers.Get(reading, id, func() (*layerIndex, error) { return s.ReadLayer(reading, layers[i]) })
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i, id := range ids {
		read[i] = read[first[id]]
	}
	t, err := Merge(read)
	if err != nil {
		return nil, err
	}
	t.spool = &s.spool
	for _, l := range layers {
		t.from = append(t.from, layerMembers{l, s.Progress})
	}
	return t, nil
}

// AddLayer reads a layer and applies it to a tree.
func (s *Session) AddLayer(ctx context.Context, t *Tree, l v1.Layer) error {
	idx, err := s.ReadLayer(ctx, l)
	if err != nil {
		return err
	}
	return t.Apply(idx, layerMembers{l, s.Progress})
}
