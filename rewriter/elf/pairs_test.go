package elf

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

// checkPairs compares both ways to search with a slow one.
func checkPairs(t *testing.T, b []byte, lo, hi int, pair uint16) {
	t.Helper()
	var want []int
	for i := lo; i < min(hi, len(b)-1); i++ {
		if binary.LittleEndian.Uint16(b[i:]) == pair {
			want = append(want, i)
		}
	}
	defer func(was bool) { wide = was }(wide)
	for _, wide = range [...]bool{wide, false} {
		if got := slices.Collect(Pairs(b, lo, hi, pair)); !slices.Equal(got, want) {
			t.Fatalf("%d bytes, %d to %d, pair %x, wide %v: got %v, want %v", len(b), lo, hi, pair, wide, got, want)
		}
		for i := range Pairs(b, lo, hi, pair) {
			if i != want[0] {
				t.Fatalf("the first: got %d, want %d", i, want[0])
			}
			break
		}
	}
}

// TestPairs searches random bytes with many hits, few, and none.
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
		checkPairs(t, b, lo, lo+r.IntN(len(b)-lo+3), uint16(r.IntN(4))|uint16(r.IntN(3))<<8)
	}
}

// FuzzPairs searches fuzzed bytes for the pair at their start.
func FuzzPairs(f *testing.F) {
	f.Add([]byte("\x60\xff\x00\x00aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\x60\xff"), uint(0), uint(200))
	f.Fuzz(func(t *testing.T, b []byte, lo, hi uint) {
		if len(b) < 2 {
			return
		}
		from := int(lo % uint(len(b)+1))
		checkPairs(t, b, from, from+int(hi%uint(len(b)-from+3)), binary.LittleEndian.Uint16(b))
	})
}
