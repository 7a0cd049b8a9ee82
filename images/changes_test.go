package images_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/rewriter/find"
	rewriter "vfix.dev/vfix/rewriter/patch"
	"vfix.dev/vfix/tests/imagetest"
)

// What a rebuild did is in the history of the image, in the result and in the notes.
func TestChanges(t *testing.T) {
	jvm := func(name string) imagetest.TestMember { return imagetest.FileM(name, imagetest.JVMLibrary(t)) }
	marked := imagetest.LegacyM("lib/m", "1")
	marked.PAXRecords = map[string]string{"SCHILY.xattr.security.ima": "\x03x", "SCHILY.xattr.user.x": "1"}
	const patched, added, fixed = "calls to the vsyscall page rewritten to reach the vDSO", "fallback added", "memory limit of the JDK fixed"
	for name, c := range map[string]struct {
		base    []imagetest.TestMember
		mode    fallback.Mode
		history string
		fixed   string // paths
		says    string // warnings and notes
	}{
		"patched":        {[]imagetest.TestMember{imagetest.LegacyM("lib/a", "1")}, fallback.FallbackNever, patched, "", ""},
		"fallback":       {[]imagetest.TestMember{imagetest.LoaderM(), imagetest.ModernM("bin/b")}, fallback.FallbackAlways, patched + "; " + added, "", ""},
		"fixed":          {[]imagetest.TestMember{jvm("a/libjvm.so"), jvm("b/libjvm.so")}, fallback.FallbackNever, fixed, "a/libjvm.so b/libjvm.so", ""},
		"patched, fixed": {[]imagetest.TestMember{jvm("libjvm.so"), imagetest.LegacyM("lib/a", "1")}, fallback.FallbackNever, patched + "; " + fixed, "libjvm.so", ""},
		"packages": {[]imagetest.TestMember{imagetest.LegacyM("lib/a", "1"), imagetest.FileM("var/lib/dpkg/status", nil)}, fallback.FallbackNever, patched, "",
			"dpkg --verify will report the patched files that belong to packages"},
		"the fallback alone, packages": {[]imagetest.TestMember{imagetest.ModernM("bin/b"), imagetest.FileM("var/lib/rpm/Packages", nil)}, fallback.FallbackAlways, patched + "; " + added, "", ""},
		"a mark": {[]imagetest.TestMember{marked}, fallback.FallbackNever, patched, "",
			"lib/m: security.ima dropped: it vouches for the content before; where the kernel appraises files, sign the patched one"},
	} {
		t.Run(name, func(t *testing.T) {
			o := images.RebuildOptions{Dest: "oci:" + t.TempDir() + "/out:x", Version: "1.2", Fallback: c.mode}
			o.Shim, o.Rewriter = imagetest.TestShim, rewriter.Options{Fixes: find.Fixes}
			r := imagetest.Must[*images.Rebuilt](t)(images.Rebuild(t.Context(), imagetest.StoreOCI(t, imagetest.Stack(t, c.base)), o))
			config := imagetest.Must[*v1.ConfigFile](t)(imagetest.Open(t, o.Dest).Image.ConfigFile())
			if h := config.History[len(config.History)-1]; h.Comment != c.history || h.CreatedBy != "vfix 1.2 rebuild" {
				t.Errorf("got the history %+v, want %q", h, c.history)
			}
			var paths []string
			for _, f := range r.Findings.Files {
				if f.Plan.Redirected() {
					paths = append(paths, f.Path)
				}
			}
			if got := strings.Join(paths, " "); got != c.fixed {
				t.Errorf("fixed: got %s, want %s", got, c.fixed)
			}
			says := append(r.Warnings, r.Notes...)
			for _, f := range r.Findings.Files {
				for _, text := range f.Plan.Consequences {
					says = append(says, f.Path+": "+text)
				}
			}
			if got := strings.Join(says, "\n"); got != c.says {
				t.Errorf("got %q, want %q", got, c.says)
			}
			files := map[string]int{}
			for _, m := range imagetest.AddedMembers(t, o.Dest) {
				files[fmt.Sprintf("%s %o %t", m.Name, m.Mode, strings.Contains(string(m.Body), "memory\t0\t1\t1\n"))]++
			}
			if got := files["vfix/cgroups 644 true"]; (got == 1) != (c.fixed != "") {
				t.Errorf("got %v", files)
			}
		})
	}
}
