package fallback_test

// Members that only these tests have.

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/tests/imagetest"
)

// objectM is an archive of one relocatable object with a call site: sections are .text and the
// table of names.
func objectM(name string) imagetest.TestMember {
	const header, names = 64, "\x00.text\x00.shstrtab\x00"
	callTime := []byte{0x48, 0xc7, 0xc0, 0x00, 0x04, 0x60, 0xff, 0xff, 0xd0, 0xc3}
	o := append(make([]byte, header), callTime...)
	namesAt := len(o)
	o = append(o, names...)
	sections := len(o)
	o = append(o, make([]byte, header)...) // section 0; their headers are as long
	for _, s := range [][]any{
		{uint32(1), uint32(1), uint64(6), uint64(0), uint64(header), uint64(len(callTime))},
		{uint32(7), uint32(3), uint64(0), uint64(0), uint64(namesAt), uint64(len(names))},
	} {
		start := len(o)
		for _, v := range s {
			o, _ = binary.Append(o, binary.LittleEndian, v)
		}
		o = append(o, make([]byte, header-(len(o)-start))...)
	}
	copy(o, "\x7fELF\x02\x01\x01")
	for at, v := range map[int]uint16{16: 1, 18: 62, 40: uint16(sections), 58: header, 60: 3, 62: 2} {
		binary.LittleEndian.PutUint16(o[at:], v)
	}
	return imagetest.FileM(name, fmt.Appendf(nil, "!<arch>\n%-48s%-10d`\n%s", "x.o/", len(o), o))
}

// loadedM is a program with a call site that stays, which a loader of that path loads. Its
// program headers are at the end: PT_LOAD as in FindingM, and PT_INTERP.
func loadedM(name, interp string) imagetest.TestMember {
	const header, entry = 64, 56
	m := imagetest.FindingM(name, false)
	at := len(m.Body)
	m.Body = append(m.Body, m.Body[header:header+entry]...)
	text := uint64(at + 2*entry)
	for _, v := range []any{uint32(3), uint32(4), []uint64{text, text, text, uint64(len(interp) + 1), uint64(len(interp) + 1), 1}} {
		m.Body, _ = binary.Append(m.Body, binary.LittleEndian, v)
	}
	m.Body = append(m.Body, interp+"\x00"...)
	binary.LittleEndian.PutUint64(m.Body[32:], uint64(at)) // e_phoff
	m.Body[56] = 2                                         // e_phnum
	return m
}

func verifyWith(t testing.TB, source, against string, s fallback.Shim) *images.Verified {
	t.Helper()
	v, err := images.Verify(context.Background(), source, images.VerifyOptions{Against: against, ScanOptions: images.ScanOptions{Shim: s}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}
