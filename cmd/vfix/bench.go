// The verb bench: its options, and what is measured for them.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/bench"
	"vfix.dev/vfix/host/bench/figure"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/patch"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/shim"
)

// BenchOptions are the options of vfix bench.
type BenchOptions struct {
	workOptions
	rounds   int
	sample   int // milliseconds
	plot     string
	redis    bool
	requests int
	pipeline int
}

// The parts of a measurement unless the user says otherwise.
const (
	benchRounds   = 9
	benchSample   = 10 // milliseconds
	mostSample    = 1000
	redisRounds   = 3
	redisRequests = 100000
	redisPipeline = 16
)

func newBenchCommand(out *output, e engine) *cobra.Command {
	var opts BenchOptions
	cmd := &cobra.Command{
		Use:   "bench [options] [IMAGE]",
		Short: "Measure the cost of the vsyscall page and the gain of vfix",
		Long: `Measure the cost of time, gettimeofday and getcpu on this host in each mode:
the vDSO, the libc of this system, patched call sites in each form, the fallback
of libvfix.so, the plain system call and the vsyscall page. Modes that this
host cannot run are listed with the reason.

With IMAGE, measure the libc of that image, original and rebuilt; IMAGE is any
SOURCE of 'vfix help sources'. Programs of the image run on this host, in a
root filesystem of their own, as nobody, without a network. This needs root, or
a kernel that allows unprivileged user namespaces.

With --redis, the redis-benchmark of the rebuilt image drives redis-server of
the original and of the rebuilt image over a unix socket.

Each figure is the median of several rounds, which measure every mode in turn;
the spread is the minimum and maximum. Other load on the machine affects single
figures more than ratios.`,
		Example: `  vfix bench                                this host
  vfix bench --plot page.svg                with a drawing of the figures
  vfix bench redis:2.8.22                   the libc of an image
  vfix bench --redis redis:2.8.22           requests per second`,
		Annotations:       exits(`  0  success   1  error   2  usage error`),
		Args:              atMost(1, "image"),
		ValidArgsFunction: completeNames(e, noContainers),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runBench(cmd.Context(), opts, strings.Join(args, ""), out, e)
		},
	}
	f := cmd.Flags()
	f.IntVar(&opts.rounds, "rounds", 0, "measure each mode `N` times; 0 means 9, with --redis 3")
	f.IntVar(&opts.sample, "sample", benchSample, "duration of one measurement, in milliseconds (`MS`)")
	f.StringVar(&opts.plot, "plot", "", "draw the figures to `FILE`, an .svg or .png")
	f.BoolVar(&opts.redis, "redis", false, "measure redis-server of IMAGE")
	f.IntVar(&opts.requests, "requests", redisRequests, "with --redis: `N` requests of each kind per round")
	f.IntVar(&opts.pipeline, "pipeline", redisPipeline, "with --redis: send `N` requests at a time")
	opts.printOptions.add(cmd)
	opts.addMedia(cmd)
	return cmd
}

func (o *BenchOptions) check(image string) error {
	const verb = "bench"
	switch {
	case o.rounds < 0:
		return usagef(verb, "--rounds %d: want 0 or more", o.rounds)
	case o.sample < 1 || o.sample > mostSample:
		return usagef(verb, "--sample %d: want 1 to %d", o.sample, mostSample)
	case o.requests < 1 || o.pipeline < 1:
		return usagef(verb, "--requests %d --pipeline %d: want 1 or more of each", o.requests, o.pipeline)
	case o.redis && image == "":
		return usagef(verb, "--redis needs an IMAGE that contains redis-server, as in 'vfix bench --redis redis:2.8.22'")
	case o.redis && o.plot != "":
		return usagef(verb, "--plot draws nanoseconds per call and does not work with --redis")
	}
	if o.plot != "" {
		if _, err := figure.Format(o.plot); err != nil {
			return usagef(verb, "--plot %v", err)
		}
	}
	if o.rounds == 0 {
		o.rounds = benchRounds
		if o.redis {
			o.rounds = redisRounds
		}
	}
	return nil
}

