// The record of one start, and its form as a line.

// Package starts remembers what vfix-runtime did at the start of each container: one line of JSON in
// a file or in the journal (record, write), counters for Prometheus in another file (metrics), and
// the summary of them that an operator asks for (status).
//
// All of it is for people and never a reason to keep a container from starting: nothing is waited
// for, a file is opened for each start and written to once, and what cannot be written is one line in
// the runtime's log.
package starts

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Where records go, beside a file.
const (
	Journal = "journald"
	None    = "none"
)

// identifier is the SYSLOG_IDENTIFIER of our entries in the journal.
const identifier = "vfix-runtime"

// Outcome is how a start ended, as far as vfix-runtime has to do with it.
type Outcome string

// The outcomes. With Refused and NotStarted the container does not start.
const (
	Patched   Outcome = "patched"   // all that had to be
	Clean     Outcome = "clean"     // nothing had to be patched
	Partial   Outcome = "partial"   // started, with a file that was not examined or a call site that stays
	Unpatched Outcome = "unpatched" // an error: started as it is
	Refused   Outcome = "refused"   // not started: fail-closed, or the runtime could not be executed
	Disabled  Outcome = "disabled"  // by an annotation or opt_in
	// NotStarted is written before the runtime is executed, and replaced by the outcome when that has made the container.
	NotStarted Outcome = "not started"
)

// Outcomes are all, in the order of tables.
var Outcomes = []Outcome{Patched, Clean, Partial, Unpatched, Refused, Disabled, NotStarted}

// UnmarshalText takes the words above alone: no reader has to guess what another one means.
func (o *Outcome) UnmarshalText(text []byte) error {
	if *o = Outcome(text); !slices.Contains(Outcomes, *o) {
		return fmt.Errorf("outcome %q: not known", text)
	}
	return nil
}

// Settle decides how a start ended: err is why nothing could be done, closed that the policy keeps a container
// with anything left from starting. Only what starts with its copies has patched files.
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

// Correct says of a start that it did not happen: o is NotStarted or Refused.
func (r Record) Correct(o Outcome, reason string) *Record {
	r.Outcome, r.Reason, r.Files = o, clip(reason), []File{}
	return &r
}

// Record is one start.
type Record struct {
	Schema int       `json:"schema"` // 1
	Time   time.Time `json:"time"`   // of its end
	Vfix   string    `json:"vfix"`   // version
	// Start is the same in the line of NotStarted and the one that replaces it; "" if there is one line.
	Start     string `json:"start,omitempty"`
	Container string `json:"container"`
	// Image is the image's name where the engine says it in an annotation, Caller the program that
	// called vfix-runtime, Runtime the real runtime.
	Image   string `json:"image,omitempty"`
	Caller  string `json:"caller,omitempty"`
	Runtime string `json:"runtime"`
	Bundle  string `json:"bundle"`
	// Root is the root filesystem, Layers the folders of an overlay, the uppermost first.
	Root    string   `json:"root,omitempty"`
	Layers  []string `json:"layers,omitempty"`
	Outcome Outcome  `json:"outcome"`
	Reason  string   `json:"reason,omitempty"` // of Unpatched, Refused and NotStarted
	Policy  Policy   `json:"policy"`
	// CacheHit says that nothing had to be examined or made: all was in the cache.
	CacheHit bool      `json:"cache_hit"`
	Examined int       `json:"examined"` // files that no index knew
	Files    []File    `json:"files"`    // that were patched
	Problems []Problem `json:"problems"`
	// SitesLeft is how many live or unknown call sites stay.
	SitesLeft int `json:"sites_left"`
	// Omitted is how many entries the lists above lack, for the line would be too long.
	Omitted  int      `json:"omitted,omitempty"`
	Seconds  Seconds  `json:"seconds"`
	Confined []string `json:"confined,omitempty"` // what confined the process that examined files
}

// Source is where the configuration of a start came from.
type Source string

// The sources. The last two are in force where the file is missing or wrong.
const (
	FromFile      Source = "file"
	Defaults      Source = "defaults" // no file, and none before
	LastGood      Source = "last-good"
	ClosedDefault Source = "closed" // fail_closed, for no last good one is known
)

// Sources are all, in the order of tables.
var Sources = []Source{FromFile, Defaults, LastGood, ClosedDefault}

// Policy is what the node's configuration and the annotations came to.
type Policy struct {
	Source     Source `json:"source"`
	FailClosed bool   `json:"fail_closed"`
	OptIn      bool   `json:"opt_in"`
	Fallback   bool   `json:"fallback"`
	// Fix lists the fixes beyond calls of the page.
	Fix string `json:"fix,omitempty"`
}

// File is one that was patched, with the SHA-256 of the original and of the copy, in hex.
type File struct {
	Path   string `json:"path"`
	Before string `json:"before"`
	After  string `json:"after"`
	Sites  int    `json:"sites"`
	Fix    string `json:"fix,omitempty"` // that it has beyond calls of the page
}

// Problem is what was not done about a file, and why.
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

// Seconds is the time that the stages took.
type Seconds struct {
	Look  float64 `json:"look"`  // finding the files to patch
	Patch float64 `json:"patch"` // making or fetching the copies, and putting them in place
	Total float64 `json:"total"` // all that vfix-runtime did before the real runtime
}

// maxLine bounds the line of a record, in bytes; maxText one text of it.
const (
	maxLine = 32 << 10
	maxText = 1 << 10
)

// line is the record as one line: what does not fit is left out, the longest list first.
func (r Record) line() ([]byte, error) {
	r.Schema = 1
	r.Reason = clip(r.Reason)
	for {
		b, err := json.Marshal(r)
		if err != nil || len(b) < maxLine {
			return append(b, '\n'), err
		}
		switch longest := max(len(r.Files), len(r.Problems), len(r.Layers)); {
		case longest == 0: // texts that no engine gives
			return json.Marshal(Record{Schema: r.Schema, Time: r.Time, Outcome: r.Outcome, Policy: r.Policy, Seconds: r.Seconds, Omitted: r.Omitted})
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

// Add notes what was not done about a file.
func (r *Record) Add(path, reason string) {
	r.Problems = append(r.Problems, Problem{Path: path, Reason: clip(reason)})
}
