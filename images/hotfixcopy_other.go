//go:build !linux

package images

import "context"

// keeper is for Linux: engines elsewhere have their files in a virtual machine.
type keeper struct{}

func openKeeper(string, engineTraits, Progress) (*keeper, error) {
	return nil, withHint(errorf(ErrUnsupported, "patched copies are kept on the Linux machine that runs the container"),
		"run vfix hotfix there, or build an image: vfix rebuild")
}

func (*keeper) close() {}

func (*keeper) put(context.Context, hit) (string, error) { return "", ErrUnsupported }
