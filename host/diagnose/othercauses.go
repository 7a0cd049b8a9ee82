// Crashes of old images for reasons other than the vsyscall page: a memory limit, library code for new processors,
// and programs and images that an engine cannot start. docs/diagnosing.md lists them all.

package diagnose

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"vfix.dev/vfix/internal/lazy"
	"vfix.dev/vfix/rewriter/elf"
)

// more reads a line that is not one of the kernel's messages about a crash; nil if it reports no failure.
func more(text string, o Options) *Crash {
	if c := outOfMemory(text); c != nil {
		return c
	}
	if c := missingLibrary(text); c != nil {
		return c
	}
	if m := armLine().FindStringSubmatch(text); m != nil {
		pid, _ := strconv.Atoi(m[2])
		return &Crash{Kind: Other, Source: KernelLog, Count: 1, Program: m[1], PIDs: []int{pid}, Lines: []string{text},
			Meaning: "An arm64 kernel reports this crash. Only x86-64 has the vsyscall page, so this is not a vsyscall crash."}
	}
	return startFailure(text, o)
}

// oomLine is the kernel's message about a process that it killed because of its control group's limit or the
// machine's memory (mm/oom_kill.c, __oom_kill_process); before 5.0 "Kill process", followed by a line "Killed
// process".
var oomLine = lazy.Regexp(`(?:([Mm]emory cgroup out of memory)|Out of memory): Kill(?:ed)? process (\d+) \(([^)]*)\)`)

// armLine is the message of an arm64 kernel about a crash (arch/arm64/kernel/traps.c, arm64_show_signal).
var armLine = lazy.Regexp(`(\S+)\[(\d+)\]: unhandled exception: .*\bESR 0x`)

func outOfMemory(text string) *Crash {
	m := oomLine().FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	c := &Crash{Kind: OutOfMemory, Source: KernelLog, Count: 1, Program: m[3], Signal: sigkill, Lines: []string{text}}
	if pid, err := strconv.Atoi(m[2]); err == nil {
		c.PIDs = []int{pid}
	}
	c.Meaning = "The kernel killed the process, because the processes of its control group used more memory than their limit."
	if m[1] == "" {
		c.Kind = Other
		c.Meaning = "The kernel killed the process, because the machine had no memory left."
		return c
	}
	if c.Program == "java" {
		c.Meaning += " A JVM that does not see this limit sizes its heap by the memory of the host: 'vfix scan IMAGE' shows whether it is one."
		c.note("to give the JVM its limits, set JAVA_TOOL_OPTIONS='-XX:MaxRAM=BYTES -XX:ActiveProcessorCount=N'")
	}
	return c
}

// killed describes a container that ended by SIGKILL; it returns false if its memory limit was not the cause.
func (e Exited) killed(c *Crash) bool {
	var entries []logEntry
	if !e.Elsewhere {
		entries, _ = kernelLog()
	}
	ours := false // the kernel names the container's control group (mm/oom_kill.c, dump_oom_summary, Linux 4.19)
	for _, entry := range entries {
		if !e.atEnd(entry.when) {
			continue
		}
		ours = ours || e.ID != "" && strings.Contains(entry.text, "task_memcg=") && strings.Contains(entry.text, e.ID)
		if killed := outOfMemory(entry.text); killed != nil && (ours || e.has(killed.Program)) {
			c.Program, c.PIDs, c.Lines = killed.Program, killed.PIDs, killed.Lines
		}
	}
	if !e.OutOfMemory && !ours { // another program of this name may have been killed at that time
		c.Program, c.PIDs, c.Lines = "", nil, nil
		return false
	}
	c.Kind = OutOfMemory
	limit := "its limit"
	if e.Memory > 0 {
		limit = fmt.Sprintf("its limit of %d bytes", e.Memory)
	}
	c.Meaning = "The container used more memory than " + limit + ", and the kernel killed it (exit status 137)."
	if e.JVM == "" {
		return true
	}
	c.Meaning += " " + e.JVM
	if e.FixedHeap {
		c.note("its command or environment limits the heap, but a JVM needs more memory than its heap: raise the limit of the container, or lower that of the heap")
		return true
	}
	if host, ok := hostMemory(); ok {
		const share = 4 // -XX:MaxRAMPercentage=25
		c.note("without an option that limits the heap, it may grow to a quarter of the memory that the JVM sees: here %d bytes of the host's %d", host/share, host)
	}
	bytes := "BYTES"
	if e.Memory > 0 {
		bytes = strconv.FormatInt(e.Memory, 10)
	}
	c.add("gives the JVM the limit; -XX:ActiveProcessorCount=N does so for processors",
		"docker", "run", "--env", "JAVA_TOOL_OPTIONS=-XX:MaxRAM="+bytes, e.Image)
	return true
}

