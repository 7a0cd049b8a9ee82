// Scan: its options, and the examination of a SOURCE.

package images

import (
	"context"
	"fmt"
	"strings"

	"github.com/moby/moby/client"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/hazards"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/rewriter/patch"
)

// ScanOptions are the choices of vfix scan.
type ScanOptions struct {
	Media    source.Options
	Jobs     int // files examined at once; 0 means one per processor
	Rewriter patch.Options
	// Shim has the parts of the fallback: an image is searched for them.
	Shim fallback.Shim
	// Root is the root filesystem with the libraries of a single program, or of programs in a directory that is not a
	// root filesystem itself; "" for the root filesystem that contains it.
	Root string
}

// Scan examines every file of a SOURCE that the rewriter may patch; it writes nothing.
func Scan(ctx context.Context, name string, o ScanOptions) (*contents.Findings, error) {
	o.Media = o.Media.WithDefaults()
	s := contents.NewSession(o.Jobs, o.Media.Progress, o.Rewriter)
	defer s.Close()
	if container, ok := strings.CutPrefix(name, ContainerPrefix); ok {
		return scanContainer(ctx, s, container, o.Media)
	}
	src, err := source.Open(ctx, name, o.Media)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	return ScanSource(ctx, s, src, o)
}

// ScanSource is Scan of an open source.
func ScanSource(ctx context.Context, s *contents.Session, src *source.Source, o ScanOptions) (*contents.Findings, error) {
	f, err := examine(ctx, s, src, &o.Shim)
	if err != nil {
		return nil, err
	}
	if src.Schema1 {
		f.Hazards = append(f.Hazards, contents.Hazard{Hazard: hazards.Hazard{Kind: hazards.Schema1, Version: "1"}})
	}
	if src.Image == nil {
		err = scanLoads(ctx, s, src.Path, o.Root, f)
	}
	f.Tree = nil // a scan of several sources needs no trees
	return f, err
}

// examine examines a source, and finds out what the fallback in an image covers.
func examine(ctx context.Context, s *contents.Session, src *source.Source, shim *fallback.Shim) (*contents.Findings, error) {
	f, err := s.Scan(ctx, src)
	if err != nil || src.Image == nil {
		return f, err
	}
	return f, shim.Find(ctx, f)
}

func scanContainer(ctx context.Context, s *contents.Session, name string, o source.Options) (*contents.Findings, error) {
	c, err := source.FindContainer(ctx, name, o)
	if err != nil {
		return nil, err
	}
	return ExamineContainer(ctx, s, c)
}

// ContainerPrefix says that a SOURCE is a container.
const ContainerPrefix = "container:"

// ExamineContainer examines the file system of a container.
func ExamineContainer(ctx context.Context, s *contents.Session, c *source.Container) (*contents.Findings, error) {
	title := ContainerPrefix + strings.TrimPrefix(c.Name, "/")
	stream, err := c.Engine.ContainerExport(ctx, c.ID, client.ContainerExportOptions{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", title, err)
	}
	defer stream.Close()
	f, err := s.Stream(ctx, stream, -1, title)
	if err != nil {
		return nil, fmt.Errorf("%s: its file system: %w", title, err)
	}
	f.Source = title
	return f, nil
}
