// The reports for operators: the last starts, and a summary of the recorded ones.

package starts

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Status has the recorded starts.
type Status struct {
	From    string // the file, or Journal
	Last    []Record
	Summary Summary
	open    map[string]bool // values of Start whose last line is NotStarted
}

// Summary summarizes all recorded starts.
type Summary struct {
	Starts   int             `json:"starts"`
	Since    time.Time       `json:"-"` // the oldest
	Outcomes map[Outcome]int `json:"-"`
	// Looked is the number of starts that were not disabled; CacheHits of them found all in the cache.
	CacheHits int `json:"cache_hits"`
	Looked    int `json:"looked"`
	Files     int `json:"files"`
	SitesLeft int `json:"sites_left"`
	// Median and Longest are durations of vfix-runtime, in seconds.
	Median  float64 `json:"median_seconds"`
	Longest float64 `json:"longest_seconds"`
	// Damaged is the number of lines that are not records.
	Damaged int `json:"damaged_lines"`
}

// Read reads the records of a file (and of FILE.1), or of the journal. It returns a summary and the last records
// in full.
func Read(from string, last int) (*Status, error) {
	s := &Status{From: from, Summary: Summary{Outcomes: map[Outcome]int{}}, open: map[string]bool{}}
	var all []float64
	take := func(r io.Reader) error { return s.read(r, last, &all) }
	switch from {
	case None:
		return nil, errors.New("starts are not recorded")
	case Journal:
		const most = 10000
		out, err := exec.Command("journalctl", "--identifier", identifier, "--output", "cat", "--no-pager", "--quiet", "--lines", strconv.Itoa(most)).Output()
		if err != nil {
			return nil, fmt.Errorf("journalctl: %w", err)
		}
		if err := take(bytes.NewReader(out)); err != nil {
			return nil, err
		}
	default:
		for _, path := range []string{from + ".1", from} {
			f, err := os.Open(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			err = take(f)
			f.Close()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	if slices.Sort(all); len(all) > 0 {
		s.Summary.Median, s.Summary.Longest = all[len(all)/2], all[len(all)-1]
	}
	return s, nil
}

// read reads the lines of one file. A line that a full disk truncated counts as damaged.
func (s *Status) read(r io.Reader, last int, seconds *[]float64) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, maxLine), 2*maxLine)
	for lines.Scan() {
		var one Record
		if len(lines.Bytes()) == 0 {
			continue
		}
		if json.Unmarshal(lines.Bytes(), &one) != nil || one.Outcome == "" {
			s.Summary.Damaged++
			continue
		}
		if one.Start != "" && s.open[one.Start] {
			s.Summary.Starts--
			s.Summary.Outcomes[NotStarted]--
			s.Last = slices.DeleteFunc(s.Last, func(r Record) bool { return r.Start == one.Start })
		}
		s.open[one.Start] = one.Outcome == NotStarted
		s.Summary.add(&one)
		if one.Outcome != Disabled && one.Outcome != NotStarted {
			*seconds = append(*seconds, one.Seconds.Total)
		}
		if s.Last = append(s.Last, one); len(s.Last) > last {
			s.Last = s.Last[len(s.Last)-last:]
		}
	}
	return lines.Err()
}

func (s *Summary) add(r *Record) {
	s.Starts++
	if s.Since.IsZero() || r.Time.Before(s.Since) {
		s.Since = r.Time
	}
	s.Outcomes[r.Outcome]++
	s.Files += len(r.Files)
	s.SitesLeft += r.SitesLeft
	if r.Outcome != Disabled && r.Outcome != NotStarted {
		s.Looked++
		if r.CacheHit {
			s.CacheHits++
		}
	}
}

// Find returns the last start of a container among the latest records of a file, nil for none. It does not search
// the journal.
func Find(from, container string) (*Record, error) {
	if from == None || from == Journal {
		return nil, fmt.Errorf("starts are recorded in %s", from)
	}
	f, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	const latest = 1 << 20 // bytes
	b, err := io.ReadAll(io.NewSectionReader(f, max(fi.Size()-latest, 0), latest))
	if err != nil {
		return nil, err
	}
	lines := bytes.Split(b, []byte("\n"))
	for _, line := range slices.Backward(lines) {
		var r Record
		if bytes.Contains(line, []byte(container)) && json.Unmarshal(line, &r) == nil && r.Container == container {
			return &r, nil
		}
	}
	return nil, nil
}

// Why returns the reason why a start is incomplete, or the first problems and the number of others; "" for a
// complete start.
func (r *Record) Why() string {
	if r.Reason != "" {
		return r.Reason
	}
	const most = 3
	var first []string
	for _, p := range r.Problems[:min(len(r.Problems), most)] {
		first = append(first, p.String())
	}
	if n := len(r.Problems) - most; n > 0 {
		first = append(first, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(first, "; ")
}
