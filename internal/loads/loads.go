// Package loads finds the files that are mapped into a program besides itself: its loader, the libraries that
// it needs, and theirs, by the rules of glibc's dynamic loader in a root filesystem. Sources: ld.so(8), glibc
// (elf/dl-load.c). No file lists those that a program opens at run
// time (dlopen) or that LD_LIBRARY_PATH adds.
package loads

import (
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"vfix.dev/vfix/internal/rootpath"
	"vfix.dev/vfix/rewriter/elf"
)

// Program lists the files that are loaded for one program. Paths are those in the root, without a leading slash.
type Program struct {
	// Found are the loader and the libraries, each once, in the order in which they are found; also the
	// variants of a library for other processors.
	Found []string
	// Missing are the names of those that are not in the root, each once.
	Missing []string
}

// maxConfig is the longest ld.so.conf, or a file that it includes, that is read, in bytes.
const maxConfig = 1 << 20

// facts are what the loader reads of a file.
type facts struct {
	interp, soname         string
	needed, rpath, runpath []string
}

// object is a file that is loaded.
type object struct {
	*facts
	path   string  // in the root
	parent *object // that needs it; nil for the program
}

// Root is a root filesystem. Each file is read once, for all programs.
type Root struct {
	fs    fs.FS
	files map[string]*facts // by path; nil for one that the loader passes over
	dirs  []string          // where all programs' libraries are looked for
}

// In returns the root filesystem in fs.
func In(fs fs.FS) *Root {
	r := &Root{fs: fs, files: map[string]*facts{}}
	r.configure()
	return r
}

// search is the work for one program.
type search struct {
	*Root
	alone  bool // the system is unknown
	out    Program
	loaded map[string]bool // names that were looked up, sonames, paths
}

// Of finds the files that are loaded for a program of size bytes, which has the path name in the root. alone reports
// that the root is not known to be the program's: only files that it names relative to itself ($ORIGIN) are found; the
// loader, and the shared libraries of its system, are missing. The result is nil for files that no loader loads: a static
// program, a library, not an ELF file.
func (r *Root) Of(name string, program io.ReaderAt, size int64, alone bool) *Program {
	s := &search{Root: r, alone: alone, loaded: map[string]bool{}}
	first := &object{read(program, size), clean(name), nil}
	if first.facts == nil || first.interp == "" || first.soname != "" {
		return nil
	}
	s.loaded[first.path] = true
	queue := []*object{first}
	if o := s.open(clean(first.interp), nil); alone || o == nil {
		s.missing(first.interp)
	} else {
		queue = append(queue, s.take(first.interp, o))
	}
	for i := 0; i < len(queue); i++ {
		o := queue[i]
		var optional []string
		if i == 0 && !alone { // the loader continues without missing ones (glibc, elf/rtld.c, do_preload)
			optional = strings.FieldsFunc(string(s.readAll(ldPreload, maxConfig)), func(r rune) bool { return strings.ContainsRune(": \t\n", r) })
		}
		for n, name := range slices.Concat(o.needed, optional) {
			if name == "" || s.loaded[name] {
				continue
			}
			all := s.find(name, o)
			if len(all) == 0 && n < len(o.needed) {
				s.missing(name)
			}
			for _, next := range all {
				if !s.loaded["/"+next.path] {
					queue = append(queue, s.take(name, next))
				}
			}
			s.loaded[name] = true
		}
	}
	return &s.out
}

// take notes a file that was found under a name.
func (s *search) take(name string, o *object) *object {
	s.loaded[name], s.loaded["/"+o.path] = true, true
	if o.soname != "" {
		s.loaded[o.soname] = true
	}
	s.out.Found = append(s.out.Found, o.path)
	return o
}

func (s *search) missing(name string) {
	if !slices.Contains(s.out.Missing, name) {
		s.out.Missing = append(s.out.Missing, name)
	}
	s.loaded[name] = true
}

