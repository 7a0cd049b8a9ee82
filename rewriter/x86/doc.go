// Package x86 decodes instructions: how long they are, their targets, which registers they read and
// write, how they move the stack, what they are called. It knows no ELF.
package x86
