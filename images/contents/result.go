// The result of a scan: findings, files, and what an image has of the fallback.

package contents

import (
	"fmt"
	"slices"
	"strings"

	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

// File is one file with references to the vsyscall page, as it is visible in the merged
// file system.
type File struct {
	Path  string   `json:"path"`  // relative to the root, slashes, no leading slash: "lib/libc.so.6"
	Links []string `json:"links"` // further names of the same inode, sorted
	Size  int64    `json:"size"`  // bytes
	Layer string   `json:"layer"` // diff ID of the layer it comes from; "" outside images
	// Index is the number of that layer, the base layer being 0.
	Index  int          `json:"layer_index"`
	Report *find.Report `json:"-"`
	Plan   *patch.Plan  `json:"-"`
	// Covered is the part of the fallback that covers the remaining sites: "libvfix.so",
	// "vfix-trace", or "" for nothing. Of a scan all stay, of a rebuild those not patched.
	Covered string `json:"covered"`
	// Ignored are the sites that somebody decided to accept, by offset; of a scan with an ignore file.
	Ignored map[uint64]Ignored `json:"-"`
}

// Ignored is why a call site is not a finding.
type Ignored struct {
	Reason  string `json:"reason"`
	Expires string `json:"expires"` // the last day, YYYY-MM-DD; "" for never
	By      string `json:"by"`      // the entry: file and line
}

// Passed is a file that was not examined although it looked like one to examine
// (an ELF file with damaged headers, an unreadable file), or a whole layer that was not, and why.
type Passed struct {
	Path   string `json:"path"` // "" for the whole layer
	Layer  string `json:"layer"`
	Reason string `json:"reason"`
	Hint   string `json:"-"` // what to do about it, "" if there is nothing in particular
	// Denied says that the user lacks the right to read it.
	Denied bool `json:"-"`
	// Unread says that its content is unknown: it may have call sites. Otherwise it was
	// read and is damaged, or another kind of file.
	Unread bool `json:"unread"`
}

// Name is what was not examined, for people.
func (p *Passed) Name() string {
	if p.Path != "" {
		return p.Path
	}
	return "layer " + p.Layer
}

// unread counts the paths and the layers that could not be read.
func (f *Findings) unread() (paths, layers int) {
	for _, p := range f.Passed {
		switch {
		case p.Unread && p.Path == "":
			layers++
		case p.Unread:
			paths++
		}
	}
	return paths, layers
}

// Unread counts the unreadable files, folders and layers.
func (f *Findings) Unread() int {
	paths, layers := f.unread()
	return paths + layers
}

// UnreadText lists the unreadable parts of a source; "" for none.
func (f *Findings) UnreadText() string {
	var parts []string
	paths, layers := f.unread()
	for _, c := range []struct {
		n    int
		noun string
	}{{paths, "path"}, {layers, "layer"}} {
		switch {
		case c.n == 1:
			parts = append(parts, "1 "+c.noun)
		case c.n > 1:
			parts = append(parts, fmt.Sprintf("%d %ss", c.n, c.noun))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, " and ") + " could not be read"
}

// IncompleteText says why a verdict is incomplete; "" if it is not.
func (f *Findings) IncompleteText() string {
	missing := f.MissingLibraries()
	switch {
	case f.Complete():
		return ""
	case f.Unread() > 0:
		return f.UnreadText()
	case len(missing) > 0:
		return "what it loads was not examined: " + strings.Join(missing, ", ")
	}
	return "nothing was examined"
}

// Findings is what a scan of one source found.
type Findings struct {
	Source string `json:"source"` // the source as resolved, with its transport: "docker-daemon:redis:2.8.22"
	Digest string `json:"digest"` // of the image's manifest, "" for folders and files
	// Platform is set if the source has images for several levels of x86-64, Levels if it is
	// the first of them: the others.
	Platform string      `json:"platform,omitempty"`
	Levels   []*Findings `json:"-"`
	Files    []File      `json:"-"` // only those with at least one reference to the page or a fix, sorted by path
	Passed   []Passed    `json:"not_examined"`
	// Hazards are files that end programs on some hosts, whatever vfix does about call sites.
	Hazards []Hazard `json:"hazards"`
	// Loads is what runs with the program that the source is; nil for other sources, and for a program that
	// loads nothing.
	Loads *Loads `json:"loads,omitempty"`
	// Library says that the source is a library alone: what it is loaded with is another question.
	Library bool `json:"-"`
	// ELFFiles is how many 64-bit x86-64 ELF files were examined, ExecBytes how many
	// bytes of executable segments they had.
	ELFFiles  int   `json:"-"`
	ExecBytes int64 `json:"-"`
	// Fallback is what the image has of the fallback, once the work is done; empty where
	// nobody asked.
	Fallback Fallback `json:"-"`
	// Warnings are about the work on the source as a whole, one line each.
	Warnings []string `json:"-"`
}

// Loads are the loader and libraries of a program that was named alone.
type Loads struct {
	Root     string   `json:"root"`     // the root that was searched for them
	Examined []string `json:"examined"` // paths; what they have is among the findings
	Missing  []string `json:"missing"`  // names of those that are not there, and were not examined
	Opens    []string `json:"opens"`    // paths in Root of files that may open more at run time, which nothing lists
}

// Name names the source, and its image's platform if there are several.
func (f *Findings) Name() string { return strings.TrimSpace(f.Source + " " + f.Platform) }

// Rename gives what was examined other names.
func (f *Findings) Rename(name func(path string) string) {
	for i := range f.Files {
		file := &f.Files[i]
		file.Path, file.Links = name(file.Path), slices.Clone(file.Links) // which the targets also have
		for n := range file.Links {
			file.Links[n] = name(file.Links[n])
		}
	}
	for i := range f.Passed {
		f.Passed[i].Path = name(f.Passed[i].Path)
	}
	for i := range f.Hazards {
		f.Hazards[i].Path = name(f.Hazards[i].Path)
	}
}

// Add takes the findings in the files of another source.
func (f *Findings) Add(o *Findings) {
	f.Files, f.Passed, f.Hazards = append(f.Files, o.Files...), append(f.Passed, o.Passed...), append(f.Hazards, o.Hazards...)
	f.ELFFiles, f.ExecBytes = f.ELFFiles+o.ELFFiles, f.ExecBytes+o.ExecBytes
	f.Warnings = append(f.Warnings, o.Warnings...)
}

// All are the findings and those of the other levels.
func (f *Findings) All() []*Findings { return append([]*Findings{f}, f.Levels...) }

// sum adds up what n counts in each file.
func (f *Findings) sum(n func(*File) int) (all int) {
	for i := range f.Files {
		all += n(&f.Files[i])
	}
	return all
}

// LeftOver counts the sites that are live or unknown and stay.
func (f *Findings) LeftOver() int { return f.sum(func(f *File) int { return len(f.Plan.LeftOver()) }) }

// LeftOver counts the sites of the file that are live or unknown, stay, and are in code that can
// run: an object's only do once they have been linked.
func (f *File) LeftOver() int {
	if f.Report.Object {
		return 0
	}
	return len(f.Plan.LeftOver())
}

// Affected reports whether any file would be changed.
func (f *Findings) Affected() bool {
	return slices.ContainsFunc(f.Files, func(f File) bool { return !f.Plan.Empty() })
}

// Fallback is what an image has of the fallback.
type Fallback struct {
	// Library says that libvfix.so is loaded into every dynamic program of the image, Trace
	// that the image's entrypoint runs under vfix-trace; both in the version of this vfix.
	Library bool `json:"library"`
	Trace   bool `json:"trace"`
	// Added is what a rebuild adds of it: paths without a leading slash, sorted.
	Added []string `json:"added"`
	// Wrapped says that the rebuild puts vfix-trace before the entrypoint. Reasons is why:
	// one line for each file with call sites that no preload reaches.
	Wrapped bool     `json:"entrypoint_wrapped"`
	Reasons []string `json:"reasons"`
}

// Uncovered counts the sites that are live or unknown and stay, and that no fallback in the
// image covers.
func (f *Findings) Uncovered() int {
	return f.sum(func(f *File) int {
		if f.Covered != "" {
			return 0
		}
		return len(f.Plan.LeftOver())
	})
}
