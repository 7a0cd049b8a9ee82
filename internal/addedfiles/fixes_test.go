package addedfiles

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"vfix.dev/vfix/rewriter/find"
)

// TestKnown: each fix has its file and words.
func TestKnown(t *testing.T) {
	for _, r := range find.Fixes {
		if f := FixOf(r).File; f.Name == "" || len(f.Body) == 0 || FixOf(r).Affects == "" || FixOf(r).Does == "" || FixOf(r).Done == "" || !slices.Contains(FixNames(), string(r)) {
			t.Errorf("%s: %+v, %+v", r, f, known[r])
		}
	}
	if len(known) != len(find.Fixes) {
		t.Errorf("%d fixes are known here, %d to the rewriter", len(known), len(find.Fixes))
	}
}

// TestCgroups reads the file as a JDK does (hotspot, cgroupSubsystem_linux.cpp, determine_type).
func TestCgroups(t *testing.T) {
	f := FixOf(find.JavaCgroups).File
	if len("/"+f.Name) != len("/proc/cgroups") {
		t.Errorf("/%s has another length than the name that it takes the place of", f.Name)
	}
	lines := strings.Split(strings.TrimSuffix(string(f.Body), "\n"), "\n")
	seen := map[string]bool{}
	for _, line := range lines[1:] {
		var name string
		var hierarchy, groups, enabled int
		if _, err := fmt.Sscanf(line, "%s %d %d %d", &name, &hierarchy, &groups, &enabled); err != nil || hierarchy != 0 || enabled != 1 {
			t.Errorf("%q: %v", line, err)
		}
		seen[name] = true
	}
	for _, name := range []string{"cpuset", "cpu", "cpuacct", "memory", "pids"} {
		if !seen[name] {
			t.Errorf("no %s", name)
		}
	}
	if !strings.HasPrefix(lines[0], "#") {
		t.Errorf("the first line, which a JDK leaves out, is %q", lines[0])
	}
}

func TestParse(t *testing.T) {
	if got, err := ParseFixes("java-cgroups,java-cgroups"); err != nil || !slices.Equal(got, find.Fixes) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, text := range []string{"", "java", "java-cgroups,", "all"} {
		if _, err := ParseFixes(text); err == nil || !strings.Contains(err.Error(), "want java-cgroups") {
			t.Errorf("%q: got %v", text, err)
		}
	}
}
