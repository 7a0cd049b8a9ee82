// The option --fix of scan, rebuild and hotfix, and what is printed of fixes.

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/tables"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/fixes"
	"vfix.dev/vfix/rewriter/find"
)

// addFix declares --fix: what is fixed besides call sites.
func (w *workOptions) addFix(cmd *cobra.Command) {
	var all []string
	for _, r := range find.Fixes {
		all = append(all, fmt.Sprintf("%s (%s)", r, fixes.Affects(r)))
	}
	cmd.Flags().StringVar(&w.fix, "fix", "", "also fix `WHAT`: "+strings.Join(all, ", "))
	words(cmd, "fix", fixes.Names())
}

// fixNames are the fixes that some file needs, of those that were asked for: a value of --fix, "" for none.
func fixNames(f *contents.Findings) string {
	var all []string
	for _, r := range tables.Fixed(f) {
		if name := string(r.Fix); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return strings.Join(all, ",")
}

// jsonFileFix is what a plan does about something besides call sites.
type jsonFileFix struct {
	Kind    find.Fix     `json:"kind"`
	Reason  string       `json:"reason"`
	Change  *jsonChange  `json:"change,omitempty"`
	Listing *jsonListing `json:"listing,omitempty"`
}

// fixJSON is nil if no fix was asked for, or the file needs none.
func fixJSON(d *find.Redirect) *jsonFileFix {
	if d == nil {
		return nil
	}
	r := &jsonFileFix{Kind: d.Fix, Reason: d.Reason, Listing: listingJSON(d.Listing)}
	if d.After != nil {
		r.Change = &jsonChange{Vaddr: hex(d.Vaddr), Offset: d.Offset, Before: fmt.Sprintf("%x", d.Before), After: fmt.Sprintf("%x", d.After)}
	}
	return r
}
