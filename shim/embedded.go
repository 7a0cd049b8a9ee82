package shim

import "embed"

// The files that make built, and a README, so that Go compiles before make has run.
//
//go:embed embedded
var embedded embed.FS

// files are all that make puts into the directory embedded.
var files = []string{
	"injected.bin", "injected.sym", "injected.cfi", "injected-java.bin", "injected-java.sym", "libvfix.so", "libvfix32.so", "vfix-trace",
	"vfix-measure", "vfix-measure-libc", "vfix-stubs.so", "vfix-stubs-twin.so", "libvfix-twin.so",
}

// UnbuiltError says that make had not built the shim when Go built this program.
type UnbuiltError struct{ File string }

func (e *UnbuiltError) Error() string {
	return "this vfix lacks its parts in C and assembly, such as " + e.File + ": it was built by go install or go build alone"
}

// Hint is the command that builds it.
func (e *UnbuiltError) Hint() string {
	return "install a release, or run 'make' in vfix's sources: see 'vfix help start'"
}

// Check returns an *UnbuiltError where a file is missing. Every other function panics with
// that error then.
func Check() error { return check(embedded.Open) }

func check[File any](open func(path string) (File, error)) error {
	for _, name := range files {
		if _, err := open("embedded/" + name); err != nil {
			return &UnbuiltError{name}
		}
	}
	return nil
}

// built returns a copy of a file that make built.
func built(name string) []byte {
	b, err := embedded.ReadFile("embedded/" + name)
	if err != nil {
		panic(&UnbuiltError{name})
	}
	return b
}

// Library returns a copy of libvfix.so, the preload library for x86-64 programs of glibc 2.3
// and later, and of musl. It needs no other library.
func Library() []byte { return built("libvfix.so") }

// Library32 returns a copy of an i386 library with nothing in it. It is placed beside Library
// where ld.so looks for 32-bit programs' libraries, so that it has nothing to complain of.
func Library32() []byte { return built("libvfix32.so") }

// Trace returns a copy of vfix-trace, a static x86-64 program that runs a command where the
// kernel does not serve the vsyscall page (src/trace).
func Trace() []byte { return built("vfix-trace") }

// Measure returns a copy of vfix-measure, a static x86-64 program that measures what the
// vsyscall page, system calls and the vDSO cost here (src/measure).
func Measure() []byte { return built("vfix-measure") }

// MeasureLibc returns a copy of vfix-measure-libc, a dynamic x86-64 program that measures what
// the functions of the libc cost that it is run with (src/linked).
func MeasureLibc() []byte { return built("vfix-measure-libc") }

// Stubs returns a copy of a library with time, gettimeofday and sched_getcpu as in old
// glibcs: they call the vsyscall page.
func Stubs() []byte {
	b := built("vfix-stubs.so")
	for i, c := range b {
		if c&^1 == 0x60 { // two bytes changed places when it was embedded
			b[i] = c ^ 1
		}
	}
	return b
}

// TwinStubs is Stubs for the twin of the page, which no kernel maps, and TwinLibrary the preload
// library that serves it: on every host they do what Stubs and Library do without the page.
func TwinStubs() []byte { return built("vfix-stubs-twin.so") }

// TwinLibrary returns a copy of libvfix.so as it is built for the twin of the page.
func TwinLibrary() []byte { return built("libvfix-twin.so") }
