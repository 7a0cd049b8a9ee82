// The result of a scan: findings, files, and the parts of the fallback in an image; how findings are made.

package contents

import (
	"fmt"
	"slices"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/hazards"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

// File is a visible file with references to the vsyscall page, or that a requested fix changes.
type File struct {
	Target `json:"-"`
	Path   string   `json:"path"`  // relative to the root, slashes, no leading slash: "lib/libc.so.6"
	Links  []string `json:"links"` // other names of the same inode, sorted
	Size   int64    `json:"size"`  // bytes
	Layer  string   `json:"layer"` // diff ID of its layer; "" outside images
	// Index is the number of that layer; the base layer is 0.
	Index  int          `json:"layer_index"`
	Report *find.Report `json:"-"`
	Plan   *patch.Plan  `json:"-"`
	// Covered is the part of the fallback that covers the remaining sites: "libvfix.so", "vfix-trace", or "" for
	// none. In a scan all sites remain, in a rebuild the unpatched ones.
	Covered string `json:"covered"`
}

// Passed is a file that should have been examined but was not (an ELF file with damaged headers, an unreadable
// file), and why.
type Passed struct {
	Path   string `json:"path"`
	Layer  string `json:"layer"`
	Reason string `json:"reason"`
	// Denied reports that the user has no permission to read it.
	Denied bool `json:"-"`
	// Unread reports that its content is unknown, so it may have call sites. Otherwise it was read and is damaged,
	// or another kind of file.
	Unread bool `json:"unread"`
}

// Findings is the result of the scan of one source.
type Findings struct {
	Source string   `json:"source"` // the source as resolved, with its transport: "docker-daemon:redis:2.8.22"
	Digest string   `json:"digest"` // of the image's manifest; the image ID in an engine or docker archive, "" for directories and files
	Files  []File   `json:"-"`      // only those with at least one reference to the page or a fix, sorted by path
	Passed []Passed `json:"not_examined"`
	// Hazards are files that end programs on some hosts, regardless of call sites.
	Hazards []Hazard `json:"hazards"`
	// Loads is the loader and libraries of a program as source; nil for other sources, and for a static program.
	Loads *Loads `json:"loads,omitempty"`
	// Library reports that the source is a library alone, without the program that loads it.
	Library bool `json:"-"`
	// ELFFiles is the number of 64-bit x86-64 ELF files that were examined, ExecBytes the size of their executable
	// segments.
	ELFFiles  int   `json:"-"`
	ExecBytes int64 `json:"-"`
	// Fallback is the parts of the fallback in the image, set at the end of the work; empty if not requested.
	Fallback Fallback `json:"-"`
	// Packed are the archives with affected programs or libraries, which vfix does not patch.
	Packed []Packed `json:"packed"`
	// ChangedOnly reports that only files that changed since an earlier run were examined.
	ChangedOnly bool `json:"-"`
	// Warnings are about the source as a whole, one line each; Notes do not concern its verdict.
	Warnings []string `json:"-"`
	Notes    []string `json:"notes"`

	// What a rebuild or a patch needs. Tree is an image's or a tarball's. Programs are the dynamic programs.
	Tree     *Tree     `json:"-"`
	Programs []Program `json:"-"`
}

// Program is a dynamic program, and the loader that it names.
type Program struct{ Path, Interp string }

// Packed is a member of a zip archive, jar or wheel that has live call sites.
type Packed struct {
	Path   string `json:"path"`   // of the archive
	Member string `json:"member"` // its name in the archive; of an archive in an archive "INNER!NAME"
	Layer  string `json:"layer"`
	Sites  int    `json:"sites"`
	// Covered reports that the fallback in the source covers the programs that load it.
	Covered bool `json:"covered"`
}

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

// Loads are the loader and libraries of a program that is the source.
type Loads struct {
	Root     string   `json:"root"`     // the root that was searched for them
	Examined []string `json:"examined"` // paths; their sites are in the findings
	Missing  []string `json:"missing"`  // names of libraries that were not found
}

// Add adds the findings in the files of another source.
func (f *Findings) Add(o *Findings) {
	f.Files, f.Passed, f.Hazards = append(f.Files, o.Files...), append(f.Passed, o.Passed...), append(f.Hazards, o.Hazards...)
	f.Packed, f.Notes = append(f.Packed, o.Packed...), append(f.Notes, o.Notes...)
	f.ELFFiles, f.ExecBytes = f.ELFFiles+o.ELFFiles, f.ExecBytes+o.ExecBytes
	f.Warnings = append(f.Warnings, o.Warnings...)
}

// Fallback has the parts of the fallback in an image.
type Fallback struct {
	// Library reports that all dynamic programs of the image load libvfix.so, Trace that its entrypoint runs under
	// vfix-trace; both in the version of this vfix.
	Library bool `json:"library"`
	Trace   bool `json:"trace"`
	// Added are the paths that a rebuild adds, without a leading slash, sorted.
	Added []string `json:"added"`
	// Wrapped reports that the rebuild puts vfix-trace before the entrypoint. Reasons has one line for each file
	// with call sites that no preload covers.
	Wrapped bool     `json:"entrypoint_wrapped"`
	Reasons []string `json:"reasons"`
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
