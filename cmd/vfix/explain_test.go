package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// stub is time() of glibc 2.13 and what becomes of it.
func stub() listing {
	b := func(s string) []byte {
		var out []byte
		if _, err := fmt.Sscanf(s, "%x", &out); err != nil {
			panic(err)
		}
		return out
	}
	return listing{
		title:  "lib/x86_64-linux-gnu/libc-2.13.so: time at 0x9f8b0, live, in time",
		reason: "entry: the whole function is a stub and nothing branches into it",
		before: []instruction{
			{0x9f8a0, b("c3"), "ret", false},
			{0x9f8b0, b("4883ec08"), "sub $0x8,%rsp", true},
			{0x9f8b4, b("48c7c0000460ff"), "mov $0xffffffffff600400,%rax", true},
			{0x9f8bb, b("ffd0"), "call *%rax", true},
			{0x9f8bd, b("4883c408"), "add $0x8,%rsp", false},
			{0x9f8c1, b("c3"), "ret", false},
		},
		after: []instruction{
			{0x9f8a0, b("c3"), "ret", false},
			{0x9f8b0, b("e94b071600"), "jmp 0x200000 <vfix_time>", true},
			{0x9f8b5, b("0f1f8400000000"), "nopl 0x0(%rax,%rax,1)", true},
			{0x9f8bc, b("90"), "nop", true},
			{0x9f8bd, b("4883c408"), "add $0x8,%rsp", false},
			{0x9f8c1, b("c3"), "ret", false},
		},
	}
}

func TestExplain(t *testing.T) {
	left := stub()
	left.reason, left.after = "left: the register is stored in memory at 0x9f8c8", nil
	for _, c := range []struct {
		golden string
		l      listing
		s      stream
	}{
		{"explain-file.txt", stub(), stream{}},
		{"explain-120.txt", stub(), stream{tty: true, width: 120}},
		{"explain-80.txt", stub(), stream{tty: true, width: 80}},
		{"explain-60.txt", stub(), stream{tty: true, width: 60}},
		{"explain-left.txt", left, stream{tty: true, width: 80}},
	} {
		var b bytes.Buffer
		c.l.write(&b, c.s)
		golden(t, c.golden, b.String())
		for line := range strings.Lines(b.String()) {
			if n := len(strings.TrimRight(line, "\n")); c.s.width > 0 && n > c.s.width && !strings.HasPrefix(line, "lib/") {
				t.Errorf("%s: a line of %d columns: %s", c.golden, n, line)
			}
		}
	}
}
