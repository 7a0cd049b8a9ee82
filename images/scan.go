// Scan: its options, and the examination of a SOURCE.

package images

import (
	"context"
	"fmt"
	"os"
	"strings"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/engine"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/hazards"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/rewriter/patch"
)

// ScanOptions are the choices of vfix scan.
type ScanOptions struct {
	Media    media.Options
	Jobs     int // files examined at once; 0 means one per processor
	Rewriter patch.Options
	// Shim has the parts of the fallback: an image is searched for them.
	Shim fallback.Shim
	// Root is the root filesystem with the libraries of a single program, or of programs in a directory that is not a
	// root filesystem itself; "" for the root filesystem that contains it.
	Root string
}

// Scan examines every file of a SOURCE that the rewriter may patch; it writes nothing.
func Scan(ctx context.Context, source string, o ScanOptions) (*contents.Findings, error) {
	o.Media = o.Media.WithDefaults()
	if name, ok := strings.CutPrefix(source, ContainerPrefix); ok {
		s := contents.NewSession(o.Jobs, o.Media.Progress, o.Rewriter)
		defer s.Close()
		return scanContainer(ctx, s, name, o.Media)
	}
	src, err := sources.Open(ctx, source, o.Media)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	s := contents.NewSession(o.Jobs, o.Media.Progress, o.Rewriter)
	defer s.Close()
	return ScanSource(ctx, s, src, o)
}

// ScanSource is Scan of an open source.
func ScanSource(ctx context.Context, s *contents.Session, src *media.Source, o ScanOptions) (*contents.Findings, error) {
	f, err := fallback.Examine(ctx, s, src, &o.Shim)
	if err != nil {
		return nil, err
	}
	if src.Schema1 {
		f.Hazards = append(f.Hazards, contents.Hazard{Hazard: hazards.Hazard{Kind: hazards.Schema1, Version: "1"}})
	}
	if fi, err := os.Stat(src.Path); src.Image == nil && err == nil && (fi.Mode().IsRegular() || fi.IsDir()) {
		tarball, err := contents.IsTarball(src.Path)
		if err != nil {
			return nil, err
		}
		if (tarball || fi.IsDir()) && f.ELFFiles == 0 && len(f.Passed) == 0 { // perhaps not what was meant: an empty mount point, archives
			name := src.Path
			if src.Ref.Name == media.Stdin {
				name = src.Ref.Name
			}
			f.Passed = append(f.Passed, contents.Passed{Path: name, Reason: "no 64-bit x86-64 ELF file in it",
				Hint: "if it holds archives or packages, unpack them first: vfix looks for programs in files, directories, tar archives and images"})
		}
		quiet := contents.NewSession(o.Jobs, nil, o.Rewriter) // of dozens of libraries
		defer quiet.Close()
		if err := scanLoads(ctx, quiet, src.Path, fi.IsDir(), o.Root, f.Findings); err != nil {
			return nil, err
		}
	}
	return f.Findings, scanLevels(ctx, s, src, f.Findings, &o.Shim)
}

// scanLevels examines the other images for the platform that a source has.
func scanLevels(ctx context.Context, s *contents.Session, src *media.Source, f *contents.Findings, shim *fallback.Shim) error {
	for _, l := range src.Levels {
		other, err := fallback.Examine(ctx, s, l, shim)
		if err != nil {
			return fmt.Errorf("%s: %w", platformOf(l), err)
		}
		other.Platform, f.Platform = platformOf(l), platformOf(src)
		f.Levels = append(f.Levels, other.Findings)
	}
	return nil
}

// platformOf is what the index says that an image is for.
func platformOf(src *media.Source) string {
	if src.Entry.Platform == nil {
		return "linux/amd64"
	}
	return src.Entry.Platform.String()
}

func scanContainer(ctx context.Context, s *contents.Session, name string, o media.Options) (*contents.Findings, error) {
	var f *contents.Scanned
	err := media.InContainer(ctx, name, o, func(c *engine.Client, got *engine.Container) (err error) {
		f, err = ExamineContainer(ctx, s, c, got.ID, ContainerPrefix+strings.TrimPrefix(got.Name, "/"))
		return err
	})
	if err != nil {
		return nil, err
	}
	return f.Findings, nil
}

// ContainerPrefix says that a SOURCE is a container.
const ContainerPrefix = "container:"

// ExamineContainer examines the file system of a container.
func ExamineContainer(ctx context.Context, s *contents.Session, c *engine.Client, id, title string) (*contents.Scanned, error) {
	stream, err := c.Export(ctx, id)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	return s.Exported(ctx, stream, title)
}
