// Package diagnose explains one crash: it reads what a crash left behind – a core file,
// lines of the kernel's log, the text of a tracer, a process – and says whether the
// vsyscall page was the cause, which of its functions was called and from where.
//
// All input is untrusted: nothing is allocated by a size that the input claims, a chain is
// followed a bounded number of steps, and what cannot be read is said and not guessed.
// Nothing is claimed that the input does not prove: a crash elsewhere is "no vsyscall crash",
// and no more.
package diagnose
