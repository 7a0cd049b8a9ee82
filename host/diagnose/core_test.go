package diagnose

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"vfix.dev/vfix/rewriter/elf"
)

func ofCore(t *testing.T, b []byte, o Options) *Crash {
	t.Helper()
	r, err := Core("core", bytes.NewReader(b), o)
	if err != nil {
		t.Fatal(err)
	}
	return r.Crashes[0]
}

func next(c *Crash) string {
	if c.Next == nil {
		return ""
	}
	return c.Next.Command
}

func TestCore(t *testing.T) {
	c := ofCore(t, crashedCore().bytes(), Options{Root: testRoot(), RootName: "redis:2.8.22", IsImage: true})
	if c.Kind != Call || c.Confidence != Certain || c.Function != "time" || c.Program != "prog" || len(c.Notes) > 0 || next(c) != "vfix rebuild redis:2.8.22" {
		t.Errorf("got %+v, next %s", c, next(c))
	}
	k := c.Caller
	if k == nil || k.Module != "/lib/libold.so" || k.File != k.Module || k.Offset != testRet || k.BuildID != elf.BuildID(note("GNU", 3, testID)) {
		t.Fatalf("caller: got %+v", k)
	}
	if k.Code != "0x204: mov $0xffffffffff600400,%rax; call *%rax" {
		t.Errorf("code: got %s", k.Code)
	}
	// Here: a library is not patched behind the user's back, and a program is patched also if it was started by a
	// relative path.
	if c = ofCore(t, crashedCore().bytes(), Options{Root: testRoot()}); next(c) != "vfix run prog -x" {
		t.Errorf("next: got %s", next(c))
	}
	itself := crashedCore()
	itself.auxv, itself.memory = put(atExecfn, 0x1000), append(itself.memory, memory{0x1000, []byte("./libold.so\x00")})
	if c = ofCore(t, itself.bytes(), Options{Root: testRoot()}); next(c) != "vfix patch -o libold.so.vfix /lib/libold.so" {
		t.Errorf("next: got %s", next(c))
	}
}

// The facts known without the files: the module, the offset and the build ID, from memory.
func TestCoreAlone(t *testing.T) {
	c := ofCore(t, crashedCore().bytes(), Options{Root: fstest.MapFS{}})
	if k := c.Caller; k == nil || k.Module != "/lib/libold.so" || k.Offset != testRet || k.BuildID == "" || k.Code != "" || k.File != "" {
		t.Errorf("got %+v", c.Caller)
	}
	if len(c.Notes) != 1 || !strings.Contains(c.Notes[0], "this machine does not have this file") || next(c) != "vfix diagnose --root IMAGE CORE" {
		t.Errorf("got notes %q, next %s", c.Notes, next(c))
	}
}

