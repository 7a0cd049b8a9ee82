// Why a site gets its form, as values; texts are only for users.

package patch

import (
	"fmt"

	"vfix.dev/vfix/rewriter/find"
)

// Cause is the kind of reason for a form.
type Cause uint8

// The kinds of reasons.
const (
	_ Cause = iota
	// Why a site is patched.
	WholeStub  // entry: the whole function is a stub
	GoWord     // imm: a word of Go's data that is only called
	FrameWord  // imm: a word of the frame that is only called
	OnlyCalled // lea: the register is only called
	SmallStack // syscall: Go's stack is too small for the vDSO
	NoRoomStub // syscall: no room for a trampoline, because of Detail
	// Why it is left.
	ByVerdict // for the reason of its verdict, which is Evidence
	NotForGo  // Go's stack is too small, and the mov and call are not adjacent
	Unneeded  // dormant, and nothing else in the file needs a patch
	NoRoom    // no room for a trampoline, because of Detail
	OverEnd   // the site runs over the end of its segment
	Damaged   // the file is damaged, in the way of Detail
)

var causeTexts = [...]string{
	WholeStub:  "the whole function is a stub",
	GoWord:     "a word of Go's data that is only called",
	FrameWord:  "a word of the frame that is only called",
	OnlyCalled: "the register is only called",
	SmallStack: "Go's stack is too small for the vDSO",
	NoRoomStub: "no room for a trampoline: ",
	NotForGo:   "Go's stack is too small for the vDSO, and mov and call are not adjacent",
	Unneeded:   "used only without a vDSO, and nothing else in the file needs a patch",
	NoRoom:     "no room for a trampoline: ",
	OverEnd:    "the site runs over the end of its segment",
	Damaged:    "damaged ELF: ",
}

// Reason is why a site gets its form.
type Reason struct {
	Cause    Cause
	Detail   string      // of NoRoom, NoRoomStub and Damaged
	Evidence find.Reason // of ByVerdict
}

// String returns one clause for users, "" for no reason.
func (r Reason) String() string {
	switch r.Cause {
	case 0:
		return ""
	case ByVerdict:
		return r.Evidence.String()
	}
	return fmt.Sprint(causeTexts[r.Cause], r.Detail)
}
