//go:build !linux

package sources

import "os/exec"

func confined() bool { return false }

func runConfined(*exec.Cmd, string, string) error { return errNotConfined }
