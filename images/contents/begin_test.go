package contents

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"hash/crc32"
	"strings"
	"testing"
)

// The limits of an archive: what is in it below them is examined, and no more is.
func TestZipLimits(t *testing.T) {
	archive := func(members int, last []byte) []byte {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for range members - 1 {
			z.CreateRaw(&zip.FileHeader{Name: "x"})
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: "last", Method: zip.Store})
		if err == nil {
			_, err = w.Write(last)
		}
		if err != nil {
			t.Fatal(err)
		}
		z.Close()
		return b.Bytes()
	}
	const half = maxMembers / 2
	for members, want := range map[int]string{half - 1: "", half: "a zip archive: last: more than 131072 members, not examined"} {
		b := archive(half+1, archive(members, nil))
		info, err := examineNested(bytes.NewReader(b), int64(len(b)))
		if err != nil || (info != nil) != (want != "") || info != nil && info.passed != want {
			t.Errorf("%d members: got %+v, %v", members, info, err)
		}
	}
	script := []byte("#!/bin/sh\necho this is long enough\n")
	b := archive(1, script)
	r, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	for more, want := range map[int64]string{0: "", 1: "last: 35 bytes, too large to be unpacked here, not examined"} {
		look := &zipLook{unpacked: maxUnpacked - int64(len(script)) + more}
		if look.member(r.File[0], "last", 1); look.why != want {
			t.Errorf("%d more: got %q", more, look.why)
		}
	}
}

// TestBegin: begin returns the first bytes of a member, or false, and then the member is unpacked.
func TestBegin(t *testing.T) {
	program := append([]byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x3e\x00"), strings.Repeat("code", 20_000)...)
	class := append([]byte("\xca\xfe\xba\xbe\x00\x00\x00\x34"), strings.Repeat("class", 2000)...)
	const emptyBlock = "\x00\x00\x00\xff\xff" // stored, not the last (RFC 1951, 3.2.4)
	for _, c := range []struct {
		name, before string
		content      []byte
		begun        bool
	}{
		{"program", "", program, true},
		{"class", "", class, true},
		{"short", "", []byte("short"), false},
		{"a program behind empty blocks", strings.Repeat(emptyBlock, 100), program, false},
	} {
		var packed, archive bytes.Buffer
		packed.WriteString(c.before)
		w, _ := flate.NewWriter(&packed, flate.DefaultCompression)
		w.Write(c.content)
		w.Close()
		z := zip.NewWriter(&archive)
		to, err := z.CreateRaw(&zip.FileHeader{Name: c.name, Method: zip.Deflate, CRC32: crc32.ChecksumIEEE(c.content),
			CompressedSize64: uint64(packed.Len()), UncompressedSize64: uint64(len(c.content))})
		if err != nil {
			t.Fatal(err)
		}
		to.Write(packed.Bytes())
		z.Close()
		r, err := zip.NewReader(bytes.NewReader(archive.Bytes()), int64(archive.Len()))
		if err != nil {
			t.Fatal(err)
		}
		look := &zipLook{}
		for range 2 { // with the same decompressor
			var head [elfHead]byte
			if begun := look.begin(r.File[0], head[:]); begun != c.begun || begun && !bytes.HasPrefix(c.content, head[:]) {
				t.Errorf("%s: got %t and %q", c.name, begun, head)
			}
		}
		look = &zipLook{}
		if look.member(r.File[0], c.name, 1); (look.unpacked > 0) != bytes.HasPrefix(c.content, program[:4]) {
			t.Errorf("%s: %d bytes were unpacked", c.name, look.unpacked)
		}
	}
}
