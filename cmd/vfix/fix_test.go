// The commands that are proposed: each is one line of a shell that names the right files.

package main

import (
	"context"
	"strings"
	"testing"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

// The first command names the same file to a shell as the user did, whatever the file is called.
func TestProposalIsOneLineOfShell(t *testing.T) {
	for source, want := range map[string]string{
		"/srv/old app":       "vfix patch -o 'old app.vfix' '/srv/old app'",
		"-i":                 "vfix patch -o i.vfix ./-i",
		"/srv/$(reboot)":     "vfix patch -o '$(reboot).vfix' '/srv/$(reboot)'",
		"/srv/a'b":           `vfix patch -o 'a'\''b.vfix' '/srv/a'\''b'`,
		"/srv/a\nb":          `vfix patch -o $'a\012b.vfix' $'/srv/a\012b'`,
		"dir:/srv/old app":   "vfix patch -o 'old app.vfix' '/srv/old app'",
		"oci:old app:legacy": "vfix rebuild 'oci:old app:legacy'",
		"container:a;b":      "vfix hotfix 'container:a;b'",
	} {
		f := patchable()
		if f.Source, f.Digest = source, ""; strings.HasPrefix(source, "oci:") {
			f.Digest = digest
		}
		if got := runLine(fake(f, nil), "scan", "--", source); !strings.Contains(got.stdout, "\n  "+want+"\n") {
			t.Errorf("%q: %s is not in:\n%s", source, want, got.stdout)
		}
	}
}

// Without an engine a rebuild is proposed with a destination that this machine has.
func TestProposalsWorkHere(t *testing.T) {
	for typed, want := range map[string]string{
		"oci:dir:x": "vfix rebuild oci:dir:x -o oci:fixed", "oci-archive:x.tar": "vfix rebuild oci-archive:x.tar -o oci-archive:fixed.tar",
		"docker-archive:x.tar": "vfix rebuild docker-archive:x.tar -o docker-archive:fixed.tar", "docker://reg.example/x:1": "vfix rebuild docker://reg.example/x:1 -o oci-archive:fixed.tar",
		"docker-daemon:x:1": "vfix rebuild docker-daemon:x:1",
	} {
		f := patchable()
		f.Source = typed
		for _, answers := range []bool{true, false} {
			e := fake(f, nil)
			e.answers = func(context.Context, source.Options) bool { return answers }
			line := want
			if answers {
				line, _, _ = strings.Cut(want, " -o ")
			}
			if got := runLine(e, "scan", typed); !strings.HasSuffix(got.stdout, "\n  "+line+"\n") {
				t.Errorf("%s: want %s, got\n%s", typed, line, got.stdout)
			}
		}
	}
}

// Names in a directory are not those of where the command is typed; libraries from elsewhere are added.
func TestProposalForDirectory(t *testing.T) {
	f := patchable()
	f.Source, f.Digest, f.Loads = "dir:/srv/tools", "", &contents.Loads{Root: "/"}
	if got := strings.Join(destination(func(string) []string { return nil }).fixes(scanned{"/srv/tools", f}), "\n"); got != "vfix patch -o tools.vfix /srv/tools\nvfix patch -i /srv/tools" {
		t.Errorf("got %s", got)
	}
	f.Files = append(f.Files, fileOf("/lib64/libc.so.6", "glibc 2.5", patchOf(site(0x10, find.Time, find.Live, find.Reason{}), patch.Entry, 0)))
	if got := strings.Join(destination(func(string) []string { return nil }).fixes(scanned{"/srv/tools", f}), "\n"); got != "vfix patch -i /srv/tools /lib64/libc.so.6" {
		t.Errorf("got %s", got)
	}
}
