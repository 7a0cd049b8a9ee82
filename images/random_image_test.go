package images_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/tests/imagetest"
	"vfix.dev/vfix/tests/recorded"
)

// randomImage makes an image of a few layers with few names, so that they meet: files, links,
// symlinks to directories in the way, whiteouts, other kinds under the same name, directories without an
// entry.
type randomImage struct {
	r     *rand.Rand
	layer int
	files int
	seen  []string // names of entries so far, in all layers
	// linkable are names of files of this layer: others are links that overlay engines refuse.
	linkable []string
}

func (g *randomImage) one(of ...string) string { return of[g.r.IntN(len(of))] }

// name is a path of up to three components.
func (g *randomImage) name() string {
	if len(g.seen) > 0 && g.r.IntN(3) == 0 {
		return g.seen[g.r.IntN(len(g.seen))]
	}
	n := g.one("a", "b", "c", "d")
	for g.r.IntN(3) > 0 && strings.Count(n, "/") < 2 {
		n += "/" + g.one("a", "b", "c", "x", "y")
	}
	return n
}

func (g *randomImage) dressed(m imagetest.TestMember) imagetest.TestMember {
	if g.r.IntN(4) == 0 {
		m.Uid, m.Gid = g.r.IntN(3), g.r.IntN(3)
	}
	if g.r.IntN(4) == 0 && m.Typeflag != tar.TypeSymlink {
		m.Mode = []int64{0o700, 0o750, 0o4755, 0o2711, 0o1777}[g.r.IntN(5)]
	}
	if g.r.IntN(8) == 0 && m.Typeflag == tar.TypeReg {
		m.PAXRecords = map[string]string{"SCHILY.xattr.user.a": g.one("1", "2")}
	}
	// One for each layer: engines give the time of a directory to what replaces it in the same layer.
	m.ModTime = imagetest.TestTime.Add(time.Duration(g.layer) * time.Second)
	m.Name = g.one("", "", "", "", "./", "/") + m.Name
	return m
}

func (g *randomImage) member() imagetest.TestMember {
	name := g.name()
	whiteout := func(base string) imagetest.TestMember {
		return imagetest.FileM(path.Join(path.Dir(name), base), nil)
	}
	switch n := g.r.IntN(20); {
	case n < 7:
		g.files++
		g.linkable = append(g.linkable, name)
		g.seen = append(g.seen, name)
		return imagetest.LegacyM(name, fmt.Sprint("text ", g.files))
	case n < 9:
		g.files++
		g.seen = append(g.seen, name)
		return imagetest.ModernM(name)
	case n < 12:
		g.seen = append(g.seen, name)
		return imagetest.DirM(name)
	case n < 15:
		g.seen = append(g.seen, name)
		return imagetest.SymM(name, g.one("a", "b", "/a", "/b/c", "../a", "../../b", "b/x", "x", "."))
	case n < 16 && len(g.linkable) > 0:
		return imagetest.LinkM(name, g.one(g.linkable...))
	case n < 18:
		return whiteout(".wh." + path.Base(name))
	case n < 19:
		return whiteout(".wh..wh..opq")
	}
	return imagetest.TestMember{Header: tar.Header{Typeflag: tar.TypeFifo, Name: name, Mode: 0o600}}
}

func rank(m imagetest.TestMember) int {
	if strings.HasPrefix(path.Base(m.Name), ".wh.") {
		return 0
	}
	return 1
}

func randomLayers(seed uint64) [][]imagetest.TestMember {
	g := &randomImage{r: rand.New(rand.NewPCG(seed, 0))}
	var layers [][]imagetest.TestMember
	for range 2 + g.r.IntN(3) {
		var l []imagetest.TestMember
		g.layer, g.linkable = g.layer+1, nil
		for range 1 + g.r.IntN(6) {
			l = append(l, g.dressed(g.member()))
		}
		if g.r.IntN(4) > 0 {
			// Engines refuse a whiteout behind what it would hide.
			slices.SortStableFunc(l, func(a, b imagetest.TestMember) int { return rank(a) - rank(b) })
		}
		layers = append(layers, l)
	}
	return layers
}

func describe(layers [][]imagetest.TestMember) string {
	var b strings.Builder
	for n, l := range layers {
		fmt.Fprintf(&b, "layer %d:", n)
		for _, m := range l {
			fmt.Fprintf(&b, " %c %s", m.Typeflag, m.Name)
			if m.Linkname != "" {
				fmt.Fprintf(&b, " -> %s", m.Linkname)
			}
			if text, _ := legacyText(m.Body); text != "" {
				fmt.Fprintf(&b, " (%s)", text)
			}
			b.WriteString(",")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// legacyText is the text of a legacy file, or of what a rebuild makes of it.
func legacyText(body []byte) (legacy, fixed string) {
	head := imagetest.LegacyCode + len(imagetest.CallTime)
	if len(body) <= head {
		return "", ""
	}
	text := string(body[head:])
	switch {
	case bytes.Equal(body, imagetest.LegacyELF(text)):
		return text, ""
	case bytes.Equal(body, imagetest.FixedELF(text)):
		return "", text
	}
	return "", ""
}

// TestRandomImages rebuilds random images; what is found in each, and the added layer, are as recorded. Engines agree with
// it: see TestRandomLayers.
func TestRandomImages(t *testing.T) {
	const images = 200
	for seed := range uint64(images) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			layers := randomLayers(seed)
			said := rebuildRandom(t, imagetest.Stack(t, layers...))
			recorded.Check(t, t.Name(), said)
			if t.Failed() {
				t.Logf("%s%s", describe(layers), said)
			}
		})
	}
}

// rebuildRandom returns what is found in an image, and the members that a rebuild adds.
func rebuildRandom(t *testing.T, img v1.Image) string {
	base, dest := "oci:"+t.TempDir()+":x", "oci:"+t.TempDir()+":x"
	imagetest.Put(t, base, media.Result{Image: img})
	result, err := images.Rebuild(t.Context(), base, images.RebuildOptions{Dest: dest, Version: "1"})
	if err != nil {
		return "an error"
	}
	var b strings.Builder
	f := result.Findings
	fmt.Fprintln(&b, f.Verdict(), f.ELFFiles, len(f.Passed))
	for _, w := range f.Warnings { // the words may change
		name, _, _ := strings.Cut(w, ":")
		fmt.Fprintln(&b, "warning of", name)
	}
	for _, file := range f.Files {
		fmt.Fprintln(&b, file.Path, file.Layer)
	}
	if result.Unchanged {
		return b.String()
	}
	for _, m := range imagetest.AddedMembers(t, dest) {
		_, text := legacyText(m.Body)
		fmt.Fprintf(&b, "%c %s %s %o %d:%d %v %q\n", m.Typeflag, m.Name, m.Linkname, m.Mode, m.Uid, m.Gid, m.PAXRecords, text)
	}
	return b.String()
}
