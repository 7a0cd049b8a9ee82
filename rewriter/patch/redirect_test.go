package patch

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/shim"
)

// jvm is a library that loads the name of /proc/cgroups: "NAME" in the text is the displacement of the first byte
// of the data, "NEXT" that of the byte behind an instruction that ends with it.
func jvm(t *testing.T, text, data string) (*testELF, []byte) {
	t.Helper()
	e := &testELF{
		dyn: true, tight: true, dynamic: true, soname: "libjvm.so", extra: []elf.Dyn{{Tag: elf.DTNeeded, Val: 1}, {Tag: elf.DTInit, Val: testTextOff}},
		data: []byte(data),
	}
	parts := strings.Split(text, "NAME")
	for i, part := range parts {
		e.text = append(e.text, asm(t, part)...)
		if i < len(parts)-1 {
			e.text = append(e.text, 0, 0, 0, 0)
		}
	}
	var at uint64
	for i, part := range parts[:len(parts)-1] {
		at += uint64(len(asm(t, part)))
		binary.LittleEndian.PutUint32(e.text[at+uint64(4*i):], uint32(e.dataVaddr()-(e.textVaddr()+at+uint64(4*i)+4)))
	}
	e.symbols = []testSym{{"f", e.textVaddr(), uint64(len(e.text)), elf.STTFunc, 1}}
	return e, e.build()
}

const (
	cgroupsName = "/proc/cgroups\x00"
	loadsName   = "53 488d35NAME 31c0 5b c3"
)

var javaFix = Options{Fixes: []find.Fix{find.JavaCgroups}}

// TestRedirect: the load leads to the copy in the state page, the file is verified, and patching it again changes
// nothing.
func TestRedirect(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"alone", loadsName},
		{"beside a call site", "53 488d35NAME" + movRaxTime + callRax + "5b c3"},
		{"in another register", "53 4c8d2dNAME 31c0 5b c3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, file := jvm(t, c.text, cgroupsName)
			if p := planFile(t, file, Options{}); p.Redirect != nil {
				t.Error("planned, and nobody asked for it")
			}
			p := planFile(t, file, javaFix)
			if !p.Redirected() || len(p.Redirect.Before) != find.RedirectLen {
				t.Fatalf("not fixed: %+v", p.Redirect)
			}
			out := applyPlan(t, p, file)
			after := scanFile(t, out)
			segment, _ := injected(after.File.File)
			state := segment.Vaddr + uint64(shim.Injected().String)
			at := e.textVaddr() + 1
			load := after.File.Mem(at, find.RedirectLen)
			if got := at + find.RedirectLen + elf.Signed(load[3:]); got != state || !bytes.Equal(load[:3], p.Redirect.Before[:3]) {
				t.Errorf("loads %#x by % x, want %#x by % x", got, load[:3], state, p.Redirect.Before[:3])
			}
			if b := after.File.Mem(state, uint64(len(cgroupsName))); string(b) != cgroupsName {
				t.Errorf("the copy is %q", b)
			}
			v, err := Verify(bytes.NewReader(file), int64(len(file)), bytes.NewReader(out), int64(len(out)), Options{})
			if err != nil || v.Redirect == nil || v.Redirect.Fix != find.JavaCgroups {
				t.Errorf("verify: %+v, %v", v, err)
			}
			if after.Fixed != find.JavaCgroups {
				t.Errorf("the file has the fix %q", after.Fixed)
			}
			if after.Redirect != nil || !planFile(t, out, javaFix).Empty() || !planFile(t, out, Options{}).Empty() {
				t.Error("patched again")
			}
			for _, off := range []uint64{p.Redirect.Offset + 3, segment.Off + uint64(shim.Injected().String) + 1, segment.Off + uint64(len(shim.JavaCode())) - 1} {
				wrong := bytes.Clone(out)
				wrong[off] ^= 1
				if err := verify(file, wrong, Options{}); err == nil {
					t.Errorf("a wrong byte at offset %#x is not noticed", off)
				}
			}
		})
	}
}

// TestNoRedirect: files that need no fix, and files for which it is not proved to be safe.
func TestNoRedirect(t *testing.T) {
	for _, c := range []struct {
		name, text, data string
		change           func(*testELF)
		want             string // part of the reason; "" if the file needs no fix
	}{
		{name: "another library", text: loadsName, data: cgroupsName, change: func(e *testELF) { e.soname = "libjava.so" }},
		{name: "a JDK with the correction", text: loadsName, data: cgroupsName + "/sys/fs/cgroup/cgroup.controllers\x00"},
		{name: "a JDK that does not read the file", text: loadsName, data: "/proc/self/cgroup\x00"},
		{name: "another name", text: loadsName, data: "/proc/cgroups.old\x00"},
		{"the name twice", loadsName, cgroupsName + cgroupsName, nil, "is there 2 times"},
		{"no load", "53 31c0 5b c3", cgroupsName, nil, "0 instructions"},
		{"two loads", "53 488d35NAME 488d3dNAME 5b c3", cgroupsName, nil, "2 instructions"},
		{"a mov", "53 488b35NAME 31c0 5b c3", cgroupsName, nil, "not a lea"},
		{"a lea from another register", "53 488db3NAME 31c0 5b c3", cgroupsName, nil, "0 instructions"},
		{"a lea with a needless prefix", "53 498d35NAME 31c0 5b c3", cgroupsName, nil, "not a lea"},
		{"a lea of 32 bits", "53 90 8d35NAME 31c0 5b c3", cgroupsName, nil, "not a lea"},
		{"its address in data", loadsName, cgroupsName, func(e *testELF) { e.data = le(append(e.data, 0, 0), e.dataVaddr()) }, "is in data"},
		{"a part of another instruction", "53 48b8 488d35NAME 00 5b c3", cgroupsName, nil, "vaddr"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, file := jvm(t, c.text, c.data)
			if c.change != nil {
				c.change(e)
				file = e.build()
			}
			p := planFile(t, file, javaFix)
			switch {
			case !p.Empty() || p.Redirected():
				t.Errorf("planned: %+v", p.Redirect)
			case c.want == "" && p.Redirect != nil:
				t.Errorf("got %+v, want none", p.Redirect)
			case p.Redirect != nil && (p.Redirect.Vaddr != 0 || p.Redirect.Before != nil):
				t.Errorf("has an instruction, and a reason: %+v", p.Redirect)
			case c.want != "" && (p.Redirect == nil || !strings.Contains(p.Redirect.Reason, c.want)):
				t.Errorf("got %+v, want a reason with %q", p.Redirect, c.want)
			}
		})
	}
}

// TestJavaLayout: the rewriter's facts about the injected code are the same with the fix in it.
func TestJavaLayout(t *testing.T) {
	plain, java := shim.Code(), shim.JavaCode()
	layout := shim.Injected()
	// From the trampolines to the hooks only displacements of calls into the C code differ.
	differ := 0
	for i := layout.Described; i < layout.DescribedEnd; i++ {
		if plain[i] != java[i] {
			differ++
		}
	}
	if differ > 8 || !bytes.Contains(java, []byte("/vfix/cgroups\x00")) || bytes.Contains(plain, []byte("cgroup")) {
		t.Errorf("%d bytes of the trampolines and hooks differ", differ)
	}
	if uint64(layout.String) != elf.PageSize+6*8 {
		t.Errorf("the name is at %#x", layout.String)
	}
}
