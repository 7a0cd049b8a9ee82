//go:build !linux

// Stubs for systems other than Linux.

package hotfix

import (
	"context"
	"io"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/engine"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// copyDir is for Linux: engines elsewhere have their files in a virtual machine.
type copyDir struct{}

func openCopyDir(string, engine.Traits, progress.Reporter) (*copyDir, error) {
	return nil, hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "patched copies are kept on the Linux machine that runs the container"),
		"run vfix hotfix there, or build an image: vfix rebuild")
}

func (*copyDir) close() {}

func (*copyDir) put(context.Context, contents.Meta, int64, io.Reader) (string, error) {
	return "", hinterr.ErrUnsupported
}
