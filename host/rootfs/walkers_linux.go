// Several walkers in parallel: how one gives another a part of the remaining work.

package rootfs

import (
	"sync"
	"sync/atomic"
)

// few is how many names one walker goes through before there is a second.
const few = 256

// group is the walkers of one walk. An idle walker gets, from a busy one, the topmost folder that has not
// been entered yet.
type group struct {
	r       *Root
	start   func() Visitor
	left    int // how many walkers may still be started, by the first one
	running sync.WaitGroup
	tasks   chan task    // closed when no subtree is left
	open    atomic.Int64 // subtrees that are not done
	idle    atomic.Int64 // walkers that wait for one
	stop    atomic.Bool  // after an error
	once    sync.Once
	err     error
}

// task is a folder, open, and its path.
type task struct {
	fd   int
	path string
}

// done ends a subtree.
func (g *group) done(err error) {
	if err != nil {
		g.once.Do(func() { g.err = err })
		g.stop.Store(true)
	}
	if g.open.Add(-1) == 0 {
		close(g.tasks)
	}
}

func (g *group) walker() *walker {
	return &walker{group: g, v: g.start(), buf: make([]byte, direntBuffer)}
}

// others takes folders that other walkers give away until none is left.
func (w *walker) others() {
	for {
		w.idle.Add(1)
		t, ok := <-w.tasks
		if !ok {
			return
		}
		w.done(w.subtree(t))
	}
}

// share gives a folder to an idle walker.
func (w *walker) share() {
	if w.left > 0 && w.seen > few { // the first walker: the others are started with none left
		n := w.left
		w.left = 0
		for range n {
			w.running.Go(w.walker().others)
		}
	}
	n := w.idle.Load()
	if n <= 0 || !w.idle.CompareAndSwap(n, n-1) {
		return
	}
	path := string(w.path)
	defer func() { w.path = append(w.path[:0], path...) }()
	for i := range w.levels {
		l := &w.levels[i]
		for l.next < len(l.names) {
			if fd := w.enter(l); fd >= 0 {
				w.open.Add(1)
				w.tasks <- task{fd, string(w.path)}
				return
			}
		}
	}
	w.idle.Add(1) // there is none
}
