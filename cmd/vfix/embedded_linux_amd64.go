// The program that vfix carries for Linux on amd64: a line that names it, and the output of gzip(1) (Makefile,
// the target runtime). deploy/release finds them in the bytes of this program.

package main

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
)

// embedded has the files that make builds, and a README, so that Go compiles before make has run.
//
//go:embed embedded/programs
var embedded embed.FS

// embeddedProgram is a program by its name: vfix-runtime.
func embeddedProgram(name string) ([]byte, error) {
	b, err := embedded.ReadFile("embedded/programs/" + name + ".gz")
	if err != nil {
		return nil, fmt.Errorf("%s: this vfix was built without it: build it with make", name)
	}
	_, packed, _ := bytes.Cut(b, []byte("\n"))
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return io.ReadAll(z)
}
