// vfix runtime status: what vfix-runtime did at the last starts of containers.

package main

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/ociruntime"
	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/host/starts"
	"vfix.dev/vfix/internal/hinterr"
)

// statusVerb is a word after vfix runtime that is not a command of a runtime.
const statusVerb = "status"

// StatusOptions are the choices of vfix runtime status.
type StatusOptions struct {
	printOptions
	ociruntime.StatusOptions
}

// defaultLast is how many starts are shown.
const defaultLast = 10

func newStatusCommand(out *output, e engine) *cobra.Command {
	var opts StatusOptions
	cmd := &cobra.Command{
		Use:   "status [options]",
		Short: "Show what vfix-runtime did at the last starts of containers",
		Long: `Show the last starts, the newest last, and a summary of all that are recorded.

  RESULT   patched      every file that calls the page is patched
           clean        nothing had to be patched
           partial      started, but a file or a call site is left: see the reason
           unpatched    started as it is, because of an error
           refused      not started: fail-closed
           disabled     left alone, by an annotation or opt_in
           not started  the runtime has not made the container
  FILES    files that were patched        LEFT   call sites that stay
  MS       time that vfix-runtime took    CACHE  hit: nothing had to be examined

The records are lines of JSON, one or two a start, in /var/log/vfix/starts.jsonl, unless
"record" in /etc/vfix/runtime.json names another file, journald or none.`,
		Example: `  vfix runtime status --last 50
  vfix runtime status --format json | jq .summary`,
		Annotations: exits(`  0  success   1  error: nothing is recorded   2  usage error`),
		Args:        noArguments,
		RunE:        func(*cobra.Command, []string) error { return runStatus(opts, out, e) },
	}
	f := cmd.Flags()
	f.IntVar(&opts.Last, "last", defaultLast, "show the last `N` starts")
	f.StringVar(&opts.Record, "record", "", "read this `FILE`, or journald (default: as in the configuration)")
	f.StringVar(&opts.ConfigFile, "vfix-config", policy.ConfigFile, "the configuration `FILE` of vfix-runtime")
	opts.addFormat(cmd)
	return cmd
}

func runStatus(opts StatusOptions, out *output, e engine) error {
	if opts.Last < 0 {
		return usagef(runtimeVerb+" "+statusVerb, "--last %d: must not be negative", opts.Last)
	}
	status, err := e.status(opts.StatusOptions)
	if err != nil {
		return hinterr.Among(err, statusHints, `see "record" in `+policy.ConfigFile+", and 'vfix help nodes'")
	}
	return out.status(opts, status)
}

// statusHints are the hints if nothing can be shown.
var statusHints = []hinterr.For{
	{Err: fs.ErrNotExist, Hint: "vfix-runtime writes it when it first starts a container; name another file with --record"},
	{Err: fs.ErrPermission, Hint: "the records belong to root: run vfix as root"},
}

// shownID is how many characters of a container's id are shown, as docker does.
const shownID = 12

func (o *output) status(opts StatusOptions, s *ociruntime.Status) error {
	if opts.json() {
		return o.document(runtimeVerb, false, statusJSON(s))
	}
	if len(s.Last) > 0 {
		t := &screen.Table{Head: []string{"TIME", "CONTAINER", "RESULT", "FILES", "LEFT", "MS", "CACHE"}}
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

type jsonStatus struct {
	Record  string                `json:"record"`
	Policy  jsonPolicy            `json:"policy"`
	Starts  []starts.Record       `json:"starts"`
	Summary jsonStartSums         `json:"summary"`
	Cache   ociruntime.CacheState `json:"cache"`
}

type jsonPolicy struct {
	Source     string `json:"source"`
	File       string `json:"file"`
	Reason     string `json:"reason"`
	FailClosed bool   `json:"fail_closed"`
}

type jsonStartSums struct {
	starts.Summary
	Since   string                 `json:"since"`
	Results map[starts.Outcome]int `json:"results"`
}

func statusJSON(s *ociruntime.Status) jsonStatus {
	doc := jsonStatus{
		Record: s.From, Starts: s.Last, Cache: s.Cache,
		Policy:  jsonPolicy{string(s.Policy.Source), s.Policy.Path, s.Policy.Why(), s.Policy.FailClosed},
		Summary: jsonStartSums{s.Summary, timeIf(s.Summary.Since), map[starts.Outcome]int{}},
	}
	for _, o := range starts.Outcomes {
		doc.Summary.Results[o] = s.Summary.Outcomes[o]
	}
	return doc
}
