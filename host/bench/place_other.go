//go:build !linux || !amd64

// Stubs for systems that cannot run the measured programs.

package bench

import (
	"context"
	"fmt"
	"runtime"
)

// place is empty here: no program of x86-64 Linux runs.
type place struct {
	o      Options
	sample string
}

func newPlace(Options) (*place, error) {
	return nil, fmt.Errorf("%w on %s/%s: only x86-64 Linux has a vsyscall page", ErrUnsupported, runtime.GOOS, runtime.GOARCH)
}

func (*place) close()                                         {}
func (*place) path(name string) string                        { return name }
func (*place) put(string, []byte) error                       { return ErrUnsupported }
func (*place) run(context.Context, candidate) ([]byte, error) { return nil, ErrUnsupported }
func putInto(string, string, []byte) error                    { return ErrUnsupported }
func died(err error) string                                   { return err.Error() }
func noLibc(string) func(error) string                        { return died }

func (*redisSide) round(context.Context, RedisOptions) error { return ErrUnsupported }
