// The directories in which the loader looks for the libraries of every program: those of ld.so.conf, from which ldconfig
// makes the loader's cache, and those that it is built with.

package loads

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

const (
	ldConf = "/etc/ld.so.conf"
	// ldPreload lists libraries that are loaded into every program, separated by white space or colons.
	ldPreload = "/etc/ld.so.preload"
	// maxIncludes is how deep ld.so.conf may include other files.
	maxIncludes = 10
)

// defaults are the directories that loaders are built with: of glibc in distributions, and in each order the same
// name is in one of them alone.
var defaults = []string{
	"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib",
}

// configure fills in s.dirs.
func (s *search) configure() {
	s.conf(ldConf, 0)
	for _, dir := range defaults {
		s.directory(dir)
	}
}

func (s *search) directory(dir string) {
	if dir = path.Clean("/" + dir); !slices.Contains(s.dirs, dir) {
		s.dirs = append(s.dirs, dir)
	}
}

// conf reads ld.so.conf and the files that it includes (ldconfig(8); glibc, elf/ldconfig.c, parse_conf).
func (s *search) conf(name string, depth int) {
	if depth == maxIncludes {
		return
	}
	for line := range strings.Lines(string(s.readAll(name, maxConfig))) {
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t,", r) })
		switch {
		case len(words) == 0, words[0] == "hwcap":
		case words[0] == "include":
			for _, pattern := range words[1:] {
				if !path.IsAbs(pattern) {
					pattern = path.Join(path.Dir(name), pattern)
				}
				all, _ := fs.Glob(s.root, clean(pattern))
				for _, file := range all {
					s.conf(file, depth+1)
				}
			}
		default:
			for _, dir := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(": \t,", r) }) {
				dir, _, _ = strings.Cut(dir, "=")
				s.directory(dir)
			}
		}
	}
}
