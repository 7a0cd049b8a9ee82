// A session: what one command learned about layers, and the contents that it keeps.

package contents

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/rewriter/patch"
)

// MaxLayersAtOnce bounds memory on machines with many processors: each layer that is read
// has its own buffers, below 10 MiB, and a zstd window.
const MaxLayersAtOnce = 4

// Session is one command's work: what was learned about layers, and the contents that are
// needed again. Two sources of a command share a session, so that a layer they have in
// common is read once.
type Session struct {
	Options  patch.Options
	jobs     int
	Progress progress.Reporter
	// Sums says that the SHA-256 of every regular file is wanted, for comparisons.
	Sums bool
	// Keep says of which files the contents are wanted beside ELF files', by name and size in
	// bytes; nil: of none.
	Keep func(name string, size int64) bool
	// Take, if not nil, gets each regular file of a layer, which then is not examined: its
	// content, and the layer's diff ID. It is called for several layers at once.
	Take  func(ctx context.Context, layer v1.Hash, e *Entry, r io.Reader) error
	spool blob.Spool

	planning sync.Mutex // of the plans in what layers hold
	layers   *layerCache
}

// NewSession examines with jobs processors, all for 0 or less; p may be nil.
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

// Image reads all layers of an image, several at once, each once, and returns its merged file system. A layer that somebody
// else reads is waited for; the first error ends the others.
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

// AddLayer reads a layer and puts it on top of a tree.
func (s *Session) AddLayer(ctx context.Context, t *Tree, l v1.Layer) error {
	idx, err := s.ReadLayer(ctx, l)
	if err != nil {
		return err
	}
	return t.Apply(idx, layerMembers{l, s.Progress})
}
