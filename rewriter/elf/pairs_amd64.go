package elf

import "golang.org/x/sys/cpu"

// indexPair returns the first index i below n at which p[i:i+2] is the pair, -1 for none. n is at least wideLeast,
// and p has n+1 bytes.
//
//go:noescape
func indexPair(p *byte, n int, pair uint16) int

// wideLeast is the number of bytes that indexPair examines at once.
const wideLeast = 64

var wide = cpu.X86.HasAVX2
