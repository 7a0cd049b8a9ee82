package images

import (
	"io"

	"vfix.dev/vfix/rewriter"
)

// engine is the rewriter as this package uses it. Tests of file systems put a simpler one
// in its place, that needs no compiler to make its input.
type engine struct {
	scan   func(io.ReaderAt, int64) (*rewriter.Report, error)
	plan   func(*rewriter.Report, rewriter.Options) (*rewriter.Plan, error)
	apply  func(*rewriter.Plan, io.ReaderAt) io.Reader
	verify func(io.ReaderAt, int64, io.ReaderAt, int64, rewriter.Options) (*rewriter.Verification, error)
}

var rewriting = engine{
	scan:   rewriter.Scan,
	plan:   rewriter.NewPlan,
	apply:  (*rewriter.Plan).Apply,
	verify: rewriter.Verify,
}
