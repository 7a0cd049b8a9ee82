package diagnose

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/patch"
)

func diagnosed(t *testing.T, b []byte, o Options) *Crash {
	t.Helper()
	c, err := Core("core", bytes.NewReader(b), o)
	if err != nil {
		t.Fatal(err)
	}
	keep(t, "core", &Result{Crashes: []*Crash{c}}, nil)
	return c
}

func fixes(c *Crash) string {
	var all []string
	for _, f := range c.Fixes {
		all = append(all, f.Command)
	}
	return strings.Join(all, "; ")
}

func TestCore(t *testing.T) {
	c := diagnosed(t, crashedCore().bytes(), Options{Root: testRoot(), RootName: "redis:2.8.22", IsImage: true})
	if c.Kind != Call || c.Function != "time" || c.Program != "prog" || c.Command != "prog -x" || c.Page != "not mapped" || len(c.Notes) > 0 {
		t.Errorf("got %+v", c)
	}
	k := c.Caller
	if k == nil || k.Module != "/lib/libold.so" || k.Offset != testRet || k.Package != "libold 2.13-38" || k.BuildID != elf.BuildID(note("GNU", 3, testID)) {
		t.Fatalf("caller: got %+v", k)
	}
	if k.Site == nil || k.Site.Site.Vaddr != testCode+4 || k.Site.Form == patch.Left || k.Site.Listing == nil {
		t.Errorf("call site: got %+v", k.Site)
	}
	if got := fixes(c); got != "vfix rebuild redis:2.8.22" {
		t.Errorf("fixes: got %s", got)
	}
}

// The facts known without the files: the module, the offset and the build ID, from memory.
func TestCoreAlone(t *testing.T) {
	docker := func(name string) bool { return name == "docker" }
	c := diagnosed(t, crashedCore().bytes(), Options{Root: fstest.MapFS{}, HasCommand: docker})
	if k := c.Caller; k == nil || k.Module != "/lib/libold.so" || k.Vaddr != testRet || k.BuildID == "" || k.Site != nil || k.File != "" {
		t.Errorf("got %+v", c.Caller)
	}
	if len(c.Notes) != 2 || !strings.Contains(c.Notes[0], "/lib/libold.so is not on this machine") || fixes(c) != "" || c.Next.Command != "docker ps -a --filter exited=139" {
		t.Errorf("got notes %q, fixes %s", c.Notes, fixes(c))
	}
}

