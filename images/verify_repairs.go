// What verify accepts of repairs beyond calls of the vsyscall page.

package images

import (
	"bytes"
	"context"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/repairs"
	"vfix.dev/vfix/rewriter"
)

// repaired notes what was proved of one file.
func (v *verification) repaired(name string, proved *rewriter.Verification) {
	v.calls = v.calls || changesCalls(proved.Patches)
	if d := proved.Redirect; d != nil {
		v.out.Repaired = append(v.out.Repaired, Repaired{name, d.Repair})
	}
}

// repairFile checks a file that only the source has and that has the name of one of a repair's.
func (v *verification) repairFile(ctx context.Context, a added, want contents.Extra) error {
	content, err := v.read(ctx, v.after, a.Inode)
	if err != nil {
		return err
	}
	if !a.Meta.Plain(want.Mode) || !bytes.Equal(content, want.Body) {
		v.problem("%s: not in the base, and not the file that a repair adds", a.name)
	}
	v.repairs = append(v.repairs, a.name)
	return nil
}

// repairsWhole checks that each repaired file has the file that it reads, and the other way round.
func (v *verification) repairsWhole() {
	needed := map[string]bool{}
	for _, r := range v.out.Repaired {
		f := repairs.FileOf(r.Repair)
		if needed[f.Name] = true; v.after.T.Find(f.Name) == nil {
			v.problem("%s: missing, although %s is repaired and reads it", f.Name, r.Path)
		}
	}
	for _, name := range v.repairs {
		if !needed[name] {
			v.problem("%s: not in the base, and no repaired file reads it", name)
		}
	}
}
