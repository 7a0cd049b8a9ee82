//go:build engines

package images_test

import (
	"archive/tar"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/imagetest"
	"vfix.dev/vfix/images/media"
)

// randomImage makes an image of a few layers with few names, so that they meet: files, links,
// symlinks to folders in the way, whiteouts, other kinds under the same name, folders without an
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
	// One for each layer: engines give the time of a folder to what replaces it in the same layer.
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

// seeds are those that this run tries.
func seeds(t testing.TB) (first, n uint64) {
	first, n = uint64(time.Now().UnixNano())%1e9, 50
	if s := os.Getenv("VFIX_SEED"); s != "" {
		first = imagetest.Must[uint64](t)(strconv.ParseUint(s, 10, 64))
	}
	if s := os.Getenv("VFIX_IMAGES"); s != "" {
		n = imagetest.Must[uint64](t)(strconv.ParseUint(s, 10, 64))
	}
	return first, n
}

// TestRandomLayers rebuilds random images, and has engines unpack base and result.
func TestRandomLayers(t *testing.T) {
	engines := enginesAtHand(t, os.Getenv("VFIX_DOCKER") != "")
	first, n := seeds(t)
	tally := map[string]int{}
	for seed := first; seed < first+n; seed++ {
		layers := randomLayers(seed)
		if problems := compareEngines(t, engines, imagetest.Stack(t, layers...), tally, map[string]string{}); len(problems) > 0 {
			t.Errorf("VFIX_SEED=%d VFIX_IMAGES=1:\n%s%s", seed, describe(layers), strings.Join(problems, "\n"))
		}
	}
	t.Logf("seeds %d to %d: %v", first, first+n-1, tally)
}

// compareEngines rebuilds an image, and compares what engines make of it and of the result. seen
// gets the legacy files that each engine shows.
func compareEngines(t testing.TB, engines []engine, img v1.Image, tally map[string]int, seen map[string]string) (problems []string) {
	dir := imagetest.Must[string](t)(os.MkdirTemp(t.TempDir(), ""))
	defer os.RemoveAll(dir)
	base, derived := dir+"/base.tar", dir+"/derived.tar"
	imagetest.Put(t, "oci-archive:"+base+":x", media.Result{Image: img})
	result, err := images.Rebuild(context.Background(), "oci-archive:"+base, images.RebuildOptions{Dest: "oci-archive:" + derived + ":x", Version: "1", Provenance: images.ProvenanceAuto})
	diffIDs := func(source string) []v1.Hash {
		return imagetest.Must[*v1.ConfigFile](t)(imagetest.Open(t, source).Image.ConfigFile()).RootFS.DiffIDs
	}
	refused := 0
	for _, e := range engines {
		var before, after map[string]fileState
		if e.unpack(t, base, diffIDs("oci-archive:"+base), func(root string) { before = state(t, root) }) != nil {
			tally[e.name+" refuses"]++
			refused++
			continue
		}
		seen[e.name] = legacyFiles(before)
		if err != nil {
			if e.overlay {
				problems = append(problems, fmt.Sprintf("%s takes it: %v", e.name, err))
			}
			continue
		}
		if why := e.unpack(t, derived, diffIDs("oci-archive:"+derived), func(root string) { after = state(t, root) }); why != nil {
			if !e.overlay && err == nil && slices.ContainsFunc(result.Findings.Warnings, func(w string) bool { return strings.Contains(w, "cannot unpack the result") }) {
				tally[e.name+" refuses the result as reported"]++
				continue
			}
			problems = append(problems, fmt.Sprintf("%s: %v", e.name, why))
			continue
		}
		told := func(name string) bool {
			return slices.ContainsFunc(result.Findings.Warnings, func(w string) bool {
				return (!e.overlay || strings.Contains(w, "nowhere") || strings.Contains(w, "after a rebuild also as")) && strings.Contains(w, name)
			})
		}
		found, excused := sawDifferent(before, after, e.name == "umoci", e.copies, told)
		for _, p := range found {
			problems = append(problems, e.name+": "+p)
		}
		tally[e.name]++
		if excused > 0 {
			tally[e.name+" differs as reported"]++
		}
	}
	if err != nil {
		tally["refused"]++
		return problems
	}
	if result.Unchanged {
		tally["nothing to patch"]++
		return problems
	}
	if len(result.Findings.Warnings) > 0 {
		tally["with warnings"]++
	}
	v, err := images.Verify(context.Background(), "oci-archive:"+derived, images.VerifyOptions{Against: "oci-archive:" + base, Provenance: true})
	if err != nil {
		return append(problems, fmt.Sprintf("verify: %v", err))
	}
	for _, p := range v.Problems {
		problems = append(problems, "verify: "+p)
	}
	if len(problems) > 0 {
		problems = append(problems, result.Findings.Warnings...)
	}
	return problems
}

// legacyFiles lists them, hard links of each other as one word.
func legacyFiles(s map[string]fileState) string {
	groups := map[string][]string{}
	for _, name := range contents.SortedKeys(s) {
		if s[name].legacy != "" {
			groups[s[name].links] = append(groups[s[name].links], name)
		}
	}
	var all []string
	for _, first := range contents.SortedKeys(groups) {
		all = append(all, strings.Join(groups[first], "="))
	}
	return strings.Join(all, " ")
}
