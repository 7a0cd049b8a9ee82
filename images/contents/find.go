// From a merged file system, a directory or a file to its findings and the files to patch.

package contents

import (
	"fmt"
	"slices"
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
func (t *Tree) Findings() *Scanned {
	var unread []Passed
	for _, l := range t.Layers {
		if l.absent == "" {
			continue
		}
		p := Passed{Layer: l.id(), Reason: l.absent, Unread: true}
		if p.Layer == "" {
			p.Path = l.Title
		}
		unread = append(unread, p)
	}
	out := judged(t.Files(func(i *Inode) bool { return i.ELF != nil }), t.Layers)
	out.Passed = append(unread, out.Passed...)
	return out
}

// judged are the findings in files, by their names.
func judged(files []Target, layers []*layerIndex) *Scanned {
	out := &Scanned{Findings: &Findings{}}
	for _, v := range files {
		out.judge(v, layers[v.Layer].id())
	}
	return out
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
	out.noteDormant(&out.Files[len(out.Files)-1], v.Entry)
	v.Plan = e.plan
	out.Targets = append(out.Targets, v)
}

// ToPatch returns the targets whose plan changes something and can be applied.
func (f *Scanned) ToPatch() []Target {
	return slices.DeleteFunc(slices.Clone(f.Targets), func(h Target) bool { return h.Plan.Empty() })
}
