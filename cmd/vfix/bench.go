// The verb bench: its options, its measurements, and its table and chart.

package main

import (
	"bytes"
	"cmp"
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
	"vfix.dev/vfix/internal/atomicfile"
)

// benchOptions are the options of vfix bench.
type benchOptions struct {
	workOptions
	rounds uint
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
	var opts benchOptions
	cmd := newVerb("bench [options] [IMAGE]", arguments("image", 0, 1), func(ctx context.Context, args []string) error {
		return runBench(ctx, &opts, strings.Join(args, ""), out, e)
	})
	exclusive(cmd, "redis plot")
	f := cmd.Flags()
	f.UintVar(&opts.rounds, "rounds", 0, "measure each mode `N` times; 0 means 9, with --redis 3")
	f.StringVar(&opts.plot, "plot", "", "draw the values to `FILE`, an .svg")
	f.BoolVar(&opts.redis, "redis", false, "measure redis-server of IMAGE")
	opts.add(cmd, out, withImages)
	return cmd
}

func (o *benchOptions) check(image string) error {
	switch {
	case o.redis && image == "":
		return usagef("--redis needs an IMAGE that contains redis-server, as in 'vfix bench --redis redis:2.8.22'")
	case o.plot != "" && filepath.Ext(o.plot) != ".svg":
		return usagef("--plot %s: the name must end with .svg", o.plot)
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

func runBench(ctx context.Context, opts *benchOptions, image string, out *output, e engine) (err error) {
	if err := opts.check(image); err != nil {
		return err
	}
	b := jsonBench{image, cmp.Or(int(opts.rounds), benchRounds), "ns per call", nil}
	if opts.redis {
		b.Rounds, b.Unit = cmp.Or(int(opts.rounds), redisRounds), "requests per second"
	}
	if b.Figures, err = measure(ctx, &b, opts, out, e); err != nil {
		return err
	}
	if opts.plot != "" {
		var svg bytes.Buffer
		title := fmt.Sprintf("%s, %s, vfix %s", cmp.Or(image, "This host"), bench.Conditions(), version)
		if err := bench.Chart(&svg, title, b.Figures); err != nil {
			return err
		}
		if err := atomicfile.Write(opts.plot, svg.Bytes()); err != nil {
			return err
		}
		out.Note("bench: chart written to %s", opts.plot)
	}
	return out.show(false, b, func(s screen.Stream) { writeFigures(s, &b, opts.redis) })
}

// measure returns the figures: of this host, or of the files of an image in a directory and a patched copy beside it.
func measure(ctx context.Context, b *jsonBench, opts *benchOptions, out *output, e engine) (_ []bench.Figure, err error) {
	o := bench.Options{Rounds: b.Rounds, Sample: benchSample}
	if opts.redis {
		o.Requests = redisRequests
	}
	if b.Image == "" {
		return e.bench(ctx, o)
	}
	dir, err := os.MkdirTemp("", "vfix-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o.Original, o.Rebuilt = filepath.Join(dir, "original"), filepath.Join(dir, "rebuilt")
	const entered = 0o755 // by user nobody, who gets it as root directory
	if err := os.Mkdir(o.Original, entered); err != nil {
		return nil, err
	}
	if err := e.unpack(ctx, b.Image, o.Original, opts.read.Media); err != nil {
		return nil, err
	}
	f, err := e.patch(ctx, []string{o.Original}, patch.Options{Output: o.Rebuilt, Progress: opts.read.Media.Progress})
	if err != nil {
		return nil, err
	}
	if len(f.ToPatch()) == 0 {
		out.Note("bench: nothing to patch in %s: both sides are the same", b.Image)
	}
	return e.bench(ctx, o)
}

// writeFigures prints the figures: a row a mode, and below what could not be measured.
func writeFigures(s screen.Stream, b *jsonBench, redis bool) {
	base := "TO VDSO"
	if redis {
		base = "TO IMAGE"
	}
	head := []string{strings.ToUpper(b.Unit)}
	var rows [][]string
	var absent []string
	for _, f := range b.Figures {
		if f.Mode == b.Figures[0].Mode {
			head = append(head, strings.ToUpper(f.Function), base)
		}
		at := slices.IndexFunc(rows, func(row []string) bool { return row[0] == f.Mode })
		if at < 0 {
			at, rows = len(rows), append(rows, []string{f.Mode})
		}
		rows[at] = append(rows[at], figure(f.Value), figure(f.Ratio))
		if why := f.Mode + ": " + f.Absent; f.Absent != "" && !slices.Contains(absent, why) {
			absent = append(absent, why)
		}
	}
	s.Table(head, rows)
	s.List("not measured: ", absent)
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
