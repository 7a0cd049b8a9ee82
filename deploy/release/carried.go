// Finds the program that a vfix for linux/amd64 carries (Makefile, the target runtime): a
// line that names the program, and the output of gzip(1).

package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"regexp"
)

// mark is the line. This constant itself is not found, because it begins differently.
var mark = regexp.MustCompile(`Vfix-([a-z]+), compressed\n`)

// carried is a program that vfix carries.
type carried struct {
	name   string // vfix-runtime
	packed []byte // and everything after it in the other program
}

// carriedIn lists the programs in the bytes of another.
func carriedIn(program []byte) (all []carried) {
	for _, at := range mark.FindAllSubmatchIndex(program, -1) {
		all = append(all, carried{"vfix-" + string(program[at[2]:at[3]]), program[at[1]:]})
	}
	return all
}

// unpack returns the bytes of the program.
func (p carried) unpack() ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(p.packed))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	z.Multistream(false) // the rest of the other program follows it
	return io.ReadAll(z)
}
