package patch

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
)

// TestTail: what a linker puts behind what is loaded is not a payload, whatever has become of the headers
// that speak of it; anything else is one, and the file gets no segment.
func TestTail(t *testing.T) {
	e := testELF{text: asm(t, timeStubText), symbols: []testSym{{"f", testBase + testTextOff, 18, elf.STTFunc, 1}}}
	sound := e.build()
	shoff := binary.LittleEndian.Uint64(sound[40:])
	noHeaders := func(b []byte) { clear(b[40:48]); clear(b[60:64]) }
	for _, c := range []struct {
		name   string
		change func(b []byte) []byte
		room   bool
	}{
		{"sound", func(b []byte) []byte { return b }, true},
		{"no word of the section headers", func(b []byte) []byte { noHeaders(b); return b }, true},
		{"e_shoff behind the end", func(b []byte) []byte { binary.LittleEndian.PutUint64(b[40:], 1<<40); return b }, true},
		{"e_shnum is 0", func(b []byte) []byte { clear(b[60:62]); return b }, true},
		{"e_shstrndx is 0", func(b []byte) []byte { clear(b[62:64]); return b }, true},
		{"cut in the middle of the section headers", func(b []byte) []byte { return b[:len(b)-elf.ShdrSize-7] }, true},
		{"padding of a page", func(b []byte) []byte { noHeaders(b); return append(b, make([]byte, 5000)...) }, true},
		{"a payload", func(b []byte) []byte { return append(b, bytes.Repeat([]byte("payload!"), 700)...) }, false},
		{"a short payload", func(b []byte) []byte { return append(b, "MEI\x0c\x0b\x0a\x0b\x0e"...) }, false},
		{"a payload behind a forgotten tail", func(b []byte) []byte { noHeaders(b); return append(b, "MEI\x0c\x0b\x0a\x0b\x0e"...) }, false},
		{"a program as payload", func(b []byte) []byte { noHeaders(b); return append(b[:shoff:shoff], sound...) }, false},
		{"a script as payload", func(b []byte) []byte { noHeaders(b); return append(b, "\x00.shstrtab\x00#!/bin/sh\nexit\n"...) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := c.change(bytes.Clone(sound))
			p := planFile(t, file, Options{})
			if p.usesSegment() != c.room {
				t.Fatalf("an injected segment: %v, want %v: %s", p.usesSegment(), c.room, p.Patches[0].Reason)
			}
			out := applyPlan(t, p, file)
			if _, err := Verify(bytes.NewReader(file), int64(len(file)), bytes.NewReader(out), int64(len(out)), Options{}); err != nil {
				t.Error(err)
			}
			if !c.room && len(out) != len(file) {
				t.Errorf("%d bytes, before %d", len(out), len(file))
			}
		})
	}
	// The headers alone are zeros: the names say what they were.
	e.symbols = nil
	stripped := e.build()
	shoff = binary.LittleEndian.Uint64(stripped[40:])
	names := bytes.Index(stripped, []byte("\x00.shstrtab\x00"))
	if names < 0 {
		t.Fatal("no section names")
	}
	clear(stripped[shoff:])
	noHeaders(stripped)
	if p := planFile(t, stripped, Options{}); !p.usesSegment() && !slices.Contains(stripped[names:], 1) {
		t.Error(p.Patches[0].Reason)
	}
}
