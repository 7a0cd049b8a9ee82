// Several walkers side by side: how one gives another a part of what is left.

package rootfs

import (
	"sync"
	"sync/atomic"
)

// few is how many names one walker goes through before there is a second.
const few = 256

// group is the walkers of one walk. A walker that has nothing to do gets, from one that has, the folder
// highest up that is still to be entered.
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

// others takes what other walkers give away until nothing is left.
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

// share gives a folder to a walker that has nothing to do.
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
