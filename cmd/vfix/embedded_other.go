//go:build !linux || !amd64

package main

import "fmt"

// embeddedProgram is an error: engines need a vfix for linux/amd64, which has the program in it.
func embeddedProgram(name string) ([]byte, error) {
	return nil, fmt.Errorf("%s: not in this vfix: use vfix for linux/amd64", name)
}
