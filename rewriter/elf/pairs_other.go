//go:build !amd64

package elf

func indexPairs(*byte, int, *looked) int { panic("no AVX2") }

const wideLeast = 0

var wide = false
