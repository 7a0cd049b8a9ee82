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
//	Verify(before, after)            derives the plan again and compares
//
// This package is what others see of it. The work is done in two packages, find (which references there are, and what
// each is used for; it writes nothing and knows nothing of what vfix injects) and patch (the same file
// with its references led elsewhere). Below them, elf has the file format, x86 the instructions, origin what
// made a program. They open no files and know nothing of images.
//
// All input is untrusted: every offset and size is checked against the file before
// it is used, nothing is allocated by a size that a file claims, and what is not a
// 64-bit x86-64 ELF file is passed over with the reason.
package rewriter
