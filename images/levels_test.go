package images_test

import (
	"context"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/tests/imagetest"
)

// levelsIndex has images for plain amd64, v2 (in an index of its own) and v3 which share a layer,
// one for v4 without legacy files, and others.
func levelsIndex(t testing.TB, plain v1.Image) (v1.ImageIndex, v1.Image) {
	shared := []imagetest.TestMember{imagetest.DirM("lib"), imagetest.LegacyM("lib/shared", "shared")}
	of := func(img v1.Image, arch, variant string) mutate.IndexAddendum {
		return mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch, Variant: variant}}}
	}
	level := func(variant string) mutate.IndexAddendum {
		return of(imagetest.Stack(t, shared, []imagetest.TestMember{imagetest.LegacyM("bin/"+variant, variant)}), "amd64", variant)
	}
	if plain == nil {
		plain = imagetest.Stack(t, shared, []imagetest.TestMember{imagetest.LegacyM("bin/plain", "plain")})
	}
	first := of(plain, "amd64", "")
	inner := mutate.AppendManifests(empty.Index, level("v2"))
	modern := of(imagetest.Stack(t, []imagetest.TestMember{imagetest.ModernM("bin/v4")}), "amd64", "v4")
	idx := mutate.AppendManifests(empty.Index, of(imagetest.PlatformImage(t, "arm64", "two"), "arm64", "v8"), level("v3"), first,
		mutate.IndexAddendum{Add: inner}, modern)
	return idx, plain
}

// sitesOf counts the files to patch of each platform that a scan sees.
func sitesOf(t testing.TB, source, platform string) string {
	o := images.ScanOptions{}
	if platform != "" {
		o.Media.Platform = *imagetest.Must[*v1.Platform](t)(v1.ParsePlatform(platform))
	}
	f, err := images.Scan(context.Background(), source, o)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, l := range f.All() {
		all = append(all, strings.TrimSpace(l.Platform+" "+imagetest.Paths(l)))
	}
	return strings.Join(all, "; ")
}

