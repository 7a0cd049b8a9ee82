// What a rebuild adds of the fallback.

package images

import (
	"context"
	"slices"
	"strings"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/internal/hinterr"
)

// planFallback decides what a rebuild adds of the fallback, and notes what that covers.
func (r *rebuild) planFallback(ctx context.Context, t *contents.Tree, f *contents.Scanned) ([]contents.Extra, error) {
	if !r.o.Shim.Present() {
		if r.o.Fallback == fallback.FallbackAuto || r.o.Fallback == fallback.FallbackAlways {
			return nil, hinterr.Errorf(hinterr.ErrUnsupported, "this vfix was built without the fallback")
		}
		return nil, nil
	}
	config, err := r.src.Image.RawConfigFile()
	if err != nil {
		return nil, err
	}
	in, err := r.o.Shim.Installed(ctx, t, config, r.s.FetchLayers(t))
	if err != nil {
		return nil, err
	}
	fb := &contents.Fallback{Library: in.Library(), Trace: in.Trace()}
	unreached := fallback.UnreachedFiles(f.Findings, in.HasLoader)
	var library, trace bool
	switch r.o.Fallback {
	case fallback.FallbackAlways:
		library, trace = true, true
	case fallback.FallbackAuto:
		library = in.HasLoader && slices.ContainsFunc(f.Files, func(file contents.File) bool { return file.LeftOver() > 0 })
		trace = len(unreached) > 0
	}
	extras, err := in.Missing(library, trace)
	if err != nil {
		return nil, err
	}
	fb.Library = fb.Library || library && in.HasLoader
	if trace {
		fb.Trace, fb.Wrapped = true, !in.Wrapped
		fb.Reasons = unreached
	}
	for _, e := range extras {
		fb.Added = append(fb.Added, e.Name)
	}
	slices.SortFunc(fb.Added, strings.Compare)
	fallback.Cover(f.Findings, fb, in.HasLoader, false)
	return extras, nil
}
