package ociruntime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// A few functions over JSON text that is known to be valid: they tell where in it things
// are, so that the rest can stay as it is, byte for byte.

// member is one member of an object: [start, end) is its value.
type member struct {
	name       string
	start, end int
}

// members lists the members of the object that begins at b[at].
func members(b []byte, at int) ([]member, error) {
	if at >= len(b) || b[at] != '{' {
		return nil, fmt.Errorf("no object at offset %d", at)
	}
	var all []member
	i := space(b, at+1)
	for b[i] != '}' {
		end := skipValue(b, i)
		var m member
		if err := json.Unmarshal(b[i:end], &m.name); err != nil {
			return nil, err
		}
		m.start = space(b, space(b, end)+1) // behind the colon
		m.end = skipValue(b, m.start)
		all = append(all, m)
		if i = space(b, m.end); b[i] == ',' {
			i = space(b, i+1)
		}
	}
	return all, nil
}

// elements lists the values of the array that begins at b[at], and where its ] is.
func elements(b []byte, at int) (all []member, closing int) {
	i := space(b, at+1)
	for b[i] != ']' {
		m := member{start: i, end: skipValue(b, i)}
		all = append(all, m)
		if i = space(b, m.end); b[i] == ',' {
			i = space(b, i+1)
		}
	}
	return all, i
}

// find returns the member of one name. Two of a name, or of names that differ in case, are
// an error: runtimes do not agree on which one counts.
func find(all []member, name string) (member, bool, error) {
	var got member
	n := 0
	for _, m := range all {
		if strings.EqualFold(m.name, name) {
			got = m
			n++
		}
	}
	if n > 1 || n == 1 && got.name != name {
		return got, false, fmt.Errorf("%q: written twice, or in another case: runtimes do not agree on what that means", name)
	}
	return got, n == 1, nil
}

// space returns the index of the first byte from i that is no white space (RFC 8259, ws).
func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns the index behind the value that begins at b[i].
func skipValue(b []byte, i int) int {
	depth := 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			i = skipString(b, i) - 1
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				if depth < 0 {
					return i // a number or word that ended here
				}
				return i + 1
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
		case ':':
		}
	}
	return i
}

// skipString returns the index behind the string that begins at b[i].
func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		n := bytes.IndexAny(b[i:], `"\`)
		if n < 0 {
			return len(b)
		}
		if i += n; b[i] == '"' {
			return i + 1
		}
		i++ // what a backslash stands before
	}
	return i
}
