//go:build !linux || !amd64

package doctor

import "context"

// Run returns ErrUnsupported: vfix-measure is a program for x86-64 Linux.
func Run(context.Context, Options) (*Report, error) { return nil, ErrUnsupported }

func checkLog(*machine, *Check, *Report) error { return ErrUnsupported }

func (m *machine) scratch() (string, error) { return "", ErrUnsupported }
