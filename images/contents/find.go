// From a source, or a merged file system, to its findings.

package contents

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"vfix.dev/vfix/images/hazards"
	"vfix.dev/vfix/images/source"
)

// Scan examines a source: an image, a directory, a tarball or a file.
func (s *Session) Scan(ctx context.Context, src *source.Source) (*Findings, error) {
	scan := s.scanPath
	if src.Image != nil {
		scan = s.scanImage
	}
	f, err := scan(ctx, src)
	if err != nil {
		return nil, err
	}
	f.Source, f.Digest = src.Ref.String(), src.Digest
	return f, nil
}

func (s *Session) scanImage(ctx context.Context, src *source.Source) (*Findings, error) {
	t, err := s.Image(ctx, src.Image)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", src.Title(), err)
	}
	return t.Findings(), nil
}

func (s *Session) scanPath(ctx context.Context, src *source.Source) (*Findings, error) {
	tarball, err := source.IsTarball(src.Path)
	if err != nil {
		return nil, err
	}
	if tarball {
		f, err := s.Tarball(ctx, src.Path, src.Title())
		if err != nil {
			return nil, err
		}
		if missing := f.Tree.missing(); len(missing) > 0 && f.Uncovered().Live == 0 {
			f.Loads = &Loads{Missing: missing}
		}
		return f, nil
	}
	d, err := OpenDisk(src.Path)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	d.Path = cmp.Or(src.Ref.Name, src.Path)
	return d.Scan(ctx, s)
}

// Findings judges the visible files of the merged file system.
func (t *Tree) Findings() *Findings {
	f := &Findings{Tree: t}
	for _, v := range t.Files(func(i *Inode) bool { return i.ELF != nil }) {
		f.judge(v, v.Names, t.Layers[v.Layer].DiffID)
	}
	return f
}

// judge adds one visible ELF file, or archive, to the findings, under the names that a user knows; layer is the diff ID
// of its layer.
func (f *Findings) judge(v *Target, names []string, layer string) {
	e, name := v.ELF, names[0]
	if e.passed != "" {
		f.Passed = append(f.Passed, Passed{Path: name, Layer: layer, Reason: e.passed, Unread: e.unread})
	}
	for _, p := range e.packed {
		p.Path, p.Layer = name, layer
		f.Packed = append(f.Packed, p)
	}
	if e.execBytes == 0 && e.report == nil && e.passed != "" {
		return
	}
	f.ELFFiles += max(1, e.members)
	f.ExecBytes += e.execBytes
	if e.loads != nil {
		f.Programs = append(f.Programs, Program{name, e.loads[0]})
	}
	switch h := e.hazard; {
	case h == nil:
	case e.plan != nil && e.plan.Redirected() && string(e.plan.Redirect.Fix) == string(h.Kind): // fixed
	case h.Kind == hazards.InitCgroupV2 && !f.Tree.starts(v.Inode):
	default:
		f.Hazards = append(f.Hazards, Hazard{*h, name, layer})
	}
	if e.plan == nil {
		return
	}
	if d := e.plan.Redirect; d != nil && d.Reason != "" {
		f.Warnings = append(f.Warnings, fmt.Sprintf("%s: not fixed (%s): %s", name, d.Fix, d.Reason))
	}
	file := File{Target: *v, Path: name, Links: names[1:], Size: v.Size, Layer: layer, Index: v.Layer, Report: e.report, Plan: e.plan}
	f.noteDormant(&file)
	f.Files = append(f.Files, file)
}

// ToPatch returns the files whose plan changes something and can be applied.
func (f *Findings) ToPatch() []File {
	return slices.DeleteFunc(slices.Clone(f.Files), func(file File) bool { return file.Plan.Empty() })
}
