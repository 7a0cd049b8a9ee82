// Random layers, in which names meet.

package imagetest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"time"
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

func (g *randomImage) dressed(m TestMember) TestMember {
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
	m.ModTime = TestTime.Add(time.Duration(g.layer) * time.Second)
	m.Name = g.one("", "", "", "", "./", "/") + m.Name
	return m
}

func (g *randomImage) member() TestMember {
	name := g.name()
	whiteout := func(base string) TestMember {
		return FileM(path.Join(path.Dir(name), base), nil)
	}
	switch n := g.r.IntN(20); {
	case n < 7:
		g.files++
		g.linkable = append(g.linkable, name)
		g.seen = append(g.seen, name)
		return LegacyM(name, fmt.Sprint("text ", g.files))
	case n < 9:
		g.files++
		g.seen = append(g.seen, name)
		return ModernM(name)
	case n < 12:
		g.seen = append(g.seen, name)
		return DirM(name)
	case n < 15:
		g.seen = append(g.seen, name)
		return SymM(name, g.one("a", "b", "/a", "/b/c", "../a", "../../b", "b/x", "x", "."))
	case n < 16 && len(g.linkable) > 0:
		return LinkM(name, g.one(g.linkable...))
	case n < 18:
		return whiteout(".wh." + path.Base(name))
	case n < 19:
		return whiteout(".wh..wh..opq")
	}
	return TestMember{Header: tar.Header{Typeflag: tar.TypeFifo, Name: name, Mode: 0o600}}
}

// rank sorts whiteouts before others.
func rank(m TestMember) int {
	if strings.HasPrefix(path.Base(m.Name), ".wh.") {
		return 0
	}
	return 1
}

// RandomLayers makes the members of a few layers; those of a seed are always the same.
func RandomLayers(seed uint64) [][]TestMember {
	g := &randomImage{r: rand.New(rand.NewPCG(seed, 0))}
	var layers [][]TestMember
	for range 2 + g.r.IntN(3) {
		var l []TestMember
		g.layer, g.linkable = g.layer+1, nil
		for range 1 + g.r.IntN(6) {
			l = append(l, g.dressed(g.member()))
		}
		if g.r.IntN(4) > 0 {
			// Engines refuse a whiteout behind what it would hide.
			slices.SortStableFunc(l, func(a, b TestMember) int { return rank(a) - rank(b) })
		}
		layers = append(layers, l)
	}
	return layers
}

// Describe lists the members of layers.
func Describe(layers [][]TestMember) string {
	var b strings.Builder
	for n, l := range layers {
		fmt.Fprintf(&b, "layer %d:", n)
		for _, m := range l {
			fmt.Fprintf(&b, " %c %s", m.Typeflag, m.Name)
			if m.Linkname != "" {
				fmt.Fprintf(&b, " -> %s", m.Linkname)
			}
			if text, _ := LegacyText(m.Body); text != "" {
				fmt.Fprintf(&b, " (%s)", text)
			}
			b.WriteString(",")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// LegacyText is the text of a legacy file, or of what a rebuild makes of it.
func LegacyText(body []byte) (legacy, fixed string) {
	head := LegacyCode + len(CallTime)
	if len(body) <= head {
		return "", ""
	}
	text := string(body[head:])
	switch {
	case bytes.Equal(body, LegacyELF(text)):
		return text, ""
	case bytes.Equal(body, FixedELF(text)):
		return "", text
	}
	return "", ""
}
