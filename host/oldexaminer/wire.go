// The messages between the two processes: a request and an answer, each one message of a
// SOCK_SEQPACKET socket, JSON, the files of a request beside it. Zero values are left out: the answer about
// most files is {}.

// Package oldexaminer reads the ELF files of images, which may be made to attack their reader, in a separate
// process that can do nothing else: it opens no file, makes no socket, runs as user nobody without
// capabilities, and its memory and time are bounded. It does not run in the control group of the container's
// pod: others wait for its results about a layer, and a pod with little processor time could make them wait
// as long as it likes. Files reach it as open descriptors, one call at a time.
//
// The caller trusts each answer only for the file that it is about, and computes the hash of a file itself. A
// file whose examination ends the process has not been examined; the next file gets a new process.
package oldexaminer

import (
	"errors"
	"fmt"
	"time"

	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

// Name is the name of the confined process (argv[0]).
const Name = "vfix-examiner"

// maxMessage bounds a message, in bytes.
const maxMessage = 16 << 10

// Finding is what the examination of a file found. The zero value: nothing of interest.
type Finding struct {
	Size  int64 `json:"size,omitempty"`  // of the patched copy, in bytes; 0 if there is nothing to patch
	Sites int   `json:"sites,omitempty"` // call sites that the copy has patched
	// Stay is how many live and unknown call sites stay. Left says so in words, or why a fix cannot
	// be made; "" for neither.
	Stay int    `json:"stay,omitempty"`
	Left string `json:"left,omitempty"`
	// Fix is the one that the copy has, or the file itself; "" for none.
	Fix find.Fix `json:"fix,omitempty"`
}

// ErrTooMuch: a file costs more to read than any program is large.
var ErrTooMuch = errors.New("not examined")

// bounds are the first message, from the caller.
type bounds struct {
	Memory int64         `json:"memory"`
	Time   time.Duration `json:"time"`
	Fixes  []find.Fix    `json:"fixes,omitempty"`
}

// hello is the first answer.
type hello struct {
	Holds []string `json:"holds"`
	Error string   `json:"error"`
}

// request is about one file, which comes with it: to be examined, or with a second file that the
// patched copy of want bytes goes to.
type request struct {
	Size int64 `json:"size"`
	Want int64 `json:"want,omitempty"`
}

type answer struct {
	Finding
	Error   string `json:"error,omitempty"`
	TooMuch bool   `json:"too_much,omitempty"`
}

// maxExec is how many executable bytes of a file are examined.
const maxExec = 1 << 30

// maxReason bounds what is said about one file, in bytes.
const maxReason = 1 << 10

func clip(s string) string { return s[:min(len(s), maxReason)] }

// add records the changes of a plan; wanted reports that the file should get the plan's fix.
func (f *Finding) add(p *patch.Plan, wanted bool) {
	if !p.Empty() {
		f.Size = p.Size
	}
	for _, q := range p.Patches {
		if q.Form != patch.Left {
			f.Sites++
		}
	}
	left := p.LeftOver()
	f.Stay = len(left)
	switch f.Stay {
	case 0:
	case 1:
		f.Left = fmt.Sprintf("1 call site left, at vaddr %#x: %s", left[0].Site.Vaddr, left[0].Reason)
	default:
		f.Left = fmt.Sprintf("%d call sites left, the first at vaddr %#x: %s", len(left), left[0].Site.Vaddr, left[0].Reason)
	}
	switch d := p.Redirect; {
	case !wanted:
	case p.Redirected():
		f.Fix = d.Fix
	case f.Left != "":
		f.Left += "; "
		fallthrough
	default:
		f.Left += fmt.Sprintf("not fixed (%s): %s", d.Fix, d.Reason)
	}
	f.Left = clip(f.Left)
}