// A file other than the one that crashed is not used.
func TestCoreOtherFile(t *testing.T) {
	for name, poke := range map[string]func(b []byte) []byte{
		"another build ID":    func(b []byte) []byte { b[0x100+16]++; return b },
		"no call of the page": func(b []byte) []byte { return append(b[:testCode:testCode], make([]byte, 512)...) },
		"a text":              func([]byte) []byte { return []byte("text") },
	} {
		c := ofCore(t, crashedCore().bytes(), Options{Root: fstest.MapFS{"lib/libold.so": {Data: poke(library())}}, RootName: "other:1", IsImage: true})
		if c.Kind != Call || c.Caller.File != "" || len(c.Notes) != 1 || next(c) != "vfix diagnose --root IMAGE CORE" {
			t.Errorf("%s: got %+v, %q, next %s", name, c.Caller, c.Notes, next(c))
		}
	}
}

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		poke func(*testCore)
		want Kind
		says string
	}{
		"vsyscall=none":       {func(*testCore) {}, Call, "does not serve"},
		"LASS":                {func(t *testCore) { t.code, t.addr = siKernel, 0 }, Call, "does not serve"},
		"no siginfo":          {func(t *testCore) { t.noInfo = true }, Call, ""},
		"bad pointer":         {func(t *testCore) { t.addr = 0x1234 }, Other, "not a call of the vsyscall page"},
		"beside a function":   {func(t *testCore) { t.rip, t.addr = timeAddr+1, timeAddr+1 }, Other, "not a call of the vsyscall page"},
		"read":                {func(t *testCore) { t.rip = 0x401000 }, Read, "read the vsyscall page as data"},
		"behind the page":     {func(t *testCore) { t.rip, t.addr = 0xffffffffff601000, 0xffffffffff601000 }, Other, "not a call"},
		"null":                {func(t *testCore) { t.rip, t.addr = 0x401000, 0 }, Other, "not a call"},
		"abort":               {func(t *testCore) { t.signal, t.code, t.rip = 6, -6, 0x401000 }, Other, "SIGABRT"},
		"kill -SEGV":          {func(t *testCore) { t.code, t.addr, t.rip = 0, 0, 0x401000 }, Other, "a process sent SIGSEGV"},
		"6.18, a bad pointer": {func(t *testCore) { t.code, t.addr, t.mapped = siKernel, 0, true }, Other, "the kernel served the call"},
		"served, fault at ip": {func(t *testCore) { t.mapped = true }, Other, "the kernel served the call"},
		"gcore, an address":   {func(t *testCore) { t.debugger = true }, Call, ""},
		"seccomp":             {func(t *testCore) { t.signal, t.code = sigsys, 1 }, Filtered, "a seccomp filter refused"},
		"seccomp, returned": {func(t *testCore) {
			t.signal, t.code, t.rip, t.rsp = sigsys, 1, testBase+testRet, t.rsp+8
		}, Filtered, "a seccomp filter refused the call of time()"},
		"seccomp, elsewhere": {func(t *testCore) { t.signal, t.code, t.rip, t.addr = sigsys, 1, 0x401000, 0x401000 }, Other, "SIGSYS"},
		"aborted by handler": {func(t *testCore) {
			t.signal, t.code, t.rip = 6, -6, 0x401000
			t.stack = append(t.stack, signalFrame(timeAddr, 14)...)
		}, Call, "does not serve"},
		"served, then raised": {func(t *testCore) {
			t.code, t.rip, t.mapped = -6, 0x401000, true
			t.stack = append(t.stack, signalFrame(timeAddr, 14)...)
		}, Other, "the kernel served the call"},
		"another, raised": {func(t *testCore) {
			t.code, t.rip = -6, 0x401000
			t.stack = append(t.stack, signalFrame(0x401000, 14)...)
		}, Other, "a process sent SIGSEGV"},
		"a number on a stack": {func(t *testCore) {
			t.signal, t.code, t.rip = 6, -6, 0x401000
			t.stack = append(t.stack, put(timeAddr, 0, 0, 0, 14, 0, 0)...)
		}, Other, "SIGABRT"},
		"snapshot": {func(t *testCore) { t.signal, t.noInfo = 0, true }, None, "snapshot"},
	} {
		core := crashedCore()
		c.poke(&core)
		got := ofCore(t, core.bytes(), Options{Root: testRoot()})
		if got.Kind != c.want || !strings.Contains(got.Verdict, c.says) {
			t.Errorf("%s: got %s: %s, want %s: …%s…", name, got.Kind, got.Verdict, c.want, c.says)
		}
		if got.Kind == Filtered && (got.Caller == nil || got.Caller.Offset != testRet) {
			t.Errorf("%s: got caller %+v", name, got.Caller)
		}
		if (next(got) != "") != (got.Kind.Page() || got.Kind.Open()) || !got.Kind.Page() && got.Caller != nil {
			t.Errorf("%s: got next %s, caller %+v", name, next(got), got.Caller)
		}
	}
}

