// Package patch plans and makes the same file with its references to the vsyscall page led elsewhere.
//
//	file                              Scan: references, in a file that vfix may have patched before
//	plan form                         which bytes change; segment spare hook: room, and who enters it
//	unwind prelink                    what debuggers, unwinders and prelink read
//	patched                           files that are patched already
//	apply verify differ               the patched file, and its comparison with a plan derived again
//	explain calls                     how a plan is shown
package patch
