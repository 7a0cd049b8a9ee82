package shim

import (
	"bytes"
	_ "embed"
)

var (
	//go:embed build/vfix-measure-libc
	measureLibc []byte
	//go:embed build/vfix-stubs.so
	stubs []byte
	//go:embed build/vfix-stubs-twin.so
	twinStubs []byte
	//go:embed build/libvfix-twin.so
	twinLibrary []byte
)

// MeasureLibc returns a copy of vfix-measure-libc, a dynamic x86-64 program that measures what
// the functions of the libc cost that it is run with (src/linked).
func MeasureLibc() []byte { return bytes.Clone(measureLibc) }

// Stubs returns a copy of a library with time, gettimeofday and sched_getcpu as old glibcs have
// them: they call the vsyscall page.
func Stubs() []byte { return bytes.Clone(stubs) }

// TwinStubs is Stubs for the twin of the page, which no kernel maps, and TwinLibrary the preload
// library that serves it: on every host they do what Stubs and Library do without the page.
func TwinStubs() []byte { return bytes.Clone(twinStubs) }

// TwinLibrary returns a copy of libvfix.so as it is built for the twin of the page.
func TwinLibrary() []byte { return bytes.Clone(twinLibrary) }
