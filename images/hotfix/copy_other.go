//go:build !linux

package hotfix

import (
	"context"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// keeper is for Linux: engines elsewhere have their files in a virtual machine.
type keeper struct{}

func openKeeper(string, media.EngineTraits, progress.Reporter) (*keeper, error) {
	return nil, hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "patched copies are kept on the Linux machine that runs the container"),
		"run vfix hotfix there, or build an image: vfix rebuild")
}

func (*keeper) close() {}

func (*keeper) put(context.Context, contents.Target) (string, error) {
	return "", hinterr.ErrUnsupported
}
