// Finds the programs that a vfix for linux/amd64 carries (Makefile, the target runtime): a
// line that names the program, and the output of gzip(1).

// Package programs has what several packages do with programs: files in memory that can be executed, the programs that vfix
// carries, and those whose visible code is only part of what they run.
package programs

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"

	"vfix.dev/vfix/internal/textutil"
)

// mark is the line. This constant itself is not found, because it begins differently.
var mark = textutil.LazyRegexp(`Vfix-([a-z]+), compressed\n`)

// Carried is a program that vfix carries.
type Carried struct {
	Name   string // vfix-runtime, vfix-nri
	packed []byte // and everything after it in the other program
}

// In lists the programs in the bytes of another.
func CarriedIn(program []byte) (all []Carried) {
	for _, at := range mark().FindAllSubmatchIndex(program, -1) {
		all = append(all, Carried{"vfix-" + string(program[at[2]:at[3]]), program[at[1]:]})
	}
	return all
}

// Unpack returns the bytes of the program. More than most of them are an error.
func (p Carried) Unpack(most int64) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(p.packed))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	z.Multistream(false) // the rest of the other program follows it
	b, err := io.ReadAll(io.LimitReader(z, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("more than %d bytes", most)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	return b, nil
}
