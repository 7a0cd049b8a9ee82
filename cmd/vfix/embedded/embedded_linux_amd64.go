package embedded

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"io/fs"
)

// What make built, and a README, so that Go compiles where make has not run. Package install finds
// vfix-runtime in the bytes of this program.
//
//go:embed programs
var programs embed.FS

func file(name string) string { return "programs/" + name + ".gz" }

// Program is one of the programs. Each file has one line before what gzip made of it.
func Program(name string) ([]byte, error) {
	b, err := programs.ReadFile(file(name))
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

// Size is the size in bytes of a compressed program in this one, 0 for none.
func Size(name string) int64 {
	fi, err := fs.Stat(programs, file(name))
	if err != nil {
		return 0
	}
	return fi.Size()
}
