package rewriter

import (
	"bytes"
	"fmt"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/shim"
)

// asReleased makes of an original what a release without a record made of it, whose code
// differs from today's in a byte that nothing runs; the release is known until the test ends.
// spent is the program header it spends, -1 for today's choice.
func asReleased(t *testing.T, file []byte, spent int) []byte {
	t.Helper()
	today := planFile(t, file, Options{})
	f := today.file
	place, err := f.findRoom()
	if err == nil && spent >= 0 {
		place, err = f.roomFor(spent)
	}
	if err != nil {
		t.Fatal(err)
	}
	p := &Plan{file: f, Patches: today.Patches}
	for _, q := range p.Patches {
		if q.Form != Left {
			p.Edits = append(p.Edits, Edit{Offset: q.Offset, Old: q.Before, New: q.After, Why: "call site"})
		}
	}
	if err := p.addSegmentOf(place, shim.Injected(), nil, func(h hooks, note []byte) []byte {
		page, err := segmentPage(shim.Code(), place.vaddr, h, note, p.Patches, &unwinding{})
		if err != nil {
			t.Fatal(err)
		}
		return page
	}); err != nil {
		t.Fatal(err)
	}
	sortEdits(p.Edits)
	out := applyPlan(t, p, file)
	segment, _ := scanFile(t, out).file.injected()
	code := shim.Code()
	page := out[segment.Off:][:elf.PageSize]
	page[len(shim.Magic())-1] = firstRelease[0]
	clear(page[len(code):])
	old := release{version: firstRelease, size: len(code), layout: shim.Injected()}
	old.sha256 = old.sum(page)
	before := releases
	releases = append(releases[:len(releases):len(releases)], old)
	t.Cleanup(func() { releases = before })
	return out
}

// TestRefresh: what an older vfix patched is patched anew, to what this one makes of the
// original, and passes the verification against it before and after.
func TestRefresh(t *testing.T) {
	const at = testBase + testTextOff
	fn := []testSym{{"f", at, 100, elf.STTFunc, 1}}
	for _, c := range []struct {
		name, text string
		e          testELF
	}{
		{"entry", timeStubText, testELF{symbols: fn}},
		{"entry without sub", movRaxTime + callRax + "c3", testELF{symbols: fn}},
		{"entry, movabs and jmp", "49bb 000460ffffffffff 41ffe3", testELF{symbols: fn}},
		{"call", "53" + movRaxTime + callRax + "5b c3", testELF{symbols: fn}},
		{"call through r11", "53 49bb 000460ffffffffff 41ffd3 5b c3", testELF{symbols: fn}},
		{"lea", movRaxTime + "31ff" + callRax + "c3", testELF{symbols: fn}},
		{"lea behind padding", nops16[:18] + "0f1f00" + movRaxTime + "31ff" + callRax + "c3", testELF{symbols: fn}},
		{"lea of movabs", "4155" + absR13Time + "31ff 41ffd5 415d c3", testELF{symbols: fn}},
		{"no section headers", "53" + movRaxTime + callRax + "5b c3", testELF{bare: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.e.text = asm(t, c.text)
			file := c.e.build()
			patched := applyPlan(t, planFile(t, file, Options{}), file)
			old := asReleased(t, file, -1)
			verify := func(what string, after []byte) {
				if _, err := Verify(bytes.NewReader(file), int64(len(file)), bytes.NewReader(after), int64(len(after)), Options{}); err != nil {
					t.Errorf("verify of %s: %v", what, err)
				}
			}
			verify("the older one", old)
			r := scanFile(t, old)
			if !r.Refresh || r.Injected != firstRelease || len(r.Sites) != 1 {
				t.Fatalf("refresh %v, injected %q, %d sites", r.Refresh, r.Injected, len(r.Sites))
			}
			fresh := applyPlan(t, planFile(t, old, Options{}), old)
			verify("the refreshed one", fresh)
			if r := scanFile(t, fresh); r.Refresh || len(r.Sites) != 0 {
				t.Errorf("refreshed again: %+v", r.Sites)
			}
			// Nothing but the program header that was spent, which the older one did not keep.
			size := len(shim.Code()) + recordAlign - 1
			segment, _ := scanFile(t, patched).file.injected()
			note := segment.Off + uint64(size-size%recordAlign)
			got, want := bytes.Clone(fresh), bytes.Clone(patched)
			kept := elf.PhdrSize
			if c.name == "lea of movabs" {
				kept = recordHead + 64 // it takes the load for one of 7 bytes behind a nop
			}
			clear(got[note:][:kept])
			clear(want[note:][:kept])
			if !bytes.Equal(got, want) {
				t.Errorf("differs from what is made of the original: %s", firstDifference(got, want))
			}
		})
	}
}

func firstDifference(a, b []byte) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("offset %#x: %x, want %x", i, a[i:min(i+12, len(a))], b[i:min(i+12, len(b))])
		}
	}
	return fmt.Sprintf("%d bytes, want %d", len(a), len(b))
}

// TestForeignSegment: a segment whose code is no vfix's is left alone.
func TestForeignSegment(t *testing.T) {
	e := testELF{text: asm(t, timeStubText)}
	file := e.build()
	out := applyPlan(t, planFile(t, file, Options{}), file)
	segment, _ := scanFile(t, out).file.injected()
	out[segment.Off+0x40] ^= 0xff
	if r := scanFile(t, out); r.Refresh || len(r.Sites) != 0 {
		t.Errorf("refresh %v, %d sites", r.Refresh, len(r.Sites))
	}
	if _, err := Verify(bytes.NewReader(file), int64(len(file)), bytes.NewReader(out), int64(len(out)), Options{}); err == nil {
		t.Error("verified")
	}
}
