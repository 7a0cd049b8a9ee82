// The option --fix of scan, rebuild and hotfix, and what is printed of repairs.

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/tables"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/repairs"
	"vfix.dev/vfix/rewriter"
)

// fixOption is --fix: what is repaired besides call sites.
type fixOption struct {
	fix    string
	repair []rewriter.Repair // of check
}

func (o *fixOption) addFix(cmd *cobra.Command) {
	var all []string
	for _, r := range rewriter.Repairs {
		all = append(all, fmt.Sprintf("%s (%s)", r, repairs.Affects(r)))
	}
	cmd.Flags().StringVar(&o.fix, "fix", "", "also fix `WHAT`: "+strings.Join(all, ", "))
	words(cmd, "fix", repairs.Names())
}

func (o *fixOption) check(cmd *cobra.Command) (err error) {
	if !cmd.Flags().Changed("fix") {
		return nil
	}
	if o.repair, err = repairs.Parse(o.fix); err != nil {
		return usagef(cmd.Name(), "--fix: %v", err)
	}
	return nil
}

// fixNames are the repairs that some file needs, of those that were asked for: a value of --fix, "" for none.
func fixNames(f *contents.Findings) string {
	var all []string
	for _, r := range tables.Repaired(f) {
		if name := string(r.Repair); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return strings.Join(all, ",")
}

// jsonRepair is what a plan does about something besides call sites.
type jsonRepair struct {
	Kind    rewriter.Repair `json:"kind"`
	Reason  string          `json:"reason"`
	Change  *jsonChange     `json:"change,omitempty"`
	Listing *jsonListing    `json:"listing,omitempty"`
}

// repairJSON is nil where no repair was asked for, or the file needs none.
func repairJSON(d *rewriter.Redirect) *jsonRepair {
	if d == nil {
		return nil
	}
	r := &jsonRepair{Kind: d.Repair, Reason: d.Reason, Listing: listingJSON(d.Listing)}
	if d.After != nil {
		r.Change = &jsonChange{Vaddr: hex(d.Vaddr), Offset: d.Offset, Before: fmt.Sprintf("%x", d.Before), After: fmt.Sprintf("%x", d.After)}
	}
	return r
}
