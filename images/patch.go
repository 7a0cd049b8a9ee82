package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"vfix.dev/vfix/rewriter"
)

// patchOptions are the choices of vfix patch.
type patchOptions struct {
	Jobs    int
	InPlace bool   // -i
	Output  string // -o: where the patched copy goes
	DryRun  bool
	// Since names a stamp: a file whose mtime says since when files must have changed to be
	// looked at. Where it is missing all are. When all is done it is set to when the run
	// began; "" is no stamp.
	Since string
	// OneFS leaves out what is mounted in a folder.
	OneFS    bool
	Progress Progress
	Rewriter rewriter.Options
}

// patchAll patches ELF files, folders (recursively) and tarballs. Exactly one of InPlace and
// Output is set, or DryRun.
func patchAll(ctx context.Context, paths []string, o patchOptions) (*Findings, error) {
	if o.Output != "" && len(paths) != 1 {
		return nil, fmt.Errorf("%s: one output, and %d paths to patch", o.Output, len(paths))
	}
	s := newSession(o.Jobs, o.Progress, o.Rewriter)
	defer s.Close()
	p := &patchRun{
		s: s, o: o, out: &Findings{Source: strings.Join(paths, " ")},
		finals: map[string]bool{}, roots: map[string]*os.Root{}, written: map[fileID]*replacement{},
	}
	if err := p.run(ctx, paths); err != nil {
		return nil, err
	}
	return p.out, nil
}

// patchRun is one run of Patch.
type patchRun struct {
	s   *session
	o   patchOptions
	out *Findings
	// What is to be renamed once all of it is written, and which inode was already written
	// anew where: two paths may name hard links of one file, or the same folder.
	pending  []*replacement
	finals   map[string]bool
	roots    map[string]*os.Root // the folders of those, by path
	written  map[fileID]*replacement
	outsides []outside
	stamp    stamp
}

// outside is a file of which not all names were in the paths given.
type outside struct {
	id    fileID
	name  string
	links uint64 // names the file system knows
}

func (p *patchRun) run(ctx context.Context, paths []string) error {
	defer p.discard()
	if err := p.stamp.read(p.o.Since); err != nil {
		return err
	}
	for _, name := range paths {
		if err := p.one(ctx, name); err != nil {
			return err
		}
	}
	if err := p.commit(); err != nil {
		return err
	}
	p.noteOutside()
	return p.stamp.set()
}

// notAnImage refuses a path that holds an image, whose files are in layers: nothing in it
// would be found to patch.
func notAnImage(ctx context.Context, name string) error {
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		if ref, err := ParseRef(name); err == nil && !ref.Guessed {
			return withHint(fmt.Errorf("%s: patch takes paths of files and directories", name), "use 'vfix rebuild %s', which takes images", name)
		}
		return nil // whoever opens it says so
	}
	src, err := openPath(ctx, name, MediaOptions{}.withDefaults())
	if err != nil || src == nil {
		return err
	}
	defer src.Close()
	if src.Image == nil {
		return nil
	}
	return withHint(fmt.Errorf("%s: this is an image, and patch works on the files of a root filesystem", name), "use 'vfix rebuild %s'", src.Ref)
}

// one patches what one path names.
func (p *patchRun) one(ctx context.Context, name string) error {
	if err := notAnImage(ctx, name); err != nil {
		return err
	}
	tarball, err := isTarball(name)
	if err != nil {
		return err
	}
	if tarball {
		return p.tarball(ctx, name)
	}
	d, err := openDiskTree(name)
	if err != nil {
		return err
	}
	defer d.Close()
	d.since, d.oneFS = p.stamp.since, p.o.OneFS
	if err := d.scan(ctx, p.s); err != nil {
		return err
	}
	f, err := d.findings(p.s)
	if err != nil {
		return err
	}
	p.add(name, f, d.only == "")
	switch {
	case p.o.DryRun:
		return nil
	case p.o.InPlace:
		for _, h := range f.affected() {
			if err := p.replace(ctx, d, h); err != nil {
				return fmt.Errorf("%s: %w", d.full(h.names[0]), err)
			}
		}
		return nil
	case d.only != "":
		return p.copyFile(ctx, d, f.hits)
	}
	return p.copyTree(ctx, d, f.hits)
}

// full is the path of a file of the tree, as the user would type it.
func (f *diskTree) full(name string) string {
	if f.only != "" {
		return f.path
	}
	return filepath.Join(f.path, filepath.FromSlash(name))
}

