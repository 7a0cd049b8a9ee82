// The parts of the fallback that an image has, and the call sites that they cover.

package fallback

import (
	"bytes"
	"context"
	"path"
	"slices"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/addedfiles"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/rewriter/find"
)

// The words of File.Covered.
const (
	CoveredByLibrary = "libvfix.so"
	coveredByTrace   = "vfix-trace"
)

// maxRead is the largest file that is read whole, in bytes: glibc's loader has less than 300 KiB, and with debug data a
// few MiB.
const maxRead = 16 << 20

// installed describes the fallback's files found in the file system of an image.
type installed struct {
	shim      *Shim
	t         *contents.Tree
	hasLoader bool
	content   map[string][]byte // of the fallback's files that are there
	reads     map[string]bool   // the loaders that read /etc/ld.so.preload, by name; see readLoaders
	wrapped   bool              // the entrypoint runs under vfix-trace
	// wide reports that the line of ld.so.preload is, or will be, the one for programs of both kinds. The drop-in layer
	// has that one always: it does not know what it is put on.
	wide bool
}

// installed looks for the fallback in the file system of an image; the loaders are read if sites will stay that it is
// to cover, or if the library is there.
func (s *Shim) installed(ctx context.Context, f *contents.Findings, needed bool) (in *installed, err error) {
	t := f.Tree
	in = &installed{shim: s, t: t, hasLoader: t.Find(addedfiles.Loader64) != nil, wrapped: slices.Index(t.Config.Entrypoint, addedfiles.TracePath) == 0}
	want := map[string]*contents.Inode{}
	for _, e := range append(s.LibraryFiles(true), s.TraceFile(), contents.Extra{Name: addedfiles.Preload}) {
		in.want(want, e.Name, t.Find(e.Name))
	}
	if in.content, err = t.Contents(ctx, want); err != nil {
		return nil, err
	}
	has32 := slices.ContainsFunc(addedfiles.Loaders32, func(name string) bool { return t.Find(name) != nil })
	in.wide = has32 || addedfiles.NamesLibrary(in.content[addedfiles.Preload], addedfiles.PlatformLine)
	if needed || in.library() {
		err = in.readLoaders(ctx, f.Files)
	}
	return in, err
}

// want adds a file to those that are read, if it is a regular one of a size that makes sense.
func (in *installed) want(all map[string]*contents.Inode, name string, k *contents.Node) {
	if k != nil && k.HasContent() && k.Size <= maxRead {
		all[name] = k.Inode
	}
}

// readLoaders finds out which loaders read /etc/ld.so.preload: those that have its name in them. musl's does not, nor
// what compatibility packages put under the name of glibc's, nor one that was configured for another directory.
func (in *installed) readLoaders(ctx context.Context, files []contents.File) error {
	names := []string{addedfiles.Loader64}
	for i := range files {
		names = append(names, files[i].Report.Interp)
	}
	want := map[string]*contents.Inode{}
	for _, name := range names {
		if real, err := in.t.Resolve(name); err == nil {
			in.want(want, name, in.t.At(real))
		}
	}
	all, err := in.t.Contents(ctx, want)
	in.reads = map[string]bool{}
	for name, content := range all {
		in.reads[name] = bytes.Contains(content, []byte("\x00/"+addedfiles.Preload+"\x00"))
	}
	return err
}

// has reports whether a file of the fallback is there as it should be.
func (in *installed) has(e contents.Extra) bool {
	k := in.t.Find(e.Name)
	if k == nil || e.Link != "" {
		return k != nil && k.Linkname == e.Link
	}
	content, ok := in.content[e.Name]
	return ok && k.Mode == e.Mode && bytes.Equal(content, e.Body)
}

// found is the parts that work: every dynamic program gets libvfix.so, the entrypoint runs under vfix-trace.
func (in *installed) found() *contents.Fallback {
	return &contents.Fallback{Library: in.library(), Trace: in.wrapped && in.has(in.shim.TraceFile())}
}

func (in *installed) library() bool {
	missing := slices.ContainsFunc(in.shim.LibraryFiles(in.wide), func(e contents.Extra) bool { return !in.has(e) })
	return !missing && in.hasLoader && addedfiles.NamesLibrary(in.content[addedfiles.Preload], addedfiles.PreloadLine(in.wide))
}

// preloadFile is the new /etc/ld.so.preload: a line more, the rest unchanged.
func (in *installed) preloadFile() contents.Extra {
	e := contents.Extra{Name: addedfiles.Preload, Mode: 0o644, Body: addedfiles.WithPreloadLine(in.content[addedfiles.Preload], in.wide)}
	if k := in.t.Find(addedfiles.Preload); k != nil {
		e.Mode, e.Like = k.Mode, k.Entry
	}
	return e
}

// checkPlaces returns an error if the image has something else where the files go, or above.
func (in *installed) checkPlaces(files []contents.Extra) error {
	for _, e := range files {
		for at := e.Name; at != "."; at = path.Dir(at) {
			k := in.t.At(at)
			fits := k == nil || e.Link != "" || k.HasContent() && k.Size <= maxRead
			if at != e.Name {
				fits = k == nil || k.IsDir()
			}
			if !fits {
				return hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%s: the image has something else there: the fallback cannot be added", at),
					"omit the fallback: --fallback never")
			}
		}
	}
	return nil
}

// noPreload says why a preload does nothing for the sites left in a file, "" if it does.
func (in *installed) noPreload(r *find.Report) string {
	switch {
	case r.Static:
		return "a static program: nothing loads libvfix.so into it"
	case r.Go:
		return "made by Go, which sets its signal handlers by system calls of its own"
	case r.RawSignals:
		return "it sets up signals by system calls of its own"
	case r.Interp != "" && !in.reads[r.Interp]:
		return r.Interp + " loads it, and does not read /etc/ld.so.preload"
	case !in.reads[addedfiles.Loader64]:
		return "no glibc loader in the image, which would read /etc/ld.so.preload"
	}
	return ""
}

// cover notes for each file with sites that stay whether the fallback covers them; asItIs says that all stay, also
// those that can be patched.
func (in *installed) cover(f *contents.Findings, fb *contents.Fallback, asItIs bool) {
	f.Fallback = *fb
	for i := range f.Files {
		file := &f.Files[i]
		file.Covered = ""
		sites := file.Sites()
		stays := sites.Left > 0 || sites.Unknown > 0 || asItIs && sites.Live > 0
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
func (in *installed) unreachedFiles(f *contents.Findings) (all []string) {
	for i := range f.Files {
		file := &f.Files[i]
		if why := in.noPreload(file.Report); why != "" && file.Sites().Left > 0 {
			all = append(all, file.Path+": "+why)
		}
	}
	return all
}
