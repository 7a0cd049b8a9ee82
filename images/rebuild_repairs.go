// What a rebuild adds for repairs beyond calls of the vsyscall page (--fix).

package images

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/repairs"
	"vfix.dev/vfix/rewriter"
)

// Repaired is a file with a repair beyond calls of the page.
type Repaired struct {
	Path   string
	Repair rewriter.Repair
}

// repairs notes what the targets' plans repair, and returns the files that the repaired programs
// read. A file of that name in the base, with other content, is an error: it is somebody else's.
func (r *rebuild) repairs(ctx context.Context, t *contents.Tree, targets []contents.Target) (extras []contents.Extra, err error) {
	added := map[rewriter.Repair]bool{}
	for _, h := range targets {
		if !h.Plan.Redirected() {
			continue
		}
		d := h.Plan.Redirect
		r.out.Repaired = append(r.out.Repaired, Repaired{h.Names[0], d.Repair})
		if added[d.Repair] {
			continue
		}
		added[d.Repair] = true
		f := repairExtra(d.Repair)
		there, err := r.has(ctx, t, f)
		if err != nil {
			return nil, err
		}
		if !there {
			extras = append(extras, f)
		}
	}
	return extras, nil
}

// repairExtra is a repair's file as a layer has it.
func repairExtra(r rewriter.Repair) contents.Extra {
	f := repairs.FileOf(r)
	return contents.Extra{Name: f.Name, Mode: repairs.Mode, Body: f.Body}
}

// repairExtras are those of all repairs, by name.
func repairExtras() map[string]contents.Extra {
	all := map[string]contents.Extra{}
	for _, r := range rewriter.Repairs {
		e := repairExtra(r)
		all[e.Name] = e
	}
	return all
}

// repairsMade are the repairs that some file has.
func repairsMade(all []Repaired) (some []rewriter.Repair) {
	for _, r := range rewriter.Repairs {
		if slices.ContainsFunc(all, func(f Repaired) bool { return f.Repair == r }) {
			some = append(some, r)
		}
	}
	return some
}

// has reports whether the base has the file as it is to be.
func (r *rebuild) has(ctx context.Context, t *contents.Tree, f contents.Extra) (bool, error) {
	k := t.Find(f.Name)
	if k == nil {
		return false, nil
	}
	other := hinterr.With(fmt.Errorf("%s: the image has such a file, and it is not vfix's", f.Name), "rebuild without --fix, or remove the file from the image")
	if k.Kind != contents.KindFile || k.Size != int64(len(f.Body)) {
		return false, other
	}
	got, err := r.s.FetchLayers(t)(ctx, []*contents.Inode{k.Inode})
	if err != nil {
		return false, err
	}
	if b, err := io.ReadAll(got[k.Inode]); err != nil {
		return false, err
	} else if !bytes.Equal(b, f.Body) {
		return false, other
	}
	return true, nil
}

// patchesCalls reports whether some plan changes a call site.
func patchesCalls(targets []contents.Target) bool {
	return slices.ContainsFunc(targets, func(h contents.Target) bool { return changesCalls(h.Plan.Patches) })
}

func changesCalls(patches []rewriter.Patch) bool {
	return slices.ContainsFunc(patches, func(p rewriter.Patch) bool { return p.Form != rewriter.Left })
}