// add puts one path's findings into those of the run, whose paths begin with that path.
func (p *patchRun) add(name string, f *found, isFolder bool) {
	prefix := func(s string) string {
		if isFolder {
			return path.Join(filepath.ToSlash(name), s)
		}
		return s
	}
	for _, file := range f.Files {
		file.Path = prefix(file.Path)
		links := make([]string, len(file.Links))
		for i, l := range file.Links {
			links[i] = prefix(l)
		}
		file.Links = links
		p.out.Files = append(p.out.Files, file)
	}
	for _, q := range f.Passed {
		q.Path = prefix(q.Path)
		p.out.Passed = append(p.out.Passed, q)
	}
	p.out.ELFFiles += f.ELFFiles
	p.out.ExecBytes += f.ExecBytes
}

// tarball patches a tarball of a root filesystem.
func (p *patchRun) tarball(ctx context.Context, name string) error {
	f, _, err := p.s.tarball(ctx, name)
	if err != nil {
		return err
	}
	for i := range f.Files {
		f.Files[i].Path = name + ":" + f.Files[i].Path
	}
	p.add(name, f, false)
	hits := f.affected()
	if p.o.DryRun || p.o.InPlace && len(hits) == 0 {
		return nil
	}
	d, err := openDiskTree(name)
	if err != nil {
		return err
	}
	defer d.Close()
	write := func(w io.Writer, r *os.File) error { return p.s.rewriteTarball(ctx, w, r, hits) }
	if p.o.InPlace {
		fi, err := d.root.Lstat(d.only)
		if err != nil {
			return err
		}
		_, err = p.prepare(d.root, d.only, fi, write)
		return wrapPath(name, err)
	}
	return wrapPath(name, p.writeOutput(d, nil, write))
}

// wrapPath names the file that an error is about.
func wrapPath(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

// copyFile writes the patched copy of a single file to the output.
func (p *patchRun) copyFile(ctx context.Context, d *diskTree, hits []hit) error {
	var h *hit
	if len(hits) > 0 && !hits[0].plan.Empty() {
		h = &hits[0]
	}
	return wrapPath(d.path, p.writeOutput(d, h, func(w io.Writer, r *os.File) error {
		var in io.Reader = r
		if h != nil {
			in = h.plan.Apply(r)
		}
		_, err := copyTo(ctx, w, in, nil)
		return err
	}))
}

// writeOutput makes the output file from the single file that d is about: write makes the
// content, and owner, mode, times and xattrs are kept, but of a patched file the marks of
// its old content.
func (p *patchRun) writeOutput(d *diskTree, patched *hit, write func(io.Writer, *os.File) error) error {
	r, err := d.root.OpenFile(d.only, os.O_RDONLY|openNoBlock, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	if same, err := sameFile(r, p.o.Output); err != nil {
		return err
	} else if same {
		return withHint(fmt.Errorf("%s: input and output are the same file", p.o.Output), "patch it in place: -i")
	}
	if fi, err := os.Stat(p.o.Output); err == nil && fi.IsDir() {
		return withHint(fmt.Errorf("%s: a folder, and the output of a file is a file", p.o.Output),
			"name the file too: -o %s", filepath.Join(p.o.Output, filepath.Base(d.only)))
	}
	out, err := createPending(p.o.Output)
	if err != nil {
		return err
	}
	defer out.discard()
	if err := write(out, r); err != nil {
		return err
	}
	var dropped, lost []string
	if patched != nil {
		dropped, lost, err = copyOwnPatchedMeta(r, out.File)
		patched.warnDropped(dropped)
	} else {
		lost, err = copyOwnMeta(r, out.File)
	}
	if err != nil {
		return err
	}
	var all lostMeta
	all.add(d.path, lost)
	if text := all.warning(); text != "" {
		p.out.Warnings = append(p.out.Warnings, text)
	}
	fi, err := r.Stat()
	if err != nil {
		return err
	}
	if err := os.Chtimes(out.Name(), fi.ModTime(), fi.ModTime()); err != nil {
		return err
	}
	return out.commit()
}

// sameFile reports whether name is the open file.
func sameFile(r *os.File, name string) (bool, error) {
	a, err := r.Stat()
	if err != nil {
		return false, err
	}
	b, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(a, b), err
}
