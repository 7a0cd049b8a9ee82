/* For 32-bit programs: empty. i386 has no vsyscall page at a fixed address. */
	.section .note.GNU-stack, "", @progbits
