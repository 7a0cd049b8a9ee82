package main

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// program is one of them.
func program(name string) string { return filepath.Join(*programs, name) }

// compile makes the programs of the bundles. Each calls time() in the page, and ends with 0 if that is after 2019.
func compile(dir string) {
	check(os.MkdirAll(dir, 0o755))
	const clock = `
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>
#include <fcntl.h>
#include <stdlib.h>
static int call(void)
{
	long now;
	__asm__ volatile("mov $0xffffffffff600400, %%rax; call *%%rax" : "=a"(now) : "D"(0) : "memory", "rcx", "r11");
	return now < 1577836800;
}
`
	for name, text := range map[string]string{
		"clock": clock + `int main(void) { return call(); }`,
		"waits": clock + `int main(void) { while (access("/go", F_OK)) usleep(10000); return call(); }`,
		"fine":  `int main(void) { return 0; }`,
		"root":  clock + `int main(void) { return geteuid() ? 3 : call(); }`,
		"capable": clock + `#include <sys/resource.h>
int main(void) { return setpriority(PRIO_PROCESS, 0, -5) ? 3 : call(); }`,
		"again": clock + `int main(int n, char **v) { return n > 1 ? call() : execl("/proc/self/exe", v[0], "x", (char *)0); }`,
		"memory": clock + `
int main(int n, char **v)
{
	static char bytes[1 << 20];
	if (n > 1)
		return call();
	int from = open("/proc/self/exe", O_RDONLY), to = memfd_create("x", 0), size = read(from, bytes, sizeof bytes);
	char *args[] = {"x", "y", 0};
	return size <= 0 || write(to, bytes, size) != size || fexecve(to, args, args + 2) ? 4 : 5;
}`,
		"packed": clock + `
int main(void)
{
	static const unsigned char packed[] = {0xac, 0xb7, 0x38, 0x3f, 0xff, 0xfb, 0x9f, 0x00, 0x00, 0x2f, 0xa4, 0x3c};
	unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (unsigned i = 0; i < sizeof packed; i++)
		code[i] = packed[i] ^ 0xff;
	return ((long (*)(long))code)(0) < 1577836800;
}`,
	} {
		build(dir, name, "musl-gcc -static -O1", text)
	}
	build(dir, "libold", "gcc -O1 -shared -fPIC -Wl,-soname,libold.so", clock+`int old(void) { return call(); } __attribute__((constructor)) static void first(void) { if (call()) _exit(6); }`)
	build(dir, "modern", "gcc -O1 -shared -fPIC -Wl,-soname,libold.so", `int old(void) { return 0; }`)
	check(os.Symlink("libold", filepath.Join(dir, "libold.so")))
	build(dir, "dynamic", "gcc -O1 -L"+dir, `extern int old(void); int main(void) { return old(); }`, "-lold")
	build(dir, "musl", "musl-gcc -O1 -L"+dir, `extern int old(void); int main(void) { return old(); }`, "-lold")
	build(dir, "machine", "musl-gcc -O1 -shared -fPIC", clock+`int old(void) { return call(); }`)
	machine, err := os.ReadFile(filepath.Join(dir, "machine"))
	check(err)
	machine[18] = 3 // EM_386: musl's loader reads neither that nor the magic
	save(dir, "machine", machine)
	save(dir, "nameless", append([]byte("code"), machine[4:]...))
	busybox, err := exec.LookPath("busybox")
	check(err)
	check(os.Symlink(busybox, filepath.Join(dir, "busybox")))
	good, err := os.ReadFile(filepath.Join(dir, "clock"))
	check(err)
	save(dir, "damaged", damage(good))
	odd := append([]byte{}, good...)
	copy(odd[4:], "\x01\x09\x07\x7f\x80")
	save(dir, "odd", odd)
	save(dir, "tiny", tiny())
	save(dir, "head", head())
	packed, err := os.ReadFile(filepath.Join(dir, "packed"))
	check(err)
	copy(packed[9:], "UPX!") // no kernel reads that of e_ident
	save(dir, "packed", packed)
}

