//go:build engines

package images_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/tests/imagetest"
)

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
		layers := imagetest.RandomLayers(seed)
		if problems := compareEngines(t, engines, imagetest.Stack(t, layers...), tally, map[string]string{}); len(problems) > 0 {
			t.Errorf("VFIX_SEED=%d VFIX_IMAGES=1:\n%s%s", seed, imagetest.Describe(layers), strings.Join(problems, "\n"))
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
		reported := func(name string) bool {
			return slices.ContainsFunc(result.Findings.Warnings, func(w string) bool {
				return (!e.overlay || strings.Contains(w, "nowhere") || strings.Contains(w, "after a rebuild also as")) && strings.Contains(w, name)
			})
		}
		found, excused := sawDifferent(before, after, e.name == "umoci", e.copies, reported)
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
