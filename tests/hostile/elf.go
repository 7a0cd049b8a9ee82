// ELF files with one field, or a few that belong together, changed. Offsets are those of the
// ELF gABI's 64-bit structures.
package main

import (
	"bytes"
	"encoding/binary"
	"slices"
)

var le = binary.LittleEndian

// Fields of the ELF header.
const (
	eClass, eData, eType, eMachine, eEntry            = 4, 5, 16, 18, 24
	ePhoff, eShoff, ePhentsize, ePhnum                = 32, 40, 54, 56
	eShentsize, eShnum, eShstrndx, ehSize             = 58, 60, 62, 64
	phSize, pType, pOffset, pVaddr                    = 56, 0, 8, 16
	pFilesz, pMemsz, pAlign                           = 32, 40, 48
	ptLoad, ptDynamic, ptNote, ptEhFrame, ptInterp    = 1, 2, 4, 0x6474e550, 3
	dtHash, dtStrtab, dtSymtab, dtRelasz, dtStrsz     = 4, 5, 6, 8, 10
	dtRela, dtRelaent, dtGNUHash, dtInit, dtInitArray = 7, 9, 0x6ffffef5, 12, 25
	dtSyment                                          = 11
)

// elfDefect is a good file made wrong.
type elfDefect struct {
	name    string
	library bool
	apply   func([]byte) []byte
}

// put changes one field of a copy: the width is that of v.
func put(at int, v any) func([]byte) []byte {
	return func(b []byte) []byte { return poke(slices.Clone(b), at, v) }
}

func poke(b []byte, at int, v any) []byte {
	var field bytes.Buffer
	check(binary.Write(&field, le, v))
	copy(b[at:], field.Bytes())
	return b
}

// segment finds the nth program header of a type, from 0.
func segment(b []byte, typ uint32, n int) int {
	for i := range int(le.Uint16(b[ePhnum:])) {
		at := int(le.Uint64(b[ePhoff:])) + i*phSize
		if le.Uint32(b[at:]) != typ {
			continue
		}
		if n--; n < 0 {
			return at
		}
	}
	panic("the good file has no such segment")
}

// inSegment changes a field of a program header.
func inSegment(typ uint32, n, field int, v any) func([]byte) []byte {
	return func(b []byte) []byte { return poke(slices.Clone(b), segment(b, typ, n)+field, v) }
}

// allSegments changes a field of every program header.
func allSegments(field int, v any) func([]byte) []byte {
	return func(b []byte) []byte {
		b = slices.Clone(b)
		for i := range int(le.Uint16(b[ePhnum:])) {
			poke(b, int(le.Uint64(b[ePhoff:]))+i*phSize+field, v)
		}
		return b
	}
}

// dynamic finds the value of a dynamic entry.
func dynamic(b []byte, tag uint64) int {
	at := int(le.Uint64(b[segment(b, ptDynamic, 0)+pOffset:]))
	for ; le.Uint64(b[at:]) != 0; at += 16 {
		if le.Uint64(b[at:]) == tag {
			return at + 8
		}
	}
	panic("the good file has no such dynamic entry")
}

func inDynamic(tag uint64, v uint64) func([]byte) []byte {
	return func(b []byte) []byte { return poke(slices.Clone(b), dynamic(b, tag), v) }
}

// inTable changes what a dynamic entry points to; the first segment holds file offset = vaddr.
func inTable(tag uint64, at int, v any) func([]byte) []byte {
	return func(b []byte) []byte { return poke(slices.Clone(b), int(le.Uint64(b[dynamic(b, tag):]))+at, v) }
}

func cut(n int) func([]byte) []byte {
	return func(b []byte) []byte { return slices.Clone(b[:n]) }
}

func good(b []byte) []byte { return b }

const huge = uint64(1)<<63 - 1