// signalFrame is the end of the registers that the kernel saves on the stack for a signal handler: rsp to cr2.
func signalFrame(rip, trap uint64) []byte {
	return put(testStack+64, rip, 0x10202, 0x2b000000000033, 0x14, trap, 0, rip)
}

// A core of a kernel before 3.7 has no NT_FILE: the caller is not known, but the crash is.
func TestNoFiles(t *testing.T) {
	core := crashedCore()
	core.noFile = true
	if c := ofCore(t, core.bytes(), Options{Root: testRoot()}); c.Kind != Call || c.Caller != nil || !strings.Contains(strings.Join(c.Notes, " "), "is not in a mapped file") {
		t.Errorf("got %+v, %q", c.Caller, c.Notes)
	}
}

func TestCompressedCore(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	if _, err := w.Write(crashedCore().bytes()); err != nil {
		t.Fatal(err)
	}
	w.Close()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"core.gz": gz.Bytes(), "core.zst": z.EncodeAll(crashedCore().bytes(), nil)} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := File(path, Options{Root: testRoot()})
		if err != nil || r.Crashes[0].Kind != Call || r.Crashes[0].Caller.File == "" {
			t.Errorf("%s: got %+v, %v", name, r, err)
		}
	}
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Each kind of damage is an error that names it, or leaves a diagnosis that names the missing part.
func TestDamagedCores(t *testing.T) {
	good := crashedCore().bytes()
	poked := func(at int, value ...byte) []byte {
		b := bytes.Clone(good)
		copy(b[at:], value)
		return b
	}
	for name, c := range map[string]struct {
		b    []byte
		says string
	}{
		"empty":             {nil, "its ELF headers"},
		"text":              {[]byte(strings.Repeat("text", 100)), "bad magic number"},
		"32-bit":            {append(poked(4, 1)[:40:40], make([]byte, 100)...), "its ELF headers"},
		"class 9":           {poked(4, 9), "unknown ELF class"},
		"arm64":             {poked(18, 183), "not the core of"},
		"a program":         {poked(16, 2), "not the core of"},
		"header size":       {poked(54, 1), "its ELF headers"},
		"no headers":        {poked(56, 0, 0), "no whole NT_PRSTATUS"},
		"headers elsewhere": {poked(32, 0, 0, 0, 0, 0, 0, 0, 0x10), "its ELF headers"},
		"headers nowhere":   {poked(32, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), "its ELF headers"},
		"too many":          {poked(56, 0xff, 0xff), "its ELF headers"},
		"no notes":          {poked(ehdrSize, 9), "no whole NT_PRSTATUS"},
		"cut in the notes":  {good[:ehdrSize+3*phdrSize+100], "no whole NT_PRSTATUS"},
		"long note":         {poked(ehdrSize+3*phdrSize+4, 0xff, 0xff, 0xff, 0xff), "no whole NT_PRSTATUS"},
		"short prstatus":    {poked(ehdrSize+3*phdrSize+4, 8, 0), "no whole NT_PRSTATUS"},
	} {
		_, err := Core("core", bytes.NewReader(c.b), Options{Root: testRoot()})
		var hinted interface{ Hint() string }
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "core: ") || !errors.As(err, &hinted) || hinted.Hint() == "" {
			t.Errorf("%s: got %v, want an error about %q with a hint", name, err, c.says)
		}
	}
	end := len(good) - len(library()) - 88 // where the stack begins
	c := ofCore(t, good[:end+8], Options{Root: testRoot()})
	if c.Kind != Call || c.Caller != nil || len(c.Notes) != 1 || !strings.Contains(c.Notes[0], "truncated before the stack") {
		t.Errorf("cut in the stack: got %+v, %q", c.Caller, c.Notes)
	}
}

func FuzzCore(f *testing.F) {
	f.Add(crashedCore().bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Core("core", bytes.NewReader(b), Options{Root: testRoot()})
		if err == nil && len(r.Crashes) != 1 {
			t.Errorf("got %+v", r)
		}
	})
}
