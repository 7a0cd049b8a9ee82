// The differences between the views of engines of the same layers, and the names under which a file must be
// written so that all engines get it.

package contents

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"path"
	"slices"
	"strings"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/rewriter/patch"
)

var viewSeed = maphash.MakeSeed()

// hashShown returns a hash of all files below a directory and their origins, without empty directories. Equal
// views have equal hashes, in any order; at is the hash of the directory's name.
func (k *Node) hashShown(at uint64) (sum uint64) {
	for name, kid := range k.Kids {
		here := maphash.Comparable(viewSeed, struct {
			dir  uint64
			name string
		}{at, name})
		if kid.Kids != nil {
			sum += kid.hashShown(here)
			continue
		}
		sum += maphash.Comparable(viewSeed, struct {
			name uint64
			from origin
		}{here, kid.origin()})
	}
	return sum
}

// place returns the name without symlinks on its path at which a layer on top would put a name; or "".
func (t *Tree) place(name string) string {
	dir, base := path.Split(name)
	real, err := t.Resolve(dir)
	if err != nil {
		return ""
	}
	return path.Join(real, base)
}

// shown returns the node with a name in the view of overlay engines, or else of another engine; nil if no engine
// has it.
func (t *Tree) shown(name string) *Node {
	k := t.At(name)
	for _, w := range t.Others {
		if k == nil {
			k = w.At(name)
		}
	}
	return k
}

// dangles reports whether the existing part of a directory's name is a symlink that leads to nothing: docker
// creates directories only if no part exists.
func (t *Tree) dangles(dir string) bool {
	for ; dir != "."; dir = path.Dir(dir) {
		if k := t.At(t.place(dir)); k != nil {
			to, err := t.Dir(dir, 0, false)
			return k.Kind == KindSymlink && to == nil && err == nil
		}
	}
	return false
}

// free reports whether writing a file under a name hides nothing of t.
func (t *Tree) free(name string) bool {
	k := t.Root
	for _, c := range Components(name) {
		switch k = k.Kids[c]; {
		case k == nil:
			return true
		case k.Kids == nil:
			return false
		}
	}
	return false
}

// stated reports whether a name of t is a directory that has an entry in the last layer with files in it, for
// every engine.
func (t *Tree) stated(name string) bool {
	for _, w := range append([]*Tree{t}, t.Others...) {
		if k := w.At(w.place(name)); k == nil || k.Kids == nil || k.Implied && w == t {
			return false
		}
	}
	return true
}

// Target is one file with its names: sorted, first those that overlay engines show, then those that only other
// engines show, under which it must also be written.
type Target struct {
	*Inode
	Names []string
	// stuck reports that other engines show the file at a path at which overlay engines show another: it cannot be
	// replaced for the former alone.
	stuck bool
	Plan  *patch.Plan // the changes of its references to the page, if the file was judged
}

// files returns the files that choose accepts and that any engine shows, sorted by their first names.
func (t *Tree) files(choose func(*Inode) bool) []Target {
	all := t.Files(choose)
	for _, w := range t.Others {
		at := map[origin]int{}
		for i, v := range all {
			at[v.origin()] = i
		}
		for _, v := range w.Files(choose) {
			i, known := at[v.origin()]
			if !known {
				i, all = len(all), append(all, Target{Inode: v.Inode})
			}
			all[i].reach(t, w, v.Names)
		}
	}
	// The first name has the content, and comes first in the layer. Walk has "lib/x" before "lib-y".
	for _, v := range all {
		slices.Sort(v.Names)
		t.order(v.Names)
	}
	slices.SortStableFunc(all, func(a, b Target) int { return strings.Compare(a.Names[0], b.Names[0]) })
	return all
}

// reach adds the names of a file in w to which its other names do not lead.
func (v *Target) reach(t, w *Tree, names []string) {
	var blocked []string
	for _, name := range names {
		switch {
		case slices.ContainsFunc(v.Names, func(n string) bool { return w.place(n) == name }):
		case t.free(name):
			v.Names = append(v.Names, name)
		default:
			blocked = append(blocked, name)
		}
	}
	if len(v.Names) == 0 {
		v.Names, v.stuck = blocked, true
	}
}