// A file other than the one that crashed is not used.
func TestCoreOtherFile(t *testing.T) {
	withID := func(poke func(b []byte)) fstest.MapFS {
		root := testRoot()
		poke(root["lib/libold.so"].Data)
		return root
	}
	for name, root := range map[string]fstest.MapFS{
		"other build ID":       withID(func(b []byte) { b[0x100+16]++ }),
		"same ID, other code":  withID(func(b []byte) { copy(b[testCode:], make([]byte, 64)) }),
		"no program, but text": {"lib/libold.so": {Data: []byte("text")}},
	} {
		c := diagnosed(t, crashedCore().bytes(), Options{Root: root})
		if c.Kind != Call || c.Caller.File != "" || c.Caller.Site != nil || len(c.Notes) == 0 || !strings.Contains(c.Notes[0], "another file") {
			t.Errorf("%s: got %+v, %q", name, c.Caller, c.Notes)
		}
	}
}

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		poke func(*testCore)
		want Kind
		says string
	}{
		"vsyscall=none":       {func(*testCore) {}, Call, "vsyscall=none"},
		"LASS":                {func(t *testCore) { t.code, t.addr = siKernel, 0 }, Call, "does not serve"},
		"no siginfo":          {func(t *testCore) { t.noInfo = true }, Call, ""},
		"bad stack":           {func(t *testCore) { t.code, t.addr, t.rsp = siKernel, 0, 8 }, BadStack, "vfix does not fix"},
		"bad pointer":         {func(t *testCore) { t.addr = 0x1234 }, BadPointer, "0x1234"},
		"misaligned":          {func(t *testCore) { t.rip, t.addr = timeAddr+1, timeAddr+1 }, Misaligned, "none of its functions"},
		"read":                {func(t *testCore) { t.rip = 0x401000 }, Read, "vfix fixes calls"},
		"behind the page":     {func(t *testCore) { t.rip, t.addr = 0xffffffffff601000, 0xffffffffff601000 }, Other, "not a vsyscall crash"},
		"null":                {func(t *testCore) { t.rip, t.addr = 0x401000, 0 }, Other, "not a vsyscall crash"},
		"abort":               {func(t *testCore) { t.signal, t.code, t.rip = 6, -6, 0x401000 }, Other, "SIGABRT"},
		"kill -SEGV":          {func(t *testCore) { t.code, t.addr, t.rip = 0, 0, 0x401000 }, Other, "sent by a process"},
		"6.18, a bad pointer": {func(t *testCore) { t.code, t.addr, t.mapped = siKernel, 0, true }, BadPointer, "no writable memory"},
		"served, fault at ip": {func(t *testCore) { t.mapped = true }, BadPointer, "no writable memory"},
		"gcore, no address":   {func(t *testCore) { t.code, t.addr, t.sections = siKernel, 0, 1 }, Unknown, "Nothing here says which"},
		"gcore, an address":   {func(t *testCore) { t.sections = 1 }, Call, ""},
		"seccomp":             {func(t *testCore) { t.signal, t.code = sigsys, 1 }, Filtered, "201"},
		"raised again": {func(t *testCore) {
			t.code, t.rip = -6, 0x401000
			t.stack = append(t.stack, signalFrame(timeAddr, 14)...)
		}, Call, "vsyscall=none"},
		"aborted by handler": {func(t *testCore) {
			t.signal, t.code, t.rip = 6, -6, 0x401000
			t.stack = append(t.stack, signalFrame(timeAddr, 14)...)
		}, Call, "vsyscall=none"},
		"served, then raised": {func(t *testCore) {
			t.code, t.rip, t.mapped = -6, 0x401000, true
			t.stack = append(t.stack, signalFrame(timeAddr, 14)...)
		}, BadPointer, "no writable memory"},
		"raised on return": {func(t *testCore) { t.code = 0 }, Call, "vsyscall=none"},
		"another, raised": {func(t *testCore) {
			t.code, t.rip = -6, 0x401000
			t.stack = append(t.stack, signalFrame(0x401000, 14)...)
		}, Other, "sent by a process"},
		"a number on a stack": {func(t *testCore) {
			t.signal, t.code, t.rip = 6, -6, 0x401000
			t.stack = append(t.stack, put(timeAddr, 0, 0, 0, 14, 0, 0)...)
		}, Other, "SIGABRT"},
		"snapshot": {func(t *testCore) { t.signal, t.noInfo = 0, true }, None, "snapshot"},
	} {
		core := crashedCore()
		c.poke(&core)
		got := diagnosed(t, core.bytes(), Options{Root: testRoot()})
		if got.Kind != c.want || !strings.Contains(got.Meaning, c.says) {
			t.Errorf("%s: got %s: %s, want %s: …%s…", name, got.Kind, got.Meaning, c.want, c.says)
		}
		if got.Kind.Fixable() != (len(got.Fixes) > 0) || !got.Kind.Vsyscall() && got.Caller != nil {
			t.Errorf("%s: got fixes %v, caller %+v", name, got.Fixes, got.Caller)
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
	if c := diagnosed(t, core.bytes(), Options{Root: testRoot()}); c.Kind != Call || c.Caller.Module != "" || !strings.Contains(strings.Join(c.Notes, " "), "no list of the mapped files") {
		t.Errorf("got %+v, %q", c.Caller, c.Notes)
	}
}

// The command line is read from the stack. The kernel leaves a gap of random length before it.
func TestArguments(t *testing.T) {
	const random, gap = testStack + 0x1e000, 8191
	core := crashedCore()
	core.auxv = put(atRandom, random, 6, page, 0, 0)
	core.args = "bash -c it's up "
	stack := make([]byte, 0x21000)
	copy(stack[64:], put(testBase+testRet))
	copy(stack[random-testStack+16:], "x86_64\x00")
	copy(stack[random-testStack+gap:], "bash\x00-c\x00it's up\x00A=b\x00")
	core.stack = stack
	if c := diagnosed(t, core.bytes(), Options{Root: testRoot()}); c.Command != `bash -c 'it'\''s up'` || !strings.HasPrefix(fixes(c), `vfix run bash -c 'it'\''s up'; vfix patch -i /lib/libold.so`) {
		t.Errorf("got %s; fixes %s", c.Command, fixes(c))
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
		"empty":             {nil, "cut off: the ELF header"},
		"text":              {[]byte(strings.Repeat("text", 100)), "no ELF file"},
		"32-bit":            {poked(4, 1), "32-bit"},
		"class 9":           {poked(4, 9), "ELF class 9"},
		"arm64":             {poked(18, 183), "another processor"},
		"a program":         {poked(16, 2), "not a core file"},
		"header size":       {poked(54, 1), "program headers of 1 bytes"},
		"no headers":        {poked(56, 0, 0), "0 program headers"},
		"headers elsewhere": {poked(32, 0, 0, 0, 0, 0, 0, 0, 0x10), "cut off: the program headers"},
		"headers nowhere":   {poked(32, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), "beyond any file"},
		"no section":        {poked(56, 0xff, 0xff), "0 program headers"},
		"no notes":          {poked(ehdrSize, 9), "no PT_NOTE"},
		"cut in the notes":  {good[:ehdrSize+3*phdrSize+100], "cut off"},
		"long note":         {poked(ehdrSize+3*phdrSize+4, 0xff, 0xff, 0xff, 0xff), "ends beyond its segment"},
		"short prstatus":    {poked(ehdrSize+3*phdrSize+4, 8, 0), "NT_PRSTATUS of 8 bytes"},
	} {
		_, err := Core("core", bytes.NewReader(c.b), Options{Root: testRoot()})
		var hinted interface{ Hint() string }
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "core: ") || !errors.As(err, &hinted) || hinted.Hint() == "" {
			t.Errorf("%s: got %v, want an error about %q with a hint", name, err, c.says)
		}
	}
	end := len(good) - len(library()) - 88 // where the stack begins
	c := diagnosed(t, good[:end+8], Options{Root: testRoot()})
	if c.Kind != Call || c.Caller != nil || len(c.Notes) != 2 || !strings.Contains(c.Notes[0], "truncated before the stack") {
		t.Errorf("cut in the stack: got %+v, %q", c.Caller, c.Notes)
	}
}
