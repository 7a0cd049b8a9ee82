// Hazards of the visible files, and the init of an image.

package contents

import (
	"path"
	"slices"
	"strings"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/hazards"
	"vfix.dev/vfix/internal/rootpath"
)

// Hazard is a visible file with a hazard, or an image with one, for which Path is "".
type Hazard struct {
	hazards.Hazard
	Path  string // "" for the whole image
	Layer string // diff ID; "" outside images
}

// MarshalJSON writes the hazard's facts, also in words.
func (h Hazard) MarshalJSON() ([]byte, error) {
	return blob.EncodeJSON(map[string]string{
		"kind": string(h.Kind), "path": h.Path, "layer": h.Layer, "version": h.Version, "means": h.Means(), "do": h.Do(),
	})
}

func (f *Findings) addHazard(h Hazard) {
	if h.Kind == hazards.InitCgroupV2 {
		f.inits = append(f.inits, h)
		return
	}
	f.Hazards = append(f.Hazards, h)
}

// Starts sets the program that a container of the image starts: the hazards of init programs count only for it.
func (f *Findings) Starts(program string) {
	names := []string{program}
	if !strings.Contains(program, "/") {
		names = nil
		for _, dir := range rootpath.Programs {
			names = append(names, path.Join(dir, program))
		}
	}
	for _, h := range f.inits {
		if slices.ContainsFunc(names, func(name string) bool { real, err := f.Tree.Resolve(name); return err == nil && real == h.Path }) {
			f.Hazards = append(f.Hazards, h)
		}
	}
}
