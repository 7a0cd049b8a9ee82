// The measurements: every way to call the functions of the page on a host, and the libc of an
// image before and after its rebuild, in rounds.

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"vfix.dev/vfix/rewriter/patch"
)

// ErrUnsupported: this system cannot run x86-64 Linux programs.
var ErrUnsupported = errors.New("not supported")

// Names of the programs in their directory.
const (
	measureProgram = "vfix-measure"
	libcProgram    = "vfix-measure-libc"
	twinStubs      = "vfix-stubs-twin.so"
	twinLibrary    = "libvfix-twin.so"
)

// Programs are the programs to run; package shim has them.
type Programs struct {
	Measure     []byte // vfix-measure, static
	MeasureLibc []byte // vfix-measure-libc, dynamic
	Stubs       []byte // old functions that call the page
	TwinStubs   []byte // the same for the twin of the page
	TwinLibrary []byte // libvfix.so for the twin
}

// Options are the options of a measurement.
type Options struct {
	Programs Programs
	Rounds   int // samples of each figure
	Sample   int // microseconds that a sample takes
	// Step gets the next measurement: the round, from 1, and the mode. It may be nil.
	Step func(round int, mode string)
}

// candidate is one process a round.
type candidate struct {
	mode    string
	args    []string // the program's name in the directory, or a path, and its arguments
	env     []string // beside an empty environment
	root    string   // its root directory, "" for none
	only    []string // the functions that count; nil means all
	explain func(error) string
}

// Host measures every way on this host. It errs only if nothing could be run at all.
func Host(ctx context.Context, o Options) ([]Figure, error) {
	p, err := newPlace(o)
	if err != nil {
		return nil, err
	}
	defer p.close()
	s := newSamples()
	libc := func(mode string, only []string, env ...string) candidate {
		return candidate{mode: mode, args: []string{libcProgram, p.sample}, env: env, only: only, explain: noLibc("this system")}
	}
	candidates := append(p.kernel(), libc(Libc, nil))
	for _, f := range []patch.Form{patch.Entry, patch.Lea, patch.Syscall} {
		mode := formStart + f.String()
		only, err := p.patched(f, mode)
		if err != nil {
			return nil, fmt.Errorf("%v form: %w", f, err)
		}
		for _, function := range Functions {
			if !slices.Contains(only, function) {
				s.miss(mode, unfit(f), function)
			}
		}
		if len(only) == 0 {
			continue
		}
		candidates = append(candidates, libc(mode, only, "LD_PRELOAD="+p.path(mode)))
	}
	twin := "LD_PRELOAD=" + p.path(twinStubs) + ":" + p.path(twinLibrary)
	candidates = append(candidates, libc(Healed, nil, twin), libc(Unhealed, nil, twin, "VFIX_HEAL=0"))
	if err := p.measure(ctx, s, candidates); err != nil {
		return nil, err
	}
	return s.figures(Modes), nil
}

// Image measures the libc of two root filesystems: one as it is, one rebuilt. Both are directories of the caller;
// a program is written into each.
func Image(ctx context.Context, original, rebuilt string, o Options) ([]Figure, error) {
	p, err := newPlace(o)
	if err != nil {
		return nil, err
	}
	defer p.close()
	s := newSamples()
	candidates := p.kernel()
	for _, side := range []struct{ mode, root string }{{Original, original}, {Rebuilt, rebuilt}} {
		if err := putInto(side.root, libcProgram, o.Programs.MeasureLibc); err != nil {
			return nil, err
		}
		candidates = append(candidates, candidate{mode: side.mode, args: []string{"/" + libcProgram, p.sample}, root: side.root, explain: noLibc("the image")})
	}
	if err := p.measure(ctx, s, candidates); err != nil {
		return nil, err
	}
	return s.figures(ImageModes), nil
}

// unfit is why a function of an old libc cannot have the form.
func unfit(f patch.Form) string {
	if f == patch.Syscall {
		return "a system call changes rcx and r11, and a caller of an old libc's function may need them"
	}
	return "an old libc's function is more than a call there: lea is its best form"
}

// kernel are the ways that need no libc.
func (p *place) kernel() []candidate {
	words := func(way string) []string {
		args := []string{measureProgram, "time", "1", p.sample}
		for _, f := range Functions {
			args = append(args, way+":"+f)
		}
		return args
	}
	return []candidate{
		{mode: VDSO, args: words("vdso"), explain: died},
		{mode: Syscall, args: words("syscall"), explain: died},
		{mode: Page, args: words("page"), explain: died},
	}
}

// measure runs all rounds. A subject that fails once is left out of the rounds that follow.
func (p *place) measure(ctx context.Context, s *samples, candidates []candidate) error {
	failed := map[string]bool{}
	for round := range p.o.Rounds {
		for _, c := range candidates {
			if failed[c.mode] {
				continue
			}
			if p.o.Step != nil {
				p.o.Step(round+1, c.mode)
			}
			out, err := p.run(ctx, c)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err == nil {
				err = s.read(c, out)
			}
			if err != nil {
				failed[c.mode] = true
				s.miss(c.mode, c.explain(err), c.only...)
			}
		}
	}
	if len(s.ns) == 0 {
		return fmt.Errorf("nothing can be measured here: %s", s.absent[[2]string{Functions[0], Syscall}])
	}
	return nil
}

// read parses the output of a program: "FUNCTION PICOSECONDS", or "WAY:FUNCTION NANOSECONDS".
func (s *samples) read(c candidate, out []byte) error {
	for line := range bytes.Lines(out) {
		var name, figure string
		if _, err := fmt.Sscan(string(line), &name, &figure); err != nil {
			return fmt.Errorf("%s: unexpected line: %q", c.args[0], line)
		}
		const picoseconds = 1e-3
		unit := picoseconds
		if i := bytes.IndexByte([]byte(name), ':'); i >= 0 {
			name, unit = name[i+1:], 1
		}
		if c.only != nil && !slices.Contains(c.only, name) {
			continue
		}
		if figure == "absent" {
			s.miss(c.mode, "it has no such function", name)
			continue
		}
		var n float64
		if _, err := fmt.Sscan(figure, &n); err != nil || n <= 0 {
			return fmt.Errorf("%s: %q is not a duration", c.args[0], line)
		}
		s.add(name, c.mode, n*unit)
	}
	return nil
}

// libcName is the name of a real libc, and stubsName, of the same length, that of the library of old
// functions: a loader would mistake a second libc.so.6 for the first.
var libcName, stubsName = []byte("libc.so.6\x00"), []byte("libc-6.so\x00")

// patched writes the library of old functions, patched in a form as a real libc would be, and returns the
// functions with a call site that the form fits.
func (p *place) patched(form patch.Form, name string) ([]string, error) {
	data := bytes.Replace(p.o.Programs.Stubs, stubsName, libcName, 1)
	r, err := patch.Scan(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	plan, err := patch.NewPlan(r, patch.Options{Forms: []patch.Form{form}})
	if err != nil {
		return nil, err
	}
	var only []string
	for _, q := range plan.Patches {
		if q.Form == form {
			only = append(only, q.Site.Function.String())
		}
	}
	out, err := io.ReadAll(plan.Apply(bytes.NewReader(data)))
	if err != nil {
		return nil, err
	}
	return only, p.put(name, bytes.Replace(out, libcName, stubsName, 1))
}
