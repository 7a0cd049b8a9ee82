// Package tinyelf makes the smallest legacy program: a static ELF file for x86-64 that asks the
// vsyscall page for the time, as those of glibc before 2.14 do, and then reports by its exit status
// whether it has been patched. It needs no library, no loader and no file.
package tinyelf

import "encoding/binary"

// The exit statuses of the program. If it is not patched and the page is missing, the signal
// SIGSEGV ends it.
const (
	Patched   = 0
	Unpatched = 3
	NoTime    = 4 // the call returned 0
)

const (
	base       = 0x400000 // vaddr of the file's first byte, as with old linkers
	headerSize = 64       // ELF header and program header, gABI, chapters 4 and 5
	phdrSize   = 56
	noteSize   = 32
	noteAt     = headerSize + 2*phdrSize
	codeAt     = noteAt + noteSize
)

// pageByte is the index in code of a byte that is put in later: the data of vfix itself must not refer to the page.
const pageByte = 7

// code is what runs.
var code = []byte{
	0x31, 0xff, // xor    %edi,%edi
	0x48, 0xc7, 0xc0, 0x00, 0x04, 0, 0xff, // mov    $0xffffffffff600400,%rax
	0xff, 0xd0, // call   *%rax
	0xbf, NoTime, 0, 0, 0, // mov    $4,%edi
	0x48, 0x85, 0xc0, // test   %rax,%rax
	0x74, 0x10, // je     exit
	0xbf, Unpatched, 0, 0, 0, // mov    $3,%edi
	0x80, 0x3d, 0xe2, 0xff, 0xff, 0xff, 0xc7, // cmpb   $0xc7,mov+1(%rip)
	0x74, 0x02, // je     exit
	0x31, 0xff, // xor    %edi,%edi
	0xb8, 60, 0, 0, 0, // exit: mov $60,%eax (exit)
	0x0f, 0x05, // syscall
}

// Bytes returns the file. number goes into its note: files of different numbers differ.
func Bytes(number uint32) []byte {
	le := binary.LittleEndian
	b := make([]byte, codeAt, codeAt+len(code))
	copy(b, "\x7fELF\x02\x01\x01")
	const etExec, machine, version = 2, 62, 1
	le.PutUint16(b[16:], etExec)
	le.PutUint16(b[18:], machine)
	le.PutUint32(b[20:], version)
	le.PutUint64(b[24:], base+codeAt) // e_entry
	le.PutUint64(b[32:], headerSize)  // e_phoff
	le.PutUint16(b[52:], headerSize)
	le.PutUint16(b[54:], phdrSize)
	le.PutUint16(b[56:], 2) // e_phnum
	const ptLoad, ptNote, readable, executable, page = 1, 4, 4, 1, 0x1000
	header := func(at int, typ, flags uint32, off, size, align uint64) {
		le.PutUint32(b[at:], typ)
		le.PutUint32(b[at+4:], flags)
		le.PutUint64(b[at+8:], off)
		le.PutUint64(b[at+16:], base+off)
		le.PutUint64(b[at+24:], base+off)
		le.PutUint64(b[at+32:], size)
		le.PutUint64(b[at+40:], size)
		le.PutUint64(b[at+48:], align)
	}
	header(headerSize, ptLoad, readable|executable, 0, uint64(codeAt+len(code)), page)
	header(headerSize+phdrSize, ptNote, readable, noteAt, noteSize, 4)
	// A note as linkers write it: sizes of name and content, type 1 (NT_GNU_ABI_TAG), GNU; the
	// content: 0 (Linux), 2.6.18, the kernel that it needs.
	for i, v := range []uint32{4, 16, 1, 0x00554e47, 0, 2, 6, number} {
		le.PutUint32(b[noteAt+4*i:], v)
	}
	b = append(b, code...)
	b[codeAt+pageByte] = 0x60
	return b
}
