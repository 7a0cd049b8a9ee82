package elf

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

// slowPairs returns the results of Pairs according to its documentation.
func slowPairs(b []byte, lo, hi int, pairs []uint16) (all []int) {
	for i := lo; i < min(hi, len(b)-1); i++ {
		if slices.Contains(pairs, binary.LittleEndian.Uint16(b[i:])) {
			all = append(all, i)
		}
	}
	return all
}

// checkPairs compares both ways to search with the slow one.
func checkPairs(t *testing.T, b []byte, lo, hi int, pairs []uint16) {
	t.Helper()
	want := slowPairs(b, lo, hi, pairs)
	defer func(was bool) { wide = was }(wide)
	for _, wide = range [...]bool{wide, false} {
		got := slices.Compact(slices.Sorted(Pairs(b, lo, hi, pairs)))
		if !slices.Equal(got, want) {
			t.Fatalf("%d bytes, %d to %d, pairs %x, wide %v: got %v, want %v", len(b), lo, hi, pairs, wide, got, want)
		}
		if len(want) > 1 {
			var some []int
			for i := range Pairs(b, lo, hi, pairs) {
				if some = append(some, i); len(some) == 2 {
					break
				}
			}
			if !slices.Contains(want, some[0]) || !slices.Contains(want, some[1]) {
				t.Fatalf("%d bytes, %d to %d, pairs %x, wide %v: got %v first, want two of %v", len(b), lo, hi, pairs, wide, some, want)
			}
		}
	}
}

// TestPairs searches random bytes with many pairs, few, and none.
func TestPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		b := make([]byte, r.IntN(600))
		rare := 1 + r.IntN(100)
		for i := range b {
			if r.IntN(rare) == 0 {
				b[i] = byte(r.IntN(4))
			}
		}
		lo := r.IntN(len(b) + 1)
		pairs := make([]uint16, r.IntN(6))
		for i := range pairs {
			pairs[i] = uint16(r.IntN(4)) | uint16(1+r.IntN(3))<<8
		}
		checkPairs(t, b, lo, lo+r.IntN(len(b)-lo+3), pairs)
	}
}

// FuzzPairs searches fuzzed bytes for the pairs at their start.
func FuzzPairs(f *testing.F) {
	f.Add([]byte("\x60\xff\x00\x00\x00\x00aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\x60\xff"), uint(0), uint(200), uint8(3))
	f.Fuzz(func(t *testing.T, b []byte, lo, hi uint, n uint8) {
		var pairs []uint16
		for i := 0; i < int(n%6) && 2*i+2 <= len(b); i++ {
			pairs = append(pairs, binary.LittleEndian.Uint16(b[2*i:]))
		}
		from := int(lo % uint(len(b)+1))
		checkPairs(t, b, from, from+int(hi%uint(len(b)-from+3)), pairs)
	})
}

func BenchmarkPairs(b *testing.B) {
	buf := make([]byte, 1<<18)
	for i := range buf {
		buf[i] = byte(i * i >> 3)
	}
	for _, n := range []int{1, 3} {
		pairs := []uint16{0xff60, 0xff1f, 0xff20}[:n]
		for _, plain := range []bool{false, true} {
			b.Run(map[bool]string{false: "wide", true: "plain"}[plain]+string(rune('0'+n)), func(b *testing.B) {
				defer func(was bool) { wide = was }(wide)
				wide = wide && !plain
				b.SetBytes(int64(len(buf)))
				for b.Loop() {
					for range Pairs(buf, 0, len(buf), pairs) {
					}
				}
			})
		}
	}
}
