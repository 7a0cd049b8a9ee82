// Package images has one file a verb: scan.go, rebuild.go, verify.go, layer.go. Each opens a source (package source),
// examines what is visible in it (contents), and writes the derived image: the base plus one layer. Images are values of
// github.com/google/go-containerregistry. The package knows OCI and file systems and no opcodes.
package images

import (
	"context"
	"errors"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/atomicfile"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// RebuildOptions are the choices of vfix rebuild.
type RebuildOptions struct {
	ScanOptions
	Dest     string // DEST as typed; "" means the local engine, or with Push the registry
	Tag      string // -t: the name and tag of the result
	Suffix   string // --tag-suffix, "-vfix"
	Push     bool   // to the registry of the result's name
	DryRun   bool
	Version  string        // of vfix, for the history entry and labels
	Fallback fallback.Mode // when the fallback is added
	// Provenance is the file that gets the statement of what was changed; "" for none.
	Provenance string
}

// Rebuilt is what a rebuild did.
// After an error beyond the scan, Findings is set and Reference is "".
type Rebuilt struct {
	Findings   *contents.Findings `json:"-"`
	Reference  string             `json:"reference"` // what a user can run or pull: with its digest if there is one
	Digest     string             `json:"digest"`    // of the derived image's manifest (of the index, if there is one)
	Unchanged  bool               `json:"unchanged"` // nothing to do: Reference names the base, or the copy of it in Dest
	BaseName   string             `json:"base_name"`
	BaseDigest string             `json:"base_digest"`
	LayerSize  int64              `json:"layer_size"` // compressed bytes of the added layer, 0 without one
	// Provenance is the file with the statement, "" for none.
	Provenance string   `json:"provenance"`
	Warnings   []string `json:"warnings"` // one line each, for people
	Notes      []string `json:"notes"`
}

// Rebuild writes the derived image of a SOURCE.
func Rebuild(ctx context.Context, name string, o RebuildOptions) (*Rebuilt, error) {
	o.Media = o.Media.WithDefaults()
	src, err := source.Open(ctx, name, o.Media)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	job, err := NewJob(ctx, src, o)
	if err != nil {
		return nil, err
	}
	s := contents.NewSession(o.Jobs, o.Media.Progress, o.Rewriter)
	defer s.Close()
	return job.Run(ctx, s)
}

// Job is the rebuild of an open source: its base image, what the result says about it, where the result goes, and what
// vfix makes of it.
type Job struct {
	src     *source.Source
	origin  origin
	dest    *source.Ref // nil for a dry run
	o       RebuildOptions
	changes *changes
	added   *blob.PackedLayer
	img     v1.Image // nil if there is nothing to do
	out     *Rebuilt
}

// NewJob prepares the rebuild of a source. It checks the destination; a root filesystem becomes an image.
func NewJob(ctx context.Context, src *source.Source, o RebuildOptions) (*Job, error) {
	dest, err := destination(ctx, src, o)
	if err != nil {
		return nil, err
	}
	becomesImage := src.Image == nil && (dest == nil || dest.Transport != source.Dir)
	if dest != nil && !sameRegistry(src.Ref, *dest) {
		src.Keep() // its layers are read twice
	}
	j, err := jobOf(ctx, src, o)
	if err != nil {
		return nil, err
	}
	if becomesImage {
		progress.Note(o.Media.Progress, "%s is a root filesystem: it becomes an image with one layer", src.Title())
	}
	j.dest = dest
	return j, nil
}

// jobOf is a rebuild without a destination.
func jobOf(ctx context.Context, src *source.Source, o RebuildOptions) (*Job, error) {
	if src.Image == nil {
		if err := withRootImage(ctx, src, o.Media); err != nil {
			return nil, err
		}
	}
	from, err := originOf(src, o)
	return &Job{src: src, origin: from, o: o}, err
}

// Run writes the derived image: the stages of a rebuild. After an error beyond the scan the result has the findings.
func (j *Job) Run(ctx context.Context, s *contents.Session) (*Rebuilt, error) {
	defer j.close()
	err := j.derive(ctx, s)
	if err == nil {
		err = j.put(ctx, s)
	}
	return j.out, err
}

func (j *Job) close() {
	if j.added != nil {
		j.added.Close()
	}
}

// derive makes the derived image of an image: its layers, each read once, become one tree; its changes one layer. If
// it fails after the scan, the result has the findings.
func (j *Job) derive(ctx context.Context, s *contents.Session) error {
	f, err := s.Scan(ctx, j.src)
	if err != nil {
		return err
	}
	j.out = &Rebuilt{Findings: f, BaseName: j.origin.baseName, BaseDigest: j.origin.baseDigest}
	j.changes, err = findChanges(ctx, f, &j.o.Shim, j.o.Fallback)
	if err != nil || j.changes.none() {
		j.out.Unchanged = err == nil
		return err
	}
	c := j.changes
	j.out.Notes = c.notes
	if j.added, err = contents.NewLayer(ctx, f.Tree, c.targets, c.extras); err != nil {
		return err
	}
	j.out.LayerSize = j.added.PackedSize
	j.img, err = newDerivedImage(j.src, j.added, j.origin, c)
	return err
}

// put writes the result, with the statement about it, to its destination. If nothing had to be changed, the result is
// the base: if the user named a DEST, it is written there unchanged, as the user's next command expects an image
// under that name.
func (j *Job) put(ctx context.Context, s *contents.Session) error {
	out, src, o := j.out, j.src, &j.o
	if j.dest == nil || out.Unchanged && o.Dest == "" {
		out.Reference = baseReference(src)
		if out.Unchanged {
			out.Digest = src.Digest
		}
		return nil
	}
	res := source.Result{Image: src.Image, Index: src.Index, Source: src.Ref}
	if out.Unchanged {
		progress.Note(o.Media.Progress, "nothing to do: %s gets the base as it is", o.Dest)
	} else {
		res.Image = j.img
		if src.Index != nil {
			var err error
			if res.Index, err = source.ReplaceInIndex(src.Index, src.Entry, j.img); err != nil {
				return err
			}
		}
	}
	if o.Provenance == "" || out.Unchanged {
		return j.store(ctx, s, res)
	}
	file, err := atomicfile.Create(o.Provenance) // before the image: it may fail
	if err != nil {
		return fmt.Errorf("statement of provenance: %w", err)
	}
	defer file.Discard()
	if err := j.store(ctx, s, res); err != nil {
		return err
	}
	if err := j.writeStatement(file); err != nil {
		return fmt.Errorf("statement of provenance %s: %w", o.Provenance, err)
	}
	out.Provenance = o.Provenance
	return file.Commit()
}

func (j *Job) store(ctx context.Context, s *contents.Session, res source.Result) (err error) {
	var st source.Stored
	dest := *j.dest
	switch {
	case dest.Transport != source.Dir:
		st, err = source.Put(ctx, dest, res, j.o.Media)
	case j.changes.traced:
		err = hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%v: a root filesystem has no entrypoint to run under vfix-trace", dest), "omit the fallback: --fallback never")
	default:
		if st.Warnings, err = writeDirectory(ctx, s, dest.Name, res.Image); err == nil {
			st.Reference = dest.String()
		}
	}
	j.out.Reference, j.out.Digest = st.Reference, st.Digest
	j.out.Warnings = append(j.out.Warnings, st.Warnings...)
	if errors.Is(err, hinterr.ErrDamaged) { // most often a layer that was not read before, as another image has it too
		err = fmt.Errorf("copying %s: %w", j.src.Title(), err)
	}
	return err
}
