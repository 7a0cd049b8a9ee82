// Package patch plans and makes a copy of a file with its references to the vsyscall page redirected. A glibc 2.13
// time() has five instructions, before and after:
//
//	48 83 ec 08              sub  $8,%rsp                e9 rel32   jmp vfix_time
//	48 c7 c0 00 04 60 ff     mov  $0xffffffffff600400,%rax
//	ff d0                    call *%rax
//	48 83 c4 08              add  $8,%rsp
//	c3                       ret
//
// Scan reports the references and never writes. NewPlan determines which bytes would change, and why. Plan.Apply
// is deterministic, and a patched file has an empty plan. Verify derives the plan again and compares. All input is
// untrusted: every offset and size is checked against the file before it is used, and nothing is allocated by a
// size that a file claims.
//
//	file                              Scan: references, in a file that vfix may have patched before
//	plan form aside reason            which bytes change, and why; segment spare hook: room, and who enters it
//	unwind redirect                   data for debuggers and unwinders, fixes besides call sites
//	patched                           files that are patched already
//	apply verify                      the patched file, and its comparison with a new plan
//	explain                           how a plan is shown
package patch
