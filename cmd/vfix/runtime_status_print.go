// What vfix runtime status prints.

package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/ociruntime"
	"vfix.dev/vfix/host/starts"
)

// shownID is how many characters of a container's id are shown, as docker does.
const shownID = 12

func (o *output) status(opts StatusOptions, s *ociruntime.Status) error {
	if opts.json() {
		return o.json(statusJSON(s))
	}
	if len(s.Last) > 0 {
		t := &screen.Table{Head: []string{"TIME", "CONTAINER", "RESULT", "FILES", "LEFT", "MS", "CACHE"}, Right: -1}
		for _, r := range s.Last {
			hit := "miss"
			if r.CacheHit {
				hit = "hit"
			}
			if r.Outcome == starts.Disabled || r.Seconds.Look == 0 {
				hit = "-"
			}
			t.Add([]string{
				r.Time.Local().Format(time.DateTime), r.Container[:min(len(r.Container), shownID)], string(r.Outcome),
				strconv.Itoa(len(r.Files)), strconv.Itoa(r.SitesLeft), milliseconds(r.Seconds.Total), hit,
			})
		}
		t.Write(o.Stdout, o.Out)
		o.Result("")
	}
	for _, line := range summaryLines(s) {
		o.Result(line)
	}
	if why := s.Policy.Why(); why != "" {
		o.Warn("%s", why)
	}
	for _, r := range s.Last {
		if why := r.Why(); why != "" {
			o.Note("%s: %s: %s", r.Container[:min(len(r.Container), shownID)], r.Outcome, why)
		}
	}
	return nil
}

func milliseconds(seconds float64) string { return strconv.FormatFloat(seconds*1e3, 'f', 1, 64) }

func summaryLines(s *ociruntime.Status) []string {
	lines := []string{"record  " + s.From}
	add := func(name, format string, a ...any) {
		lines = append(lines, fmt.Sprintf("%-6s  "+format, append([]any{name}, a...)...))
	}
	closed := ""
	if s.Policy.FailClosed {
		closed = ", fail_closed"
	}
	add("policy", "%s%s: %s", s.Policy.Source, closed, s.Policy.Path)
	sum := &s.Summary
	if sum.Starts == 0 {
		add("starts", "none")
	} else {
		var counts []string
		for _, o := range starts.Outcomes {
			if n := sum.Outcomes[o]; n > 0 {
				counts = append(counts, fmt.Sprintf("%d %s", n, o))
			}
		}
		add("starts", "%d since %s: %s", sum.Starts, sum.Since.Local().Format(time.DateTime), strings.Join(counts, ", "))
		add("files", "%d patched, %s left", sum.Files, screen.Count(sum.SitesLeft, "call site"))
		add("time", "median %s ms, longest %s ms", milliseconds(sum.Median), milliseconds(sum.Longest))
		add("hits", "%d of %d", sum.CacheHits, sum.Looked)
	}
	add("cache", "%s in %d entries, at most %s: %s", screen.Size(s.Cache.Bytes), s.Cache.Entries, screen.Size(s.Cache.Limit), s.Cache.Dir)
	if sum.Damaged > 0 {
		add("notes", "%s cannot be read", screen.Count(sum.Damaged, "line"))
	}
	return lines
}
