// Several walkers in parallel: how one passes a part of the remaining work to another.

package rootfs

import (
	"sync"
	"sync/atomic"
)

// few is the number of names after which a walk starts a second walker.
const few = 256

// group has the walkers of one walk. An idle walker gets the topmost directory that a busy one has not entered
// yet.
type group struct {
	r       *Root
	start   func() Visitor
	left    int // how many walkers may still be started, by the first one
	running sync.WaitGroup
	tasks   chan task    // closed when no subtree is left
	open    atomic.Int64 // unfinished subtrees
	idle    atomic.Int64 // walkers without a subtree
	stop    atomic.Bool  // after an error
	once    sync.Once
	err     error
}

// task is an open directory, and its path.
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

// others visits the directories that other walkers pass on until none is left.
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

// share passes a directory to an idle walker.
func (w *walker) share() {
	if w.left > 0 && w.seen > few { // only the first walker starts others
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