func build(dir, name, compiler, text string, libraries ...string) {
	path := filepath.Join(dir, name)
	words := strings.Fields(compiler)
	cmd := exec.Command(words[0], append(append(words[1:], "-D_GNU_SOURCE", "-Wno-unused-function", "-o", path, "-x", "c", "-", "-x", "none"), libraries...)...)
	cmd.Stdin, cmd.Stderr = strings.NewReader(text), os.Stderr
	check(cmd.Run())
}

func save(dir, name string, b []byte) { check(os.WriteFile(filepath.Join(dir, name), b, 0o755)) }

// damage gives a program a segment beyond the end of the file, which nobody reads, in place of PT_GNU_STACK.
func damage(good []byte) []byte {
	b := append([]byte{}, good...)
	le := binary.LittleEndian
	const size, stack = 56, 0x6474e551
	at := le.Uint64(b[32:])
	for le.Uint32(b[at:]) != stack {
		at += size
	}
	le.PutUint32(b[at:], 1)
	le.PutUint32(b[at+4:], 4)
	for i, v := range []uint64{1 << 20, 1 << 30, 1 << 30, 4096, 4096, 4096} {
		le.PutUint64(b[at+8+8*uint64(i):], v)
	}
	return b
}

// tiny is a program of 89 bytes: its one program header overlaps the ELF header, whose first bytes are the code that
// calls the page. The kernel reads no other byte of e_ident than the magic, which are prefixes.
func tiny() []byte {
	const header = 24 // where the program header is
	b := make([]byte, header+56+9)
	copy(b, "\x7fELF\x48\xc7\xc0\x00\x04\x60\xff\xff\xd0\xeb\x41") // rex.w mov $0xffffffffff600400,%rax; call *%rax; jmp 80
	le := binary.LittleEndian
	le.PutUint16(b[16:], 2)                      // ET_EXEC
	le.PutUint16(b[18:], 62)                     // EM_X86_64
	le.PutUint32(b[20:], 1)                      //
	le.PutUint64(b[24:], 0x500000001)            // e_entry; p_type PT_LOAD, p_flags R-X
	le.PutUint64(b[32:], header)                 // e_phoff; p_offset
	le.PutUint64(b[40:], 0x500000000+header)     // p_vaddr
	le.PutUint16(b[54:], 56)                     // e_phentsize
	le.PutUint16(b[56:], 1)                      // e_phnum; p_filesz
	le.PutUint64(b[64:], 1)                      // p_memsz
	le.PutUint64(b[72:], 0x1000)                 // p_align
	copy(b[80:], "\x31\xff\x6a\x3c\x58\x0f\x05") // xor %edi,%edi; push $60; pop %rax; syscall
	return b
}

// head is a program whose code is in front of its one segment, in the page that the segment begins in.
func head() []byte {
	const code, segment = 0x100, 0x200
	b := make([]byte, segment+0x100)
	copy(b, "\x7fELF\x02\x01\x01")
	le := binary.LittleEndian
	le.PutUint16(b[16:], 2)
	le.PutUint16(b[18:], 62)
	le.PutUint32(b[20:], 1)
	le.PutUint64(b[24:], 0x400000+code)
	le.PutUint64(b[32:], 64) // e_phoff
	le.PutUint16(b[52:], 64)
	le.PutUint16(b[54:], 56)
	le.PutUint16(b[56:], 1)
	le.PutUint32(b[64:], 1)
	le.PutUint32(b[68:], 5)
	for i, v := range []uint64{segment, 0x400000 + segment, 0x400000 + segment, 0x100, 0x100, 0x1000} {
		le.PutUint64(b[72+8*i:], v)
	}
	copy(b[code:], "\x48\xc7\xc0\x00\x04\x60\xff\xff\xd0\x31\xff\x6a\x3c\x58\x0f\x05")
	return b
}
