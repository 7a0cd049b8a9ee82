//go:build linux && !amd64

package jail

import "errors"

// Confine returns an error: containers of legacy programs run on x86-64.
func Confine(Bounds) error {
	return errors.New("confined processes need linux/amd64")
}