// Files returns the inodes, except directories, that choose accepts, and their names, in the order of Walk.
func (t *Tree) Files(choose func(*Inode) bool) []Target {
	at := map[*Inode]int{}
	var all []Target
	t.Walk(func(name string, k *Node) {
		if k.Kids != nil || !choose(k.Inode) {
			return
		}
		i, known := at[k.Inode]
		if !known {
			i, all = len(all), append(all, Target{Inode: k.Inode})
			at[k.Inode] = i
		}
		all[i].Names = append(all[i].Names, name)
	})
	return all
}

// kept returns the files that engines without overlay show at a path at which one of written would overwrite them,
// with the names under which they must be written again, after it.
func (t *Tree) kept(written []Target) []Target {
	patched, again := map[origin]bool{}, map[origin]bool{}
	for _, v := range written {
		patched[v.origin()] = true
	}
	for _, w := range t.Others {
		for _, v := range written {
			for _, name := range v.Names {
				k := w.At(w.place(name))
				if k != nil && k.Kids == nil && k.Kind == KindFile && !patched[k.origin()] {
					again[k.origin()] = true
				}
			}
		}
	}
	if len(again) == 0 { // nearly always: do not walk the tree
		return nil
	}
	all := t.files(func(i *Inode) bool { return again[i.origin()] })
	return slices.DeleteFunc(all, func(v Target) bool { return v.stuck })
}

// order sorts names as the base orders their files: directories first, then files by their entries, those of
// overlay engines before others. Engines that follow the symlinks of layers below then get the last file of a path
// as before.
func (t *Tree) order(names []string) {
	at := func(name string) origin {
		if k := t.shown(name); k != nil && k.Kids == nil {
			return k.origin()
		}
		return origin{-1, 0}
	}
	hidden := func(name string) int {
		if t.At(name) == nil {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(names, func(a, b string) int {
		x, y := at(a), at(b)
		return cmp.Or(cmp.Compare(x.layer, y.layer), cmp.Compare(x.number, y.number), cmp.Compare(hidden(a), hidden(b)))
	})
}

// differences returns a line for each file that engines show at different paths.
func (t *Tree) differences(all []Target) []string {
	var lines []string
	for _, v := range all {
		for _, w := range t.Others {
			if slices.Equal(w.namesOf(v.Inode), t.namesOf(v.Inode)) {
				continue
			}
			text := fmt.Sprintf("%s (%s): overlay engines show %s, %s: %s", v.Names[0], blob.ShortHash(t.Layers[v.Layer].DiffID), t.shows(&v), w.Engines, w.shows(&v))
			if v.stuck {
				text += ", which does not change: overlay engines have another file there"
			}
			lines = append(lines, text)
		}
	}
	return lines
}

// shows describes a file's path in a tree, and the path at which a rebuild puts it if it has none.
func (t *Tree) shows(v *Target) string {
	text := "it nowhere"
	if names := t.namesOf(v.Inode); len(names) > 0 {
		text = "it as " + strings.Join(names, ", ")
	}
	var more, blocked, lost, replaced, looping []string
	for _, name := range v.Names {
		p := t.place(name)
		switch k := t.At(p); {
		case v.stuck:
		case p == "":
			looping = append(looping, name)
		case k != nil && k.Kids != nil:
			replaced = append(replaced, p)
		case k != nil:
		case t.free(p) && t.dangles(path.Dir(name)):
			lost = append(lost, name)
			fallthrough
		case t.free(p):
			more = append(more, p)
		default:
			blocked = append(blocked, p)
		}
	}
	for _, c := range []struct {
		before string
		names  []string
		behind string
	}{
		{"after a rebuild also as ", more, ""},
		{"docker's vfs driver cannot unpack the result: on the way to ", lost, " a symlink is dangling"},
		{"and cannot unpack the result: on the way to ", blocked, " is not a directory"},
		{"and loses files or cannot unpack the result: ", replaced, " is a directory there"},
		{"and cannot unpack the result: symlinks on the way to ", looping, " lead in a circle"},
	} {
		if len(c.names) > 0 {
			text += " (" + c.before + strings.Join(c.names, ", ") + c.behind + ")"
		}
	}
	return text
}

// namesOf returns the names of an inode, of this or another tree, in this tree.
func (t *Tree) namesOf(i *Inode) (names []string) {
	for _, v := range t.Files(func(o *Inode) bool { return o.origin() == i.origin() }) {
		names = append(names, v.Names...)
	}
	slices.Sort(names)
	return names
}