// open returns a file of the root; nil if the loader passes over it.
func (r *Root) open(name string, parent *object) *object {
	f, known := r.files[name]
	if !known {
		if content, size, done, err := rootpath.OpenFile(r.fs, name); err == nil {
			f = read(content, size)
			done()
		}
		r.files[name] = f
	}
	if f == nil {
		return nil
	}
	return &object{f, name, parent}
}

// read returns the facts about a file; nil if the loader passes over it: it is of another class or machine, or damaged.
func read(r io.ReaderAt, size int64) *facts {
	f, err := elf.Parse(r, size)
	if err != nil {
		return nil
	}
	return &facts{
		interp: f.Interp(), soname: f.Soname(), needed: f.DynStrings(elf.DTNeeded),
		rpath: f.DynStrings(elf.DTRPath), runpath: f.DynStrings(elf.DTRunpath),
	}
}

// find looks for a library as the loader does: all files that it may take, by the processor. The directory that a
// relative path refers to is not known.
func (s *search) find(name string, by *object) []*object {
	if strings.Contains(name, "/") {
		file := expand(name, by)
		if o := s.open(clean(file), by); o != nil && s.follows(file) {
			return []*object{o}
		}
		return nil
	}
	for _, dir := range append(own(by), s.dirs...) {
		if !s.follows(dir) {
			continue
		}
		if all := s.in(dir, name, by); len(all) > 0 {
			return all
		}
	}
	return nil
}

// follows reports whether a path is one in the root; of a program whose system is not known, only those relative to
// itself are.
func (s *search) follows(name string) bool {
	return path.IsAbs(name) && (!s.alone || strings.HasPrefix(name, fromOrigin))
}

// own are the directories in which a library that an object needs is looked for before those of all programs:
// DT_RUNPATH of the object, or else DT_RPATH of the object and of those that needed it.
func own(by *object) (all []string) {
	if runpath := paths(by, by.runpath); len(runpath) > 0 {
		return runpath
	}
	for o := by; o != nil; o = o.parent {
		if len(paths(o, o.runpath)) == 0 {
			all = append(all, paths(o, o.rpath)...)
		}
	}
	return all
}

// paths are the directories of an object's DT_RPATH or DT_RUNPATH.
func paths(o *object, lists []string) (all []string) {
	for _, list := range lists {
		for _, dir := range strings.FieldsFunc(list, func(r rune) bool { return r == ':' || r == ';' }) {
			all = append(all, expand(dir, o))
		}
	}
	return all
}

// fromOrigin begins a path that was expanded from $ORIGIN: to the file system it is the same as one slash.
const fromOrigin = "//"

// expand replaces $ORIGIN, the directory of the object. $LIB and $PLATFORM, whose values only the loader knows, stay.
func expand(dir string, o *object) string {
	origin := fromOrigin + path.Dir(o.path)
	return strings.NewReplacer("$ORIGIN", origin, "${ORIGIN}", origin).Replace(dir)
}

// variants are directories below each other one that the loader prefers on processors that have what they are named
// after (glibc 2.33: glibc-hwcaps; before: hwcap subdirectories).
var variants = []string{
	"", "glibc-hwcaps/x86-64-v4", "glibc-hwcaps/x86-64-v3", "glibc-hwcaps/x86-64-v2",
	"tls/x86_64", "tls", "x86_64", "haswell",
}

// in is every file of that name in a directory and its variants that the loader accepts.
func (s *search) in(dir, name string, by *object) (all []*object) {
	for _, v := range variants {
		if o := s.open(clean(path.Join(dir, v, name)), by); o != nil {
			all = append(all, o)
		}
	}
	return all
}

// clean is a path for fs.FS.
func clean(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

// readAll reads a small file of the root; nil if it is missing.
func (r *Root) readAll(name string, most int64) []byte {
	f, size, done, err := rootpath.OpenFile(r.fs, clean(name))
	if err != nil {
		return nil
	}
	defer done()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, min(size, most)))
	if err != nil {
		return nil
	}
	return b
}
