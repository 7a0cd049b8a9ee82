// Package watch shows the progress of a list of images: on a terminal a bar with the remaining time,
// elsewhere a line a minute, and a file of counters for Prometheus.
package watch

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/images/outcome"
	"vfix.dev/vfix/images/registry"
)

// How often there is a line, and how often the file of counters is written.
var (
	watchLine    = time.Minute
	watchMetrics = 15 * time.Second
)

// List tracks the progress of a list.
type List struct {
	out   *screen.Output
	all   int
	file  string // of the counters; "": none
	meter *registry.Meter
	begin time.Time
	bar   *mpb.Bar // nil without a terminal

	mu     sync.Mutex
	of     map[outcome.Status]int
	before int // of all, those of an earlier run
	sites  int // call sites that were patched or found

	quit, done chan struct{}
}

// Start begins to watch a list of images; file is that of the counters, "" for none.
func Start(file string, all int, meter *registry.Meter, out *screen.Output) *List {
	w := &List{
		out: out, all: all, file: file, meter: meter, begin: time.Now(),
		of: map[outcome.Status]int{}, quit: make(chan struct{}), done: make(chan struct{}),
	}
	w.bar = out.Overall(all)
	go w.run()
	return w
}

// Finished counts an outcome, and returns how many there are.
func (w *List) Finished(o outcome.Image) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.of[o.Status]++
	if o.Before {
		w.before++
	}
	w.sites += o.Patched
	if w.bar != nil {
		w.bar.Increment()
	}
	return w.count()
}

func (w *List) count() int {
	n := 0
	for _, of := range w.of {
		n += of
	}
	return n
}

// run reports from time to time, until end.
func (w *List) run() {
	defer close(w.done)
	line, file := time.NewTicker(watchLine), time.NewTicker(watchMetrics)
	defer line.Stop()
	defer file.Stop()
	for {
		select {
		case <-line.C:
			if w.bar == nil {
				w.out.Note("%s", w.line(time.Since(w.begin)))
			}
		case <-file.C:
			_ = w.write(false) // at the end it counts
		case <-w.quit:
			return
		}
	}
}

// line is the progress of the list after a time.
func (w *List) line(since time.Duration) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.count()
	text := fmt.Sprintf("%d of %s (%d%%), %d failed", n, screen.Count(w.all, "image"), n*100/max(w.all, 1), w.of[outcome.Failed])
	if n > 0 && n < w.all {
		left := time.Duration(float64(since) / float64(n) * float64(w.all-n))
		text += fmt.Sprintf(", about %v left", left.Round(time.Second))
	}
	return text
}

// End ends the lines and writes the counters for the last time; whole says that the list was completed.
func (w *List) End(whole bool) error {
	close(w.quit)
	<-w.done
	if w.bar != nil {
		w.bar.Abort(false)
	}
	return w.write(whole)
}

func (w *List) write(whole bool) error {
	if w.file == "" {
		return nil
	}
	if err := atomicfile.Write(w.file, w.text(whole)); err != nil {
		return fmt.Errorf("--metrics: %w", err)
	}
	return nil
}

// labelText escapes the value of a label: a reader rejects a file with the other escapes of Go's %q.
var labelText = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// text is the content of the file. Sources: Prometheus, "Exposition formats"; node_exporter, textfile
// collector.
func (w *List) text(whole bool) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b bytes.Buffer
	metric := func(name, kind, help string) {
		fmt.Fprintf(&b, "# HELP vfix_list_%s %s\n# TYPE vfix_list_%s %s\n", name, help, name, kind)
	}
	value := func(name, labels string, v any) { fmt.Fprintf(&b, "vfix_list_%s%s %v\n", name, labels, v) }
	one := func(name, kind, help string, v any) { metric(name, kind, help); value(name, "", v) }
	one("images", "gauge", "Images in the part of the list.", w.all)
	metric("images_finished_total", "counter", "Images that are finished, by result.")
	for _, s := range []outcome.Status{outcome.Done, outcome.Unaffected, outcome.Affected, outcome.Failed, outcome.Incomplete} {
		value("images_finished_total", fmt.Sprintf("{result=%q}", s), w.of[s])
	}
	one("images_skipped_total", "counter", "Finished images that were skipped, because an earlier run finished them.", w.before)
	one("call_sites_total", "counter", "Call sites that were patched or, by scan, found to be patchable.", w.sites)
	one("start_timestamp_seconds", "gauge", "When the run began.", w.begin.Unix())
	one("update_timestamp_seconds", "gauge", "When this file was written.", time.Now().Unix())
	one("complete", "gauge", "1 if the run reached the end of the list, else 0.", map[bool]int{true: 1}[whole])
	hosts := w.meter.ByHost()
	names := slices.Sorted(maps.Keys(hosts))
	for _, m := range []struct {
		name, help string
		of         func(registry.Count) int64
	}{
		{"requests_total", "Requests to a registry.", func(c registry.Count) int64 { return c.Requests }},
		{"retries_total", "Requests that were sent again.", func(c registry.Count) int64 { return c.Retries }},
		{"received_bytes_total", "Bytes received from a registry.", func(c registry.Count) int64 { return c.Received }},
		{"sent_bytes_total", "Bytes sent to a registry.", func(c registry.Count) int64 { return c.Sent }},
	} {
		metric(m.name, "counter", m.help)
		for _, host := range names {
			value(m.name, `{registry="`+labelText.Replace(host)+`"}`, m.of(hosts[host]))
		}
	}
	return b.Bytes()
}