func TestLevels(t *testing.T) {
	imagetest.CleanTemp(t)
	idx, plain := levelsIndex(t, nil)
	base, fixed, narrow := "oci:"+t.TempDir()+"/base:x", "oci:"+t.TempDir()+"/fixed:x", "oci:"+t.TempDir()+"/narrow:x"
	imagetest.Put(t, base, media.Result{Image: plain, Index: idx})
	if got, want := sitesOf(t, base, ""), "linux/amd64 bin/plain lib/shared; linux/amd64/v3 bin/v3 lib/shared; linux/amd64/v2 bin/v2 lib/shared; linux/amd64/v4"; got != want {
		t.Errorf("scan: got %q, want %q", got, want)
	}
	if got, want := sitesOf(t, base, "linux/amd64/v3"), "bin/v3 lib/shared"; got != want {
		t.Errorf("scan of v3: got %q, want %q", got, want)
	}
	if got, want := sitesOf(t, base, "linux/amd64"), "bin/plain lib/shared"; got != want {
		t.Errorf("scan of amd64: got %q, want %q", got, want)
	}
	r := rebuildTo(t, base, fixed)
	if len(r.Levels) != 3 || r.Unchanged || r.Levels[0].Unchanged || r.Levels[1].Unchanged || !r.Levels[2].Unchanged || r.Levels[0].LayerSize == 0 {
		t.Errorf("got %+v", r.Levels)
	}
	if own, level := r.Findings.Platform, r.Levels[0].Findings.Platform; own != "linux/amd64" || level != "linux/amd64/v3" || len(r.Findings.Levels) != 3 {
		t.Errorf("got findings of %q and %q, %d in all", own, level, len(r.Findings.Levels))
	}
	// A place that holds no index gets the one image.
	for _, o := range []images.RebuildOptions{{Dest: "docker-archive:" + t.TempDir() + "/x:x:1"}, {Dest: "sif:" + t.TempDir() + "/x"}, {DryRun: true}} {
		r := imagetest.Must[*images.Rebuilt](t)(images.Rebuild(t.Context(), base, o))
		if o.DryRun != (len(r.Levels) == 3) || o.DryRun != (len(r.Levels) != 0) {
			t.Errorf("%+v: got %d levels", o, len(r.Levels))
		}
	}
	if got, want := sitesOf(t, fixed, ""), "linux/amd64; linux/amd64/v3; linux/amd64/v2; linux/amd64/v4"; got != want {
		t.Errorf("the result: got %q, want %q", got, want)
	}
	v := imagetest.Verify(t, fixed, base)
	imagetest.WantProblems(t, v)
	if v.Compared != 6 || len(v.NotCompared) != 0 {
		t.Errorf("verify: got %d compared, not compared %q", v.Compared, v.NotCompared)
	}
	// One platform alone: the others stay as they are, and verify shows that they were left.
	_, err := images.Rebuild(context.Background(), base, images.RebuildOptions{Dest: narrow, Version: "1.2",
		ScanOptions: images.ScanOptions{Media: media.Options{Platform: v1.Platform{OS: "linux", Architecture: "amd64", Variant: "v3"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := sitesOf(t, narrow, ""), "linux/amd64 bin/plain lib/shared; linux/amd64/v3; linux/amd64/v2 bin/v2 lib/shared; linux/amd64/v4"; got != want {
		t.Errorf("the narrow result: got %q, want %q", got, want)
	}
	left := 0
	for _, l := range imagetest.Verify(t, narrow, base).Findings.All() {
		left += len(l.Files)
	}
	if left != 4 {
		t.Errorf("verify of the narrow result: got %d files left, want 4", left)
	}
	// Something else changed in v3: its own problem.
	mixed := "oci:" + t.TempDir() + "/mixed:x"
	imagetest.Put(t, mixed, media.Result{Image: plain, Index: mutate.RemoveManifests(idx, func(d v1.Descriptor) bool { return d.Platform != nil && d.Platform.Variant == "v3" })})
	if v := imagetest.Verify(t, mixed, base); len(v.Problems) == 0 {
		t.Error("a level that is missing: not noticed")
	}
}

// An index need not say which platforms it has: the configs do, and engines read them.
func TestLevelsOfConfigs(t *testing.T) {
	plain := imagetest.Stack(t, []imagetest.TestMember{imagetest.ModernM("bin/plain")})
	v3 := imagetest.Stack(t, []imagetest.TestMember{imagetest.LegacyM("bin/v3", "v3")})
	c := imagetest.Must[*v1.ConfigFile](t)(v3.ConfigFile()).DeepCopy()
	c.Variant = "v3"
	v3 = imagetest.Must[v1.Image](t)(mutate.ConfigFile(v3, c))
	base, fixed := "oci:"+t.TempDir()+"/base:x", "oci:"+t.TempDir()+"/fixed:x"
	imagetest.Put(t, base, media.Result{Image: plain, Index: mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: plain}, mutate.IndexAddendum{Add: v3})})
	if got, want := sitesOf(t, base, ""), "linux/amd64; linux/amd64/v3 bin/v3"; got != want {
		t.Errorf("scan: got %q, want %q", got, want)
	}
	rebuildTo(t, base, fixed)
	if got, want := sitesOf(t, fixed, ""), "linux/amd64; linux/amd64/v3"; got != want {
		t.Errorf("the result: got %q, want %q", got, want)
	}
	imagetest.WantProblems(t, imagetest.Verify(t, fixed, base))
}

// TestLevelsAlone: the plain image has nothing to patch, another level has.
func TestLevelsAlone(t *testing.T) {
	idx, plain := levelsIndex(t, imagetest.Stack(t, []imagetest.TestMember{imagetest.ModernM("bin/plain")}))
	base, fixed := "oci:"+t.TempDir()+"/base:x", "oci:"+t.TempDir()+"/fixed:x"
	imagetest.Put(t, base, media.Result{Image: plain, Index: idx})
	if r := rebuildTo(t, base, fixed); r.Unchanged || r.LayerSize != 0 || r.Levels[0].LayerSize == 0 || r.Reference != fixed || r.Digest == "" {
		t.Errorf("got %+v", r)
	}
	if got, want := sitesOf(t, fixed, ""), "linux/amd64; linux/amd64/v3; linux/amd64/v2; linux/amd64/v4"; got != want {
		t.Errorf("the result: got %q, want %q", got, want)
	}
	imagetest.WantProblems(t, imagetest.Verify(t, fixed, base))
}
