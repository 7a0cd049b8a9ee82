// Scan: its options, and the examination of a SOURCE.

package images

import (
	"context"
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
	if src.Image == nil {
		err = scanLoads(ctx, s, src.Path, o.Root, f)
	}
	return f.Findings, err
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
