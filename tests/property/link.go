// How a random program is linked.
package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// program is one random program.
type program struct {
	name, objects, out string
	rand               *rand.Rand
	cc                 []string // objects made of C++
}

// The linkers that Debian has; gcc's -fuse-ld names them.
var linkers = []string{"bfd", "gold", "lld"}

// oldLayout is that of linkers before 2018: one segment of text, a hole of 2 MiB behind it.
var oldLayout = []string{"-Wl,-z,max-page-size=0x200000", "-Wl,-z,common-page-size=0x1000", "-Wl,-z,noseparate-code", "-Wl,-z,norelro"}

// build writes, assembles and links the program, and returns its line of programs.txt.
func (p *program) build() (string, error) {
	ways := []struct {
		name string
		link func(options []string) error
	}{
		{"bare", p.bare},
		{"bare without section headers", p.headless},
		{"libc static", p.withLibc("-static")},
		{"libc static-pie", p.withLibc("-static-pie")},
		{"libc pie", p.withLibc("-pie")},
		{"libc no-pie", p.withLibc("-no-pie")},
		{"musl static", p.musl},
		{"library", p.library},
		{"library of musl's", p.muslLibrary},
	}
	way := oneOf(p.rand, ways)
	library := strings.HasPrefix(way.name, "library")
	kinds, err := p.write(library, strings.HasPrefix(way.name, "bare") || strings.HasSuffix(way.name, "no-pie") || strings.HasSuffix(way.name, " static"))
	if err != nil {
		return "", err
	}
	if (way.name == "libc pie" || way.name == "libc no-pie") && p.rand.IntN(2) == 0 {
		more, err := p.writeCC(way.name == "libc no-pie")
		if err != nil {
			return "", err
		}
		kinds = append(kinds, more...)
	}
	linker, options := p.options(way.name)
	if err := way.link(options); err != nil {
		return "", fmt.Errorf("%s, %s, %s: %w", p.name, way.name, linker, err)
	}
	return fmt.Sprintf("%s\t%s, %s, %s: %s", p.name, way.name, linker, strings.Join(options[1:], " "), strings.Join(kinds, " ")), nil
}

// write writes and compiles the program's functions, for a library or for fixed addresses.
func (p *program) write(library, fixed bool) (kinds []string, err error) {
	var text strings.Builder
	fmt.Fprintln(&text, "#include \"site.h\"")
	for i := range 2 + p.rand.IntN(5) {
		shape, kind := writeShape(p.rand, fmt.Sprintf("%s_%d", p.name, i))
		text.WriteString(shape)
		kinds = append(kinds, kind)
		if p.rand.IntN(3) == 0 {
			text.WriteString(writeNoise(p.rand))
		}
	}
	fmt.Fprintln(&text, "\t.section .note.GNU-stack, \"\", @progbits")
	if err := os.WriteFile(p.source(".S"), []byte(text.String()), 0o644); err != nil {
		return nil, err
	}
	if err := command("gcc", "-Itests/fixtures/check", "-Wa,-mx86-used-note=no", "-fcf-protection=none", "-c", "-o", p.source(".o"), p.source(".S")); err != nil {
		return nil, err
	}
	text2, more := writeC(p.rand, p.name)
	if err := os.WriteFile(p.source(".c"), []byte(text2), 0o644); err != nil {
		return nil, err
	}
	compiler, options := cOptions(p.rand, library, fixed)
	kinds = append(append(append(kinds, compiler), options[:2]...), more...)
	return kinds, command(compiler, append(options, "-c", "-o", p.source(".c.o"), p.source(".c"))...)
}

// writeCC writes and compiles functions in C++.
func (p *program) writeCC(fixed bool) (kinds []string, err error) {
	text, kinds := writeCC(p.rand, p.name)
	if err := os.WriteFile(p.source(".cc"), []byte(text), 0o644); err != nil {
		return nil, err
	}
	compiler, options := ccOptions(p.rand, fixed)
	p.cc = []string{p.source(".cc.o")}
	return append([]string{compiler, options[0]}, kinds...), command(compiler, append(options, "-c", "-o", p.source(".cc.o"), p.source(".cc"))...)
}

func (p *program) source(suffix string) string { return filepath.Join(p.out, "src", p.name+suffix) }
func (p *program) binary(suffix string) string { return filepath.Join(p.out, "bin", p.name+suffix) }

