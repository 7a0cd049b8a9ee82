//go:build !linux || !amd64

// Run on systems that cannot be examined.

package doctor

import (
	"context"
	"fmt"
	"runtime"
)

// Run examines Linux on x86-64 alone.
func Run(context.Context, Options) (*Report, error) {
	return nil, fmt.Errorf("%w: this is %s/%s, and only linux/amd64 has a vsyscall page; run vfix doctor in the virtual machine that the containers run in", ErrUnsupported, runtime.GOOS, runtime.GOARCH)
}
