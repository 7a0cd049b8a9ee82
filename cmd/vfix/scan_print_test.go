// The verdict of a scan, and that what could not be read is never called clean.

package main

import (
	"context"
	"strings"
	"testing"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
)

// noLayer is clean, except that a layer is missing.
func noLayer() *contents.Findings {
	f := clean()
	f.Passed = []contents.Passed{{Layer: "sha256:a3", Reason: "foreign layer that is not with the image", Unread: true}}
	return f
}

func TestScanVerdict(t *testing.T) {
	text := clean()
	text.Source, text.Digest, text.ELFFiles, text.ExecBytes = "/etc/passwd", "", 0, 0
	none := *text
	text.Passed = []contents.Passed{{Path: "/etc/passwd", Reason: "not an ELF file"}}
	half := mixed()
	half.Passed = unread().Passed
	dir := patchable()
	dir.Source, dir.Digest = "dir:/srv/root", ""
	for _, c := range []struct {
		name   string
		f      *contents.Findings
		status int
		end    string // of stdout
		err    string // in stderr
	}{
		{"clean", clean(), 0, "\n\nNOT AFFECTED\n", ""},
		{"harmless", harmless(), 0, "\n\nNOT AFFECTED\n", ""},
		{"all patchable", patchable(), 3, "\n\nAFFECTED: 5 call sites in 2 files; vfix can fix all of them\n  vfix rebuild docker-daemon:redis:2.8.22\n", ""},
		{"some caught", covered(), 3, "\nAFFECTED: 5 call sites in 2 files; vfix can fix all of them\n  vfix rebuild docker-daemon:redis:2.8.22\n", ""},
		{"all caught", caught(), 0, "\n\nNOT AFFECTED: 5 call sites, caught at run time by libvfix.so\n  for full speed: vfix rebuild docker-daemon:redis:2.8.22\n", ""},
		{"a directory", dir, 3, "vfix can fix all of them\n  vfix patch -i /srv/root\n  vfix patch -o COPY /srv/root\n", ""},
		{"some patchable", mixed(), 3, "\nAFFECTED: 7 call sites in 3 files; vfix can fix 6 of them\n  vfix rebuild docker-daemon:redis:2.8.22\n", ""},
		{"unread", unread(), 4, "\nno call site in what was examined\n812 ELF files with 220.0 MiB of code examined\n\nINCOMPLETE: 2 paths could not be read\n", "vfix: docker-daemon:debian:12: incomplete: 2 paths could not be read: root: permission denied\n"},
		{"affected and unread", half, 4, "fix 6 of them\nINCOMPLETE: 2 paths could not be read\n  vfix rebuild docker-daemon:redis:2.8.22\n", "incomplete: 2 paths"},
		{"a text file", text, 4, "\nno 64-bit x86-64 ELF file in it\n0 ELF files with 0 B of code examined\n\nINCOMPLETE: nothing was examined\n", "vfix: /etc/passwd: incomplete: nothing examined: not an ELF file\n"},
		{"a layer", noLayer(), 4, "\nINCOMPLETE: 1 layer could not be read\n", "incomplete: 1 layer could not be read: layer sha256:a3: foreign layer"},
		{"nothing to examine", &none, 0, "no 64-bit x86-64 ELF file in it\n0 ELF files with 0 B of code examined\n\nNOT AFFECTED\n", ""},
	} {
		got := runLine(fake(c.f, nil), "scan", "x")
		if got.status != c.status || !strings.HasSuffix(got.stdout, c.end) || !strings.Contains(got.stderr, c.err) {
			t.Errorf("%s: got status %d, stdout\n%s\nstderr %s\nwant status %d and the end %q", c.name, got.status, got.stdout, got.stderr, c.status, c.end)
		}
		if n := strings.Count(got.stdout+got.stderr, "vfix rebuild"); n > 1 {
			t.Errorf("%s: the command is printed %d times", c.name, n)
		}
		// The JSON says the same as the text and the exit status.
		if json := runLine(fake(c.f, nil), "scan", "--format", "json", "x").stdout; strings.Contains(json, `"complete": true`) == (c.status == 4) ||
			strings.Contains(json, `"verdict": "not-affected"`) != strings.Contains(got.stdout, "\nNOT AFFECTED") {
			t.Errorf("%s: JSON:\n%s", c.name, json)
		}
		// With JSON on stdout the finding is reported on stderr.
		got = runLine(fake(c.f, nil), "scan", "--format", "json", "x")
		if got.status != c.status || c.status == 3 && !strings.Contains(got.stderr, "vfix: hint: run 'vfix ") {
			t.Errorf("%s: JSON: got status %d, stderr %s", c.name, got.status, got.stderr)
		}
	}
	// The words are explained once.
	if got := runLine(fake(patchable(), nil), "scan", "x", "y").stdout; strings.Count(got, "A call site is") != 1 || strings.Count(got, "AFFECTED: 5") != 2 {
		t.Errorf("two sources: got\n%s", got)
	}
}

