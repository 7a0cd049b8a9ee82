// The parts of the fallback that an image has and needs, and the call sites that they cover.

package fallback

import (
	"bytes"
	"context"
	"encoding/json"
	"path"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/addedfiles"
	"vfix.dev/vfix/internal/hinterr"
)

// The words of File.Covered.
const (
	CoveredByLibrary = "libvfix.so"
	coveredByTrace   = "vfix-trace"
)

// maxLoader is the largest loader that is read, in bytes; glibc's has less than 300 KiB, and with
// debug data a few MiB.
const maxLoader = 16 << 20

// maxPreload is the largest /etc/ld.so.preload that is read, in bytes; it holds a few paths.
const maxPreload = 1 << 16

// installed describes the fallback's files found in a file system.
type installed struct {
	shim      *Shim
	t         *contents.Tree
	has32     bool // there are 32-bit dynamic programs to think of
	hasLoader bool
	reads     map[string]bool   // the loaders that read /etc/ld.so.preload, by name; see loaders
	content   map[string][]byte // of the fallback's files that are there
	config    []byte            // of the image, nil for none
	wrapped   bool              // the entrypoint runs under vfix-trace
}

// installed looks for the fallback in the file system of an image, nil for none.
func (s *Shim) installed(ctx context.Context, t *contents.Tree, img v1.Image) (in *installed, err error) {
	in = &installed{shim: s, t: t, content: map[string][]byte{}, hasLoader: t.Find(addedfiles.Loader64) != nil}
	if img != nil {
		if in.config, err = img.RawConfigFile(); err != nil {
			return nil, err
		}
	}
	in.has32 = slices.ContainsFunc(addedfiles.Loaders32, func(name string) bool { return t.Find(name) != nil })
	want := map[string]*contents.Inode{}
	for name, most := range map[string]int64{ // of interest, in bytes
		libraryName: int64(len(s.Library)), twinName: int64(len(s.Library32)), traceName: int64(len(s.Trace)), addedfiles.Preload: maxPreload,
	} {
		if k := t.Find(name); k != nil && k.Kind == contents.KindFile && k.Size <= most {
			want[name] = k.Inode
		}
	}
	in.wrapped = EntrypointIsTraced(in.config)
	return in, t.EachContent(ctx, want, func(name string, content []byte) { in.content[name] = content })
}

// loaders finds out which loaders read /etc/ld.so.preload: those that have its name in them. musl's does not, nor what
// compatibility packages put under the name of glibc's, nor one that was configured for another directory.
func (in *installed) loaders(ctx context.Context, files []contents.File) error {
	in.reads = map[string]bool{}
	names := map[string]*contents.Inode{}
	add := func(name string) {
		if real, err := in.t.Resolve(name); err == nil {
			if k := in.t.At(real); k != nil && k.Kind == contents.KindFile && k.Size <= maxLoader {
				names[name] = k.Inode
			}
		}
	}
	add(addedfiles.Loader64)
	for i := range files {
		if interp := files[i].Report.Interp; interp != "" {
			add(interp)
		}
	}
	return in.t.EachContent(ctx, names, func(name string, content []byte) {
		in.reads[name] = bytes.Contains(content, []byte("\x00/"+addedfiles.Preload+"\x00"))
	})
}

// has reports whether a file of the fallback is there as it should be.
func (in *installed) has(e *contents.Extra) bool {
	k := in.t.Find(e.Name)
	switch {
	case k == nil:
		return false
	case e.Link != "":
		return k.Kind == contents.KindSymlink && k.Link == e.Link
	}
	content, ok := in.content[e.Name]
	return ok && k.Kind == contents.KindFile && k.Meta.Mode == e.Mode && bytes.Equal(content, e.Body)
}

// library reports whether every dynamic program gets libvfix.so.
func (in *installed) library() bool {
	missing := slices.ContainsFunc(in.shim.LibraryFiles(in.wide()), func(e contents.Extra) bool { return !in.has(&e) })
	return !missing && in.hasLoader && addedfiles.NamesLibrary(in.content[addedfiles.Preload], addedfiles.PreloadLine(in.wide()))
}

// wide reports whether the line of ld.so.preload is, or will be, the one for programs of
// both kinds. The drop-in layer has that one always: it does not know what it is put on.
func (in *installed) wide() bool {
	return in.has32 || addedfiles.NamesLibrary(in.content[addedfiles.Preload], addedfiles.PlatformLine)
}

func (in *installed) trace() bool {
	e := in.shim.TraceFile()
	return in.wrapped && in.has(&e)
}

