package shim

import (
	"bytes"
	_ "embed"
)

//go:embed build/vfix-trace
var trace []byte

// Trace returns a copy of vfix-trace, a static x86-64 program that runs a command where the
// kernel does not serve the vsyscall page (src/trace).
func Trace() []byte { return bytes.Clone(trace) }
