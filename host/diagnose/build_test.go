package diagnose

import (
	"bytes"
	"cmp"
	"testing/fstest"

	"vfix.dev/vfix/rewriter/find"
)

// A core file and the library that it is about, in which each field can be changed.

const (
	ehdrSize, phdrSize = 64, 56
	etCore, emX8664    = 4, 62
	ptLoad, ptNote     = 1, 4
	prPid              = 32
	testBase           = 0x7f0000000000 // where the library is mapped
	testStack          = 0x7ffd00000000
	testCode           = 0x200 // offset of time() in the library
	testRet            = testCode + 13
	timeAddr           = 0xffffffffff600400
)

var testID = []byte("0123456789abcdefghij")

// timeStub is glibc 2.13's time().
var timeStub = []byte{
	0x48, 0x83, 0xec, 0x08, // sub $8,%rsp
	0x48, 0xc7, 0xc0, 0x00, 0x04, 0x60, 0xff, // mov $0xffffffffff600400,%rax
	0xff, 0xd0, // call *%rax
	0x48, 0x83, 0xc4, 0x08, // add $8,%rsp
	0xc3, // ret
}

func put(words ...uint64) []byte {
	var b []byte
	for _, w := range words {
		b = le.AppendUint64(b, w)
	}
	return b
}

func put32(words ...uint32) []byte {
	var b []byte
	for _, w := range words {
		b = le.AppendUint32(b, w)
	}
	return b
}

func programHeader(typ, flags uint32, off, vaddr, filesz, memsz uint64) []byte {
	return append(put32(typ, flags), put(off, vaddr, 0, filesz, memsz, 1)...)
}

func elfHeader(typ uint16, phnum int) []byte {
	h := make([]byte, ehdrSize)
	copy(h, "\x7fELF\x02\x01\x01")
	le.PutUint16(h[16:], typ)
	le.PutUint16(h[18:], emX8664)
	le.PutUint32(h[20:], 1)
	le.PutUint64(h[32:], ehdrSize)
	le.PutUint16(h[52:], ehdrSize)
	le.PutUint16(h[54:], phdrSize)
	le.PutUint16(h[56:], uint16(phnum))
	return h
}

func note(name string, typ uint32, desc []byte) []byte {
	name += "\x00"
	b := put32(uint32(len(name)), uint32(len(desc)), typ)
	b = append(b, name...)
	b = append(b, make([]byte, up4(uint64(len(name)))-uint64(len(name)))...)
	b = append(b, desc...)
	return append(b, make([]byte, up4(uint64(len(desc)))-uint64(len(desc)))...)
}

// library is a shared library with time() in it and a build ID.
func library() []byte {
	const size, noteOff = 0x400, 0x100
	id := note("GNU", 3, testID)
	b := make([]byte, size)
	h := elfHeader(3, 2)
	h = append(h, programHeader(ptLoad, 5, 0, 0, size, size)...)
	h = append(h, programHeader(ptNote, 4, noteOff, noteOff, uint64(len(id)), uint64(len(id)))...)
	copy(b, h)
	copy(b[noteOff:], id)
	table := unwindTable(uint32(len(timeStub)))
	copy(b[testCode-len(table):], table)
	copy(b[testCode:], timeStub)
	return b
}

// unwindTable is an .eh_frame with one entry, for a function of n bytes directly after it, which gives the
// rewriter the start and end of the code.
func unwindTable(n uint32) []byte {
	cie := []byte("\x14\x00\x00\x00\x00\x00\x00\x00\x01zR\x00\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01\x00\x00")
	// Its length, the way back to the CIE, the distance to the function, its length, no more data.
	return append(cie, put32(16, uint32(len(cie))+4, 12, n, 0)...)
}

// testCore describes a core file; fields with the zero value are omitted from it.
type testCore struct {
	signal   int
	code     int
	addr     uint64
	rip, rsp uint64
	args     string // "": prog -x
	noInfo   bool   // no NT_SIGINFO
	noFile   bool   // no NT_FILE
	stack    []byte
	memory   []memory // further segments
	auxv     []byte
	mapped   bool // the kernel's mapping of the page is in it
	debugger bool // a debugger wrote it: it has section headers
}

type memory struct {
	vaddr uint64
	b     []byte
}

// crashedCore is a core of a call of time() from the library.
func crashedCore() testCore {
	return testCore{
		signal: sigsegv, code: 1, addr: timeAddr, rip: timeAddr, rsp: testStack + 64,
		stack:  append(make([]byte, 64), put(testBase+testRet, 0, 0)...),
		memory: []memory{{testBase, library()}},
	}
}

func (t testCore) bytes() []byte {
	status := make([]byte, prstatusSize)
	le.PutUint16(status[prCursig:], uint16(t.signal))
	le.PutUint32(status[prPid:], 42)
	le.PutUint64(status[regRIP:], t.rip)
	le.PutUint64(status[regRSP:], t.rsp)
	info := make([]byte, prpsinfoSize)
	le.PutUint32(info[psPid:], 42)
	copy(info[psFname:], "prog")
	copy(info[psPsargs:], cmp.Or(t.args, "prog -x "))
	notes := append(note("CORE", ntPrstatus, status), note("CORE", ntPrpsinfo, info)...)
	if !t.noInfo {
		si := make([]byte, 128)
		le.PutUint32(si, uint32(t.signal))
		le.PutUint32(si[siCode:], uint32(t.code))
		le.PutUint64(si[siAddr:], t.addr)
		notes = append(notes, note("CORE", ntSiginfo, si)...)
	}
	if t.auxv != nil {
		notes = append(notes, note("CORE", ntAuxv, t.auxv)...)
	}
	if !t.noFile {
		files := put(2, page, testBase, testBase+page, 0, testBase+page, testBase+2*page, 1)
		files = append(files, "/lib/libold.so\x00/lib/libold.so\x00"...)
		notes = append(notes, note("CORE", ntFile, files)...)
	}
	segments := append([]memory{{testStack, t.stack}}, t.memory...)
	if t.mapped {
		segments = append(segments, memory{find.PageVaddr, make([]byte, page)})
	}
	h := elfHeader(etCore, 1+len(segments))
	off := uint64(len(h) + phdrSize*(1+len(segments)))
	h = append(h, programHeader(ptNote, 0, off, 0, uint64(len(notes)), 0)...)
	body := bytes.Clone(notes)
	for _, s := range segments {
		h = append(h, programHeader(ptLoad, 6, off+uint64(len(body)), s.vaddr, uint64(len(s.b)), uint64(len(s.b)))...)
		body = append(body, s.b...)
	}
	h = append(h, body...)
	if t.debugger { // one section, which is the table of names
		le.PutUint64(h[40:], uint64(len(h)))
		le.PutUint16(h[58:], 64)
		le.PutUint16(h[60:], 1)
		section := make([]byte, 64)
		section[4] = 3 // SHT_STRTAB
		h = append(h, section...)
	}
	return h
}

// testRoot has the library.
func testRoot() fstest.MapFS { return fstest.MapFS{"lib/libold.so": {Data: library(), Mode: 0o644}} }
