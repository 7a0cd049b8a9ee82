package patch

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/rewriter/elf"
	. "vfix.dev/vfix/rewriter/find"
)

// Tests on real files, which are not in the tree: in directories named by environment variables.

// eachELF scans the files below the directory in a variable.
func eachELF(t *testing.T, variable string, visit func(path string, file []byte, r *Report)) {
	t.Helper()
	root := os.Getenv(variable)
	if root == "" {
		t.Skipf("%s names no directory of files to scan", variable)
	}
	n := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // unreadable, or a device
		}
		file := mapELF(path)
		if file == nil {
			return nil
		}
		defer unix.Munmap(file)
		nameless := namelessEverywhere(t, file, 1<<16, len(file)+elf.EhdrSize)
		r, err := Scan(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return nil
		}
		if nameless && len(r.Sites) > 0 {
			t.Errorf("%s: called nameless: got %+v", path, r)
		}
		if r.Skipped == nil {
			n++
		}
		visit(path, file, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		t.Fatalf("no 64-bit x86-64 ELF file below %s", root)
	}
	t.Logf("%d files", n)
}

// mapELF maps the file into memory if it begins like an ELF file, which most do not. It stays in the kernel's
// cache, without a copy.
func mapELF(path string) []byte {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	magic := make([]byte, 4)
	if _, err := io.ReadFull(file, magic); err != nil || string(magic) != "\x7fELF" {
		return nil
	}
	info, err := file.Stat()
	if err != nil {
		return nil
	}
	all, _ := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_POPULATE)
	return all
}

// adjacentCalls finds the call of glibc 2.3 to 2.13 as bytes: 48 c7 c0 00 xx 60 ff ff d0,
// with one of the three values for xx. It returns their offsets.
func adjacentCalls(file []byte) map[uint64]bool {
	found := map[uint64]bool{}
	tail := []byte{0x60, 0xff, 0xff, 0xd0}
	for at := 0; ; at++ {
		n := bytes.Index(file[at:], tail)
		if n < 0 {
			return found
		}
		at += n
		if at < 5 || !bytes.Equal(file[at-5:at-1], []byte{0x48, 0xc7, 0xc0, 0x00}) {
			continue
		}
		if b := file[at-1]; b == 0 || b == 4 || b == 8 {
			found[uint64(at-5)] = true
		}
	}
}

// TestLegacy scans old root filesystems: every call that a search for its nine bytes finds is live and may be
// rewritten whole, and no reference in them is unknown.
func TestLegacy(t *testing.T) {
	calls, dormant := 0, 0
	eachELF(t, "VFIX_LEGACY_DIR", func(path string, file []byte, r *Report) {
		want := adjacentCalls(file)
		if r.Skipped != nil {
			if len(want) > 0 && !r.Skipped.Damaged() {
				t.Logf("%s: %s", path, r.Skipped)
			}
			return
		}
		for _, s := range r.Sites {
			if s.Verdict == DormantCall {
				dormant++
			}
			if !s.Verdict.Patchable() {
				t.Errorf("%s: %#x is %v: %s", path, s.Vaddr, s.Verdict, s.Reason)
			}
			if !want[s.Offset] {
				continue
			}
			delete(want, s.Offset)
			calls++
			if s.Verdict != Live || !s.Adjacent() || s.Calls != 1 {
				t.Errorf("%s: got %+v", path, s)
			}
			if isStub := bytes.HasSuffix(file[:s.Offset], subRsp8) && bytes.HasPrefix(file[s.Offset+9:], append(addRsp8[:4:4], opRet)); isStub != (s.Stub.Len == 18) {
				t.Errorf("%s: %#x: stub %v, got %+v", path, s.Vaddr, isStub, s.Stub)
			}
		}
		for off := range want {
			t.Errorf("%s: the call at offset %#x was not found", path, off)
		}
	})
	t.Logf("%d calls, %d dormant references", calls, dormant)
	if calls == 0 && !t.Failed() && !t.Skipped() {
		t.Error("no call site in any file")
	}
}

// TestModernSystem scans a current system, in which almost nothing calls the page: each finding must be the nine
// bytes, or the getcpu of OpenJDK.
func TestModernSystem(t *testing.T) {
	const openJDK = "_ZN2os5Linux20sched_getcpu_syscallEv"
	eachELF(t, "VFIX_MODERN_DIR", func(path string, file []byte, r *Report) {
		for _, s := range r.Sites {
			switch {
			case s.Verdict == Unknown:
				t.Errorf("%s: %#x (%v) is unknown: %s", path, s.Vaddr, s.Kind, s.Reason)
			case !s.Verdict.Patchable():
			case s.Symbol == openJDK && s.Function == Getcpu:
				t.Logf("%s: %#x: %s", path, s.Vaddr, s.Symbol)
			case adjacentCalls(file)[s.Offset]:
				t.Logf("%s: %#x: a call of %v", path, s.Vaddr, s.Function)
			default:
				t.Errorf("%s: %#x would be patched: %s", path, s.Vaddr, s.Reason)
			}
		}
	})
}
