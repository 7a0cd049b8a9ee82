// The disassembly in each width, against testdata.

package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"vfix.dev/vfix/cmd/vfix/listing"
	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/rewriter/x86"
)

// stub is time() of glibc 2.13 and what becomes of it.
func stub() listing.Site {
	b := func(s string) []byte {
		var out []byte
		if _, err := fmt.Sscanf(s, "%x", &out); err != nil {
			panic(err)
		}
		return out
	}
	return listing.Site{
		Title:   "lib/x86_64-linux-gnu/libc-2.13.so: time at 0x9f8b0, live, in time",
		Reasons: []string{"live: the register is called", "entry: the whole function is a stub and nothing branches into it"},
		Before: []x86.Line{
			{Vaddr: 0x9f8a0, Bytes: b("c3"), Text: "ret", Changed: false},
			{Vaddr: 0x9f8b0, Bytes: b("4883ec08"), Text: "sub $0x8,%rsp", Changed: true},
			{Vaddr: 0x9f8b4, Bytes: b("48c7c0000460ff"), Text: "mov $0xffffffffff600400,%rax", Changed: true},
			{Vaddr: 0x9f8bb, Bytes: b("ffd0"), Text: "call *%rax", Changed: true},
			{Vaddr: 0x9f8bd, Bytes: b("4883c408"), Text: "add $0x8,%rsp", Changed: false},
			{Vaddr: 0x9f8c1, Bytes: b("c3"), Text: "ret", Changed: false},
		},
		After: []x86.Line{
			{Vaddr: 0x9f8a0, Bytes: b("c3"), Text: "ret", Changed: false},
			{Vaddr: 0x9f8b0, Bytes: b("e94b071600"), Text: "jmp 0x200000 <vfix_time>", Changed: true},
			{Vaddr: 0x9f8b5, Bytes: b("0f1f8400000000"), Text: "nopl 0x0(%rax,%rax,1)", Changed: true},
			{Vaddr: 0x9f8bc, Bytes: b("90"), Text: "nop", Changed: true},
			{Vaddr: 0x9f8bd, Bytes: b("4883c408"), Text: "add $0x8,%rsp", Changed: false},
			{Vaddr: 0x9f8c1, Bytes: b("c3"), Text: "ret", Changed: false},
		},
	}
}

func TestExplain(t *testing.T) {
	left := stub()
	left.Reasons, left.After = []string{"left: the register is stored in memory at 0x9f8c8"}, nil
	for _, c := range []struct {
		golden string
		l      listing.Site
		s      screen.Stream
	}{
		{"explain-file.txt", stub(), screen.Stream{}},
		{"explain-120.txt", stub(), screen.Stream{Tty: true, Width: 120}},
		{"explain-80.txt", stub(), screen.Stream{Tty: true, Width: 80}},
		{"explain-60.txt", stub(), screen.Stream{Tty: true, Width: 60}},
		{"explain-left.txt", left, screen.Stream{Tty: true, Width: 80}},
	} {
		var b bytes.Buffer
		c.l.Write(&b, c.s)
		golden(t, c.golden, b.String())
		for line := range strings.Lines(b.String()) {
			if n := len(strings.TrimRight(line, "\n")); c.s.Width > 0 && n > c.s.Width && !strings.HasPrefix(line, "lib/") {
				t.Errorf("%s: a line of %d columns: %s", c.golden, n, line)
			}
		}
	}
}
