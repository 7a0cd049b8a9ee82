// The verb bench: its options, its measurements, and its table and chart.

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/bench"
	"vfix.dev/vfix/images/patch"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/atomicfile"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/shim"
)

// BenchOptions are the options of vfix bench.
type BenchOptions struct {
	workOptions
	rounds int
	plot   string
	redis  bool
}

// The parts of a measurement.
const (
	benchRounds   = 9
	benchSample   = 10_000 // microseconds
	redisRounds   = 3
	redisRequests = 100_000
)

func newBenchCommand(out *output, e engine) *cobra.Command {
	var opts BenchOptions
	cmd := &cobra.Command{
		Use:  "bench [options] [IMAGE]",
		Args: arguments("image", 0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runBench(cmd.Context(), opts, strings.Join(args, ""), out, e)
		},
	}
	f := cmd.Flags()
	f.IntVar(&opts.rounds, "rounds", 0, "measure each mode `N` times; 0 means 9, with --redis 3")
	f.StringVar(&opts.plot, "plot", "", "draw the values to `FILE`, an .svg")
	f.BoolVar(&opts.redis, "redis", false, "measure redis-server of IMAGE")
	opts.printOptions.add(cmd)
	opts.addMedia(cmd)
	return cmd
}

func (o *BenchOptions) check(image string) error {
	const verb = "bench"
	switch {
	case o.rounds < 0:
		return usagef(verb, "--rounds %d: must be 0 or more", o.rounds)
	case o.redis && image == "":
		return usagef(verb, "--redis needs an IMAGE that contains redis-server, as in 'vfix bench --redis redis:2.8.22'")
	case o.redis && o.plot != "":
		return usagef(verb, "--plot draws nanoseconds per call and does not work with --redis")
	case o.plot != "" && filepath.Ext(o.plot) != ".svg":
		return usagef(verb, "--plot %s: the name must end with .svg", o.plot)
	}
	if o.rounds == 0 {
		o.rounds = benchRounds
		if o.redis {
			o.rounds = redisRounds
		}
	}
	return nil
}

// jsonBench is the document of bench.
type jsonBench struct {
	Image   string         `json:"image"` // "" for this host
	Rounds  int            `json:"rounds"`
	Unit    string         `json:"unit"` // of the values: "ns per call", with --redis "requests per second"
	Figures []bench.Figure `json:"figures"`
}

func runBench(ctx context.Context, opts BenchOptions, image string, out *output, e engine) error {
	if err := opts.check(image); err != nil {
		return err
	}
	if err := opts.begin("bench", out); err != nil {
		return err
	}
	b := jsonBench{Image: image, Rounds: opts.rounds, Unit: "ns per call"}
	if opts.redis {
		b.Unit = "requests per second"
	}
	if err := b.measure(ctx, opts, out, e); err != nil {
		return hinterr.Among(err, []hinterr.For{
			{Err: bench.ErrUnsupported, Hint: "run it on x86-64 Linux"},
			{Err: os.ErrPermission, Hint: "run it as root: programs of an image run in their own root filesystem"},
		}, "run 'vfix doctor' to see how this kernel serves the vsyscall page; 'vfix bench --help' lists what is needed")
	}
	if opts.plot != "" {
		if err := b.draw(opts.plot); err != nil {
			return err
		}
		out.Note("bench: chart written to %s", opts.plot)
	}
	if opts.json() {
		return out.document("bench", false, b)
	}
	out.benchTable(&b, opts.redis)
	return nil
}

// measure fills in the figures.
func (b *jsonBench) measure(ctx context.Context, opts BenchOptions, out *output, e engine) (err error) {
	o := bench.Options{
		Programs: bench.Programs{
			Measure: shim.Measure(), MeasureLibc: shim.MeasureLibc(), Stubs: shim.Stubs(),
			TwinStubs: shim.TwinStubs(), TwinLibrary: shim.TwinLibrary(),
		},
		Rounds: opts.rounds, Sample: benchSample,
	}
	if b.Image == "" {
		b.Figures, err = e.bench(ctx, o)
		return err
	}
	dir, err := os.MkdirTemp("", "vfix-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var affected bool
	if o.Original, o.Rebuilt, affected, err = unpackBoth(ctx, e, b.Image, dir, opts.read.Media); err != nil {
		return err
	}
	if !affected {
		out.Note("bench: nothing to patch in %s: both sides are the same", b.Image)
	}
	if opts.redis {
		o.Requests = redisRequests
	}
	b.Figures, err = e.bench(ctx, o)
	return err
}

// unpackBoth unpacks an image into a directory in dir, and a patched copy beside it.
func unpackBoth(ctx context.Context, e engine, image, dir string, media source.Options) (original, rebuilt string, affected bool, err error) {
	original, rebuilt = filepath.Join(dir, "original"), filepath.Join(dir, "rebuilt")
	const entered = 0o755 // by user nobody, who gets it as root directory
	if err := os.Mkdir(original, entered); err != nil {
		return "", "", false, err
	}
	if err := e.unpack(ctx, image, original, media); err != nil {
		return "", "", false, err
	}
	f, err := e.patch(ctx, []string{original}, patch.Options{Output: rebuilt, Progress: media.Progress})
	if err != nil {
		return "", "", false, err
	}
	return original, rebuilt, f.Affected(), nil
}

// draw writes the chart, completely or not at all.
func (b *jsonBench) draw(file string) error {
	title := b.Image
	if title == "" {
		title = "This host"
	}
	var svg bytes.Buffer
	if err := bench.Chart(&svg, fmt.Sprintf("%s, %s, vfix %s", title, bench.Conditions(), version), b.Figures); err != nil {
		return err
	}
	return atomicfile.Write(file, svg.Bytes())
}

// benchTable prints the figures: a row a mode, and below what could not be measured.
func (o *output) benchTable(b *jsonBench, redis bool) {
	base := "TO VDSO"
	if redis {
		base = "TO IMAGE"
	}
	g := &screen.Table{Head: []string{strings.ToUpper(b.Unit)}}
	rows := map[string][]string{}
	var modes, absent []string
	noise := false
	for _, f := range b.Figures {
		if f.Mode == b.Figures[0].Mode {
			g.Head = append(g.Head, strings.ToUpper(f.Function), base)
		}
		if rows[f.Mode] == nil {
			rows[f.Mode] = []string{f.Mode}
			modes = append(modes, f.Mode)
		}
		if why := f.Mode + ": " + f.Absent; f.Absent != "" && !slices.Contains(absent, why) {
			absent = append(absent, why)
		}
		rows[f.Mode] = append(rows[f.Mode], figure(f.Value), figure(f.Ratio))
		noise = noise || !redis && f.Ratio > 0 && f.Ratio < 1
	}
	for _, mode := range modes {
		g.Add(rows[mode])
	}
	g.Write(o.Stdout, o.Out)
	if noise {
		o.Hanging("", 0, "Values below 1 in TO VDSO are noise: nothing is faster than the vDSO's own function.")
	}
	for _, why := range absent {
		o.Hanging("", 0, "not measured: "+why)
	}
}

// figure writes a number for people, with three significant digits; - for none.
func figure(n float64) string {
	switch {
	case n == 0:
		return "-"
	case n < 10:
		return fmt.Sprintf("%.2f", n)
	case n < 100:
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.0f", n)
}
