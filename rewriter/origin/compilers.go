// The compilers that a file names.

package origin

import (
	"bytes"
	"strconv"
	"strings"

	"vfix.dev/vfix/rewriter/elf"
)

// maxComment bounds the bytes read of .comment. More of it than that says nothing.
const maxComment = 1 << 20

// Makers is what .comment says of the compilers.
type Makers uint8

// What the compilers of a file are known to be.
const (
	Unnamed Makers = iota // nothing, or not all of them
	Old                   // each is a gcc before 5
	Recent                // another one is among them
)

// ipaRA is the first gcc that has -fipa-ra.
const ipaRA = 5

// Compilers reads .comment, in which each compiler leaves one string an object file.
func Compilers(f *elf.File) Makers {
	s := f.Section(".comment")
	if s == nil || s.Type == elf.SHTNobits || s.Size == 0 {
		return Unnamed
	}
	if s.Size > maxComment {
		return Recent
	}
	b, err := f.Bytes(s.Off, s.Size) // who reads sees what cannot be read
	if err != nil {
		return Recent
	}
	found := Unnamed
	for line := range bytes.SplitSeq(b, []byte{0}) {
		switch text := strings.TrimSpace(string(line)); {
		case text == "":
		case oldGCC(text):
			found = max(found, Old)
		default:
			found = Recent
		}
	}
	return found
}

// oldGCC recognises "GCC: (GNU) 4.1.2 20080704 (Red Hat 4.1.2-55)": the version stands behind
// the name of the distribution in brackets.
func oldGCC(text string) bool {
	rest, ok := strings.CutPrefix(text, "GCC: (")
	if !ok {
		return false
	}
	depth := 1
	for i, c := range rest {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 {
			major, _, _ := strings.Cut(strings.TrimSpace(rest[i+1:]), ".")
			n, err := strconv.Atoi(major)
			return err == nil && n < ipaRA
		}
	}
	return false
}
