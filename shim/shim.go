// Package shim holds the code that runs inside a legacy process, built by make from
// shim/src: the page of trampolines and hooks that the rewriter injects.
//
// The injected segment is two pages, SegmentSize bytes, mapped R-X:
//
//	+0x0000  code: what Code returns, then zeros
//	+0x1000  state: zeros in the file, or a file name behind room for six pointers; the hook
//	         stores the pointers, may change the name, and seals it R--
//
// No offset is typed here: they come from nm, through embedded/injected.sym.
package shim

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"sync"
)

// PageSize is the page size of x86-64 in bytes; SegmentSize is the size of the injected
// segment, filesz and memsz.
const (
	PageSize    = 0x1000
	SegmentSize = 2 * PageSize
)

// magicSize is the length in bytes of vfix_magic (src/trampolines.S).
const magicSize = 16

// Trampoline is where the two trampolines of one function are, as offsets into the segment.
type Trampoline struct {
	Plain uint32 // for callers that follow the C convention
	Keep  uint32 // exact: changes rax only, and keeps the red zone
}

// Layout is where the parts of the injected segment are, as offsets from its start.
type Layout struct {
	Gettimeofday, Time, Getcpu Trampoline
	EntryHook                  uint32 // at e_entry
	EntryHole                  uint32 // its rel32 to the file's own entry, 4 bytes
	InitHook                   uint32 // at DT_INIT or init_array[0]
	InitHole                   uint32 // its rel32 to the file's own initialiser, 4 bytes
	State                      uint32
	String                     uint32 // behind the pointers of the state
	// Described and DescribedEnd bound what the instructions of Unwind are about.
	Described, DescribedEnd uint32
}

var layout = sync.OnceValue(func() Layout { return parse(built("injected.sym")) })

// Injected returns the layout of the segment.
func Injected() Layout { return layout() }

// Code returns a copy of the injected code, at most PageSize bytes.
func Code() []byte { return page("injected.bin") }

// JavaCode returns a copy of the same code with one thing more: its hook has a JDK read
// /vfix/cgroups where /proc/cgroups misleads it (src/cgroups.c). Its layout is the same.
func JavaCode() []byte { return page("injected-java.bin") }

func page(name string) []byte {
	code := built(name)
	if len(code) > PageSize || len(code) < magicSize {
		panic(fmt.Sprintf("shim: %s: %d bytes", name, len(code)))
	}
	return code
}

// Magic returns the bytes at the head of the code by which a patched file is known:
// a fixed text that ends with the version of the format.
func Magic() []byte { return Code()[:magicSize] }

// parse reads "name offset" lines. It panics on anything else: make built the file, and a
// binary without it must not start.
func parse(text []byte) Layout {
	at := map[string]uint32{}
	for line := range bytes.Lines(text) {
		var name, offset string
		if _, err := fmt.Sscan(string(line), &name, &offset); err != nil {
			panic(fmt.Sprintf("shim: injected.sym: %q: %v", line, err))
		}
		n, err := strconv.ParseUint(offset, 16, 32)
		if err != nil || n >= SegmentSize {
			panic(fmt.Sprintf("shim: injected.sym: offset of %s: %q", name, offset))
		}
		at[name] = uint32(n)
	}
	get := func(name string) uint32 {
		n, ok := at[name]
		if !ok {
			panic("shim: injected.sym: no " + name)
		}
		return n
	}
	pair := func(name string) Trampoline {
		return Trampoline{Plain: get("vfix_" + name), Keep: get("vfix_keep_" + name)}
	}
	return Layout{
		Gettimeofday: pair("gettimeofday"), Time: pair("time"), Getcpu: pair("getcpu"),
		EntryHook: get("vfix_hook_entry"), EntryHole: get("vfix_hole_entry"),
		InitHook: get("vfix_hook_init"), InitHole: get("vfix_hole_init"),
		State: get("vfix_state"), String: get("vfix_string"),
		Described: get("vfix_described"), DescribedEnd: get("vfix_described_end"),
	}
}

// CFI returns the call frame instructions (DWARF 4, 6.4.2) of the code from Layout.Described to
// Layout.DescribedEnd. They begin where rsp+8 is the canonical frame address and the return
// address is right below it; the code alignment factor is 1, the data alignment factor -8.
func CFI() []byte {
	b := built("injected.cfi")
	// A CIE, then the FDE: length, CIE pointer, start and size in 4 bytes each, 1 for an empty
	// augmentation; nops at its end.
	const lengthSize, head = 4, 4*4 + 1
	size := func() int { return lengthSize + int(binary.LittleEndian.Uint32(b)) }
	b = b[size():]
	if size() != len(b) || len(b) < head {
		panic("shim: injected.cfi: not a CIE and an FDE")
	}
	return bytes.TrimRight(b[head:], "\x00")
}
