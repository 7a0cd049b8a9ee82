package images_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/tests/imagetest"
	"vfix.dev/vfix/tests/recorded"
)

// TestRandomImages rebuilds random images; what is found in each, and the added layer, are as recorded. Engines agree with
// it: see TestRandomLayers.
func TestRandomImages(t *testing.T) {
	const images = 200
	for seed := range uint64(images) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			layers := imagetest.RandomLayers(seed)
			said := rebuildRandom(t, imagetest.Stack(t, layers...))
			recorded.Check(t, t.Name(), said)
			if t.Failed() {
				t.Logf("%s%s", imagetest.Describe(layers), said)
			}
		})
	}
}

// rebuildRandom returns what is found in an image, and the members that a rebuild adds.
func rebuildRandom(t *testing.T, img v1.Image) string {
	base, dest := "oci:"+t.TempDir()+":x", "oci:"+t.TempDir()+":x"
	imagetest.Put(t, base, source.Result{Image: img})
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
		_, text := imagetest.LegacyText(m.Body)
		fmt.Fprintf(&b, "%c %s %s %o %d:%d %v %q\n", m.Typeflag, m.Name, m.Linkname, m.Mode, m.Uid, m.Gid, m.PAXRecords, text)
	}
	return b.String()
}
