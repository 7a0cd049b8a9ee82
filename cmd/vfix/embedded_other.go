//go:build !linux || !amd64

package main

import "fmt"

// runtimeSize is 0: engines need a vfix for linux/amd64, which has a vfix-runtime in it.
func runtimeSize() int64 { return 0 }

func embeddedProgram(name string) ([]byte, error) {
	return nil, fmt.Errorf("%s: not in this vfix: use vfix for linux/amd64", name)
}
