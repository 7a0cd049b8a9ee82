// The processes of one start.

package oldexaminer

import (
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"vfix.dev/vfix/rewriter/find"
)

// Pool makes the examiners of a start. A file that takes over a confined process can falsify its later
// answers: a caller that must rely on them gets a separate process.
type Pool struct {
	// Memory and Until are those of each Examiner.
	Memory int64
	Until  time.Time
	// Fixes are those that are made besides.
	Fixes []find.Fix
	// Examined is how many files were examined, in whatever way.
	Examined atomic.Int64

	mu    sync.Mutex
	holds []string
	spare chan *Examiner // the one that is being started
}

// Holds is what confined the last process that was done.
func (p *Pool) Holds() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.holds
}

// made is an examiner that is not started.
func (p *Pool) made() *Examiner { return &Examiner{Memory: p.Memory, Until: p.Until, Fixes: p.Fixes} }

// one is an examiner, to be ended with done. A start that needs one usually needs another, for the next
// directory or for a copy: while one works, the next is started.
func (p *Pool) one() *Examiner {
	e, next := p.made(), p.made()
	if runtime.GOMAXPROCS(0) == 1 {
		return e
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spare != nil {
		e = <-p.spare
		e.Until = p.Until
	}
	p.spare = make(chan *Examiner, 1)
	go func(spare chan<- *Examiner) {
		next.start()
		spare <- next
	}(p.spare)
	return e
}

func (p *Pool) done(e *Examiner) {
	e.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Holds != nil {
		p.holds = e.Holds
	}
}

// Close ends the processes that were started and not needed.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spare != nil {
		(<-p.spare).Close()
		p.spare = nil
	}
}

// Patch is Examiner.Patch by a process that sees no other file.
func (p *Pool) Patch(original int, size int64, to int, want int64) error {
	p.Examined.Add(1)
	e := p.one()
	defer p.done(e)
	return e.Patch(original, size, to, want)
}

// Group examines the files of one directory: a file that falsifies answers can do so only about its
// neighbours. It has as many processes as there are requests at a time.
type Group struct {
	*Pool
	idle chan *Examiner
}

// Group is for one directory, of which at most that many files are examined at a time; to be ended with Done.
func (p *Pool) Group(most int) *Group { return &Group{p, make(chan *Examiner, most)} }

// File is an open file.
type File interface {
	io.ReaderAt
	FD() int
}

// maxSearched is the largest file that is searched here, in bytes: that has no bound on its time.
const maxSearched = 64 << 20

// Examine examines an x86-64 ELF file of size bytes, a part of which buf takes. Most do not contain an
// address of the page: this is checked without parsing their format, and without a process.
func (g *Group) Examine(f File, size int64, buf []byte) (Finding, error) {
	g.Examined.Add(1)
	if len(g.Fixes) == 0 && size <= maxSearched {
		if nameless, err := find.Named(f, size, buf); err != nil || !nameless {
			return Finding{}, err
		}
	}
	var e *Examiner
	select {
	case e = <-g.idle:
	default:
		e = g.one()
	}
	defer func() { g.idle <- e }()
	return e.Examine(f.FD(), size)
}

// Done ends the processes of the directory.
func (g *Group) Done() {
	for len(g.idle) > 0 {
		g.done(<-g.idle)
	}
}
