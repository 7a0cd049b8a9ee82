package shim

import (
	"bytes"
	_ "embed"
)

//go:embed build/vfix-measure
var measure []byte

// Measure returns a copy of vfix-measure, a static x86-64 program that measures what the
// vsyscall page, system calls and the vDSO cost here (src/measure).
func Measure() []byte { return bytes.Clone(measure) }
