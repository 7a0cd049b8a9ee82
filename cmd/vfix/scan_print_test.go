// The verdict of a scan, and that what could not be read is never called clean.

package main

import (
	"context"
	"strings"
	"testing"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/lists"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

func TestScanVerdict(t *testing.T) {
	text := clean()
	text.Source, text.Digest, text.ELFFiles, text.ExecBytes = "/etc/passwd", "", 0, 0
	none := *text
	text.Passed = []contents.Passed{{Path: "/etc/passwd", Reason: "not an ELF file"}}
	script := none
	script.Passed = []contents.Passed{{Path: "run.sh", Reason: contents.Script}}
	half := mixed()
	half.Passed = unread().Passed
	dir := patchable()
	dir.Source, dir.Digest = "dir:/srv/root", ""
	for _, c := range []struct {
		name   string
		f      *contents.Findings
		status int
		first  string // line of stdout, behind the name
		last   string // end of stdout
		err    string // in stderr
	}{
		{"clean", clean(), 0, "NOT AFFECTED\n", "", ""},
		{"harmless", harmless(), 0, "NOT AFFECTED\n", "", ""},
		{"all patchable", patchable(), 3, "AFFECTED: 5 call sites in 2 files; vfix can fix all of them\n", "\n\n  vfix rebuild x\n", ""},
		{"some caught", covered(), 3, "AFFECTED: 5 call sites in 2 files; vfix can fix all of them\n", "\n\n  vfix rebuild x\n", ""},
		{"all caught", caught(), 0, "NOT AFFECTED: 5 call sites, caught at run time by the fallback\n", "\n\n  vfix rebuild x\n", ""},
		{"a directory", dir, 3, "AFFECTED: 5 call", "\n\n  vfix patch -o x.vfix x\nor in place:\n  vfix patch -i x\n", ""},
		{"some patchable", mixed(), 3, "AFFECTED: 6 call sites in 3 files; vfix can fix all of them\n", "\n\n  vfix rebuild x\n", ""},
		{"unread", unread(), 4, "INCOMPLETE: 2 parts could not be read\n", "not examined: root: permission denied\nnot examined: usr/bin/x: permission denied\n", "incomplete: 2 parts could not be read: root: permission denied\n"},
		{"affected and unread", half, 3, "AFFECTED: 6 call sites in 3 files; vfix can fix all of them; INCOMPLETE: 2 parts could not be read\n", "\n\n  vfix rebuild x\n", "incomplete: 2 parts"},
		{"a text file", text, 4, "INCOMPLETE: nothing was examined: not an ELF file\n", "", "incomplete: nothing was examined: not an ELF file\n"},
		{"a script", &script, 4, "INCOMPLETE: nothing was examined: a script", "", "scan the programs that it starts"},
		{"nothing to examine", &none, 4, "INCOMPLETE: no 64-bit x86-64 ELF file in it\n", "", "incomplete"},
	} {
		got := runLine(fake(c.f, nil), "scan", "x")
		if got.status != c.status || !strings.HasPrefix(got.stdout, "x: "+c.first) || !strings.HasSuffix(got.stdout, c.last) || !strings.Contains(got.stderr, c.err) {
			t.Errorf("%s: got status %d, stdout\n%s\nstderr %s\nwant %+v", c.name, got.status, got.stdout, got.stderr, c)
		}
		if strings.Contains(got.stdout, "\x1b") {
			t.Errorf("%s: a file name reaches the terminal: %q", c.name, got.stdout)
		}
		// The JSON says the same as the text and the exit status, and the command is on stderr.
		json := runLine(fake(c.f, nil), "scan", "--format", "json", "x")
		if strings.Contains(json.stdout, `"complete": true`) == strings.Contains(got.stdout, "INCOMPLETE") || strings.Contains(json.stdout, `"verdict": "not-affected"`) != strings.HasPrefix(c.first, "NOT AFFECTED") {
			t.Errorf("%s: JSON:\n%s", c.name, json.stdout)
		}
		if json.status != c.status || c.status == 3 && !strings.Contains(json.stderr, "vfix: hint: run 'vfix ") {
			t.Errorf("%s: JSON: got status %d, stderr %s", c.name, json.status, json.stderr)
		}
	}
}

// The next command of a list names it.
func TestListNext(t *testing.T) {
	e := fake(clean(), nil)
	e.scanAll = func(context.Context, []lists.Item, lists.Options) []lists.Image {
		return []lists.Image{{Item: lists.Item{Source: "app:1"}, Status: lists.Affected}}
	}
	for list, want := range map[string]string{"my list": "run vfix rebuild --from-file 'my list'\n", "l": "run 'vfix rebuild --from-file l'\n", "-": "run '... | vfix rebuild --from-file -'\n"} {
		if got := runLine(e, "scan", "--from-file", list); got.status != 3 || !strings.HasSuffix(got.stderr, want) {
			t.Errorf("%s: got %+v", list, got)
		}
	}
	// A rebuild that left call sites is not to be repeated.
	e.rebuildAll = func(context.Context, []lists.Item, lists.Options) []lists.Image {
		return []lists.Image{{Item: lists.Item{Source: "app:1"}, Status: lists.Affected, LeftOver: 2, Reference: "app:1"}, {Item: lists.Item{Source: "app:2"}, Status: lists.Done, LeftOver: 1, Patched: 4}}
	}
	got := runLine(e, "rebuild", "--from-file", "l")
	for _, want := range []string{"2 images: 3 live call sites could not be patched\n", "to see them and the reasons\n", "2 images: 1 affected, 1 done\n", "app:1; 2 live call sites left\n"} {
		if got.status != 3 || !strings.Contains(got.stderr+got.stdout, want) || strings.Contains(got.stderr, "run 'vfix rebuild") {
			t.Errorf("got %+v, want %q", got, want)
		}
	}
}

// A report that cannot be written is an error before the work on the list, and a part of a list may be empty.
func TestListReport(t *testing.T) {
	e := fake(clean(), nil)
	begun := 0
	e.scanAll = func(context.Context, []lists.Item, lists.Options) []lists.Image { begun++; return nil }
	dir := t.TempDir()
	if got := runLine(e, "scan", "--from-file", "l", "--report", dir+"/none/r.csv"); got.status != 1 || begun != 0 || !strings.Contains(got.stderr, "mkdir -p") {
		t.Errorf("got %+v, and the work began %d times", got, begun)
	}
	if got := runLine(e, "scan", "--from-file", "l", "--report", dir+"/r.csv"); got.status != 0 || begun != 1 || !strings.HasPrefix(got.stdout, "0 images\n") {
		t.Errorf("got %+v, and the work began %d times", got, begun)
	}
}

// Verbs do their work, and say that they have not seen everything.
func TestIncomplete(t *testing.T) {
	for _, line := range []string{"patch -i x", "patch -o y x", "patch --dry-run x", "verify x", "rebuild x", "rebuild -q x", "rebuild --dry-run x", "rebuild --format json x"} {
		got := runLine(fake(unread(), nil), strings.Fields(line)...)
		if got.status != 4 || !strings.Contains(got.stderr, "2 parts could not be read") || !strings.Contains(got.stderr, "run vfix as root") {
			t.Errorf("vfix %s: got %+v", line, got)
		}
		if text := got.stdout + got.stderr; strings.Contains(text, "no call site of the vsyscall page") || strings.Contains(text, "no call site to patch") {
			t.Errorf("vfix %s: what was not read is called clean:\n%s", line, text)
		}
	}
}

// Hazards are printed below the verdict, and change the exit status only with --strict.
func TestHazards(t *testing.T) {
	f := clean()
	f.Hazards = mixed().Hazards
	got := runLine(fake(f, nil), "scan", "x")
	if want := `hazard: opt/jdk/lib/server/libjvm\x1b[31m.so: `; got.status != 0 || !strings.Contains(got.stdout, want) {
		t.Errorf("%s is not in %+v", want, got)
	}
	if got := runLine(fake(f, nil), "scan", "--strict", "--format", "json", "x"); got.status != 3 || !strings.Contains(got.stderr, "1 hazard") {
		t.Errorf("--strict: got status %d, want 3: %s", got.status, got.stderr)
	}
	if got := runLine(fake(clean(), nil), "scan", "--strict", "x"); got.status != 0 {
		t.Errorf("--strict without a hazard: got status %d, want 0: %s", got.status, got.stderr)
	}
}

// Of many lines of a kind a few are printed, and how many there are more.
func TestManyLines(t *testing.T) {
	f := clean()
	for range screen.Few + 3 {
		f.Passed = append(f.Passed, contents.Passed{Path: "x", Reason: "damaged"})
		f.Files = append(f.Files, patchable().Files[0])
	}
	got := runLine(fake(f, nil), "scan", "x").stdout
	if strings.Count(got, "3 more; --format json lists all\n") != 2 || strings.Count(got, "libc-2.13.so") != screen.Few || strings.Count(got, "damaged") != screen.Few {
		t.Errorf("got\n%s", got)
	}
}

// A patch that changes nothing says why, and the command that it proposes names what was typed.
func TestNothingPatched(t *testing.T) {
	none, unknown, left, packed := clean(), clean(), clean(), clean()
	none.ELFFiles = 0
	unknown.Files = []contents.File{fileOf("x", "", patchOf(site(0x4012ab, find.Time, find.Unknown, find.Reason{}), patch.Left, 0))}
	left.Files = []contents.File{fileOf("x", "", patchOf(site(0x4012ab, find.Time, find.Live, calledAt(0x4012b2)), patch.Left, patch.NoRoom))}
	packed.Passed = []contents.Passed{{Path: "x", Reason: "a zip archive"}}
	packed.Packed = []contents.Packed{{Path: "x", Member: "bin/y", Sites: 3}}
	for _, c := range []struct {
		name   string
		f      *contents.Findings
		status int
		want   string // first line of stdout
	}{
		{"nothing to examine", none, 4, "no call site in what was examined"},
		{"unknown", unknown, 4, "no call site in what was examined"},
		{"not patchable", left, 3, "1 live call site, of which vfix can patch none"},
		{"an archive", packed, 3, "3 live call sites, of which vfix can patch none"},
		{"clean", clean(), 0, "no call site of the vsyscall page"},
	} {
		got := runLine(fake(c.f, nil), "patch", "-i", "x y", "--", "-z")
		if got.status != c.status || !strings.HasPrefix(got.stdout, "x y -z: "+c.want+"\n") {
			t.Errorf("%s: got status %d, stdout\n%s\nwant %q", c.name, got.status, got.stdout, c.want)
		}
		if open := c.f.Sites().Live+c.f.Uncovered().Unknown > 0; strings.Contains(got.stderr, "run vfix scan --explain 'x y' ./-z to see") != open {
			t.Errorf("%s: got stderr %s", c.name, got.stderr)
		}
	}
	// A scan proposes the fallback of an image, and of a file shows why.
	if got := runLine(fake(left, nil), "scan", "a"); !strings.HasSuffix(got.stdout, "\n\n  vfix rebuild a\n") {
		t.Errorf("scan of an image: got stdout\n%s", got.stdout)
	}
	// An archive in an image or a directory: what covers it, and where it is.
	if got := runLine(fake(packed, nil), "scan", "a"); !strings.HasSuffix(got.stdout, "\n\n  vfix rebuild --fallback always a\n") {
		t.Errorf("an archive in an image: got stdout\n%s", got.stdout)
	}
	packed.Digest, packed.Source = "", "dir:a b"
	if got := runLine(fake(packed, nil), "scan", "dir:a b"); !strings.HasSuffix(got.stdout, "\n\n  unzip -d DIR 'a b/x' && vfix patch -i DIR # then pack DIR again\n") {
		t.Errorf("an archive in a directory: got stdout\n%s", got.stdout)
	}
	alone := fake(left, nil)
	alone.answers = func(context.Context, source.Options) bool { return false }
	left.Source = "oci:a"
	if got := runLine(alone, "scan", "oci:a"); !strings.HasSuffix(got.stdout, "\n\n  vfix rebuild oci:a -o oci:fixed\n") {
		t.Errorf("without an engine: got stdout\n%s", got.stdout)
	}
	left.Digest = ""
	if got := runLine(fake(left, nil), "scan", "a"); !strings.HasSuffix(got.stdout, "\n\n  vfix scan --explain a\n") {
		t.Errorf("scan of a file: got stdout\n%s", got.stdout)
	}
	if got := runLine(fake(left, nil), "scan", "--explain", "a"); strings.Contains(got.stdout, "vfix scan --explain") {
		t.Errorf("scan --explain: got stdout\n%s", got.stdout)
	}
	if got := runLine(fake(unknown, nil), "scan", "a"); !strings.Contains(got.stderr, "vfix: a: incomplete") || !strings.Contains(got.stderr, "run 'vfix scan --explain a' to see") {
		t.Errorf("scan: got stderr %s", got.stderr)
	}
}