// options picks a linker and its options; the linker's own comes first.
func (p *program) options(way string) (linker string, options []string) {
	linker = oneOf(p.rand, linkers)
	switch {
	case strings.Contains(way, "musl"):
		linker = "bfd" // musl-gcc's specs name it
	case linker == "gold" && (way == "libc static-pie" || way == "libc pie" || way == "library"):
		// gold has no --no-dynamic-linker, and where code may lie anywhere it takes the checks'
		// weak, hidden __start_vfix_shapes for 0.
		linker = "lld"
	}
	options = []string{"-fuse-ld=" + linker}
	options = append(options, oneOf(p.rand, [][]string{nil, oldLayout, {"-Wl,-z,noseparate-code"}, {"-Wl,-z,relro,-z,now"}})...)
	options = append(options, oneOf(p.rand, []string{"-Wl,--build-id", "-Wl,--build-id=md5", "-Wl,--build-id=0xfeed"}))
	options = append(options, oneOf(p.rand, []string{"-Wl,--hash-style=sysv", "-Wl,--hash-style=gnu", "-Wl,--hash-style=both"}))
	if p.rand.IntN(4) == 0 {
		options = append(options, "-Wl,--emit-relocs")
	}
	if p.rand.IntN(4) == 0 {
		options = append(options, "-Wl,-O1,--sort-common")
	}
	// gold does not know -z separate-code, nor lld a few of bfd's.
	if linker == "gold" {
		options = slices.DeleteFunc(options, func(o string) bool { return strings.Contains(o, "separate-code") })
	}
	return linker, options
}

// check are the objects of the fixtures' checks.
func (p *program) check() []string {
	var files []string
	for _, name := range []string{"check", "all", "vsym", "stack", "safecall"} {
		files = append(files, filepath.Join(p.objects, "check", name+".o"))
	}
	return files
}

func (p *program) object(name string) string { return filepath.Join(p.objects, name+".o") }

func (p *program) bareAs(file string, options []string) error {
	return command("gcc", slices.Concat(options, []string{"-nostdlib", "-static", "-no-pie", "-o", file, p.object("check/start"), p.source(".o"), p.source(".c.o")}, p.check())...)
}

func (p *program) bare(options []string) error { return p.bareAs(p.binary(""), options) }

func (p *program) headless(options []string) error {
	whole := p.source(".whole")
	if err := p.bareAs(whole, options); err != nil {
		return err
	}
	return command(filepath.Join(p.objects, "fixtool"), "sstrip", whole, p.binary(""))
}

func (p *program) withLibc(kind string) func([]string) error {
	return func(options []string) error {
		compiler := "gcc"
		if p.cc != nil {
			compiler = "g++"
		}
		return command(compiler, slices.Concat(options, []string{kind, "-o", p.binary(""), p.object("programs/main"), p.source(".o"), p.source(".c.o")}, p.cc, p.check())...)
	}
}

func (p *program) musl(options []string) error {
	return command("musl-gcc", slices.Concat(options[1:], []string{"-static", "-o", p.binary(""), p.object("programs/main"), p.source(".o"), p.source(".c.o")}, p.check())...)
}

// library puts the functions into a library, and makes a program that has none of its own.
func (p *program) library(options []string) error { return p.shared("gcc", options) }

func (p *program) muslLibrary(options []string) error { return p.shared("musl-gcc", options[1:]) }

func (p *program) shared(compiler string, options []string) error {
	lib := p.binary(".so")
	parts := []string{"-shared", "-nodefaultlibs", "-Wl,-soname," + filepath.Base(lib), "-o", lib, p.source(".o"), p.source(".c.o"), p.object("programs/noifunc")}
	if p.rand.IntN(2) == 0 {
		parts = append(parts, "-nostartfiles") // no DT_INIT
	}
	if err := command(compiler, slices.Concat(options, parts, p.check())...); err != nil {
		return err
	}
	use := []string{"-o", p.binary(""), p.object("programs/main"), "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN", lib}
	return command(compiler, slices.Concat(use[:3], p.check(), use[3:])...)
}

// has reports whether a compiler is installed.
func has(compiler string) bool {
	_, err := exec.LookPath(compiler)
	return err == nil
}

// command runs a command; what it said is part of the error.
func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
