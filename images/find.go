package images

import (
	"context"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/rewriter"
)

// found is Findings with what is needed to act on them.
type found struct {
	*Findings
	hits []hit // as Findings.Files, in the same order
}

// findings examines what the merged file system shows.
func (s *session) findings(ctx context.Context, t *merged) (*found, error) {
	out := &found{Findings: &Findings{}}
	for _, v := range t.files(func(i *inode) bool { return i.elf != nil }) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		idx := t.layers[v.layer]
		layer := ""
		if idx.diffID != (v1.Hash{}) {
			layer = idx.diffID.String()
		}
		if err := s.judge(out, v, layer); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", idx.title, v.names[0], err)
		}
	}
	return out, nil
}

// judge adds one visible ELF file to the findings; layer is its layer's diff ID.
func (s *session) judge(out *found, v visible, layer string) error {
	if v.elf.passed != "" {
		out.Passed = append(out.Passed, Passed{Path: v.names[0], Layer: layer, Reason: v.elf.passed, Unread: v.elf.unread})
		return nil
	}
	out.ELFFiles++
	out.ExecBytes += v.elf.execBytes
	if v.elf.report == nil {
		return nil
	}
	plan, err := s.plan(v.elf)
	if err != nil {
		return err
	}
	out.Files = append(out.Files, File{
		Path: v.names[0], Links: v.names[1:], Size: v.size, Layer: layer, Index: v.layer,
		Report: v.elf.report, Plan: plan,
	})
	out.hits = append(out.hits, hit{visible: v, plan: plan})
	return nil
}

// plan makes the plan for a file once, however many images have it.
func (s *session) plan(e *elfInfo) (*rewriter.Plan, error) {
	s.planning.Lock()
	defer s.planning.Unlock()
	if e.plan == nil {
		p, err := rewriter.NewPlan(e.report, s.options)
		if err != nil {
			return nil, err
		}
		e.plan = p
	}
	return e.plan, nil
}

// affected are the hits whose plan changes something.
func (f *found) affected() []hit {
	var all []hit
	for _, h := range f.hits {
		if !h.plan.Empty() {
			all = append(all, h)
		}
	}
	return all
}

// covered examines an image, a root filesystem folder, a tarball of one or a single file,
// and finds out what the fallback in an image covers.
func covered(ctx context.Context, s *session, src *Source, shim *Shim) (*found, error) {
	if src.Image == nil {
		f, err := s.path(ctx, src.Path)
		if err != nil {
			return nil, err
		}
		f.Source = src.Ref.String()
		return f, nil
	}
	sub, err := s.openSubject(ctx, src)
	if err != nil {
		return nil, err
	}
	defer sub.close()
	return sub.f, shim.findFallback(ctx, src.Image, sub.t, sub.f.Findings, sub.fetch)
}

// path examines a folder or file.
func (s *session) path(ctx context.Context, name string) (*found, error) {
	if tarball, err := isTarball(name); err != nil {
		return nil, err
	} else if tarball {
		f, _, err := s.tarball(ctx, name)
		return f, err
	}
	d, err := openDiskTree(name)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if err := d.scan(ctx, s); err != nil {
		return nil, err
	}
	f, err := d.findings(s)
	if err != nil {
		return nil, err
	}
	f.Source = name
	return f, nil
}
