//go:build engines

package images_test

import (
	"archive/tar"
	"fmt"
	"os"
	"strings"
	"testing"

	"vfix.dev/vfix/tests/imagetest"
)

type members = []imagetest.TestMember

func legacy(name string) imagetest.TestMember          { return imagetest.LegacyM(name, name) }
func legacyAs(name, text string) imagetest.TestMember  { return imagetest.LegacyM(name, text) }
func modern(name string) imagetest.TestMember          { return imagetest.ModernM(name) }
func directory(name string) imagetest.TestMember       { return imagetest.DirM(name) }
func symlink(name, target string) imagetest.TestMember { return imagetest.SymM(name, target) }
func link(name, target string) imagetest.TestMember    { return imagetest.LinkM(name, target) }
func nothing(name string) imagetest.TestMember         { return imagetest.FileM(name, nil) }
func withMode(m imagetest.TestMember, mode int64) imagetest.TestMember {
	m.Mode, m.Uid, m.Gid = mode, 5, 6
	return m
}

func capable(name string) imagetest.TestMember { return withCapability(legacy(name)) }
func withCapability(m imagetest.TestMember) imagetest.TestMember {
	m.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": imagetest.CapNetRaw}
	return m
}

func device(name string, major, minor int64) imagetest.TestMember {
	return imagetest.TestMember{Header: tar.Header{Typeflag: tar.TypeChar, Name: name, Devmajor: major, Devminor: minor, Mode: 0o600}}
}

var usr = members{directory("usr"), directory("usr/lib"), symlink("lib", "usr/lib")}

// Most cases are directories of one image, which each engine unpacks once: alone is one that is about the
// root, or that an engine refuses.
const alone, together = true, false

