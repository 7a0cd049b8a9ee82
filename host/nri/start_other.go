//go:build !linux

package nri

import "errors"

// Start returns an error: NRI is for Linux.
func Start(Options, []byte, []byte) error {
	return errors.New("NRI plugins run on Linux only")
}
