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

// configure fills in r.dirs.
func (r *Root) configure() {
	r.conf(ldConf, 0)
	for _, dir := range defaults {
		r.directory(dir)
	}
}

func (r *Root) directory(dir string) {
	if dir = path.Clean("/" + dir); !slices.Contains(r.dirs, dir) {
		r.dirs = append(r.dirs, dir)
	}
}

// conf reads ld.so.conf and the files that it includes (ldconfig(8); glibc, elf/ldconfig.c, parse_conf).
func (r *Root) conf(name string, depth int) {
	if depth == maxIncludes {
		return
	}
	for line := range strings.Lines(string(r.readAll(name, maxConfig))) {
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		words := strings.FieldsFunc(line, func(c rune) bool { return strings.ContainsRune(" \t,", c) })
		switch {
		case len(words) == 0, words[0] == "hwcap":
		case words[0] == "include":
			for _, pattern := range words[1:] {
				if !path.IsAbs(pattern) {
					pattern = path.Join(path.Dir(name), pattern)
				}
				all, _ := fs.Glob(r.fs, clean(pattern))
				for _, file := range all {
					r.conf(file, depth+1)
				}
			}
		default:
			for _, dir := range strings.FieldsFunc(line, func(c rune) bool { return strings.ContainsRune(": \t,", c) }) {
				dir, _, _ = strings.Cut(dir, "=")
				r.directory(dir)
			}
		}
	}
}
