// Scanning the images of a list: the survey before anything is rebuilt.

package batch

import (
	"context"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/outcome"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

// Scan examines the images of a list; it ignores the Options about results. Errors are as
// Rebuild's.
func Scan(ctx context.Context, list *List, o Options) (*Batch, error) {
	o.DryRun = false // what is found is remembered
	return (&batch{o: o, list: list, verb: scanVerb}).all(ctx)
}

// scanVerb begins the options in lines of a state file that a scan wrote, and is their verb.
const scanVerb = "scan"

func (b *batch) scan(ctx context.Context, out *outcome.Image, src *media.Source) error {
	f, err := images.ScanSource(ctx, b.s, src, b.o.ScanOptions)
	if err != nil {
		return err
	}
	found(out, f)
	return nil
}

func found(o *outcome.Image, all *contents.Findings) {
	o.Status = outcome.Unaffected
	for _, f := range all.All() {
		files(o, f)
		for i := range f.Files {
			site(o, &f.Files[i])
		}
	}
	unread(o, all)
}

// site counts the call sites of a file that no fallback in the image catches.
func site(o *outcome.Image, f *contents.File) {
	if f.Covered != "" {
		return
	}
	for _, p := range f.Plan.Patches {
		if p.Site.Verdict != find.Live {
			continue
		}
		o.Status = outcome.Affected
		if p.Form == patch.Left {
			o.LeftOver++
		} else {
			o.Patched++
		}
	}
}
