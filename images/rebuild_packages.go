// Package databases that a rebuild corrects, and xattrs that patched files lose.

package images

import (
	"context"
	"fmt"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/records"
)

// correctPackages finds the records that package databases have of the patched files, and with update adds
// the databases that are to be corrected. Warnings say what could not be found out.
func (c *changes) correctPackages(ctx context.Context, sub *contents.Subject, update bool) (files []records.Record, warnings []string, err error) {
	files, corrected, err := records.DpkgRecords(ctx, sub, c.targets)
	if err != nil {
		return nil, nil, err
	}
	if update {
		for i := range files {
			files[i].Corrected = !files[i].Stale
		}
		c.extras = append(c.extras, corrected...)
	}
	rpm, err := records.RpmRecords(ctx, sub, c.targets)
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	if err != nil {
		warnings = []string{fmt.Sprintf("whether rpm has digests of the patched files could not be found out: %v", err)}
	}
	return append(files, rpm...), warnings, nil
}

// lostMarks are warnings about xattrs that the patched files lose.
func (c *changes) lostMarks() (warnings []string) {
	for _, h := range c.targets {
		if all := contents.Marks(h.Meta.Xattrs); len(all) > 0 {
			warnings = append(warnings, h.Names[0]+": "+contents.MarkWarning(all))
		}
	}
	return warnings
}
