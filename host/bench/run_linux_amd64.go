// Running the measured programs: on this host, and in root filesystems.

package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strconv"

	"vfix.dev/vfix/host/jail"
	"vfix.dev/vfix/host/probe"
	"vfix.dev/vfix/rewriter/patch"
)

// Names of the programs in their directory.
const (
	libcProgram  = "vfix-measure-libc"
	patchedStubs = "vfix-stubs-patched.so"
	twinStubs    = "vfix-stubs-twin.so"
	twinLibrary  = "libvfix-twin.so"
)

// Host measures every way on this host.
func Host(ctx context.Context, o Options) ([]Figure, error) {
	patched, err := patchStubs(o.Programs.Stubs)
	if err != nil {
		return nil, err
	}
	d, err := probe.NewDir(map[string][]byte{
		probe.Measure: o.Programs.Measure, libcProgram: o.Programs.MeasureLibc, patchedStubs: patched,
		twinStubs: o.Programs.TwinStubs, twinLibrary: o.Programs.TwinLibrary,
	})
	if err != nil {
		return nil, err
	}
	defer d.Remove()
	libc := func(mode, preload string) candidate {
		return candidate{mode: mode, libc: "this system", run: func(ctx context.Context) (probe.Outcome, error) {
			cmd := exec.CommandContext(ctx, d.Path(libcProgram), strconv.Itoa(o.Sample))
			if preload != "" {
				cmd.Env = []string{"LD_PRELOAD=" + preload}
			}
			return probe.Run(ctx, cmd)
		}}
	}
	s, err := measure(ctx, o.Rounds, append(ways(d, o), libc(Libc, ""), libc(Patched, d.Path(patchedStubs)),
		libc(Fallback, d.Path(twinStubs)+":"+d.Path(twinLibrary))))
	if err != nil {
		return nil, err
	}
	return s.figures(Modes), nil
}

// Image measures the libc of two root filesystems: one as it is, one rebuilt. Both are directories of the caller;
// a program is written into each.
func Image(ctx context.Context, original, rebuilt string, o Options) ([]Figure, error) {
	d, err := probe.NewDir(map[string][]byte{probe.Measure: o.Programs.Measure})
	if err != nil {
		return nil, err
	}
	defer d.Remove()
	candidates := ways(d, o)
	for mode, root := range map[string]string{Original: original, Rebuilt: rebuilt} {
		if err := putInto(root, libcProgram, o.Programs.MeasureLibc); err != nil {
			return nil, err
		}
		candidates = append(candidates, candidate{mode: mode, libc: "the image", run: func(ctx context.Context) (probe.Outcome, error) {
			return probe.Run(ctx, jail.Command(ctx, root, "/"+libcProgram, strconv.Itoa(o.Sample)))
		}})
	}
	s, err := measure(ctx, o.Rounds, candidates)
	if err != nil {
		return nil, err
	}
	return s.figures(ImageModes), nil
}

// ways are the modes that need no libc.
func ways(d probe.Dir, o Options) (all []candidate) {
	for _, mode := range []string{VDSO, Syscall, Page} {
		args := []string{"time", "1", strconv.Itoa(o.Sample)}
		for _, f := range Functions {
			args = append(args, mode+":"+f)
		}
		all = append(all, candidate{mode: mode, run: func(ctx context.Context) (probe.Outcome, error) { return d.Run(ctx, nil, args...) }})
	}
	return all
}

// libcName is the name of a real libc, and stubsName, of the same length, that of the library of old
// functions: a loader would mistake a second libc.so.6 for the first.
var libcName, stubsName = []byte("libc.so.6\x00"), []byte("libc-6.so\x00")

// patchStubs returns the library of old functions, patched as a real libc is.
func patchStubs(stubs []byte) ([]byte, error) {
	data := bytes.Replace(stubs, stubsName, libcName, 1)
	r, err := patch.Scan(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	plan, err := patch.NewPlan(r, patch.Options{})
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(plan.Apply(bytes.NewReader(data)))
	return bytes.Replace(out, libcName, stubsName, 1), err
}

// putInto writes a program into a root filesystem, whatever symlinks it contains.
func putInto(dir, name string, data []byte) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	const executable = 0o755
	return root.WriteFile(name, data, executable)
}
