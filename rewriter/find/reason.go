// The evidence for a verdict, as values; texts are only for users.

package find

import (
	"fmt"

	"golang.org/x/arch/x86/x86asm"
)

// Cause is the kind of evidence for a verdict.
type Cause uint8

// The causes, by the verdict that they lead to.
const (
	// Unknown.
	InData    Cause = iota // an aligned word of data
	MaybeData              // not proved to be an instruction
	Stored                 // stored in memory at At
	Pushed                 // pushed on the stack
	Used                   // read by the instruction Op at At
	Passed                 // an argument of a call of an unknown function at At
	Returned               // returned at At
	TwoSlots               // in two words of a frame, at At
	Thrown                 // an exception of the call at At may take it elsewhere
	Branches               // a jump at At with unknown targets
	Undecoded              // the flow reaches bytes at At that are not a known instruction
	TooFar                 // the flow visits too many instructions
	NoUse                  // nothing is seen to use it

	// Live.
	Called // only called, first at At

	// Dormant.
	IfuncRet  // returned at At by the resolver of an IFUNC symbol
	Mangled   // stored at At after PTR_MANGLE
	ImageBase // stored at At, and used without a vDSO
	GoData    // in the data of a Go program

	// Benign.
	Compared // compared with
	Valgrind // an entry of valgrind's table
)

// causeTexts are the texts for users; those with a verb get the address At.
var causeTexts = [...]string{
	InData:    "the address is in data",
	MaybeData: "it may be data",
	Stored:    "stored in memory at %#x",
	Pushed:    "pushed on the stack",
	Passed:    "passed at %#x to a function that is not known",
	Returned:  "returned at %#x",
	TwoSlots:  "in two words of a frame at %#x",
	Thrown:    "an exception of the call at %#x may take it elsewhere",
	Branches:  "a jump at %#x has unknown targets",
	Undecoded: "reaches bytes at %#x that are not a known instruction",
	TooFar:    "too much code to follow, up to %#x",
	NoUse:     "nothing is seen to use it",
	Called:    "only called, at %#x",
	IfuncRet:  "returned at %#x by the resolver of an IFUNC symbol",
	Mangled:   "stored after PTR_MANGLE at %#x: a pointer that is only called",
	ImageBase: "stored at %#x, used where the kernel offers no vDSO",
	GoData:    "in the data of a Go program, whose runtime calls it only without a vDSO",
	Compared:  "compared with",
	Valgrind:  "an entry of valgrind's table, which compares with it",
}

// Reason is the evidence for the verdict on one site.
type Reason struct {
	Cause Cause
	At    uint64    // vaddr of the instruction that decides; 0 for none
	Op    x86asm.Op // of that instruction, for Used
}

// String returns one clause for users.
func (r Reason) String() string {
	switch {
	case r.Cause == Used:
		return fmt.Sprintf("used by %v at %#x", r.Op, r.At)
	case r.At != 0:
		return fmt.Sprintf(causeTexts[r.Cause], r.At)
	}
	return causeTexts[r.Cause]
}
