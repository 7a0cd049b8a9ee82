// Package x86 decodes instructions: their lengths, targets, registers read and written, effects on the stack, and
// names. It does not handle ELF.
package x86
