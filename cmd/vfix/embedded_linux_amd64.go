// The programs that vfix has in it: vfix-runtime, which engines on Linux on amd64 execute, and vfix-nri.

package main

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"io/fs"
)

// What make built for package install, which finds it in the bytes of this program, and a README, so
// that Go compiles where make has not run.
//
//go:embed embedded
var embedded embed.FS

// embeddedProgram is one of the programs. Each file has one line before what gzip made of it.
func embeddedProgram(name string) ([]byte, error) {
	b, err := embedded.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("%s: this vfix was built without it: build it with make", name)
	}
	_, packed, _ := bytes.Cut(b, []byte("\n"))
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// runtimeSize is the size in bytes of the compressed vfix-runtime in this program, 0 for none.
func runtimeSize() int64 {
	fi, err := fs.Stat(embedded, runtimeFile)
	if err != nil {
		return 0
	}
	return fi.Size()
}
