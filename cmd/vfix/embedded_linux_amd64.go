// The program that vfix carries for Linux on amd64: the output of gzip(1) (Makefile, the target runtime).

package main

import (
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
	f, err := embedded.Open("embedded/programs/" + name + ".gz")
	if err != nil {
		return nil, fmt.Errorf("%s: this vfix was built without it: build it with make", name)
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return io.ReadAll(z)
}
