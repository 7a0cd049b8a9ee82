// Where the loader looks for the libraries of every program: ld.so.conf and the directories that it is built with.
// ld.so.cache has the state of ld.so.conf when ldconfig ran, and says more exactly which file is used.

package loads

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"path"
	"slices"
	"strings"
)

const (
	ldCache = "/etc/ld.so.cache"
	ldConf  = "/etc/ld.so.conf"
	// ldPreload lists libraries that are loaded into every program, separated by white space or colons.
	ldPreload = "/etc/ld.so.preload"
	// maxCache is the longest ld.so.cache that is read, in bytes; maxIncludes how deep ld.so.conf may include.
	maxCache    = 64 << 20
	maxIncludes = 10
)

// defaults are the directories that loaders are built with: of glibc in distributions, and in each order the same
// name is in one of them alone.
var defaults = []string{
	"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib",
}

// muslDefaults are musl's (ldso/dynlink.c, __dls3).
var muslDefaults = []string{"/lib", "/usr/local/lib", "/usr/lib"}

// configure fills in s.directories and s.cache.
func (s *search) configure(interp string) {
	if s.musl {
		s.dirs = muslDefaults
		name := "/etc/" + strings.TrimSuffix(path.Base(interp), ".so.1") + ".path"
		if b := s.readAll(name, maxConfig); b != nil {
			s.dirs = strings.FieldsFunc(string(b), func(r rune) bool { return r == ':' || r == '\n' })
		}
		return
	}
	s.readCache()
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

// ld.so.cache. Source: glibc, sysdeps/generic/dl-cache.h (struct cache_file_new, struct file_entry_new). Before
// glibc 2.32 the old format, "ld.so-1.7.0", is in front of it, with entries of 12 bytes.
const (
	cacheOld, cacheNew       = "ld.so-1.7.0", "glibc-ld.so.cache1.1"
	oldHead, oldEntry        = 16, 12
	newHead, newEntry        = 48, 24
	flagMask, flagX8664Libc6 = 0xffff, 0x0303 // FLAG_X8664_LIB64 | FLAG_ELF_LIBC6
)

// readCache fills in s.cache, the files by name, which the loader takes by the processor: those for some processors,
// and the first one for all (hwcap 0). Damaged entries are left out.
func (s *search) readCache() {
	b := s.readAll(ldCache, maxCache)
	le := binary.LittleEndian
	if bytes.HasPrefix(b, []byte(cacheOld)) && len(b) >= oldHead {
		skip := uint64(oldHead) + oldEntry*uint64(le.Uint32(b[12:]))
		skip = (skip + 7) &^ 7
		if skip > uint64(len(b)) {
			return
		}
		b = b[skip:]
	}
	if !bytes.HasPrefix(b, []byte(cacheNew)) || len(b) < newHead {
		return
	}
	text := func(at uint32) string {
		if uint64(at) >= uint64(len(b)) {
			return ""
		}
		name, _, _ := bytes.Cut(b[at:], []byte{0})
		return string(name)
	}
	s.cache = map[string][]string{}
	whole := map[string]bool{} // names of which the file for every processor is known
	n := min(uint64(le.Uint32(b[20:])), uint64(len(b)-newHead)/newEntry)
	for e := b[newHead : newHead+n*newEntry]; len(e) > 0; e = e[newEntry:] {
		name, file := text(le.Uint32(e[4:])), text(le.Uint32(e[8:]))
		if le.Uint32(e)&flagMask == flagX8664Libc6 && name != "" && path.IsAbs(file) && !whole[name] {
			s.cache[name] = append(s.cache[name], file)
			whole[name] = le.Uint64(e[16:]) == 0
		}
	}
}
