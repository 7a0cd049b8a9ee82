// From a merged file system, a directory or a file to its findings and the files to patch.

package contents

import (
	"context"
	"fmt"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/rewriter/patch"
)

// Scanned is Findings with the data that a rebuild or patch needs.
type Scanned struct {
	*Findings
	Targets []Target // in the order of Findings.Files
	Tree    *Tree    // the examined tree
	inits   []Hazard // of programs that are a hazard only as a container's init
}

// Findings judges the visible files of the merged file system.
func (s *Session) Findings(ctx context.Context, t *Tree) (*Scanned, error) {
	out := &Scanned{Findings: &Findings{}}
	for _, l := range t.Layers {
		if l.absent == nil {
			continue
		}
		p := Passed{Layer: l.DiffID.String(), Reason: l.absent.why, Hint: l.absent.hint, Unread: true}
		if l.DiffID == (v1.Hash{}) {
			p.Path, p.Layer = l.Title, ""
		}
		out.Passed = append(out.Passed, p)
	}
	all := t.files(func(i *Inode) bool { return i.ELF != nil })
	for _, v := range all {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		idx := t.Layers[v.Layer]
		layer := ""
		if idx.DiffID != (v1.Hash{}) {
			layer = idx.DiffID.String()
		}
		if err := s.judge(out, v, layer); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", idx.Title, v.Names[0], err)
		}
	}
	if t.disk != nil {
		t.disk.findings(out.Findings)
	}
	all = slices.DeleteFunc(all, func(v Target) bool { return v.ELF.report == nil })
	out.Warnings = append(out.Warnings, t.differences(all)...)
	return out, nil
}

// judge adds one visible ELF file to the findings; layer is the diff ID of its layer.
func (s *Session) judge(out *Scanned, v Target, layer string) error {
	if v.ELF.passed != "" {
		out.Passed = append(out.Passed, Passed{Path: v.Names[0], Layer: layer, Reason: v.ELF.passed, Unread: v.ELF.unread})
		if v.ELF.report == nil {
			return nil
		}
	}
	out.ELFFiles += max(1, v.ELF.members)
	out.ExecBytes += v.ELF.execBytes
	var plan *patch.Plan
	if v.ELF.report != nil {
		var err error
		if plan, err = s.plan(v.ELF); err != nil {
			return err
		}
	}
	if h := v.ELF.hazard; h != nil && !(plan != nil && plan.Redirected() && string(plan.Redirect.Fix) == string(h.Kind)) {
		out.addHazard(Hazard{Hazard: *h, Path: v.Names[0], Layer: layer})
	}
	if plan == nil {
		return nil
	}
	if d := plan.Redirect; d != nil && d.Reason != "" {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%s: not fixed (%s): %s", v.Names[0], d.Fix, d.Reason))
	}
	out.Files = append(out.Files, File{
		Path: v.Names[0], Links: v.Names[1:], Size: v.Size, Layer: layer, Index: v.Layer,
		Report: v.ELF.report, Plan: plan,
	})
	v.Plan = plan
	out.Targets = append(out.Targets, v)
	return nil
}

// plan makes the plan for a file once, even if several images have it.
func (s *Session) plan(e *elfInfo) (*patch.Plan, error) {
	s.planning.Lock()
	defer s.planning.Unlock()
	if e.plan == nil {
		p, err := patch.NewPlan(e.report, s.Options)
		if err != nil {
			return nil, err
		}
		e.plan = p
	}
	return e.plan, nil
}

// ToPatch returns the targets whose plan changes something and can be applied.
func (f *Scanned) ToPatch() []Target {
	return slices.DeleteFunc(slices.Clone(f.Targets), func(h Target) bool { return h.Plan.Empty() || h.stuck })
}
