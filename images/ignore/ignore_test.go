package ignore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

// found is a source with two files, of one call of time each, and a table that is compared with.
func found() *contents.Findings {
	file := func(path string, links ...string) contents.File {
		sites := []find.Site{
			{Vaddr: 0x4012ab, Offset: 0x12ab, Function: find.Time, Verdict: find.Live},
			{Vaddr: 0x402000, Offset: 0x2000, Function: find.Time, Verdict: find.Benign},
		}
		return contents.File{Path: path, Links: links, Report: &find.Report{Sites: sites}, Plan: &patch.Plan{}}
	}
	return &contents.Findings{Digest: "sha256:ab", ELFFiles: 2, Files: []contents.File{file("bin/a"), file("usr/bin/b", "usr/bin/c")}}
}

func TestApply(t *testing.T) {
	now := time.Date(2027, 1, 31, 23, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, text     string
		open, warnings int
	}{
		{"a path", "- {path: bin/a, reason: r}", 1, 0},
		{"a pattern", "- {path: '*bin/a', reason: r}", 1, 0},
		{"one name of two", "- {path: usr/bin/b, reason: r}", 2, 0},
		{"all names", "- {path: 'usr/bin/?', reason: r}", 1, 0},
		{"a digest", "- {digest: sha256:ab, reason: r}", 0, 0},
		{"another digest", "- {digest: sha256:abc, reason: r}", 2, 0},
		{"a site", "- {path: bin/a, site: time@0x4012ab, reason: r}", 1, 0},
		{"another site", "- {path: bin/a, site: time@0x4012ac, reason: r}", 2, 0},
		{"a function", "- {site: 'time@*', reason: r}", 0, 0},
		{"the last day", "- {path: bin/a, reason: r, expires: 2027-01-31}", 1, 0},
		{"expired", "- {path: bin/a, reason: r, expires: 2027-01-30}", 2, 1},
		{"expired, and another that holds", "- {path: bin/a, reason: r, expires: 2027-01-30}\n- {path: bin/a, reason: r}", 1, 1},
		{"expired, of nothing", "- {path: bin/x, reason: r, expires: 2027-01-30}", 2, 0},
	} {
		r, err := parse([]byte("ignore:\n" + c.text))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		f := found()
		r.Apply(f, now)
		if got := f.UncoveredSites(); got != c.open || f.IgnoredSites() != 2-c.open || len(f.Warnings) != c.warnings {
			t.Errorf("%s: got %d open, %d ignored, %q; want %d open, %d warnings", c.name, got, f.IgnoredSites(), f.Warnings, c.open, c.warnings)
		}
	}
}

// Nothing clears a file that was not examined.
func TestUnreadStays(t *testing.T) {
	r, err := parse([]byte("ignore:\n- {path: '*', site: '*', digest: '*', reason: r}"))
	if err != nil {
		t.Fatal(err)
	}
	f := found()
	f.Passed = []contents.Passed{{Path: "bin/z", Reason: "permission denied", Unread: true}}
	r.Apply(f, time.Now())
	if v := f.Verdict(); v != contents.Incomplete {
		t.Errorf("got %v", v)
	}
}

func TestBadFiles(t *testing.T) {
	for text, want := range map[string]string{
		"ignore:\n- {path: a}":                               "line 2: no reason",
		"ignore:\n- {reason: r}":                             "line 2: no path, digest or site",
		"ignore:\n- {path: a, reason: r, expires: tomorrow}": `line 2: expires: "tomorrow"`,
		"ignore:\n- {paths: a, reason: r}":                   `line 2: "paths": unknown, want one of: path, digest, site, reason, expires`,
		"ignore:\n- path: a\n  reason: r\n  until: x":        `line 4: "until": unknown`,
		"ignore:\n- path: a\n  path: b\n  reason: r":         `line 3: "path": given twice`,
		"ignore:\n- path: [a]\n  reason: r":                  `line 2: "path": want text`,
		"ignore:\n- path: a\n  reason: {b: c}":               `line 3: "reason": want text`,
		"ignore:\n- a":                                       "line 2: want members, each one of: path, digest",
		"ignore:\n-":                                         "line 2: no reason",
		"ignore: a":                                          `line 1: "ignore": want a list of entries`,
		"ignore:\n  path: a":                                 `line 2: "ignore": want a list of entries`,
		"ignored: []":                                        `line 1: "ignored": unknown, want one of: ignore`,
		"ignore: []\nignore: []":                             `line 2: "ignore": given twice`,
		"- a":                                                "line 1: want members, each one of: ignore",
		"a":                                                  "line 1: want members",
		"ignore: [":                                          "line 1: ",
		"ignore: []\n---\nignore: []":                        "more than one document",
	} {
		name := filepath.Join(t.TempDir(), "x.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(name); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "struct") || strings.Contains(err.Error(), "Node") {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}
