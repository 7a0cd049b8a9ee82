package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// helper is the file that each mutated package gets: which mutant is on, and which ones were come by.
const helper = `package %s

import (
	"os"
	"strconv"
	"syscall"
)

var activeMutant__, reachedMutants__ = mutants__()

func mutants__() (int, []byte) {
	n, _ := strconv.Atoi(os.Getenv("VFIX_MUTANT"))
	var reached []byte
	if name := os.Getenv("VFIX_MUTANTS_REACHED"); name != "" {
		if fd, err := syscall.Open(name, syscall.O_RDWR|syscall.O_CLOEXEC, 0); err == nil {
			reached, _ = syscall.Mmap(fd, 0, %d, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
			syscall.Close(fd)
		}
	}
	return n, reached
}

func mutant__(n int) bool {
	if reachedMutants__ != nil {
		reachedMutants__[n] = 1
	}
	return n == activeMutant__
}

func mutated__[T ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr](n int, v T) T {
	if mutant__(n) {
		return v + 1
	}
	return v
}
`

// write puts the mutants into a source, line by line as it was.
func write(src []byte, mutants []*mutant) []byte {
	var all []insertion
	for _, m := range mutants {
		for _, e := range m.Edits {
			e.text = strings.Replace(e.text, "mutant__(%d)", fmt.Sprintf("mutant__(%d)", m.Number), 1)
			e.text = strings.Replace(e.text, "](%d, ", fmt.Sprintf("](%d, ", m.Number), 1)
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b insertion) int {
		if c := cmp.Compare(a.at, b.at); c != 0 {
			return c
		}
		if a.closes != b.closes {
			if a.closes {
				return -1
			}
			return 1
		}
		size := cmp.Compare(a.to-a.from, b.to-b.from)
		if a.closes {
			return cmp.Or(size, cmp.Compare(b.order, a.order))
		}
		return cmp.Or(-size, cmp.Compare(a.order, b.order))
	})
	var out bytes.Buffer
	at := 0
	for _, e := range all {
		out.Write(src[at:e.at])
		out.WriteString(e.text)
		at = e.at
	}
	out.Write(src[at:])
	return out.Bytes()
}