func TestIncomplete(t *testing.T) {
	for _, line := range []string{"scan x", "patch -i x", "patch -o y x", "patch --dry-run x", "verify x"} {
		got := runLine(fake(unread(), nil), strings.Fields(line)...)
		if got.status != 4 || !strings.Contains(got.stderr, "2 paths could not be read") || !strings.Contains(got.stdout, "usr/bin/x     permission denied") {
			t.Errorf("vfix %s: got %+v", line, got)
		}
		if strings.Contains(got.stdout, "no call site of the vsyscall page") {
			t.Errorf("vfix %s: what was not read is called clean:\n%s", line, got.stdout)
		}
	}
}

// TestUnreadAfterWork: rebuild does its work, and says that it has not seen everything.
func TestUnreadAfterWork(t *testing.T) {
	half := patchable()
	half.Passed = []contents.Passed{{Path: "opt/huge", Reason: "file of 5368709120 bytes, at most 4294967296 are examined", Unread: true}}
	level := clean()
	level.Levels = []*contents.Findings{half}
	for _, f := range []*contents.Findings{unread(), half, level} {
		for _, line := range []string{"rebuild x", "rebuild -q x", "rebuild --dry-run x", "rebuild --format json x"} {
			got := runLine(fake(f, nil), strings.Fields(line)...)
			if got.status != 4 || !strings.Contains(got.stderr, "could not be read: ") || strings.Contains(got.stderr, "no call site to patch") {
				t.Errorf("vfix %s: got %+v", line, got)
			}
			if root := strings.Contains(got.stderr, "run vfix as root"); root != (len(f.Passed) == 2) {
				t.Errorf("vfix %s: the hint to run as root is there: %v:\n%s", line, root, got.stderr)
			}
		}
	}
}

// TestHazards: they are printed below the tables, and change the exit status only with --strict.
func TestHazards(t *testing.T) {
	f := clean()
	f.Hazards = mixed().Hazards
	got := runLine(fake(f, nil), "scan", "x")
	for _, want := range []string{"hazard   opt/jdk/lib/server/libjvm", "JDK 17.0.9+9\n", "means    ignores its memory limit", "do       rebuild the image with --fix java-cgroups", "NOT AFFECTED\n"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("%q is not in:\n%s", want, got.stdout)
		}
	}
	if strings.Contains(got.stdout, "\x1b") {
		t.Errorf("a file name reaches the terminal: %q", got.stdout)
	}
	if got.status != 0 {
		t.Errorf("got status %d, want 0: %s", got.status, got.stderr)
	}
	if got := runLine(fake(f, nil), "scan", "--strict", "--format", "json", "x"); got.status != 3 || !strings.Contains(got.stderr, "1 hazard") {
		t.Errorf("--strict: got status %d, want 3: %s", got.status, got.stderr)
	}
	if got := runLine(fake(clean(), nil), "scan", "--strict", "x"); got.status != 0 {
		t.Errorf("--strict without a hazard: got status %d, want 0: %s", got.status, got.stderr)
	}
}

// TestProposalsWorkHere: without an engine a rebuild is proposed with a destination that this machine has.
func TestProposalsWorkHere(t *testing.T) {
	for source, want := range map[string]string{
		"oci:dir:x": "vfix rebuild oci:dir:x -o oci:fixed", "oci-archive:x.tar": "vfix rebuild oci-archive:x.tar -o oci-archive:fixed.tar",
		"docker-archive:x.tar": "vfix rebuild docker-archive:x.tar -o docker-archive:fixed.tar", "docker://reg.example/x:1": "vfix rebuild docker://reg.example/x:1 -o oci-archive:fixed.tar",
		"docker-daemon:x:1": "vfix rebuild docker-daemon:x:1",
	} {
		f := patchable()
		f.Source = source
		for _, answers := range []bool{true, false} {
			e := fake(f, nil)
			e.answers = func(context.Context, media.Options) bool { return answers }
			line := want
			if answers {
				line, _, _ = strings.Cut(want, " -o ")
			}
			if got := runLine(e, "scan", "x"); !strings.HasSuffix(got.stdout, "\n  "+line+"\n") {
				t.Errorf("%s: want %s, got\n%s", source, line, got.stdout)
			}
		}
	}
	for noSquash, want := range map[bool]string{true: "oci-archive:fixed.tar", false: "sif:fixed.sif"} {
		if got := (place{noEngine: true, noSquash: noSquash}).output("sif:x.sif"); got != " -o "+want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
