// Package elf reads 64-bit x86-64 ELF files that nobody vouches for: headers, symbols, relocations,
// notes, unwind tables, relocatable objects and archives of them. It knows the format and no
// instructions, and changes nothing.
package elf