func runBench(ctx context.Context, opts BenchOptions, image string, out *output, e engine) (err error) {
	if err := opts.check(image); err != nil {
		return err
	}
	if err := opts.begin("bench", out); err != nil {
		return err
	}
	const milli = 1000 // microseconds
	o := bench.Options{
		Programs: bench.Programs{
			Measure: shim.Measure(), MeasureLibc: shim.MeasureLibc(), Stubs: shim.Stubs(),
			TwinStubs: shim.TwinStubs(), TwinLibrary: shim.TwinLibrary(),
		},
		Rounds: opts.rounds, Sample: opts.sample * milli,
		Step: benchSteps(opts.read.Media.Progress, opts.rounds),
	}
	if image == "" {
		figures, err := e.benchHost(ctx, o)
		return finishBench(opts, benched{modes: bench.Modes, figures: figures, title: "This host"}, err, out, e)
	}
	dir, err := os.MkdirTemp("", "vfix-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	roots, err := unpackBoth(ctx, e, image, dir, opts.read.Media)
	if err != nil {
		return err
	}
	if !roots.affected {
		out.Note("bench: nothing to patch in %s: both sides are the same", image)
	}
	if opts.redis {
		all, err := e.benchRedis(ctx, bench.RedisOptions{
			Original: roots.original, Rebuilt: roots.rebuilt, Rounds: opts.rounds,
			Requests: opts.requests, Pipeline: opts.pipeline, Step: o.Step,
		})
		if err != nil {
			return hinterr.Among(err, benchHints, benchHint)
		}
		return out.redis(opts, image, all)
	}
	figures, err := e.benchImage(ctx, roots.original, roots.rebuilt, o)
	return finishBench(opts, benched{image: image, modes: bench.ImageModes, figures: figures, title: image}, err, out, e)
}

// finishBench draws and prints what was measured, unless that failed.
func finishBench(opts BenchOptions, b benched, err error, out *output, e engine) error {
	if err != nil {
		return hinterr.Among(err, benchHints, benchHint)
	}
	if opts.plot != "" {
		b.title += fmt.Sprintf("\n%s, vfix %s\nmedian of %s; lines: least to most", bench.Conditions(), version, screen.Count(opts.rounds, "round"))
		if err := e.draw(opts.plot, b); err != nil {
			return err
		}
		out.Note("bench: figure written to %s", opts.plot)
	}
	return out.bench(opts, b)
}

// benchSteps reports each round as it begins: each way takes milliseconds.
func benchSteps(progress progress.Reporter, rounds int) func(int, string) {
	said := 0
	return func(round int, _ string) {
		if round != said {
			said = round
			progress.Note("bench: round %d of %d", round, rounds)
		}
	}
}

// roots are the root filesystems of an image as it is and rebuilt.
type roots struct {
	original, rebuilt string
	affected          bool
}

// unpackBoth unpacks an image into a directory in dir, and a patched copy beside it.
func unpackBoth(ctx context.Context, e engine, image, dir string, media media.Options) (*roots, error) {
	r := &roots{original: filepath.Join(dir, "original"), rebuilt: filepath.Join(dir, "rebuilt")}
	const entered = 0o755 // by user nobody, who gets it as root directory
	if err := os.Mkdir(r.original, entered); err != nil {
		return nil, err
	}
	if err := e.unpack(ctx, image, r.original, media); err != nil {
		return nil, err
	}
	f, err := e.patch(ctx, []string{r.original}, patch.Options{Output: r.rebuilt, Progress: media.Progress})
	if err != nil {
		return nil, err
	}
	r.affected = f.Affected()
	return r, nil
}

// benchHints and benchHint are the hints if nothing could be measured.
var benchHints = []hinterr.For{
	{Err: bench.ErrUnsupported, Hint: "run it on x86-64 Linux"},
	{Err: os.ErrPermission, Hint: "run it as root: programs of an image run in their own root filesystem"},
}

const benchHint = "run 'vfix doctor' to see how this kernel serves the vsyscall page; 'vfix bench --help' lists what is needed"
