package elf

import "golang.org/x/sys/cpu"

// indexPairs returns the first index i below n at which p[i:i+2] is one of the pairs, -1 for none. n is at
// least wideLeast, and p has n+1 bytes.
//
//go:noescape
func indexPairs(p *byte, n int, pairs *looked) int

// wideLeast is the number of bytes that indexPairs examines at once.
const wideLeast = 64

var wide = cpu.X86.HasAVX2