// startFailures are the errors of engines, runtimes and shells for a program that could not be started, after its
// path. Sources: runc (standard_init_linux.go, "exec %s: %w"), execve(2), bash 5.2.
var startFailures = lazy.Regexp(`(?i)(exec:? "?)?(/[^\s":,]+)"?: (?:(?:stat|fork/exec) [^\s:]+: )?(?:cannot execute(?: binary file)?: )?(exec format error|no such file or directory|required file not found)`)

// schema1Words are from engines that refuse a manifest of schema 1: containerd 2.1, Docker.
var schema1Words = lazy.Regexp(`(?i)manifest\.v1\+(?:prettyjws|json)|(?:schema ?(?:version)? ?1\b).*support|support.*(?:schema ?(?:version)? ?1\b)`)

func startFailure(text string, o Options) *Crash {
	c := &Crash{Source: Message, Count: 1, Lines: []string{text}}
	lower := strings.ToLower(text)
	m := startFailures().FindStringSubmatch(text)
	if m != nil {
		c.Executable, c.Program = m[2], commOf(m[2])
	}
	switch {
	case schema1Words().MatchString(text):
		c.Kind = Schema1
		c.Meaning = "The registry has this image as a manifest of schema 1, which Docker 28.2 and containerd 2.1 refuse."
		c.note("'vfix convert docker://IMAGE -o docker-daemon:IMAGE', with the image's name, writes it to the engine in a current format")
		return c
	case strings.Contains(lower, "exec format error"):
		c.Kind = ExecFormat
		c.execFormat(o)
		return c
	case m != nil && c.missingLoader(o, m[1] != ""):
		return c
	}
	return nil
}

func (c *Crash) execFormat(o Options) {
	f, err := lookAt(o.Root, c.Executable)
	c.Meaning = "The kernel does not run this kind of program: a 32-bit one where 32-bit programs do not run, one for another architecture, or a script without #! in its first line."
	switch {
	case err != nil || c.Executable == "":
		c.note("the program was not examined; --root IMAGE names its files")
	case f.script != "" || f.elf && f.class == class64 && f.machine == emX8664:
		c.note("%s is a 64-bit program or a script with #!, which x86-64 kernels run: the error may be about another file", c.Executable)
	case !f.elf:
		c.Meaning = c.Executable + " is neither an ELF file nor a script with #! in its first line. A shell runs such a file; the kernel does not."
		c.note("add #!/bin/sh as the first line, or start it with a shell: /bin/sh %s", c.Executable)
	case f.machine == em386:
		c.Meaning = c.Executable + " is a 32-bit program, and this kernel does not run 32-bit programs, or a seccomp filter or sandbox forbids them."
		c.add("checks whether this host runs 32-bit programs, and proposes a remedy", "vfix", "doctor", "--check", "ia32")
	case f.machine != emX8664:
		c.Meaning = fmt.Sprintf("%s is a program for another architecture (e_machine %d), and this machine is x86-64.", c.Executable, f.machine)
		c.note("'docker pull --platform linux/amd64 IMAGE', with the image's name, pulls it for this architecture, if it has that")
	}
}

