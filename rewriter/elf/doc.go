// Package elf reads untrusted 64-bit x86-64 ELF files: headers, symbols, relocations, notes, unwind tables,
// relocatable objects and archives of them. It handles the format but no instructions, and changes nothing.
package elf
