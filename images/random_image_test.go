package images_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/tests/imagetest"
)

var record = flag.Bool("record", false, "write the results of TestRandomImages into testdata")

// TestRandomImages rebuilds random images; what is found in each, and the added layer, are as recorded, by digests. After
// a change that is meant to alter them, 'go test ./images -record' writes the file.
func TestRandomImages(t *testing.T) {
	const count, file = 200, "testdata/results.txt"
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(want), "\n")
	got := make([]string, count)
	t.Run("images", func(t *testing.T) {
		for seed := range got {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				layers := imagetest.RandomLayers(uint64(seed))
				said := rebuildRandom(t, imagetest.Stack(t, layers...))
				got[seed] = fmt.Sprintf("%d: %.8x\n", seed, sha256.Sum256([]byte(said)))
				if !*record && lines[seed] != got[seed] {
					t.Errorf("another result than in %s; if it is meant to be, use -record, and say why in the commit\n%s%s",
						file, imagetest.Describe(layers), said)
				}
			})
		}
	})
	if *record {
		if err := os.WriteFile(file, []byte(strings.Join(got, "")), 0o644); err != nil {
			t.Fatal(err)
		}
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
