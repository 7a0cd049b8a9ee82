package images

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// What an image has of the fallback, what it needs, and what that covers.

// The words of File.Covered.
const (
	coveredByLibrary = "libvfix.so"
	coveredByTrace   = "vfix-trace"
)

// maxPreload is the largest /etc/ld.so.preload that is read, in bytes; it holds a few paths.
const maxPreload = 1 << 16

// Fallback is what an image has of the fallback.
type Fallback struct {
	// Library says that libvfix.so is loaded into every dynamic program of the image, Trace
	// that the image's entrypoint runs under vfix-trace; both in the version of this vfix.
	Library, Trace bool
	// Added is what a rebuild adds of it: paths without a leading slash, sorted.
	Added []string
	// Wrapped says that the rebuild puts vfix-trace before the entrypoint. Reasons is why:
	// one line for each file with call sites that no preload reaches.
	Wrapped bool
	Reasons []string
}

// fetcher makes the contents of files readable.
type fetcher func(context.Context, []*inode) (map[*inode]*io.SectionReader, error)

// installed is what was found of the fallback in a file system.
type installed struct {
	shim      *Shim
	t         *merged
	has32     bool // there are 32-bit dynamic programs to think of
	hasLoader bool
	content   map[string][]byte // of the fallback's files that are there
	wrapped   bool              // the entrypoint runs under vfix-trace
}

// find returns the node with a name, every component but the last followed through
// symlinks; nil where there is none.
func (t *merged) find(name string) *node {
	d, err := t.dir(path.Dir(name), 0, false)
	if d == nil || err != nil {
		return nil
	}
	return d.kids[path.Base(name)]
}

