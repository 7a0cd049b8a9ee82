// Finding the statement about an image, and checking it.

package images

import (
	"context"
	"fmt"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/provenance"
	"vfix.dev/vfix/internal/hinterr"
)

// verifyStated finds the statement about an image and checks it. base may be nil.
func verifyStated(ctx context.Context, s *contents.Session, src, base *media.Source, o VerifyOptions) (*Verified, error) {
	if src.Image == nil {
		return nil, hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%v: not an image: no statement is made about directories and files", src.Ref),
			"compare it with what it was: vfix verify --against")
	}
	stated, err := provenance.Find(ctx, src, o.Statement, o.Media)
	if err != nil {
		return nil, err
	}
	after, err := s.OpenSubject(ctx, src)
	if err != nil {
		return nil, err
	}
	defer after.Close()
	if err := o.Shim.Find(ctx, src.Image, after.T, after.F.Findings, after.Fetch); err != nil {
		return nil, err
	}
	v := &Verified{Findings: after.F.Findings, Stated: stated}
	c, err := checkStatement(ctx, s, stated, after)
	if err != nil {
		return nil, err
	}
	v.Problems, v.NotCompared = c.problems, c.skipped
	if base == nil || base.Image == nil {
		return v, nil
	}
	digests, err := provenance.DigestsOf(base)
	if err != nil {
		return nil, err
	}
	if a := stated.Statement.Predicate.Base.Artifact; !(&provenance.Statement{Subject: []provenance.Artifact{a}}).HasSubject(digests) {
		v.Problems = append(v.Problems, fmt.Sprintf("statement: its base is %s with the digest %v, and not %v", a.Name, a.Digest, base.Ref))
	}
	return v, nil
}