// missingLoader describes a program that exists although the kernel reports that it does not: its loader does not
// exist. It returns false for other lines; executed reports that the execution of the program failed.
func (c *Crash) missingLoader(o Options, executed bool) bool {
	c.Kind = MissingLoader
	f, err := lookAt(o.Root, c.Executable)
	needs := ""
	if err == nil {
		needs = f.needs(o.Root)
	}
	if err != nil || needs == "" && o.RootName == "" { // without a name, the root is this machine's
		c.note("the program was not examined; --root IMAGE names its files")
		c.Meaning = "The program exists, but its loader or the interpreter of its #! line does not: usually the 32-bit loader, /lib/ld-linux.so.2."
		if !strings.Contains(strings.ToLower(c.Lines[0]), "required file not found") {
			c.Kind = Unknown
			c.Meaning = "The program does not exist, or its loader or the interpreter of its #! line does not: the kernel reports the same error for each."
		}
		return c.Kind == MissingLoader || executed
	}
	if needs == "" {
		return false
	}
	c.Meaning = fmt.Sprintf("%s exists, and %s, which loads it, does not. The kernel reports this as if the program did not exist.", c.Executable, needs)
	if f.elf && f.class == class32 {
		c.note("install the 32-bit libc in the image: apt-get install libc6:i386 after dpkg --add-architecture i386, or yum install glibc.i686")
	}
	return true
}

// program is how the start of a file says that it is executed.
type program struct {
	elf         bool
	class       byte
	machine     uint16
	interpreter string // of an ELF file, "" for none
	script      string // the interpreter of a #! line
}

// needs returns the loader or interpreter that the root does not have, "" if it has both.
func (p *program) needs(root fs.FS) string {
	for _, name := range []string{p.interpreter, p.script} {
		if name == "" {
			continue
		}
		if _, err := fs.Stat(root, rootName(name)); err != nil {
			return name
		}
	}
	return ""
}

const (
	class32, class64 = 1, 2 // EI_CLASS
	em386            = 3
	// loader32 is the loader of glibc's 32-bit programs.
	loader32 = "/lib/ld-linux.so.2"
)

// lookAt reads the start of a file of the root.
func lookAt(root fs.FS, name string) (*program, error) {
	if root == nil || name == "" {
		return nil, fs.ErrNotExist
	}
	r, size, done, err := openFile(root, name)
	if err != nil {
		return nil, err
	}
	defer done()
	head := make([]byte, min(size, page))
	if _, err := r.ReadAt(head, 0); err != nil && int64(len(head)) < size {
		return nil, err
	}
	p := &program{}
	if line, ok := strings.CutPrefix(string(head), "#!"); ok {
		line, _, _ = strings.Cut(line, "\n")
		if words := strings.Fields(line); len(words) > 0 {
			p.script = path.Clean(words[0])
		}
		return p, nil
	}
	if len(head) < ehdrSize || string(head[:4]) != "\x7fELF" {
		return p, nil
	}
	p.elf, p.class, p.machine = true, head[4], le.Uint16(head[18:])
	if p.class == class32 {
		p.interpreter = loader32
	} else if f, _ := elf.Parse(r, size); f != nil { // the file may run in spite of an error
		p.interpreter = f.Interp()
	}
	return p, nil
}

// codeLine is the kernel's line after a segmentation fault, with the bytes around the instruction (show_opcodes,
// Linux 4.20).
var codeLine = lazy.Regexp(`\bCode: ((?:<?[0-9a-f]{2}>? ?){8,})`)

// shaCode are opcodes of the SHA extensions (SDM): sha1nexte to sha256msg2, and sha1rnds4.
var shaCode = lazy.Regexp(`0f 38 c[89abcd]|0f 3a cc`)

// hasSHACode reports whether a line shows code of the SHA extensions.
func hasSHACode(text string) bool {
	m := codeLine().FindStringSubmatch(text)
	return m != nil && shaCode().MatchString(strings.NewReplacer("<", "", ">", "").Replace(m[1]))
}

// inLibcrypto describes a crash in OpenSSL.
func (c *Crash) inLibcrypto(where string, sha bool) {
	if !strings.HasPrefix(path.Base(where), "libcrypto") || c.Kind != Other {
		return
	}
	if !sha {
		c.note("OpenSSL 1.0.2 to 1.0.2k crashes on Intel processors with SHA extensions: 'vfix scan IMAGE' shows whether this is one; OPENSSL_ia32cap=:~0x20000000 in the environment avoids it")
		return
	}
	c.Kind = OpenSSLSHA
	c.Meaning = fmt.Sprintf("It ended by %s in %s, at an instruction of the processor's SHA extensions. OpenSSL 1.0.2 to 1.0.2k has bugs in this code, which older processors do not run.", SignalName(c.Signal), where)
}
