// Counters of all starts in Prometheus' text format, for the textfile collector of node_exporter. The file is the
// state: each start reads it, adds itself, and renames a new one into place, under a lock of the directory. If the
// file is missing or invalid, the counters start at 0, which Prometheus allows.

package starts

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"vfix.dev/vfix/internal/nodefile"
)

// buckets are the upper bounds of the histogram, in seconds: a warm start takes a few milliseconds, a cold one of
// a large image a few seconds.
var buckets = []float64{0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60}

// family is one metric.
type family struct {
	name, help, kind string
	series           []series
}

// series is one line of a metric: the increment by a start, or the new value of a gauge.
type series struct {
	name  string // with its labels
	add   func(*Record) float64
	gauge bool
}

const prefix = "vfix_runtime_"

func families() []family {
	results := family{name: prefix + "starts_total", kind: "counter", help: "Starts of containers by result."}
	for _, o := range Outcomes[:len(Outcomes)-1] { // NotStarted is not counted
		results.series = append(results.series, series{name: results.name + `{result="` + string(o) + `"}`, add: when(func(r *Record) bool { return r.Outcome == o })})
	}
	looked := func(r *Record) bool { return r.Outcome != Disabled && r.Seconds.Look > 0 }
	lookups := prefix + "cache_lookups_total"
	seconds := prefix + "start_seconds"
	histogram := family{name: seconds, kind: "histogram", help: "Time that vfix-runtime adds to a start."}
	for _, le := range buckets {
		histogram.series = append(histogram.series, series{
			name: fmt.Sprintf(`%s_bucket{le="%v"}`, seconds, le), add: when(func(r *Record) bool { return r.Seconds.Total <= le }),
		})
	}
	always := when(func(*Record) bool { return true })
	histogram.series = append(histogram.series,
		series{name: seconds + `_bucket{le="+Inf"}`, add: always},
		series{name: seconds + "_sum", add: func(r *Record) float64 { return r.Seconds.Total }},
		series{name: seconds + "_count", add: always})
	one := func(name, kind, help string, add func(*Record) float64) family {
		return family{prefix + name, help, kind, []series{{name: prefix + name, add: add, gauge: kind == "gauge"}}}
	}
	sources := family{name: prefix + "policy_source", kind: "gauge", help: "Where the configuration of the last start came from: 1 for that source."}
	for _, from := range Sources {
		sources.series = append(sources.series, series{
			name: sources.name + `{source="` + string(from) + `"}`, gauge: true, add: when(func(r *Record) bool { return r.Policy.Source == from }),
		})
	}
	return []family{
		results, sources,
		one("patched_files_total", "counter", "Files that starts have patched.", func(r *Record) float64 { return float64(len(r.Files)) }),
		one("sites_left_total", "counter", "Call sites that starts have left, live or unknown.", func(r *Record) float64 { return float64(r.SitesLeft) }),
		one("problems_total", "counter", "Files that starts have left unexamined or unpatched.", func(r *Record) float64 { return float64(len(r.Problems)) }),
		{lookups, "Starts by whether the cache had everything.", "counter", []series{
			{name: lookups + `{result="hit"}`, add: when(func(r *Record) bool { return looked(r) && r.CacheHit })},
			{name: lookups + `{result="miss"}`, add: when(func(r *Record) bool { return looked(r) && !r.CacheHit })},
		}},
		histogram,
		one("last_start_timestamp_seconds", "gauge", "Time of the last start.", func(r *Record) float64 { return float64(r.Time.UnixMilli()) / 1e3 }),
	}
}

func when(is func(*Record) bool) func(*Record) float64 {
	return func(r *Record) float64 {
		if is(r) {
			return 1
		}
		return 0
	}
}

// maxMetrics is how much of the file is read, in bytes.
const maxMetrics = 64 << 10

// count adds a start to the counters in a file.
func count(path string, r *Record) error {
	const patience = time.Second // for other containers that start now
	unlock, err := nodefile.Lock(filepath.Dir(path), patience)
	if err != nil {
		return err
	}
	defer unlock()
	if fi, err := os.Lstat(path); err == nil && !fi.Mode().IsRegular() {
		return fmt.Errorf("%s: not a metrics file", path)
	}
	old, err := nodefile.Read(path, maxMetrics)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp") // the collector reads only *.prom
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	const readable = 0o644
	if err := os.WriteFile(temp, counted(old, r), readable); err != nil {
		os.Remove(temp)
		return err
	}
	return os.Rename(temp, path)
}

// counted returns the text of the counters after a start.
func counted(old []byte, r *Record) []byte {
	was := map[string]float64{}
	for line := range strings.Lines(string(old)) {
		line = strings.TrimSpace(line)
		if at := strings.LastIndexByte(line, ' '); at > 0 {
			if v, _ := strconv.ParseFloat(line[at+1:], 64); v >= 0 {
				was[line[:at]] = v
			}
		}
	}
	var b bytes.Buffer
	for _, f := range families() {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
		for _, s := range f.series {
			v := s.add(r)
			if !s.gauge {
				v += was[s.name]
			}
			fmt.Fprintf(&b, "%s %s\n", s.name, strconv.FormatFloat(v, 'f', -1, 64))
		}
	}
	return b.Bytes()
}
