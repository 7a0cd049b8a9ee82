// The program vfix-runtime, which engines on Linux on amd64 execute.

package main

import (
	"embed"
	"io/fs"
)

// What make built for package install, which finds it in the bytes of this program, and a README, so
// that Go compiles where make has not run.
//
//go:embed embedded
var embedded embed.FS

// runtimeSize is the size in bytes of the compressed vfix-runtime in this program, 0 for none.
func runtimeSize() int64 {
	fi, err := fs.Stat(embedded, "embedded/vfix-runtime.gz")
	if err != nil {
		return 0
	}
	return fi.Size()
}
