// Which files of the fallback a rebuild adds.

package fallback

import (
	"context"
	"slices"
	"strings"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/addedfiles"
	"vfix.dev/vfix/internal/hinterr"
)

// Choice is what a rebuild adds of the fallback.
type Choice struct {
	Files  []contents.Extra
	Traced bool // vfix-trace is put before the entrypoint
}

// Choose decides which files of the fallback are added, and notes in the findings what they cover.
func (s *Shim) Choose(ctx context.Context, sub *contents.Subject, mode Mode) (c Choice, err error) {
	if !s.Present() {
		if mode == FallbackAuto || mode == FallbackAlways {
			return c, hinterr.Errorf(hinterr.ErrUnsupported, "this vfix was built without the fallback")
		}
		return c, nil
	}
	in, err := s.installed(ctx, sub.T, sub.Src.Image)
	if err != nil {
		return c, err
	}
	fb := &contents.Fallback{Library: in.library(), Trace: in.trace()}
	left := sub.F.LeftOver() > 0
	if left {
		if err := in.loaders(ctx, sub.F.Files); err != nil {
			return c, err
		}
	}
	unreached := in.unreachedFiles(sub.F.Findings)
	var library, trace bool
	switch mode {
	case FallbackAlways:
		library, trace = true, true
	case FallbackAuto:
		library = left && in.reads[addedfiles.Loader64]
		trace = len(unreached) > 0
	}
	if c.Files, err = in.missing(library, trace); err != nil {
		return c, err
	}
	fb.Library = fb.Library || library && in.hasLoader
	if trace {
		fb.Trace, fb.Wrapped = true, !in.wrapped
		fb.Reasons = unreached
	}
	c.Traced = fb.Wrapped
	for _, e := range c.Files {
		fb.Added = append(fb.Added, e.Name)
	}
	slices.SortFunc(fb.Added, strings.Compare)
	in.cover(sub.F.Findings, fb, false)
	return c, nil
}