// missing are the files that the library, and the supervisor, still need.
func (in *installed) missing(library, trace bool) ([]contents.Extra, error) {
	var all []contents.Extra
	if library {
		all = in.shim.LibraryFiles(in.wide())
		e, err := in.preloadFile()
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	if trace {
		all = append(all, in.shim.TraceFile())
	}
	all = slices.DeleteFunc(all, func(e contents.Extra) bool { return in.has(&e) })
	for _, e := range all {
		if err := in.writable(e.Name); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// preloadFile is the new /etc/ld.so.preload: a line more, the rest unchanged.
func (in *installed) preloadFile() (contents.Extra, error) {
	e := contents.Extra{Name: addedfiles.Preload, Mode: 0o644, Body: addedfiles.WithPreloadLine(in.content[addedfiles.Preload], in.wide())}
	k := in.t.Find(addedfiles.Preload)
	switch {
	case k == nil:
		return e, nil
	case k.Kind != contents.KindFile:
		return e, hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%s: not a regular file: no line was added", addedfiles.Preload),
			"add %s to it yourself, or omit the fallback: --fallback never", addedfiles.PreloadLine(in.wide()))
	case k.Size > maxPreload:
		return e, hinterr.Damaged("%s: %d bytes, want at most %d", addedfiles.Preload, k.Size, maxPreload)
	}
	e.Mode, e.Like = k.Meta.Mode, &k.Meta
	return e, nil
}

// writable reports whether a file can have a name: all directories on the way are
// directories, or missing, and it does not replace a directory.
func (in *installed) writable(name string) error {
	var at string
	k := in.t.Root
	parts := contents.Components(name)
	for i, c := range parts {
		at = path.Join(at, c)
		if k = k.Kids[c]; k == nil {
			return nil
		}
		if last := i == len(parts)-1; last == (k.Kids != nil) {
			what := "not a directory"
			if last {
				what = "a directory"
			}
			return hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%s: %s: the fallback cannot be added", at, what),
				"omit the fallback: --fallback never")
		}
	}
	return nil
}

// command is the command in an image config (image-spec config.md); it is empty if the config is damaged.
type command struct{ Entrypoint, Cmd []string }

func commandOf(config []byte) command {
	var c struct {
		Config command `json:"config"`
	}
	if json.Unmarshal(config, &c) != nil {
		return command{}
	}
	return c.Config
}

// EntrypointIsTraced reports whether an image config's entrypoint begins with vfix-trace.
func EntrypointIsTraced(config []byte) bool {
	words := commandOf(config).Entrypoint
	return len(words) > 0 && words[0] == TracePath
}

// cover notes for each file with sites that stay whether the fallback covers them; asItIs says that all stay, also
// those that can be patched.
func (in *installed) cover(f *contents.Findings, fb *contents.Fallback, asItIs bool) {
	f.Fallback = *fb
	for i := range f.Files {
		file := &f.Files[i]
		file.Covered = ""
		stays := file.LeftOver() > 0 || file.Unknown() > 0 || asItIs && file.Open() > 0
		switch {
		case !stays:
		case fb.Library && in.noPreload(file.Report) == "":
			file.Covered = CoveredByLibrary
		case fb.Trace:
			file.Covered = coveredByTrace
		}
	}
	for i := range f.Packed {
		f.Packed[i].Covered = fb.Library || fb.Trace
	}
}

// unreachedFiles are the files with sites that stay and no preload reaches, and why.
func (in *installed) unreachedFiles(f *contents.Findings) []string {
	var all []string
	for i := range f.Files {
		file := &f.Files[i]
		if why := in.noPreload(file.Report); why != "" && file.LeftOver() > 0 {
			all = append(all, file.Path+": "+why)
		}
	}
	return all
}

// Find notes which files of the fallback an image has and what they cover.
func (s *Shim) Find(ctx context.Context, img v1.Image, t *contents.Tree, f *contents.Findings) error {
	if !s.Present() {
		return nil
	}
	in, err := s.installed(ctx, t, img)
	if err != nil {
		return err
	}
	fb := &contents.Fallback{Library: in.library(), Trace: in.trace()}
	if fb.Library {
		if err := in.loaders(ctx, f.Files); err != nil {
			return err
		}
	}
	in.cover(f, fb, true)
	return nil
}

// Examine examines an image, a root filesystem directory, a tarball of one or a single file,
// and finds out what the fallback in an image covers.
func Examine(ctx context.Context, s *contents.Session, src *source.Source, shim *Shim) (*contents.Scanned, error) {
	if src.Image == nil {
		f, err := s.Path(ctx, src)
		if err != nil {
			return nil, err
		}
		f.Rename(func(path string) string {
			if path == src.Path { // of a stream, kept in a temporary file
				return src.Ref.Name
			}
			return path
		})
		return f, nil
	}
	sub, err := s.OpenSubject(ctx, src)
	if err != nil {
		return nil, err
	}
	config, err := src.Image.RawConfigFile()
	if err != nil {
		return nil, err
	}
	if program := entryProgram(config); program != "" {
		sub.F.Starts(sub.T, program)
	}
	return sub.F, shim.Find(ctx, src.Image, sub.T, sub.F.Findings)
}

// entryProgram is the program that a container of an image starts with, "" if it names none.
func entryProgram(config []byte) string {
	c := commandOf(config)
	words := slices.Concat(c.Entrypoint, c.Cmd)
	if len(words) > 1 && words[0] == TracePath {
		words = words[1:]
	}
	if len(words) == 0 {
		return ""
	}
	return words[0]
}
