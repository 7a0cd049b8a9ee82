// The examination of the machine that vfix runs on.

package doctor

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"vfix.dev/vfix/host/probe"
)

// Run examines this machine.
func Run(ctx context.Context, o Options) (*Report, error) {
	runner, err := probe.NewRunner(o.Program)
	if err != nil {
		return nil, err
	}
	defer runner.Close()
	return examine(ctx, &here{runner: runner, root: "/"}, o)
}

type here struct {
	runner *probe.Runner
	root   string
}

func (h *here) read(path string) ([]byte, error) {
	f, err := os.Open(filepath.Join(h.root, path))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile))
}

func (h *here) list(path string) ([]string, error) {
	d, err := os.Open(filepath.Join(h.root, path))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

func (h *here) execute(ctx context.Context, program []byte) (probe.Outcome, error) {
	return probe.Execute(ctx, program)
}

func (h *here) measure(ctx context.Context, stdin []byte, args ...string) (probe.Outcome, error) {
	return h.runner.Run(ctx, stdin, args...)
}

func (h *here) start(ctx context.Context, args ...string) (func() (string, error), func() (probe.Outcome, error), error) {
	return h.runner.Start(ctx, args...)
}