// trickyLayers are ways to put layers together on which engines differ, or could: overlay is what
// overlay engines show of legacy files, others what the others show, if that is not the same,
// with what single engines show behind it.
// An engine that refuses an image shows nothing of it.
var trickyLayers = []struct {
	name            string
	alone           bool
	layers          []members
	overlay, others string
}{
	{"a file below a symlink of a lower layer", together, []members{usr, {legacy("lib/new.so")}}, "lib/new.so", "usr/lib/new.so"},
	{"and the same name in its target", together, []members{append(usr, legacyAs("usr/lib/a.so", "old")), {legacyAs("lib/a.so", "new")}}, "lib/a.so usr/lib/a.so", "usr/lib/a.so"},
	{"the upper one is modern", together, []members{append(usr, legacyAs("usr/lib/a.so", "old")), {modern("lib/a.so")}}, "usr/lib/a.so", "none"},
	{"the lower one is modern", together, []members{append(usr, modern("usr/lib/a.so")), {legacy("lib/a.so")}}, "lib/a.so", "usr/lib/a.so"},
	{"written below the symlink, then in its target", together, []members{usr, {legacyAs("lib/a.so", "1")}, {legacyAs("usr/lib/a.so", "2")}}, "lib/a.so usr/lib/a.so", "usr/lib/a.so"},
	{"the symlink comes again", together, []members{usr, {legacy("lib/a.so")}, {symlink("lib", "usr/lib")}}, "", "usr/lib/a.so"},
	{"a symlink in the layer itself", together, []members{append(usr, legacy("lib/a.so"))}, "usr/lib/a.so", ""},
	{"the symlink again, and a file below it", alone, []members{usr, {symlink("lib", "usr/lib"), legacy("lib/a.so")}}, "usr/lib/a.so", ""},
	{"an absolute target", together, []members{{directory("usr/lib"), symlink("lib", "/usr/lib")}, {legacy("lib/a.so")}}, "lib/a.so", "usr/lib/a.so"},
	{"a target that would leave the root", alone, []members{{directory("usr"), symlink("lib", "../../../usr")}, {legacy("lib/a.so")}}, "lib/a.so", "usr/a.so"},
	{"a chain of symlinks", together, []members{{directory("x"), directory("x/y"), symlink("l1", "x"), symlink("x/l2", "../x/y")}, {legacy("l1/l2/a.so")}}, "l1/l2/a.so", "x/y/a.so"},
	{"a chain, and part of it in the layer", alone, []members{{directory("x"), directory("z"), symlink("x/l2", "../z")}, {symlink("l1", "x"), legacy("l1/l2/a.so")}}, "x/l2/a.so", "z/a.so"},
	{"a symlink to nothing", alone, []members{{symlink("lib", "usr/lib")}, {legacy("lib/a.so")}}, "lib/a.so", "usr/lib/a.so"},
	{"a symlink to itself", alone, []members{{symlink("l", "l")}, {legacy("l/a.so")}}, "l/a.so", ""},
	{"a symlink to a file", alone, []members{{modern("f"), symlink("l", "f")}, {legacy("l/a.so")}}, "l/a.so", ""},
	{"a file in the way", alone, []members{{modern("f")}, {legacy("f/a.so")}}, "f/a.so", ""},
	{"a whiteout below a symlink of a lower layer", together, []members{append(usr, legacy("usr/lib/a.so")), {nothing("lib/.wh.a.so")}}, "usr/lib/a.so", "none"},
	{"and the file comes again", together, []members{append(usr, legacyAs("usr/lib/a.so", "1")), {nothing("lib/.wh.a.so")}, {legacyAs("lib/a.so", "2")}}, "lib/a.so usr/lib/a.so", "usr/lib/a.so"},
	{"an opaque whiteout below a symlink", together, []members{append(usr, legacy("usr/lib/a.so")), {nothing("lib/.wh..wh..opq"), legacy("lib/b.so")}}, "lib/b.so usr/lib/a.so", "usr/lib/b.so; docker, vfs: usr/lib/a.so usr/lib/b.so"},
	{"a whiteout of the symlink", together, []members{append(usr, legacy("usr/lib/a.so")), {nothing(".wh.lib")}, {legacy("lib/a.so")}}, "lib/a.so usr/lib/a.so", ""},
	{"an opaque root", alone, []members{{legacy("a.so")}, {nothing(".wh..wh..opq"), legacy("b.so")}}, "a.so b.so", "b.so"},
	{"a hard link below a symlink", together, []members{usr, {legacy("lib/a.so"), link("lib/b.so", "lib/a.so"), link("c.so", "lib/b.so")}}, "c.so=lib/a.so=lib/b.so", "c.so=usr/lib/a.so=usr/lib/b.so"},
	{"a hard link to a file of a lower layer", alone, []members{{legacy("a.so")}, {link("b.so", "a.so")}}, "", "a.so=b.so"},
	{"a hard link, then another file under the first name", alone, []members{{legacyAs("a.so", "1")}, {legacyAs("a.so", "2"), link("b.so", "a.so"), legacyAs("a.so", "3")}}, "a.so b.so", ""},
	{"a hard link to a symlink", together, []members{{legacy("a.so"), symlink("s", "a.so"), link("t", "s")}}, "a.so", ""},
	{"a directory after its whiteout", together, []members{{directory("d"), legacy("d/a.so")}, {nothing(".wh.d"), directory("d"), legacy("d/b.so")}}, "d/a.so d/b.so", "d/b.so"},
	{"a file after its whiteout", together, []members{{legacyAs("a.so", "1")}, {nothing(".wh.a.so"), legacyAs("a.so", "2")}}, "a.so", ""},
	{"a file before its whiteout", alone, []members{{legacyAs("a.so", "1"), legacy("b.so")}, {legacyAs("a.so", "2"), nothing(".wh.a.so")}}, "", "b.so; umoci: a.so b.so"},
	{"a file, then a directory of that name", alone, []members{{directory("d"), legacy("d/a.so")}, {modern("d"), directory("d"), legacy("d/b.so")}}, "d/a.so d/b.so", "d/b.so"},
	{"one below a symlink that the layer replaces then", together, []members{{directory("a"), legacyAs("a/x", "1"), symlink("d", "a")}, {withMode(legacyAs("d/x", "2"), 0o700), modern("d")}}, "a/x", ""},
	{"a file for some where others have a directory", together, []members{{directory("b"), directory("b/c"), legacyAs("b/c/y", "1"), symlink("d", "b")}, {legacyAs("d/c", "2"), modern("d")}}, "b/c/y", "b/c"},
	{"a hard link below a symlink that the layer replaces then", alone, []members{{symlink("d", "b")}, {legacy("c"), link("d/x", "c"), modern("d")}}, "c", "b/x=c; docker, vfs: none"},
	{"a symlink that leads to nothing later", together, []members{{directory("b"), directory("b/x")}, {symlink("c", "b/x")}, {legacy("c/c/c"), nothing("b/x/.wh.c"), symlink("b/x/c", "/b/c")}}, "c/c/c", "none"},
	{"an opaque lowest layer, with files before", alone, []members{{legacy("d/a.so"), legacy("b.so"), nothing(".wh..wh..opq")}}, "b.so d/a.so", "b.so; umoci: b.so d/a.so; containerd, overlayfs: b.so"},
	{"an opaque file", alone, []members{{directory("d"), legacy("d/b.so")}, {legacy("a.so"), nothing("a.so/.wh..wh..opq")}}, "a.so d/b.so", ""},
	{"a device that is a whiteout", together, []members{{legacy("a.so"), legacy("b.so")}, {device("a.so", 0, 0)}}, "b.so", ""},
	{"another device", together, []members{{legacy("a.so"), legacy("b.so")}, {device("a.so", 1, 3)}}, "b.so", ""},
	{"an entry of an unknown kind", alone, []members{{legacy("a.so")}, {{Header: tar.Header{Typeflag: 'Z', Name: "b.so"}}}}, "", ""},
	{"a capability, and links without it", together, []members{{capable("b.so"), link("a.so", "b.so"), link("c.so", "b.so")}}, "a.so=b.so=c.so", ""},
	{"a capability that the last link has", together, []members{{legacy("b.so"), withCapability(link("c.so", "b.so"))}}, "b.so=c.so", ""},
	{"a capability, and a link to it on another layer", together, []members{{directory("d")}, {capable("d/b.so"), link("d/c.so", "d/b.so")}}, "d/b.so=d/c.so", ""},
	{"./ before names", together, []members{{imagetest.DirM("./usr/lib"), symlink("./lib", "usr/lib")}, {legacy("./lib/a.so"), legacy("/b.so")}}, "b.so lib/a.so", "b.so usr/lib/a.so"},
	{"a directory without an entry", together, []members{{withMode(directory("d"), 0o750), modern("d/x")}, {legacy("d/a.so")}}, "d/a.so", ""},
	{"a directory with an entry", together, []members{{withMode(directory("d"), 0o750), modern("d/x")}, {withMode(directory("d"), 0o711), legacy("d/a.so")}}, "d/a.so", ""},
	{"the directory below has an entry", together, []members{{withMode(directory("d"), 0o750), withMode(directory("d/e"), 0o700)}, {withMode(directory("d/e"), 0o711), legacy("d/e/a.so")}}, "d/e/a.so", ""},
}

