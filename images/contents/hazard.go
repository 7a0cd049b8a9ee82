// Hazards of what is visible; which init an image starts.

package contents

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"vfix.dev/vfix/images/hazards"
	"vfix.dev/vfix/internal/jsonobject"
	"vfix.dev/vfix/internal/rootpath"
)

// Hazard is a visible file with a hazard, or an image, which has no Path.
type Hazard struct {
	hazards.Hazard
	Path  string // "" for the whole image
	Layer string // diff ID; "" outside images
}

// MarshalJSON writes all facts about it, in words as well.
func (h Hazard) MarshalJSON() ([]byte, error) {
	return jsonobject.Encode(map[string]string{
		"kind": string(h.Kind), "path": h.Path, "layer": h.Layer, "version": h.Version, "means": h.Means(), "do": h.Do(),
	})
}

func (f *Scanned) addHazard(h Hazard) {
	if h.Kind == hazards.InitCgroupV2 {
		f.inits = append(f.inits, h)
		return
	}
	f.Hazards = append(f.Hazards, h)
}

// Starts says which program a container of the image starts: an init's hazard counts only for that program.
func (f *Scanned) Starts(t *Tree, program string) {
	names := []string{program}
	if !strings.Contains(program, "/") {
		names = nil
		for _, dir := range rootpath.Programs {
			names = append(names, path.Join(dir, program))
		}
	}
	for _, h := range f.inits {
		if slices.ContainsFunc(names, func(name string) bool { real, err := t.Resolve(name); return err == nil && real == h.Path }) {
			f.Hazards = append(f.Hazards, h)
		}
	}
}

// Resolve is the name that a name leads to, with all symlinks followed.
func (t *Tree) Resolve(name string) (string, error) {
	return rootpath.Resolve(name, func(real string) (string, error) {
		switch k := t.At(real); {
		case k == nil:
			return "", fs.ErrNotExist
		case k.Kind == KindSymlink:
			return k.Link, nil
		}
		return "", rootpath.ErrNoLink
	})
}
