// What vfix verify --format json prints; the rules are in json.go.

package main

import (
	"encoding/json"
	"fmt"

	"vfix.dev/vfix/images"
)

type jsonVerified struct {
	jsonDocument
	Against     string           `json:"against"`
	Compared    int              `json:"compared"`
	Added       []string         `json:"added"`
	Corrected   []string         `json:"corrected"`
	Repaired    []jsonRepaired   `json:"repaired"`
	Problems    []string         `json:"problems"`
	NotCompared []string         `json:"not_compared"`
	Differences []jsonDifference `json:"differences,omitempty"`
	Stated      *jsonStated      `json:"provenance,omitempty"`
	Result      jsonSource       `json:"result"`
	Levels      []jsonSource     `json:"levels,omitempty"`
}

type jsonDifference struct {
	Path      string         `json:"path"`
	Sites     []jsonSite     `json:"sites"`
	Repair    *jsonRepair    `json:"repair,omitempty"`
	Edits     []jsonEdit     `json:"edits"`
	Appended  int64          `json:"appended"`
	Unplanned *jsonUnplanned `json:"unplanned,omitempty"`
}

type jsonEdit struct {
	What   string `json:"what"`
	Offset uint64 `json:"offset"`
	Before string `json:"before"`
	After  string `json:"after"`
}

type jsonUnplanned struct {
	Offset  int64        `json:"offset"`
	Listing *jsonListing `json:"listing,omitempty"`
}

type jsonStated struct {
	From      string          `json:"from"`
	Statement json.RawMessage `json:"statement"`
}

func verifiedJSON(opts VerifyOptions, v *images.Verified) jsonVerified {
	doc := jsonVerified{
		jsonDocument: document("verify"), Against: opts.against,
		Compared: v.Compared, Added: list(v.Added), Corrected: list(v.Corrected), Repaired: repairedJSON(v.Repaired), Problems: list(v.Problems), NotCompared: list(v.NotCompared), Result: sourceJSON(v.Findings, v.Findings.Verdict(), false),
	}
	for _, l := range v.Findings.Levels {
		doc.Levels = append(doc.Levels, sourceJSON(l, l.Verdict(), false))
	}
	for i := range v.Differences {
		doc.Differences = append(doc.Differences, differenceJSON(&v.Differences[i]))
	}
	if v.Stated != nil {
		doc.Stated = &jsonStated{v.Stated.From, v.Stated.Raw}
	}
	return doc
}

func differenceJSON(d *images.Difference) jsonDifference {
	out := jsonDifference{Path: d.Path, Sites: []jsonSite{}, Edits: []jsonEdit{}, Appended: d.Appended, Repair: repairJSON(d.Redirect)}
	for i := range d.Patches {
		site := siteJSON(&d.Patches[i])
		site.Listing = listingJSON(d.Patches[i].Listing)
		out.Sites = append(out.Sites, site)
	}
	for _, e := range d.Edits {
		out.Edits = append(out.Edits, jsonEdit{e.Why, e.Offset, fmt.Sprintf("%x", e.Old), fmt.Sprintf("%x", e.New)})
	}
	if d.Unplanned != nil {
		out.Unplanned = &jsonUnplanned{d.Unplanned.Offset, listingJSON(&d.Listing)}
	}
	return out
}
