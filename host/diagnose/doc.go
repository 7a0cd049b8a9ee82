// Package diagnose explains one crash. It reads the evidence – a core file, lines of the kernel's log, the text of
// a tracer, a process – and reports whether the vsyscall page was the cause, which of its functions was called,
// and from where.
//
// All input is untrusted: nothing is allocated by a size that the input claims, a chain is followed a bounded
// number of steps, and unreadable parts are reported, not guessed. No claim goes beyond the input: a crash
// elsewhere is only "no vsyscall crash".
package diagnose
