//go:build !amd64

package elf

func indexPair(*byte, int, uint16) int { panic("no AVX2") }

const wideLeast = 0

var wide = false
