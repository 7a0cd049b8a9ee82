// Has, for each fix of the rewriter besides calls of the vsyscall page, the files that a root
// filesystem also needs, and the texts about it.

package addedfiles

import (
	"fmt"
	"slices"
	"strings"

	"vfix.dev/vfix/rewriter/find"
)

// File is one that fixed programs read: a regular file of root's.
type File struct {
	Name string // below the root
	Body []byte
}

// Mode is that of the files.
const Mode = 0o644

// Fix is a fix's file and words.
type Fix struct {
	File    File
	Affects string // its purpose, for an option's help
	Does    string // what it changes for the program
	Done    string // for an image's history
}

var known = map[find.Fix]Fix{
	// As /proc/cgroups has them on a host with cgroup v2 and everything that a JDK looks for: name,
	// hierarchy, number of groups, enabled (cgroups(7)).
	find.JavaCgroups: {
		File: File{Name: "vfix/cgroups", Body: []byte("#subsys_name\thierarchy\tnum_cgroups\tenabled\n" +
			"cpuset\t0\t1\t1\ncpu\t0\t1\t1\ncpuacct\t0\t1\t1\nmemory\t0\t1\t1\npids\t0\t1\t1\n")},
		Affects: "JDKs that ignore their memory limit on some hosts with cgroup v2; see 'vfix help java'",
		Does:    "the JDK sees its container's limits on hosts with cgroup v2 whose /proc/cgroups does not list the controllers",
		Done:    "memory limit of the JDK fixed",
	},
}

// FixNames are all fixes, as a user types them.
func FixNames() []string {
	all := make([]string, len(find.Fixes))
	for i, r := range find.Fixes {
		all[i] = string(r)
	}
	return all
}

// ParseFixes reads a list of names separated by commas.
func ParseFixes(text string) ([]find.Fix, error) {
	var all []find.Fix
	for name := range strings.SplitSeq(text, ",") {
		r := find.Fix(name)
		if _, ok := known[r]; !ok {
			return nil, fmt.Errorf("got %q, want %s", name, strings.Join(FixNames(), ", "))
		}
		if !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	return all, nil
}

// FixOf is what is known of a fix.
func FixOf(r find.Fix) Fix { return known[r] }
