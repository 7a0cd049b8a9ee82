package main

import (
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"fmt"
	"io"
	"regexp"
)

// carriedMark begins a program that another one carries (Makefile, the target runtime): a line, and then what
// gzip made of it.
var carriedMark = regexp.MustCompile(`Vfix-([a-z]+), compressed\n`)

// gzipMagic is how a gzip file begins (RFC 1952).
const gzipMagic = "\x1f\x8b"

// carried returns the build info of each Go program that is carried in the bytes of another.
func carried(program []byte) (all []*buildinfo.BuildInfo, err error) {
	for _, at := range carriedMark.FindAllSubmatchIndex(program, -1) {
		name, packed := program[at[2]:at[3]], program[at[1]:]
		if !bytes.HasPrefix(packed, []byte(gzipMagic)) {
			continue // the line in some code
		}
		z, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return nil, fmt.Errorf("vfix-%s: %w", name, err)
		}
		z.Multistream(false) // behind it is the rest of the program
		text, err := io.ReadAll(z)
		if err != nil {
			return nil, fmt.Errorf("vfix-%s: %w", name, err)
		}
		info, err := buildinfo.Read(bytes.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("vfix-%s: %w", name, err)
		}
		all = append(all, info)
	}
	return all, nil
}