// below puts what a case has in a layer into a directory of its own.
func below(dir string, layer members) members {
	all := members{directory(dir)}
	for _, m := range layer {
		switch rel, dotted := strings.CutPrefix(m.Name, "./"); {
		case dotted:
			m.Name = "./" + dir + "/" + rel
		case strings.HasPrefix(m.Name, "/"):
			m.Name = "/" + dir + m.Name
		default:
			m.Name = dir + "/" + m.Name
		}
		switch {
		case m.Typeflag == tar.TypeLink:
			m.Linkname = dir + "/" + m.Linkname
		case strings.HasPrefix(m.Linkname, "/"):
			m.Linkname = "/" + dir + m.Linkname
		}
		all = append(all, m)
	}
	return all
}

// TestTrickyLayers: what scan reports is what engines show, and every engine gets the patched files.
func TestTrickyLayers(t *testing.T) {
	engines := enginesAtHand(t, os.Getenv("VFIX_DOCKER") != "no")
	compare := func(t *testing.T, layers []members) map[string]string {
		seen := map[string]string{}
		for _, p := range compareEngines(t, engines, imagetest.Stack(t, layers...), map[string]int{}, seen) {
			t.Error(p)
		}
		return seen
	}
	var shared []members
	for n, tc := range trickyLayers {
		for i, layer := range tc.layers {
			if tc.alone {
				break
			}
			if i == len(shared) {
				shared = append(shared, nil)
			}
			shared[i] = append(shared[i], below(fmt.Sprint(n), layer)...)
		}
	}
	sharedSeen := compare(t, shared)
	if len(sharedSeen) != len(engines) {
		t.Fatalf("the image of most cases is refused: only %v show it", sharedSeen)
	}
	for n, tc := range trickyLayers {
		t.Run(tc.name, func(t *testing.T) {
			seen := map[string]string{}
			if tc.alone {
				seen = compare(t, tc.layers)
			}
			for name, all := range sharedSeen {
				if tc.alone {
					break
				}
				var mine []string
				for word := range strings.FieldsSeq(all) {
					if strings.HasPrefix(word, fmt.Sprint(n, "/")) {
						mine = append(mine, strings.ReplaceAll("="+word, fmt.Sprint("=", n, "/"), "=")[1:])
					}
				}
				seen[name] = strings.Join(mine, " ")
			}
			for name, got := range seen {
				want := tc.overlay
				for one := range strings.SplitSeq(tc.others, "; ") {
					apart, files, named := strings.Cut(one, ": ")
					switch {
					case named && apart == name:
						want = strings.TrimPrefix(files, "none")
					case !named && one != "" && !strings.Contains(name, "overlay"):
						want = strings.TrimPrefix(one, "none")
					}
				}
				if got != want {
					t.Errorf("%s shows %q, want %q", name, got, want)
				}
			}
			t.Log(seen)
		})
	}
}
