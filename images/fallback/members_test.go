package fallback_test

// Members that only these tests have.

import (
	"context"
	"encoding/binary"
	"testing"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/tests/imagetest"
)

// loadedM is a program with a call site that stays, which a loader of that path loads. Its
// program headers are at the end: PT_LOAD as in FindingM, and PT_INTERP.
func loadedM(name, interp string) imagetest.TestMember {
	const header, entry = 64, 56
	m := imagetest.LeftM(name, false)
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
