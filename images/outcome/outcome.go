// Package outcome describes the outcome of one image of a list: its words, its JSON and its line of CSV.
// The state file, the reports, the table and the counts are all made of it.
package outcome

import (
	"fmt"
	"reflect"
	"strings"
)

// Status is what became of an image.
type Status string

// The statuses.
const (
	Done       Status = "done"       // a derived image was written, or would be
	Unaffected Status = "unaffected" // nothing to do
	Affected   Status = "affected"   // of a scan: there are call sites
	Incomplete Status = "incomplete" // no call site, but part of it could not be examined
	Failed     Status = "failed"
	NotRun     Status = "not run" // the run ended before
)

// Item is one line of a list of images.
type Item struct {
	Line   int    `json:"line"` // in the list, the first being 1
	Source string `json:"source"`
	Dest   string `json:"dest"` // "" where the line has none
}

// Image is what became of one image. docs/json.md describes the fields in JSON; those that a report
// does not have come last.
type Image struct {
	Item
	Status Status `json:"status"`
	// Before says that an earlier run with the same state file did it.
	Before    bool   `json:"before"`
	Reference string `json:"reference"` // as images.Rebuilt
	Digest    string `json:"digest"`
	// BaseDigest is what the source called the image when it was read.
	BaseDigest string   `json:"base_digest"`
	Files      int      `json:"files"`      // with references to the page
	Patched    int      `json:"patched"`    // call sites
	LeftOver   int      `json:"left_over"`  // call sites that stay and no fallback covers
	Fixed      int      `json:"fixed"`      // files with a fix besides; of a scan: that can have one
	LayerSize  int64    `json:"layer_size"` // bytes
	Hazards    []string `json:"hazards"`    // their kinds, each once
	Warnings   []string `json:"warnings"`
	Error      string   `json:"error"` // Err for people, and what to do about it
	Hint       string   `json:"hint"`

	Err    error  `json:"-"` // of Failed
	Unread int    `json:"-"` // files that could not be examined
	Stored string `json:"-"` // images.Rebuilt.Stored
}

// Columns are the names of Cells: those of the fields in JSON, in the same order.
func Columns() []string {
	names, _ := columns(reflect.ValueOf(Image{}))
	return names
}

// Cells are the fields as text, a list with a semicolon between its elements.
func (i Image) Cells() []string {
	_, cells := columns(reflect.ValueOf(i))
	return cells
}

func columns(v reflect.Value) (names, cells []string) {
	for n := range v.NumField() {
		name := v.Type().Field(n).Tag.Get("json")
		switch f := v.Field(n).Interface().(type) {
		case Item:
			moreNames, moreCells := columns(v.Field(n))
			names, cells = append(names, moreNames...), append(cells, moreCells...)
		case []string:
			names, cells = append(names, name), append(cells, strings.Join(f, "; "))
		default:
			if name != "-" {
				names, cells = append(names, name), append(cells, fmt.Sprint(f))
			}
		}
	}
	return names, cells
}