var elfDefects = []elfDefect{
	{"good-program", false, good},
	{"good-library", true, good},
	{"empty", false, cut(0)},
	{"one-byte", false, cut(1)},
	{"magic-only", false, cut(4)},
	{"header-cut", false, cut(ehSize - 1)},
	{"program-headers-cut", false, cut(ehSize + phSize/2)},
	{"text-cut", false, cut(0x1100)},
	{"last-byte-cut", false, func(b []byte) []byte { return slices.Clone(b[:len(b)-1]) }},
	{"script", false, func([]byte) []byte { return []byte("#!/bin/sh\n\x48\xc7\xc0\x00\x04\x60\xff\xff\xd0\n") }},
	{"class-0", false, put(eClass, uint8(0))},
	{"class-1", false, put(eClass, uint8(1))},
	{"32-bit", false, put(eMachine, uint16(3))},
	{"big-endian", false, put(eData, uint8(2))},
	{"aarch64", false, put(eMachine, uint16(183))},
	{"no-type", false, put(eType, uint16(0))},
	{"core", false, put(eType, uint16(4))},
	{"entry-outside", false, put(eEntry, huge)},
	{"program-headers-outside", false, put(ePhoff, uint64(1)<<40)},
	{"program-headers-overflow", false, put(ePhoff, ^uint64(0)-8)},
	{"program-headers-misaligned", false, put(ePhoff, uint64(65))},
	{"program-header-count-huge", false, put(ePhnum, uint16(0xffff))},
	{"program-header-count-zero", false, put(ePhnum, uint16(0))},
	{"program-header-size-zero", false, put(ePhentsize, uint16(0))},
	{"program-header-size-odd", false, put(ePhentsize, uint16(57))},
	{"segment-offset-outside", false, inSegment(ptLoad, 0, pOffset, uint64(1)<<40)},
	{"segment-offset-overflow", false, inSegment(ptLoad, 0, pOffset, ^uint64(0)-0xfff)},
	{"segment-filesz-huge", false, inSegment(ptLoad, 0, pFilesz, huge)},
	{"segment-filesz-over-memsz", false, inSegment(ptLoad, 0, pMemsz, uint64(1))},
	{"segment-memsz-overflow", false, inSegment(ptLoad, 1, pMemsz, ^uint64(0))},
	{"segment-vaddr-overflow", false, inSegment(ptLoad, 1, pVaddr, ^uint64(0)-0xfff)},
	{"segment-vaddr-in-page", false, inSegment(ptLoad, 1, pVaddr, uint64(0xffffffffff600000))},
	{"segment-align-odd", false, inSegment(ptLoad, 0, pAlign, uint64(3))},
	{"segment-align-huge", false, inSegment(ptLoad, 0, pAlign, uint64(1)<<62)},
	{"segments-overlap", false, func(b []byte) []byte {
		first := segment(b, ptLoad, 0)
		return poke(slices.Clone(b), segment(b, ptLoad, 1)+pVaddr, le.Uint64(b[first+pVaddr:])+0x800)
	}},
	{"segments-descend", false, func(b []byte) []byte {
		b = slices.Clone(b)
		x, y := segment(b, ptLoad, 0), segment(b, ptLoad, 1)
		for i := range phSize {
			b[x+i], b[y+i] = b[y+i], b[x+i]
		}
		return b
	}},
	{"segments-all-load", false, allSegments(pType, uint32(ptLoad))},
	{"segments-all-note", false, allSegments(pType, uint32(ptNote))},
	{"segments-all-empty", false, allSegments(pFilesz, uint64(0))},
	{"note-outside", false, inSegment(ptNote, 0, pOffset, huge)},
	{"note-huge", false, inSegment(ptNote, 0, pFilesz, uint64(1)<<32)},
	{"interpreter-outside", true, func(b []byte) []byte {
		b = slices.Clone(b)
		at := segment(b, ptNote, 0)
		poke(b, at, uint32(ptInterp))
		return poke(b, at+pOffset, huge)
	}},
	{"sections-outside", false, put(eShoff, uint64(1)<<40)},
	{"sections-overflow", false, put(eShoff, ^uint64(0)-63)},
	{"sections-in-header", false, put(eShoff, uint64(8))},
	{"section-count-huge", false, put(eShnum, uint16(0xffff))},
	{"section-count-zero", false, put(eShnum, uint16(0))},
	{"section-size-odd", false, put(eShentsize, uint16(1))},
	{"section-names-outside", false, put(eShstrndx, uint16(0xfffe))},
	{"sections-of-0xff", false, fillSections(0xff)},
	{"sections-of-0", false, fillSections(0)},
	{"dynamic-outside", true, inSegment(ptDynamic, 0, pOffset, huge)},
	{"dynamic-huge", true, inSegment(ptDynamic, 0, pFilesz, uint64(1)<<40)},
	{"dynamic-without-end", true, func(b []byte) []byte {
		b = slices.Clone(b)
		at := segment(b, ptDynamic, 0)
		for i, end := int(le.Uint64(b[at+pOffset:])), int(le.Uint64(b[at+pOffset:])+le.Uint64(b[at+pFilesz:])); i < end; i += 16 {
			if le.Uint64(b[i:]) == 0 {
				poke(b, i, uint64(0x6fff0000))
			}
		}
		return b
	}},
	{"symbols-outside", true, inDynamic(dtSymtab, huge)},
	{"symbol-size-zero", true, inDynamic(dtSyment, 0)},
	{"strings-outside", true, inDynamic(dtStrtab, huge)},
	{"strings-huge", true, inDynamic(dtStrsz, huge)},
	{"hash-outside", true, inDynamic(dtHash, huge)},
	{"hash-count-huge", true, inTable(dtHash, 4, ^uint32(0))},
	{"hash-buckets-huge", true, inTable(dtHash, 0, ^uint32(0))},
	{"hash-chain-loops", true, func(b []byte) []byte {
		b = slices.Clone(b)
		at := int(le.Uint64(b[dynamic(b, dtHash):]))
		buckets, chains := int(le.Uint32(b[at:])), int(le.Uint32(b[at+4:]))
		for i := range chains {
			poke(b, at+8+4*(buckets+i), uint32(i))
		}
		return b
	}},
	{"gnu-hash-outside", true, inDynamic(dtGNUHash, huge)},
	{"gnu-hash-buckets-huge", true, inTable(dtGNUHash, 0, ^uint32(0))},
	{"gnu-hash-bloom-huge", true, inTable(dtGNUHash, 8, ^uint32(0))},
	{"gnu-hash-first-symbol-huge", true, inTable(dtGNUHash, 4, ^uint32(0))},
	{"relocations-outside", true, inDynamic(dtRela, huge)},
	{"relocations-huge", true, inDynamic(dtRelasz, huge)},
	{"relocation-size-zero", true, inDynamic(dtRelaent, 0)},
	{"init-outside", true, inDynamic(dtInit, huge)},
	{"frame-table-outside", true, inSegment(ptEhFrame, 0, pOffset, huge)},
	{"frame-table-count-huge", true, func(b []byte) []byte {
		return poke(slices.Clone(b), int(le.Uint64(b[segment(b, ptEhFrame, 0)+pOffset:]))+8, ^uint32(0))
	}},
}

// fillSections overwrites the section header table.
func fillSections(with byte) func([]byte) []byte {
	return func(b []byte) []byte {
		b = slices.Clone(b)
		for i := int(le.Uint64(b[eShoff:])); i < len(b); i++ {
			b[i] = with
		}
		return b
	}
}
