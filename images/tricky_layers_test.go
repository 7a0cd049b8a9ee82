//go:build engines

package images_test

import (
	"archive/tar"
	"os"
	"strings"
	"testing"

	"vfix.dev/vfix/images/imagetest"
)

type members = []imagetest.TestMember

func legacy(name string) imagetest.TestMember          { return imagetest.LegacyM(name, name) }
func legacyAs(name, text string) imagetest.TestMember  { return imagetest.LegacyM(name, text) }
func modern(name string) imagetest.TestMember          { return imagetest.ModernM(name) }
func folder(name string) imagetest.TestMember          { return imagetest.DirM(name) }
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

var usr = members{folder("usr"), folder("usr/lib"), symlink("lib", "usr/lib")}

// trickyLayers are ways to put layers together on which engines differ, or could: overlay is what
// overlay engines show of legacy files, others what the others show, where that is not the same.
// An engine that refuses an image shows nothing of it.
var trickyLayers = []struct {
	name            string
	layers          []members
	overlay, others string
}{
	{"a file below a symlink of a lower layer", []members{usr, {legacy("lib/new.so")}}, "lib/new.so", "usr/lib/new.so"},
	{"and the same name where it leads to", []members{append(usr, legacyAs("usr/lib/a.so", "old")), {legacyAs("lib/a.so", "new")}}, "lib/a.so usr/lib/a.so", "usr/lib/a.so"},
	{"the upper one is modern", []members{append(usr, legacyAs("usr/lib/a.so", "old")), {modern("lib/a.so")}}, "usr/lib/a.so", "none"},
	{"the lower one is modern", []members{append(usr, modern("usr/lib/a.so")), {legacy("lib/a.so")}}, "lib/a.so", "usr/lib/a.so"},
	{"written below the symlink, then where it leads to", []members{usr, {legacyAs("lib/a.so", "1")}, {legacyAs("usr/lib/a.so", "2")}}, "lib/a.so usr/lib/a.so", "usr/lib/a.so"},
	{"the symlink comes again", []members{usr, {legacy("lib/a.so")}, {symlink("lib", "usr/lib")}}, "", "usr/lib/a.so"},
	{"a symlink in the layer itself", []members{append(usr, legacy("lib/a.so"))}, "usr/lib/a.so", ""},
	{"the symlink again, and a file below it", []members{usr, {symlink("lib", "usr/lib"), legacy("lib/a.so")}}, "usr/lib/a.so", ""},
	{"an absolute target", []members{{folder("usr/lib"), symlink("lib", "/usr/lib")}, {legacy("lib/a.so")}}, "lib/a.so", "usr/lib/a.so"},
	{"a target that would leave the root", []members{{folder("usr"), symlink("lib", "../../../usr")}, {legacy("lib/a.so")}}, "lib/a.so", "usr/a.so"},
	{"a chain of symlinks", []members{{folder("x"), folder("x/y"), symlink("l1", "x"), symlink("x/l2", "../x/y")}, {legacy("l1/l2/a.so")}}, "l1/l2/a.so", "x/y/a.so"},
	{"a chain, and part of it in the layer", []members{{folder("x"), folder("z"), symlink("x/l2", "../z")}, {symlink("l1", "x"), legacy("l1/l2/a.so")}}, "x/l2/a.so", "z/a.so"},
	{"a symlink to nothing", []members{{symlink("lib", "usr/lib")}, {legacy("lib/a.so")}}, "lib/a.so", "usr/lib/a.so"},
	{"a symlink to itself", []members{{symlink("l", "l")}, {legacy("l/a.so")}}, "l/a.so", ""},
	{"a symlink to a file", []members{{modern("f"), symlink("l", "f")}, {legacy("l/a.so")}}, "l/a.so", ""},
	{"a file in the way", []members{{modern("f")}, {legacy("f/a.so")}}, "f/a.so", ""},
	{"a whiteout below a symlink of a lower layer", []members{append(usr, legacy("usr/lib/a.so")), {nothing("lib/.wh.a.so")}}, "usr/lib/a.so", "none"},
	{"and the file comes again", []members{append(usr, legacyAs("usr/lib/a.so", "1")), {nothing("lib/.wh.a.so")}, {legacyAs("lib/a.so", "2")}}, "lib/a.so usr/lib/a.so", "usr/lib/a.so"},
	{"an opaque whiteout below a symlink", []members{append(usr, legacy("usr/lib/a.so")), {nothing("lib/.wh..wh..opq"), legacy("lib/b.so")}}, "lib/b.so usr/lib/a.so", "usr/lib/b.so; docker, vfs: usr/lib/a.so usr/lib/b.so"},
	{"a whiteout of the symlink", []members{append(usr, legacy("usr/lib/a.so")), {nothing(".wh.lib")}, {legacy("lib/a.so")}}, "lib/a.so usr/lib/a.so", ""},
	{"an opaque root", []members{{legacy("a.so")}, {nothing(".wh..wh..opq"), legacy("b.so")}}, "a.so b.so", "b.so"},
	{"a hard link below a symlink", []members{usr, {legacy("lib/a.so"), link("lib/b.so", "lib/a.so"), link("c.so", "lib/b.so")}}, "c.so=lib/a.so=lib/b.so", "c.so=usr/lib/a.so=usr/lib/b.so"},
	{"a hard link to a file of a lower layer", []members{{legacy("a.so")}, {link("b.so", "a.so")}}, "", "a.so=b.so"},
	{"a hard link, then another file under the first name", []members{{legacyAs("a.so", "1")}, {legacyAs("a.so", "2"), link("b.so", "a.so"), legacyAs("a.so", "3")}}, "a.so b.so", ""},
	{"a hard link to a symlink", []members{{legacy("a.so"), symlink("s", "a.so"), link("t", "s")}}, "a.so", ""},
	{"a folder after its whiteout", []members{{folder("d"), legacy("d/a.so")}, {nothing(".wh.d"), folder("d"), legacy("d/b.so")}}, "d/a.so d/b.so", "d/b.so"},
	{"a file after its whiteout", []members{{legacyAs("a.so", "1")}, {nothing(".wh.a.so"), legacyAs("a.so", "2")}}, "a.so", ""},
	{"a file before its whiteout", []members{{legacyAs("a.so", "1"), legacy("b.so")}, {legacyAs("a.so", "2"), nothing(".wh.a.so")}}, "", "b.so; umoci: a.so b.so"},
	{"a file, then a folder of that name", []members{{folder("d"), legacy("d/a.so")}, {modern("d"), folder("d"), legacy("d/b.so")}}, "d/a.so d/b.so", "d/b.so"},
	{"one below a symlink that the layer replaces then", []members{{folder("a"), legacyAs("a/x", "1"), symlink("d", "a")}, {withMode(legacyAs("d/x", "2"), 0o700), modern("d")}}, "a/x", ""},
	{"a file for some where others have a folder", []members{{folder("b"), folder("b/c"), legacyAs("b/c/y", "1"), symlink("d", "b")}, {legacyAs("d/c", "2"), modern("d")}}, "b/c/y", "b/c"},
	{"a hard link below a symlink that the layer replaces then", []members{{symlink("d", "b")}, {legacy("c"), link("d/x", "c"), modern("d")}}, "c", "b/x=c; docker, vfs: none"},
	{"a symlink that leads to nothing later", []members{{folder("b"), folder("b/x")}, {symlink("c", "b/x")}, {legacy("c/c/c"), nothing("b/x/.wh.c"), symlink("b/x/c", "/b/c")}}, "c/c/c", "none"},
	{"an opaque file", []members{{folder("d"), legacy("d/b.so")}, {legacy("a.so"), nothing("a.so/.wh..wh..opq")}}, "a.so d/b.so", ""},
	{"a device that is a whiteout", []members{{legacy("a.so"), legacy("b.so")}, {device("a.so", 0, 0)}}, "b.so", ""},
	{"another device", []members{{legacy("a.so"), legacy("b.so")}, {device("a.so", 1, 3)}}, "b.so", ""},
	{"an entry of an unknown kind", []members{{legacy("a.so")}, {{Header: tar.Header{Typeflag: 'Z', Name: "b.so"}}}}, "", ""},
	{"a capability, and links without it", []members{{capable("b.so"), link("a.so", "b.so"), link("c.so", "b.so")}}, "a.so=b.so=c.so", ""},
	{"a capability that the last link has", []members{{legacy("b.so"), withCapability(link("c.so", "b.so"))}}, "b.so=c.so", ""},
	{"a capability, and a link to it on another layer", []members{{folder("d")}, {capable("d/b.so"), link("d/c.so", "d/b.so")}}, "d/b.so=d/c.so", ""},
	{"./ before names", []members{{imagetest.DirM("./usr/lib"), symlink("./lib", "usr/lib")}, {legacy("./lib/a.so"), legacy("/b.so")}}, "b.so lib/a.so", "b.so usr/lib/a.so"},
	{"a folder without an entry", []members{{withMode(folder("d"), 0o750), modern("d/x")}, {legacy("d/a.so")}}, "d/a.so", ""},
	{"a folder with an entry", []members{{withMode(folder("d"), 0o750), modern("d/x")}, {withMode(folder("d"), 0o711), legacy("d/a.so")}}, "d/a.so", ""},
	{"the folder below has an entry", []members{{withMode(folder("d"), 0o750), withMode(folder("d/e"), 0o700)}, {withMode(folder("d/e"), 0o711), legacy("d/e/a.so")}}, "d/e/a.so", ""},
}

// TestTrickyLayers: what scan reports is what engines show, and every engine gets the patched files.
func TestTrickyLayers(t *testing.T) {
	engines := enginesAtHand(t, os.Getenv("VFIX_DOCKER") != "no")
	for _, tc := range trickyLayers {
		t.Run(tc.name, func(t *testing.T) {
			img := imagetest.Stack(t, tc.layers...)
			seen := map[string]string{}
			problems := compareEngines(t, engines, img, map[string]int{}, seen)
			for _, p := range problems {
				t.Error(p)
			}
			for name, got := range seen {
				want := tc.overlay
				if tc.others != "" && !strings.Contains(name, "overlay") {
					all := strings.Split(tc.others, "; ")
					want = strings.TrimPrefix(all[0], "none")
					for _, one := range all[1:] {
						if apart, files, _ := strings.Cut(one, ": "); apart == name {
							want = files
						}
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
