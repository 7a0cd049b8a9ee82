//go:build !amd64

package elf

func indexPairs(*byte, int, *[maxPairs]uint16) int { panic("no AVX2") }

const wideLeast = 0

var wide = false