// installed looks for the fallback in a file system. config is an image's, nil for none.
func (s *Shim) installed(ctx context.Context, t *merged, config []byte, fetch fetcher) (*installed, error) {
	in := &installed{shim: s, t: t, content: map[string][]byte{}, hasLoader: t.find(loader64) != nil}
	in.has32 = slices.ContainsFunc(loaders32, func(name string) bool { return t.find(name) != nil })
	var want []*inode
	names := []string{libraryName, twinName, traceName, preloadName}
	for _, name := range names {
		if k := t.find(name); k != nil && k.kind == kindFile && k.size <= in.most(name) {
			want = append(want, k.inode)
		}
	}
	if len(want) > 0 {
		got, err := fetch(ctx, want)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			k := t.find(name)
			if k == nil || got[k.inode] == nil {
				continue
			}
			if in.content[name], err = io.ReadAll(got[k.inode]); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	in.wrapped = config != nil && entrypointIsTraced(config)
	return in, nil
}

// most is the size of the largest content that is of interest under a name.
func (in *installed) most(name string) int64 {
	switch name {
	case libraryName:
		return int64(len(in.shim.Library))
	case twinName:
		return int64(len(in.shim.Library32))
	case traceName:
		return int64(len(in.shim.Trace))
	}
	return maxPreload
}

// has reports whether a file of the fallback is there as it is to be.
func (in *installed) has(e *extra) bool {
	k := in.t.find(e.name)
	switch {
	case k == nil:
		return false
	case e.link != "":
		return k.kind == kindSymlink && k.link == e.link
	}
	content, ok := in.content[e.name]
	return ok && k.kind == kindFile && k.meta.mode == e.mode && bytes.Equal(content, e.body)
}

// library reports whether every dynamic program gets libvfix.so.
func (in *installed) library() bool {
	for _, e := range in.shim.libraryFiles(in.wide()) {
		if !in.has(&e) {
			return false
		}
	}
	return in.hasLoader && hasPreload(in.content[preloadName], preloadLine(in.wide()))
}

// wide reports whether the line of ld.so.preload is, or is to be, the one for programs of
// both kinds. The drop-in layer has that one always: it does not know what it is put on.
func (in *installed) wide() bool {
	return in.has32 || hasPreload(in.content[preloadName], platformLine)
}

func (in *installed) trace() bool {
	e := in.shim.traceFile()
	return in.wrapped && in.has(&e)
}

// missing are the files that the library, and the supervisor, still need.
func (in *installed) missing(library, trace bool) ([]extra, error) {
	var all []extra
	if library {
		all = in.shim.libraryFiles(in.wide())
		e, err := in.preloadFile()
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	if trace {
		all = append(all, in.shim.traceFile())
	}
	all = slices.DeleteFunc(all, func(e extra) bool { return in.has(&e) })
	for _, e := range all {
		if err := in.writable(e.name); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// preloadFile is /etc/ld.so.preload as it is to be: a line more, all else as it is.
func (in *installed) preloadFile() (extra, error) {
	e := extra{name: preloadName, mode: 0o644, body: withPreload(in.content[preloadName], in.wide())}
	k := in.t.find(preloadName)
	switch {
	case k == nil:
		return e, nil
	case k.kind != kindFile:
		return e, withHint(errorf(ErrUnsupported, "%s: not a regular file, so no line is added to it", preloadName),
			"add %s to it yourself, or leave the fallback away: --fallback never", preloadLine(in.wide()))
	case k.size > maxPreload:
		return e, damaged("%s: %d bytes, want at most %d", preloadName, k.size, maxPreload)
	}
	e.mode, e.like = k.meta.mode, &k.meta
	return e, nil
}

// writable reports whether a file can stand under a name: all folders on the way are
// folders, or missing, and what it replaces is no folder.
func (in *installed) writable(name string) error {
	var at string
	k := in.t.root
	parts := components(name)
	for i, c := range parts {
		at = path.Join(at, c)
		if k = k.kids[c]; k == nil {
			return nil
		}
		if last := i == len(parts)-1; last == (k.kids != nil) {
			what := "not a folder"
			if last {
				what = "a folder"
			}
			return withHint(errorf(ErrUnsupported, "%s: %s, so there is no place for the fallback", at, what),
				"leave the fallback away: --fallback never")
		}
	}
	return nil
}

// imageConfig is what is read of an image config (image-spec config.md).
type imageConfig struct {
	Config struct {
		Entrypoint []string
		Cmd        []string
	} `json:"config"`
}

// leakedTrace is what of an image's command vfix-trace runs because a Dockerfile's SHELL line
// was still in force at its shell form: "CMD", "ENTRYPOINT", or "". Rebuild puts vfix-trace
// before an entrypoint, and no shell behind it but the entrypoint's own.
func leakedTrace(config []byte) string {
	var c imageConfig
	shellForm := func(words []string) bool {
		return len(words) == 4 && words[0] == TracePath && words[1] == "/bin/sh" && words[2] == "-c"
	}
	switch {
	case json.Unmarshal(config, &c) != nil:
	case shellForm(c.Config.Cmd):
		return "CMD"
	case shellForm(c.Config.Entrypoint):
		return "ENTRYPOINT"
	}
	return ""
}

// entrypointIsTraced reports whether an image config's entrypoint begins with vfix-trace.
func entrypointIsTraced(config []byte) bool {
	var c imageConfig
	return json.Unmarshal(config, &c) == nil && len(c.Config.Entrypoint) > 0 && c.Config.Entrypoint[0] == TracePath
}

// cover notes for each file with sites that stay whether the fallback covers them; asItIs says
// that all stay, those that can be patched too.
func (f *Findings) cover(fb *Fallback, hasLoader, asItIs bool) {
	f.Fallback = *fb
	for i := range f.Files {
		file := &f.Files[i]
		file.Covered = ""
		switch {
		case len(file.Plan.LeftOver()) == 0 && (!asItIs || file.Plan.Empty()):
		case fb.Library && noPreload(file.Report, hasLoader) == "":
			file.Covered = coveredByLibrary
		case fb.Trace:
			file.Covered = coveredByTrace
		}
	}
}

// unreached are the files with sites that stay where no preload reaches, and why.
func (f *Findings) unreached(hasLoader bool) []string {
	var all []string
	for i := range f.Files {
		file := &f.Files[i]
		if why := noPreload(file.Report, hasLoader); why != "" && len(file.Plan.LeftOver()) > 0 {
			all = append(all, file.Path+": "+why)
		}
	}
	return all
}

// Uncovered counts the sites that are live or unknown and stay, and that no fallback in the
// image covers.
func (f *Findings) Uncovered() int {
	n := 0
	for i := range f.Files {
		if f.Files[i].Covered == "" {
			n += len(f.Files[i].Plan.LeftOver())
		}
	}
	return n
}

// planFallback decides what a rebuild adds of the fallback, and notes what that covers.
func (r *rebuild) planFallback(ctx context.Context, t *merged, f *found) ([]extra, error) {
	if !r.o.Shim.present() {
		if r.o.Fallback == FallbackAuto || r.o.Fallback == FallbackAlways {
			return nil, errorf(ErrUnsupported, "this vfix was built without the fallback")
		}
		return nil, nil
	}
	config, err := r.src.Image.RawConfigFile()
	if err != nil {
		return nil, err
	}
	in, err := r.o.Shim.installed(ctx, t, config, r.s.fetchLayers(t))
	if err != nil {
		return nil, err
	}
	fb := &Fallback{Library: in.library(), Trace: in.trace()}
	unreached := f.unreached(in.hasLoader)
	var library, trace bool
	switch r.o.Fallback {
	case FallbackAlways:
		library, trace = true, true
	case FallbackAuto:
		library = f.LeftOver() > 0 && in.hasLoader
		trace = len(unreached) > 0
	}
	extras, err := in.missing(library, trace)
	if err != nil {
		return nil, err
	}
	fb.Library = fb.Library || library && in.hasLoader
	if trace {
		fb.Trace, fb.Wrapped = true, !in.wrapped
		fb.Reasons = unreached
	}
	for _, e := range extras {
		fb.Added = append(fb.Added, e.name)
	}
	slices.SortFunc(fb.Added, strings.Compare)
	f.cover(fb, in.hasLoader, false)
	return extras, nil
}

// findFallback notes what an image has of the fallback and what that covers.
func (s *Shim) findFallback(ctx context.Context, img v1.Image, t *merged, f *Findings, fetch fetcher) error {
	if !s.present() {
		return nil
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return err
	}
	in, err := s.installed(ctx, t, config, fetch)
	if err != nil {
		return err
	}
	f.cover(&Fallback{Library: in.library(), Trace: in.trace()}, in.hasLoader, true)
	if what := leakedTrace(config); what != "" {
		f.Warnings = append(f.Warnings, "the image's "+what+" runs under vfix-trace, left from the SHELL line of its Dockerfile: "+
			`put SHELL ["/bin/sh", "-c"] before it`)
	}
	return nil
}
