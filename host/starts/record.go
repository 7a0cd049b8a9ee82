// The record of one start, and its form as a line.

// Package starts records what vfix-runtime did at the start of each container: one line of JSON in a file or in
// the journal (record, write), counters for Prometheus in another file (metrics), and a summary of the records for
// operators (status).
//
// Records never keep a container from starting and are never waited for: each start opens a file and writes to it
// once, and a record that cannot be written is one line in the runtime's log.
package starts

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// The destinations of records besides a file.
const (
	Journal = "journald"
	None    = "none"
)

// identifier is the SYSLOG_IDENTIFIER of our entries in the journal.
const identifier = "vfix-runtime"

// Outcome is the result of vfix-runtime's part of a start.
type Outcome string

// The outcomes. With Refused and NotStarted the container does not start.
const (
	Patched   Outcome = "patched"   // all files that needed it
	Clean     Outcome = "clean"     // no file needed a patch
	Partial   Outcome = "partial"   // started, with a file that was not examined or a call site that remains
	Unpatched Outcome = "unpatched" // an error: started without changes
	Refused   Outcome = "refused"   // not started: fail-closed, or the runtime could not be executed
	Disabled  Outcome = "disabled"  // by an annotation or opt_in
	// NotStarted is recorded before the runtime is executed, and replaced by the outcome when it has created the
	// container.
	NotStarted Outcome = "not started"
)

// Outcomes are all outcomes, in the order of tables.
var Outcomes = []Outcome{Patched, Clean, Partial, Unpatched, Refused, Disabled, NotStarted}

// UnmarshalText accepts only the outcomes above, so that readers need not interpret others.
func (o *Outcome) UnmarshalText(text []byte) error {
	if *o = Outcome(text); !slices.Contains(Outcomes, *o) {
		return fmt.Errorf("unknown outcome %q", text)
	}
	return nil
}

// Settle sets the outcome of a start: err is why nothing could be done; with closed, the policy keeps a container
// with any problem from starting. Only a container that starts with its copies has patched files.
func (r *Record) Settle(err error, closed bool) {
	switch {
	case err != nil:
		r.Outcome, r.Reason = Unpatched, err.Error()
	case len(r.Problems) > 0:
		r.Outcome = Partial
	case r.Outcome == Disabled:
	case len(r.Files) > 0:
		r.Outcome = Patched
	default:
		r.Outcome = Clean
	}
	if closed && err == nil && r.Outcome == Partial {
		r.Reason = "not patched: " + r.Why()
	}
	if closed && (r.Outcome == Unpatched || r.Outcome == Partial) {
		r.Outcome = Refused
	}
	if r.Outcome == Unpatched || r.Outcome == Refused {
		r.Files = []File{}
	}
}

// Correct returns the record of a start that did not happen; o is NotStarted or Refused.
func (r Record) Correct(o Outcome, reason string) *Record {
	r.Outcome, r.Reason, r.Files = o, clip(reason), []File{}
	return &r
}

// Record is the record of one start.
type Record struct {
	Schema int       `json:"schema"` // 1
	Time   time.Time `json:"time"`   // of its end
	Vfix   string    `json:"vfix"`   // version
	// Start is equal in the line of NotStarted and in the line that replaces it; "" if there is one line.
	Start     string `json:"start,omitempty"`
	Container string `json:"container"`
	// Image is the image's name if an annotation of the engine has it, Caller the program that called
	// vfix-runtime, Runtime the real runtime.
	Image   string `json:"image,omitempty"`
	Caller  string `json:"caller,omitempty"`
	Runtime string `json:"runtime"`
	Bundle  string `json:"bundle"`
	// Root is the root filesystem, Layers the directories of an overlay, uppermost first.
	Root    string   `json:"root,omitempty"`
	Layers  []string `json:"layers,omitempty"`
	Outcome Outcome  `json:"outcome"`
	Reason  string   `json:"reason,omitempty"` // of Unpatched, Refused and NotStarted
	Policy  Policy   `json:"policy"`
	// CacheHit reports that nothing had to be examined or made: all was in the cache.
	CacheHit bool      `json:"cache_hit"`
	Examined int       `json:"examined"` // files that were in no index
	Files    []File    `json:"files"`    // that were patched
	Problems []Problem `json:"problems"`
	// SitesLeft is the number of live or unknown call sites that remain.
	SitesLeft int `json:"sites_left"`
	// Omitted is the number of entries omitted from the lists above because the line would be too long.
	Omitted  int      `json:"omitted,omitempty"`
	Seconds  Seconds  `json:"seconds"`
	Confined []string `json:"confined,omitempty"` // the restrictions of the process that examined files
}

