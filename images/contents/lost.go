// What files lose where the caller is not root.

package contents

import (
	"fmt"
	"strings"
)

// Loss is one thing that a file lost: its kind, or the name of an xattr, and its value where that is told.
type Loss struct{ Kind, Value string }

// The kinds that are asked for.
const (
	LostOwner = "owner"
	LostGroup = "group" // and not its user
)

func (l Loss) String() string { return strings.TrimSpace(l.Kind + " " + l.Value) }

// Lost collects what of files' owners and attributes their copies do not have, because the caller
// is not root.
type Lost struct {
	files int
	name  string         // of the first one
	what  []string       // of the first one
	kinds []string       // in the order in which they were met
	count map[string]int // files, by kind
}

// Add notes what one file lost; nothing is noted where that is nothing.
func (l *Lost) Add(name string, what []Loss) {
	if len(what) == 0 {
		return
	}
	if l.files++; l.files == 1 {
		l.name, l.count = name, map[string]int{}
	}
	for _, w := range what {
		if l.files == 1 {
			l.what = append(l.what, w.String())
		}
		if l.count[w.Kind]++; l.count[w.Kind] == 1 {
			l.kinds = append(l.kinds, w.Kind)
		}
	}
}

// Warning is a line for people, "" where nothing was lost.
func (l *Lost) Warning() string {
	first := strings.Join(l.what, ", ")
	switch l.files {
	case 0:
		return ""
	case 1:
		whose := ""
		if l.count[LostOwner] > 0 {
			whose = "the copy is yours: "
		}
		return fmt.Sprintf("%s: %snot kept: %s (needs root)", l.name, whose, first)
	}
	all := make([]string, len(l.kinds))
	for i, kind := range l.kinds {
		all[i] = fmt.Sprintf("%s of %d", kind, l.count[kind])
	}
	whose := ""
	if l.count[LostOwner] > 0 {
		whose = "the copies are yours: "
	}
	return fmt.Sprintf("%snot kept for %d files: %s (needs root); the first is %s: %s",
		whose, l.files, strings.Join(all, ", "), l.name, first)
}
