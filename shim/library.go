package shim

import (
	"bytes"
	_ "embed"
)

//go:embed build/libvfix.so
var library []byte

//go:embed build/libvfix32.so
var library32 []byte

// Library returns a copy of libvfix.so, the preload library for x86-64 programs of glibc 2.3
// and later, and of musl. It needs no other library.
func Library() []byte { return bytes.Clone(library) }

// Library32 returns a copy of an i386 library with nothing in it. It stands beside Library
// where ld.so looks for 32-bit programs' libraries, so that it has nothing to complain of.
func Library32() []byte { return bytes.Clone(library32) }
