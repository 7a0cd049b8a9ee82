// The processes of one start.

package examiner

import (
	"time"

	"vfix.dev/vfix/rewriter"
)

// Pool makes the examiners of a start. A file that takes a confined process over can lie about what that
// process is asked later: who must not be lied to gets one of his own.
type Pool struct {
	// Memory and Until are those of each Examiner.
	Memory int64
	Until  time.Time
	// Fixes are those that are made besides.
	Fixes []rewriter.Fix
	// Holds is what confined the last process that was done, Asked how often all were asked.
	Holds []string
	Asked int
}

// One is an examiner, to be ended with Done.
func (p *Pool) One() *Examiner {
	return &Examiner{Memory: p.Memory, Until: p.Until, Fixes: p.Fixes}
}

// Done ends an examiner.
func (p *Pool) Done(e *Examiner) {
	e.Close()
	p.Asked += e.Asked
	if e.Holds != nil {
		p.Holds = e.Holds
	}
}

// Patch is Examiner.Patch by a process that sees no other file.
func (p *Pool) Patch(original int, size int64, to int, want int64) error {
	e := p.One()
	defer p.Done(e)
	return e.Patch(original, size, to, want)
}
