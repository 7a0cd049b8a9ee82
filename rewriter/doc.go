// Package rewriter finds the places in an x86-64 ELF file that call the vsyscall
// page and rewrites them so that they reach the vDSO instead.
//
// A glibc 2.13 time() is five instructions, before and after:
//
//	48 83 ec 08              sub  $8,%rsp                e9 rel32   jmp vfix_time
//	48 c7 c0 00 04 60 ff     mov  $0xffffffffff600400,%rax
//	ff d0                    call *%rax
//	48 83 c4 08              add  $8,%rsp
//	c3                       ret
//
// The work is four steps, each a value that the next one takes:
//
//	Scan(reader)        -> *Report   which call sites there are; never writes
//	NewPlan(report)     -> *Plan     which bytes would change, and why
//	Plan.Apply(bytes)   -> bytes     deterministic; applied to its own output, it changes nothing
//	Verify(before, after)            proves that only the planned bytes differ
//
// Where what is:
//
//	scan scanobject scanarchive scancode     a file to a Report; search half: its references
//	functions locate code                    which functions are around them
//	body graph                               their code, and where it goes on: the control flow graph
//	flow transfer frame                      what becomes of the address in there
//	verdict slot                             what a reference is
//	branches proof                           what may jump into it
//	plan form segment spare notes page hook  the bytes that change; unwind: for unwinders
//	release                                  files that an older vfix patched
//	verify differ explain                    the comparison with a plan derived again, and how it is shown
//	program place calls                      what else is asked of a file, or of a plan
//
// Below it, elf has the file format, x86 the instructions, origin what made a program. The package
// opens no files and knows nothing of images.
// All input is untrusted: every offset and size is checked against the file before
// it is used, nothing is allocated by a size that a file claims, and what is not a
// 64-bit x86-64 ELF file is passed over with the reason.
package rewriter
