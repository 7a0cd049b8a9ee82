package probe

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// program is vfix-measure as make built it: this package may not import the one that has it.
func program(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "shim", "build", "vfix-measure"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newRunner(t testing.TB) *Runner {
	t.Helper()
	r, err := NewRunner(program(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func run(t testing.TB, r *Runner, stdin []byte, args ...string) Outcome {
	t.Helper()
	o, err := r.Run(t.Context(), stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestRunner: in memory and on disk; the file on disk goes away.
func TestRunner(t *testing.T) {
	dir := t.TempDir()
	disk, err := put(dir, program(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]*Runner{"in memory": newRunner(t), "on disk": disk} {
		if o := run(t, r, nil, "probe", "syscall:time"); !o.OK() || !strings.HasPrefix(string(o.Stdout), "syscall:time 1") {
			t.Errorf("%s: got %+v", name, o)
		}
		if o := run(t, r, nil, "nothing"); o.Status != 2 || o.Stderr == "" {
			t.Errorf("%s: a usage error: got %+v", name, o)
		}
		if o := run(t, r, []byte{6, 0, 0, 0, 0, 0, 0, 0}, "--filter", "probe", "syscall:time"); o.Signal != SIGSYS {
			t.Errorf("%s: a filter that kills: got %+v", name, o)
		}
	}
	if err := disk.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := NewRunner([]byte("no program")); err == nil {
		t.Error("a file that is not a program may be run")
	}
}

// TestStart: a flood runs until it is stopped, or its time is over.
func TestStart(t *testing.T) {
	r := newRunner(t)
	said, stop, err := r.Start(t.Context(), "flood", t.TempDir(), "100")
	if err != nil {
		t.Fatal(err)
	}
	if line, err := said(); err != nil || line != "flooded 100" {
		t.Errorf("got %q, %v", line, err)
	}
	if o, err := stop(); err != nil || !o.OK() {
		t.Errorf("got %+v, %v", o, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // enough to start it on a busy machine
	defer cancel()
	_, stop, err = r.Start(ctx, "flood", t.TempDir(), "100")
	if err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if o, err := stop(); err == nil {
		t.Errorf("its time is over: got %+v", o)
	}
}

// vdsoImage is this kernel's vDSO.
func vdsoImage(t testing.TB) []byte {
	t.Helper()
	o := run(t, newRunner(t), nil, "vdso")
	if o.Status == StatusAbsent {
		t.Skip("requires vdso: this kernel has none")
	}
	return o.Stdout
}

func TestVDSO(t *testing.T) {
	image := vdsoImage(t)
	symbols, err := VDSO(image)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"__vdso_clock_gettime", "__vdso_gettimeofday", "__vdso_time", "__vdso_getcpu"} {
		i := slices.IndexFunc(symbols, func(s Symbol) bool { return s.Name == name })
		if i < 0 || symbols[i].Version != "LINUX_2.6" {
			t.Errorf("%s: not found, or of another version: %v", name, symbols)
		}
	}
	// Each section header with an offset, a size or a link that leads out of the image.
	const elfHeader, sectionLen = 64, 64 // bytes, Elf64_Ehdr and Elf64_Shdr
	le := binary.LittleEndian
	at, count := int(le.Uint64(image[40:])), int(le.Uint16(image[60:]))
	for n := range count {
		for field, value := range map[int]uint64{24: uint64(len(image)) - 1, 32: 1 << 40, 40: 1<<32 - 1} {
			bad := slices.Clone(image)
			le.PutUint64(bad[at+n*sectionLen+field:], value)
			if symbols, err := VDSO(bad); err == nil && len(symbols) > len(image) {
				t.Errorf("section %d, field %d: %d symbols", n, field, len(symbols))
			}
		}
	}
	for cut := range len(image) {
		if _, err := VDSO(image[:cut]); err == nil && cut < elfHeader {
			t.Errorf("cut to %d bytes: no error", cut)
		}
	}
}

// FuzzVDSO: no image makes the reader panic, or give more than it may.
func FuzzVDSO(f *testing.F) {
	image := vdsoImage(f)
	f.Add(image)
	f.Add(image[:64])
	f.Fuzz(func(t *testing.T, image []byte) {
		if symbols, err := VDSO(image); err == nil && len(symbols) > len(image) {
			t.Errorf("%d symbols", len(symbols))
		}
	})
}

// TestFilter: docker's default is long, allows clocks, and the kernel takes it.
func TestFilter(t *testing.T) {
	filter, forbidden, err := Filter(nil)
	if err != nil || len(forbidden) != 0 {
		t.Fatalf("got %v, %v", forbidden, err)
	}
	const least = 300 // docker allows more system calls than this
	if n := len(filter) / InstructionSize; n < least {
		t.Errorf("%d instructions, want one for each of more than %d system calls", n, least)
	}
	r := newRunner(t)
	if o := run(t, r, filter, "--filter", "probe", "syscall:time"); !o.OK() {
		t.Errorf("under it: %+v", o)
	}
	for profile, want := range map[string]string{
		`{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["reboot"], "action": "SCMP_ACT_ERRNO"}]}`:                                                                                         "",
		`{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["read", "time"], "action": "SCMP_ACT_ALLOW"}]}`:                                                                                   "clock_gettime gettimeofday",
		`{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["clock_gettime", "gettimeofday", "time"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 1, "op": "SCMP_CMP_EQ"}]}]}`: "",
	} {
		filter, forbidden, err := Filter([]byte(profile))
		if got := strings.Join(forbidden, " "); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", profile, got, err, want)
		}
		if o := run(t, r, filter, "--filter", "entries", "syscall:time"); !o.OK() {
			t.Errorf("under %s: %+v", profile, o)
		}
	}
	for _, bad := range []string{"", "{", "{}", `{"defaultAction": 1}`} {
		if _, _, err := Filter([]byte(bad)); err == nil {
			t.Errorf("profile %q: no error", bad)
		}
	}
}

// FuzzFilter: a profile is compiled to what the kernel's rules for jumps allow, or refused.
func FuzzFilter(f *testing.F) {
	f.Add([]byte(`{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 1, "value": 8, "op": "SCMP_CMP_MASKED_EQ"}]}]}`))
	f.Add([]byte(`{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["read"], "args": [{"index": 99999999, "value": 8}]}]}`))
	f.Fuzz(func(t *testing.T, profile []byte) {
		filter, _, err := Filter(profile)
		if err != nil {
			return
		}
		n := len(filter) / InstructionSize
		if n == 0 || n > maxLength {
			t.Fatalf("%d instructions", n)
		}
		for i := range n {
			const jump, loadWord = 0x05, 0x20 // BPF_JMP, BPF_LD | BPF_W | BPF_ABS
			in := filter[i*InstructionSize:]
			code, k := binary.LittleEndian.Uint16(in), binary.LittleEndian.Uint32(in[4:])
			if code&7 == jump && (i+1+int(in[2]) >= n || i+1+int(in[3]) >= n) {
				t.Fatalf("instruction %d jumps behind the end", i)
			}
			const dataSize = 64 // struct seccomp_data
			if code == loadWord && (k >= dataSize || k%4 != 0) {
				t.Fatalf("instruction %d loads from %d", i, k)
			}
		}
	})
}

// The table of system calls is whole, and has the numbers of x86-64.
func TestSyscallNumbers(t *testing.T) {
	all := syscallNumbers()
	for name, want := range map[string]uint32{
		"read": unix.SYS_READ, "openat": unix.SYS_OPENAT, "time": unix.SYS_TIME, "clock_gettime": unix.SYS_CLOCK_GETTIME,
		"prlimit64": unix.SYS_PRLIMIT64, "rseq": unix.SYS_RSEQ, "pidfd_send_signal": unix.SYS_PIDFD_SEND_SIGNAL, "listns": unix.SYS_LISTNS,
	} {
		if got, ok := all[name]; !ok || got != want {
			t.Errorf("%s: got %d, %v, want %d", name, got, ok, want)
		}
	}
	if want := strings.Count(syscallTable, "\n"); len(all) != want || want < 380 {
		t.Errorf("got %d names in %d lines", len(all), want)
	}
}
