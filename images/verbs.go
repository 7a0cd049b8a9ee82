package images

import (
	"context"
	"fmt"
	"os"
	"strings"

	"vfix.dev/vfix/rewriter"
)

// ScanOptions are the choices of vfix scan.
type ScanOptions struct {
	Media    MediaOptions
	Jobs     int // files examined at once; 0 means one per processor
	Rewriter rewriter.Options
	// Shim is what the fallback is made of. An image that has it is searched for it.
	Shim Shim
}

// Scan examines every file of a SOURCE that the rewriter may patch; it writes nothing.
func Scan(ctx context.Context, source string, o ScanOptions) (*Findings, error) {
	o.Media = o.Media.withDefaults()
	if name, ok := strings.CutPrefix(source, containerPrefix); ok {
		s := newSession(o.Jobs, o.Media.Progress, o.Rewriter)
		defer s.Close()
		return s.scanContainer(ctx, name, o.Media)
	}
	src, err := Open(ctx, source, o.Media)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	s := newSession(o.Jobs, o.Media.Progress, o.Rewriter)
	defer s.Close()
	f, err := s.covered(ctx, src, &o.Shim)
	if err != nil {
		return nil, err
	}
	return f.Findings, nil
}

// RebuildOptions are the choices of vfix rebuild.
type RebuildOptions struct {
	ScanOptions
	Dest     string // DEST as typed; "" means the daemon
	Tag      string // -t: the name and tag of the result
	Suffix   string // --tag-suffix, "-vfix"
	Push     bool   // to the registry of the result's name
	DryRun   bool
	Version  string       // of vfix, for the history entry and annotations
	Fallback FallbackMode // when the fallback is added
	// UpdateDpkg corrects dpkg's md5sums of patched files, in the added layer.
	UpdateDpkg bool
	// Provenance is ProvenanceAuto, ProvenanceNone or "", or the file that gets the statement.
	Provenance string
}

// Rebuilt is what a rebuild did.
// After an error beyond the scan, Findings is set and Reference is "".
type Rebuilt struct {
	Findings             *Findings
	Unchanged            bool   // nothing to do: Reference names the base
	Reference            string // what a user can run or pull: with its digest where there is one
	Digest               string // of the derived image's manifest (of the index, where there is one)
	BaseName, BaseDigest string
	LayerSize            int64 // compressed bytes of the added layer
	// Provenance says where the statement is: paths, and names of referrers with their digests.
	Provenance []string
	// Signatures are those of the base that its registry has; they do not hold for the result.
	Signatures []Signature
	// Packages are the patched files of which a package database has a record.
	Packages []PackageFile
	Warnings []string // one line each, for people
}

// Rebuild writes the derived image of a SOURCE.
func Rebuild(ctx context.Context, source string, o RebuildOptions) (*Rebuilt, error) {
	o.Media = o.Media.withDefaults()
	src, err := Open(ctx, source, o.Media)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	s := rebuildSession(o)
	defer s.Close()
	return s.rebuild(ctx, src, o)
}

// rebuildSession is the session of one rebuild, or of many.
func rebuildSession(o RebuildOptions) *session {
	s := newSession(o.Jobs, o.Media.Progress, o.Rewriter)
	s.keepDatabases = true
	return s
}

// rebuild writes the derived image of an open source.
func (s *session) rebuild(ctx context.Context, src *Source, o RebuildOptions) (*Rebuilt, error) {
	if src.Image == nil {
		if err := src.withRootImage(ctx, RunConfig{}, o.Media); err != nil {
			return nil, err
		}
	}
	r := &rebuild{src: src, o: o, s: s, out: &Rebuilt{BaseName: baseName(src.Ref)}}
	var err error
	if r.out.BaseDigest, err = baseDigest(src); err != nil {
		return nil, err
	}
	return r.out, r.run(ctx)
}

// PatchOptions are the choices of vfix patch.
type PatchOptions struct {
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

// Patch patches ELF files, folders (recursively) and tarballs. Exactly one of InPlace and
// Output is set, or DryRun.
func Patch(ctx context.Context, paths []string, o PatchOptions) (*Findings, error) {
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

// VerifyOptions are the choices of vfix verify.
type VerifyOptions struct {
	ScanOptions
	Against string // SOURCE of the base; "" checks the source alone
	// Provenance has the statement about the source found and checked; Statement is the file
	// that it is in, "" for where a rebuild leaves it.
	Provenance bool
	Statement  string
}

// Verified is what verify proved.
type Verified struct {
	Findings *Findings
	// Compared is how many files differ from the base and were proved to differ in call
	// sites only. Problems is one line each for what differs otherwise.
	Compared int
	Problems []string
	// Added are the files of the fallback that the base does not have, byte for byte those
	// of this vfix; sorted.
	Added []string
	// Corrected are the package databases that differ only in the records of patched files,
	// as --update-dpkg makes them; sorted.
	Corrected []string
	// Differences are what differs in each changed file, where Rewriter.Explain asks for it.
	Differences []Difference
	// Stated is the statement of provenance, where it was asked for: what is not as it says
	// is among the problems.
	Stated *Stated
}

// Verify checks that no live call site is left in a SOURCE and, with Against, that it
// differs from that base in patched call sites only.
func Verify(ctx context.Context, source string, o VerifyOptions) (*Verified, error) {
	o.Media = o.Media.withDefaults()
	src, err := Open(ctx, source, o.Media)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	s := newSession(o.Jobs, o.Media.Progress, o.Rewriter)
	defer s.Close()
	if o.Against == "" {
		if o.Provenance {
			return s.verifyStated(ctx, src, nil, o)
		}
		f, err := s.covered(ctx, src, &o.Shim)
		if err != nil {
			return nil, err
		}
		return &Verified{Findings: f.Findings}, nil
	}
	s.sums = true
	baseSrc, err := Open(ctx, o.Against, o.Media)
	if err != nil {
		return nil, err
	}
	defer baseSrc.Close()
	v := &verification{s: s, shim: &o.Shim}
	if v.base, err = s.openSubject(ctx, baseSrc); err != nil {
		return nil, err
	}
	defer v.base.close()
	if v.after, err = s.openSubject(ctx, src); err != nil {
		return nil, err
	}
	defer v.after.close()
	v.out = &Verified{Findings: v.after.f.Findings}
	if err := v.run(ctx); err != nil || !o.Provenance {
		return v.out, err
	}
	stated, err := s.verifyStated(ctx, src, baseSrc, o)
	if err != nil {
		return nil, err
	}
	v.out.Stated = stated.Stated
	v.out.Problems = append(v.out.Problems, stated.Problems...)
	return v.out, nil
}
