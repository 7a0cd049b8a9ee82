// From a merged file system, a directory or a file to its findings and the files to patch.

package contents

import (
	"context"
	"fmt"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Scanned is Findings with the data that a rebuild or patch needs.
type Scanned struct {
	*Findings
	Targets []Target // in the order of Findings.Files
	Tree    *Tree    // the examined tree
	// Programs are the dynamic programs of a directory or a tarball.
	Programs []Program
	inits    []Hazard // of programs that are a hazard only as a container's init
}

// Program is a dynamic program, and the loader that it names.
type Program struct{ Path, Interp string }

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
	all := t.Files(func(i *Inode) bool { return i.ELF != nil })
	for _, v := range all {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		idx := t.Layers[v.Layer]
		layer := ""
		if idx.DiffID != (v1.Hash{}) {
			layer = idx.DiffID.String()
		}
		out.judge(v, layer)
	}
	return out, nil
}

// judge adds one visible ELF file, or archive, to the findings; layer is the diff ID of its layer.
func (out *Scanned) judge(v Target, layer string) {
	e, name := v.ELF, v.Names[0]
	if e.passed != "" {
		out.Passed = append(out.Passed, Passed{Path: name, Layer: layer, Reason: e.passed, Unread: e.unread})
	}
	for _, p := range e.packed {
		p.Path, p.Layer = name, layer
		out.Packed = append(out.Packed, p)
	}
	if e.execBytes == 0 && e.report == nil && e.passed != "" {
		return
	}
	out.ELFFiles += max(1, e.members)
	out.ExecBytes += e.execBytes
	if e.loads != nil {
		out.Programs = append(out.Programs, Program{name, e.loads[0]})
	}
	fixed := e.plan != nil && e.plan.Redirected()
	if h := e.hazard; h != nil && !(fixed && string(e.plan.Redirect.Fix) == string(h.Kind)) {
		out.addHazard(Hazard{Hazard: *h, Path: name, Layer: layer})
	}
	if e.plan == nil {
		return
	}
	if d := e.plan.Redirect; d != nil && d.Reason != "" {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%s: not fixed (%s): %s", name, d.Fix, d.Reason))
	}
	out.Files = append(out.Files, File{
		Path: name, Links: v.Names[1:], Size: v.Size, Layer: layer, Index: v.Layer, Report: e.report, Plan: e.plan,
	})
	out.noteDormant(&out.Files[len(out.Files)-1], &v.Meta)
	v.Plan = e.plan
	out.Targets = append(out.Targets, v)
}

// ToPatch returns the targets whose plan changes something and can be applied.
func (f *Scanned) ToPatch() []Target {
	return slices.DeleteFunc(slices.Clone(f.Targets), func(h Target) bool { return h.Plan.Empty() })
}
