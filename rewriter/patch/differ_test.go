package patch

import (
	"bytes"
	"errors"
	"testing"

	"vfix.dev/vfix/rewriter/x86"
)

// TestListingAt: both sides are disassembled from their own bytes, at the byte of Verify's error; outside of code
// the listing is empty.
func TestListingAt(t *testing.T) {
	file := (&testELF{text: asm(t, "48c7c00004 60ff ffd0 c3 90 31c0 c3")}).build()
	after := applyPlan(t, planFile(t, file, Options{}), file)
	verify := func(b []byte) error {
		_, err := Verify(bytes.NewReader(file), int64(len(file)), bytes.NewReader(b), int64(len(b)), Options{})
		return err
	}
	if err := verify(after); err != nil {
		t.Fatal(err)
	}
	const at = testTextOff + 11 // the xor
	after[at] = 0x33
	var unplanned *UnplannedError
	if err := verify(after); !errors.As(err, &unplanned) || unplanned.Offset != at || unplanned.Got != 0x33 || unplanned.Want != 0x31 {
		t.Fatalf("got %v", err)
	}
	e, err := ListingAt(bytes.NewReader(file), int64(len(file)), bytes.NewReader(after), int64(len(after)), at)
	if err != nil || len(e.Before) == 0 || len(e.After) == 0 {
		t.Fatalf("got %+v, %v", e, err)
	}
	var was, is *x86.Line
	for i := range e.Before {
		if e.Before[i].Vaddr == testBase+at {
			was = &e.Before[i]
		}
	}
	for i := range e.After {
		if e.After[i].Vaddr == testBase+at {
			is = &e.After[i]
		}
	}
	if was == nil || is == nil || !is.Changed || was.Bytes[0] != 0x31 || is.Bytes[0] != 0x33 {
		t.Errorf("got %+v and %+v", was, is)
	}
	last := testTextOff + int64(len(asm(t, "48c7c00004 60ff ffd0 c3 90 31c0 c3"))) - 1
	if e, err := ListingAt(bytes.NewReader(file), int64(len(file)), bytes.NewReader(after), int64(len(after)), last); err != nil || len(e.Before) == 0 {
		t.Errorf("the last byte of the code: got %+v, %v", e, err)
	}
	if e, err := ListingAt(bytes.NewReader(file), int64(len(file)), bytes.NewReader(after), 16, at); err != nil || len(e.After) != 0 {
		t.Errorf("a file that ends before: got %+v, %v", e, err)
	}
	for _, off := range []int64{0x10, int64(len(file)) - 8, int64(len(file)) + 8} {
		e, err := ListingAt(bytes.NewReader(file), int64(len(file)), bytes.NewReader(after), int64(len(after)), off)
		if off != 0x10 && (err != nil || len(e.Before) != 0) {
			t.Errorf("offset %#x: got %+v, %v", off, e, err)
		}
	}
	if e, err := ListingAt(bytes.NewReader(nil), 0, bytes.NewReader(after), int64(len(after)), at); err != nil || len(e.Before) != 0 {
		t.Errorf("no ELF file: got %+v, %v", e, err)
	}
	broken := errors.New("broken")
	for reads := 0; ; reads++ {
		left := reads
		_, err := ListingAt(failing{Reader: bytes.NewReader(file), left: &left, err: broken}, int64(len(file)), bytes.NewReader(after), int64(len(after)), at)
		if left >= 0 {
			break
		}
		if !errors.Is(err, broken) {
			t.Errorf("read %d of the file before fails: %v", reads, err)
		}
	}
	left := 0
	if _, err := ListingAt(bytes.NewReader(file), int64(len(file)), failing{Reader: bytes.NewReader(after), left: &left, err: broken}, int64(len(after)), at); !errors.Is(err, broken) {
		t.Errorf("a read of the file after fails: %v", err)
	}
}
