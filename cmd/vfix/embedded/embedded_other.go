//go:build !linux || !amd64

package embedded

import "fmt"

// Program is an error: engines need a vfix for linux/amd64, which has the programs in it.
func Program(name string) ([]byte, error) {
	return nil, fmt.Errorf("%s: not in this vfix: use vfix for linux/amd64", name)
}

// Size is 0.
func Size(string) int64 { return 0 }
