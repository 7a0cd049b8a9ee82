package patch

import (
	"bytes"
	debugelf "debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
)

// TestTestELF checks the builder with another reader.
func TestTestELF(t *testing.T) {
	for _, e := range []testELF{
		{text: []byte{0xc3}},
		{text: []byte{0xc3}, dyn: true, tight: true, soname: "libx.so.1", notes: 2, fdes: []uint64{testTextOff},
			symbols: []testSym{{name: "time", value: testTextOff, size: 1, typ: elf.STTFunc, bind: 1}},
			rela:    []testRela{{at: 0x2000, typ: elf.RRelative, addend: testTextOff}}},
		{text: []byte{0xc3}, bare: true, interp: "/lib64/ld-linux-x86-64.so.2", notes: -1},
	} {
		f, err := debugelf.NewFile(bytes.NewReader(e.build()))
		if err != nil {
			t.Fatalf("%+v: %v", e, err)
		}
		if text := f.Section(".text"); e.bare != (text == nil) {
			t.Errorf("%+v: .text is %v", e, text)
		}
		if e.dyn {
			syms, err := f.DynamicSymbols()
			if err != nil || len(syms) != 1 || syms[0].Name != "time" {
				t.Errorf("dynamic symbols %v, %v", syms, err)
			}
			if names, err := f.DynString(debugelf.DT_SONAME); err != nil || names[0] != e.soname {
				t.Errorf("DT_SONAME %v, %v", names, err)
			}
		}
	}
}

// TestTestELFRuns runs a file of the builder.
func TestTestELFRuns(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("needs Linux on amd64")
	}
	const status = 42
	exit := asm(t, "b83c000000 ; mov $60,%eax\n bf2a000000 ; mov $42,%edi\n 0f05")
	for _, e := range []testELF{{text: exit}, {text: exit, tight: true, bare: true}, {text: exit, dyn: true, dynamic: true}} {
		path := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(path, e.build(), 0o755); err != nil {
			t.Fatal(err)
		}
		err := exec.Command(path).Run()
		var got *exec.ExitError
		if !errors.As(err, &got) || got.ExitCode() != status {
			t.Errorf("got %v, want exit status %d", err, status)
		}
	}
}
