// The commands that are proposed: each is one line of a shell that names the right files.

package main

import (
	"strings"
	"testing"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
	"vfix.dev/vfix/rewriter/x86"
)

// fixed has a JDK with a fix, and one that cannot be fixed.
func fixed() *contents.Findings {
	f := clean()
	jvm := fileOf("opt/jdk/lib/server/libjvm.so", "")
	jvm.Plan.Redirect = &find.Redirect{Fix: find.JavaCgroups, Vaddr: 0x538c30, Offset: 0x538c30,
		Before: []byte{0x48, 0x8d, 0x35, 0x0f, 0xb1, 0xa5, 0}, After: []byte{0x48, 0x8d, 0x35, 0xe1, 0xd3, 0xe0, 0},
		Listing: &find.Explanation{
			Before: []x86.Line{{Vaddr: 0x538c30, Bytes: []byte{0x48, 0x8d, 0x35, 0x0f, 0xb1, 0xa5, 0}, Text: "lea 0xa5b10f(%rip),%rsi", Changed: true}},
			After:  []x86.Line{{Vaddr: 0x538c30, Bytes: []byte{0x48, 0x8d, 0x35, 0xe1, 0xd3, 0xe0, 0}, Text: "lea 0xe0d3e1(%rip),%rsi <vfix_string>", Changed: true}},
		}}
	jvm.Plan.Edits = []patch.Edit{{Offset: 0x538c30, Old: jvm.Plan.Redirect.Before, New: jvm.Plan.Redirect.After, Why: "reference to /proc/cgroups"}}
	odd := fileOf("opt/odd/lib/server/libjvm.so", "")
	odd.Plan.Redirect = &find.Redirect{Fix: find.JavaCgroups, Reason: "2 instructions refer to \"/proc/cgroups\""}
	f.Files = []contents.File{jvm, odd}
	return f
}

// TestFixOfDir: names in a directory are not those of where the command is typed; libraries from elsewhere are added.
func TestFixOfDir(t *testing.T) {
	f := patchable()
	f.Source, f.Digest, f.Loads = "dir:/srv/tools", "", &contents.Loads{Root: "/"}
	if got := strings.Join((place{}).fixes(f), "\n"); got != "vfix patch -i /srv/tools\nvfix patch -o COPY /srv/tools" {
		t.Errorf("got %s", got)
	}
	f.Files = append(f.Files, fileOf("/lib64/libc.so.6", "glibc 2.5", patchOf(site(0x10, find.Time, find.Live, find.Reason{}), patch.Entry, 0)))
	if got := strings.Join((place{}).fixes(f), "\n"); got != "vfix patch -i /srv/tools /lib64/libc.so.6" {
		t.Errorf("got %s", got)
	}
}

// TestFixIsOneLineOfShell: a command that is printed to be typed names the same file to a shell, whatever the
// file is called; what a name says is never executed.
func TestFixIsOneLineOfShell(t *testing.T) {
	for source, want := range map[string]string{
		"/srv/old app":       "vfix patch -i '/srv/old app'",
		"-i":                 "vfix patch -i ./-i",
		"/srv/$(reboot)":     "vfix patch -i '/srv/$(reboot)'",
		"/srv/a'b":           `vfix patch -i '/srv/a'\''b'`,
		"/srv/a\nb":          `vfix patch -i $'/srv/a\012b'`,
		"/srv/\xff":          `vfix patch -i $'/srv/\377'`,
		"dir:/srv/old app":   "vfix patch -i '/srv/old app'",
		"oci:old app:legacy": "vfix rebuild 'oci:old app:legacy'",
		"container:a;b":      "vfix hotfix 'container:a;b'",
	} {
		f := patchable()
		f.Source, f.Digest = source, ""
		if strings.HasPrefix(source, "oci:") {
			f.Digest = "sha256:" + strings.Repeat("0", 64)
		}
		if got := (place{}).fixes(f)[0]; got != want {
			t.Errorf("%q: got %s, want %s", source, got, want)
		}
		got := runLine(fake(f, nil), "scan", "x")
		if !strings.Contains(got.stdout, "\n  "+want+"\n") {
			t.Errorf("%q: %s is not in:\n%s", source, want, got.stdout)
		}
	}
	// Also a hint.
	t.Chdir(t.TempDir())
	if got := runLine(engine{}, "rebuild", "x", "-o", "oci:no such/$(id)/x"); !strings.Contains(got.stderr, "mkdir -p 'no such/$(id)'\n") {
		t.Errorf("got %s", got.stderr)
	}
	left := patchable()
	left.Source = "/srv/old app"
	got := runLine(fake(left, nil), "verify", "x")
	if want := "vfix: hint: run vfix scan --explain '/srv/old app'\n"; !strings.Contains(got.stderr, want) {
		t.Errorf("%s is not in:\n%s", want, got.stderr)
	}
}
