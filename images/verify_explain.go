// The differences between two versions of a file, for people who want to see them.

package images

import (
	"errors"
	"fmt"
	"io"

	"vfix.dev/vfix/rewriter"
)

// Difference is what differs between the two versions of a file, for people who want to see
// it: made where VerifyOptions' Rewriter.Explain says so.
type Difference struct {
	Path string
	// Patches are the call sites, each with the code on both sides; Edits all that changed in
	// place; Appended is how many bytes stand behind the old end. Empty where the file does
	// not differ in call sites only.
	Patches  []rewriter.Patch
	Redirect *rewriter.Redirect // a fix besides; nil for none
	Edits    []rewriter.Edit
	Appended int64
	// Unplanned is the first byte that is not as planned, and Listing the code there; nil
	// where there is none.
	Unplanned *rewriter.UnplannedError
	Listing   rewriter.Explanation
}

// explain notes what differs in a file: what was proved of it, or what it failed at.
func (v *comparison) explain(name string, proved *rewriter.Verification, failed error, before, after *io.SectionReader) error {
	if !v.o.Rewriter.Explain {
		return nil
	}
	d := Difference{Path: name}
	switch {
	case errors.As(failed, &d.Unplanned):
		var err error
		d.Listing, err = rewriter.ListingAt(before, before.Size(), after, after.Size(), d.Unplanned.Offset)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	case failed != nil:
		return nil
	default:
		d.Patches, d.Edits, d.Appended = proved.Patches, proved.Changed, proved.Added
		d.Redirect = proved.Redirect
	}
	v.out.Differences = append(v.out.Differences, d)
	return nil
}
