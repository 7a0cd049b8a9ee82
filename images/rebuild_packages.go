// Package databases that a rebuild corrects, and xattrs that patched files lose.

package images

import (
	"context"
	"fmt"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/records"
)

// packages finds the records that package databases have of the patched files, and adds
// the databases that are to be corrected.
func (r *rebuild) packages(ctx context.Context, sub *contents.Subject, c *changes) error {
	files, corrected, err := records.DpkgRecords(ctx, sub, c.targets)
	if err != nil {
		return err
	}
	if r.o.UpdateDpkg {
		for i := range files {
			files[i].Corrected = !files[i].Stale
		}
		c.extras = append(c.extras, corrected...)
	}
	rpm, err := records.RpmRecords(ctx, sub, c.targets)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		r.out.Warnings = append(r.out.Warnings, fmt.Sprintf("whether rpm has digests of the patched files could not be found out: %v", err))
	}
	r.out.Packages = append(files, rpm...)
	return nil
}

// warnMarks tells of xattrs that the patched files lose.
func (r *rebuild) warnMarks(targets []contents.Target) {
	for _, h := range targets {
		if all := contents.Marks(h.Meta.Xattrs); len(all) > 0 {
			r.out.Warnings = append(r.out.Warnings, h.Names[0]+": "+contents.MarkWarning(all))
		}
	}
}