// Source is the origin of a start's configuration.
type Source string

// The sources. The last two are in force if the file is missing or invalid.
const (
	FromFile      Source = "file"
	Defaults      Source = "defaults" // no file, now or before
	LastGood      Source = "last-good"
	ClosedDefault Source = "closed" // fail_closed, as no last good configuration is known
)

// Sources are all sources, in the order of tables.
var Sources = []Source{FromFile, Defaults, LastGood, ClosedDefault}

// Policy is the combined result of the node's configuration and the annotations.
type Policy struct {
	Source     Source `json:"source"`
	FailClosed bool   `json:"fail_closed"`
	OptIn      bool   `json:"opt_in"`
	Fallback   bool   `json:"fallback"`
	// Fix lists the fixes beyond calls of the page.
	Fix string `json:"fix,omitempty"`
}

// File is a patched file, with the SHA-256 of the original and of the copy, in hex.
type File struct {
	Path   string `json:"path"`
	Before string `json:"before"`
	After  string `json:"after"`
	Sites  int    `json:"sites"`
	Fix    string `json:"fix,omitempty"` // its fixes beyond calls of the page
}

// Problem is a change to a file that was not made, and why.
type Problem struct {
	Path   string `json:"path,omitempty"` // in the container
	Reason string `json:"reason"`
}

func (p Problem) String() string {
	if p.Path == "" {
		return p.Reason
	}
	return p.Path + ": " + p.Reason
}

// Seconds are the durations of the stages.
type Seconds struct {
	Look  float64 `json:"look"`  // finding the files to patch
	Patch float64 `json:"patch"` // making or getting the copies, and putting them in place
	Total float64 `json:"total"` // everything before the execution of the real runtime
}

// maxLine is the maximum length of a record's line, in bytes; maxText that of one text in it.
const (
	maxLine = 32 << 10
	maxText = 1 << 10
)

// line returns the record as one line: if it is too long, entries are omitted, from the longest list first.
func (r Record) line() ([]byte, error) {
	r.Schema = 1
	r.Reason = clip(r.Reason)
	for {
		b, err := json.Marshal(r)
		if err != nil || len(b) < maxLine {
			return append(b, '\n'), err
		}
		switch longest := max(len(r.Files), len(r.Problems), len(r.Layers)); {
		case longest == 0: // only texts that no engine gives
			b, err = json.Marshal(Record{Schema: r.Schema, Time: r.Time, Start: r.Start, Outcome: r.Outcome, Policy: r.Policy, Seconds: r.Seconds, Omitted: r.Omitted})
			return append(b, '\n'), err
		case longest == len(r.Files):
			r.Files, r.Omitted = r.Files[:longest/2], r.Omitted+longest-longest/2
		case longest == len(r.Problems):
			r.Problems, r.Omitted = r.Problems[:longest/2], r.Omitted+longest-longest/2
		default:
			r.Layers, r.Omitted = r.Layers[:longest/2], r.Omitted+longest-longest/2
		}
	}
}

func clip(s string) string { return s[:min(len(s), maxText)] }

// Add adds a problem with a file.
func (r *Record) Add(path, reason string) {
	r.Problems = append(r.Problems, Problem{Path: path, Reason: clip(reason)})
}
