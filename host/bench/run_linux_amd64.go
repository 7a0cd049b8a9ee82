// Running the measured programs: on this host, and in root filesystems.

package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"vfix.dev/vfix/host/jail"
	"vfix.dev/vfix/host/probe"
	"vfix.dev/vfix/rewriter/patch"
	"vfix.dev/vfix/shim"
)

// Names of the programs in their directory.
const (
	libcProgram  = "vfix-measure-libc"
	patchedStubs = "vfix-stubs-patched.so"
	twinStubs    = "vfix-stubs-twin.so"
	twinLibrary  = "libvfix-twin.so"
)

// Run measures this host, or the libc or redis-server of two root filesystems.
func Run(ctx context.Context, o Options) ([]Figure, error) {
	if o.Requests > 0 {
		return measureRedis(ctx, o)
	}
	patched, err := patchStubs(shim.Stubs())
	if err != nil {
		return nil, err
	}
	d, err := probe.NewDir(map[string][]byte{
		libcProgram: shim.MeasureLibc(), patchedStubs: patched, twinStubs: shim.TwinStubs(), twinLibrary: shim.TwinLibrary(),
	})
	if err != nil {
		return nil, err
	}
	defer d.Remove()
	here := func(mode string, preload ...string) candidate {
		return calls(mode, "this system", func(ctx context.Context) (probe.Outcome, error) {
			cmd := exec.CommandContext(ctx, d.Path(libcProgram), strconv.Itoa(o.Sample))
			cmd.Env = []string{"LD_PRELOAD=" + strings.Join(preload, ":")}
			return probe.Run(ctx, cmd)
		})
	}
	inside := func(mode, root string) candidate {
		return calls(mode, "the image", func(ctx context.Context) (probe.Outcome, error) {
			return probe.Run(ctx, jail.Command(ctx, root, "/"+libcProgram, strconv.Itoa(o.Sample)))
		})
	}
	libcs := []candidate{here(Libc), here(Patched, d.Path(patchedStubs)), here(Fallback, d.Path(twinStubs), d.Path(twinLibrary))}
	if o.Original != "" {
		if err := errors.Join(putInto(o.Original), putInto(o.Rebuilt)); err != nil {
			return nil, err
		}
		libcs = []candidate{inside(Rebuilt, o.Rebuilt), inside(Original, o.Original)}
	}
	all := append([]candidate{static(d, o, VDSO)}, libcs...)
	return measure(ctx, o.Rounds, append(all, static(d, o, Syscall), static(d, o, Page)), Functions, VDSO)
}

// static measures a mode that needs no libc.
func static(d probe.Dir, o Options, mode string) candidate {
	args := []string{"time", "1", strconv.Itoa(o.Sample)}
	for _, f := range Functions {
		args = append(args, mode+":"+f)
	}
	return calls(mode, "", func(ctx context.Context) (probe.Outcome, error) { return d.Run(ctx, nil, args...) })
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

// putInto writes the program that measures the libc into a root filesystem, whatever symlinks it contains.
func putInto(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	const executable = 0o755
	return root.WriteFile(libcProgram, shim.MeasureLibc(), executable)
}
