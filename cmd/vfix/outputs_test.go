// All that the verbs print, about made-up results.

package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"vfix.dev/vfix/cmd/vfix/listing"
	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/hotfix"
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/provenance"
	"vfix.dev/vfix/images/records"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
	"vfix.dev/vfix/rewriter/x86"
)

// rebuiltWith is an engine whose rebuild has more to say.
func rebuiltWith(change func(*images.Rebuilt)) engine {
	return engine{rebuild: func(_ context.Context, _ string, o images.RebuildOptions) (*images.Rebuilt, error) {
		f := fixed()
		f.Files = f.Files[1:]
		r := rebuiltOf(f, o)
		r.Unchanged, r.Reference, r.LayerSize = false, "app:1@"+layer3, 4096
		change(r)
		return r, nil
	}}
}

// everyRecord has a record of each kind.
func everyRecord() []records.Record {
	return []records.Record{
		{Path: "a", Manager: "dpkg", Package: "p", Stale: true}, {Path: "b", Manager: "dpkg", Package: "p", Corrected: true},
		{Path: "c", Manager: "dpkg"}, {Path: "d", Manager: "rpm", Package: "q"},
	}
}

func verifiedWith(v images.Verified) engine {
	return engine{verify: func(context.Context, string, images.VerifyOptions) (*images.Verified, error) {
		v.Findings = clean()
		return &v, nil
	}}
}

func hotfixedWith(change func(*hotfix.Hotfixed)) engine {
	return engine{hotfix: func(_ context.Context, _ string, o hotfix.Options) (*hotfix.Hotfixed, error) {
		h := hotfixOf(patchable(), o)
		h.Mounts = h.Mounts[:1]
		change(h)
		return h, nil
	}}
}

// differences has a planned one, of each kind of change, and others.
func differences() []images.Difference {
	redirect := fixed().Files[0].Plan.Redirect
	line := []x86.Line{{Vaddr: 0x1000, Bytes: []byte{0xc3}, Text: "ret", Changed: true}}
	s := patchOf(site(0x1000, find.Time, find.Live, "called"), patch.Entry, "a stub")
	s.Offset, s.Listing = 0x1000, &find.Explanation{Before: line, After: line}
	left := s
	left.Form, left.Offset = patch.Left, 0x2000
	return []images.Difference{
		{Path: "lib/a.so\x1b", Patches: []patch.Patch{s, left}, Redirect: redirect, Appended: 4096, Edits: []patch.Edit{
			{Offset: 0x18, Old: make([]byte, 8), New: []byte("\x01234567\x01"), Why: "e_entry"},
			{Offset: 0x40, Old: make([]byte, 9), New: []byte("\x000000000\x00"), Why: "program headers"},
			{Offset: 0x1000, Old: []byte{0}, New: []byte{1}, Why: "a call site"},
			{Offset: 0x2000, Old: []byte{0}, New: []byte{2}, Why: "left"},
			{Offset: redirect.Offset, Old: []byte{0}, New: []byte{3}, Why: "a fix"},
		}},
		{Path: "lib/b.so", Unplanned: &patch.UnplannedError{Offset: 7}, Listing: find.Explanation{Before: line, After: line}},
		{Path: "lib/c.so", Unplanned: &patch.UnplannedError{Offset: 8}, Listing: find.Explanation{After: line}},
	}
}

// TestOutputs: the whole output of a verb, and its exit status, are as in testdata/outputs.txt.
func TestOutputs(t *testing.T) {
	defer func(l *time.Location, v string) { time.Local, version = l, v }(time.Local, version)
	time.Local, version = time.UTC, "1.2.3"
	added := fixed()
	added.Files[0].Plan.Notes, added.Files[0].Plan.Added = []string{"a note"}, []string{"open", "read"}
	added.Files[1].Plan.Redirect.Listing = added.Files[0].Plan.Redirect.Listing
	stated := &provenance.Stated{Raw: []byte("{}"), From: "x.json", Statement: &provenance.Statement{Predicate: provenance.Predicate{
		Files: make([]provenance.StatedFile, 2), Added: make([]provenance.StatedContent, 1), Base: provenance.StatedBase{Artifact: provenance.Artifact{Name: "base:1"}},
	}}}
	compared := images.Verified{Compared: 1, Added: []string{"vfix/a"}, Corrected: []string{"var/b", "var/c"}, NotCompared: []string{"d: a reason"},
		Fixed: []images.Fixed{{Path: "lib/e", Fix: find.JavaCgroups}}, Differences: differences()}
	var b bytes.Buffer
	for _, c := range []struct {
		name  string
		e     engine
		lines string
	}{
		{"clean", fake(clean(), nil), "help;convert x -o oci:y;convert x -o oci:y --format json;layer;layer --format json;cache list;cache size;cache prune;cache clear;cache list --format json;" +
			"hotfix x;hotfix --format json x;install docker;install docker --dry-run;install docker --format json;uninstall docker;rebuild --format json x;patch --format json -i x"},
		{"patchable", fake(patchable(), nil), "scan x y;patch -i --dry-run x;hotfix x;hotfix --apply x"},
		{"mixed", fake(mixed(), nil), "scan --format sarif x;scan --color always --explain x;patch -i x;verify x;hotfix --for docker x"},
		{"caught", fake(caught(), nil), "scan x;verify x"},
		{"fixed", fake(added, nil), "scan --explain x;rebuild x;patch --explain -i x;scan --explain --format json x;scan --format sarif x"},
		{"bench", benchEngine(), "bench;bench x;bench --redis x;bench --redis x --format json"},
		{"signed", rebuiltWith(func(r *images.Rebuilt) {
			r.Signatures = []images.Signature{{Kind: "notation signature", Where: "w"}, {Kind: "cosign signature", Where: "v"}}
			r.Warnings, r.Provenance, r.Packages = []string{"careful"}, []string{"p.json"}, everyRecord()
			one := *r
			one.Findings, one.LayerSize, one.Packages = clean(), 0, everyRecord()[:1]
			r.Levels = []*images.Rebuilt{&one}
		}), "rebuild x;rebuild --dry-run x;rebuild --format json x"},
		{"signed, not pushed", rebuiltWith(func(r *images.Rebuilt) {
			r.Reference, r.Signatures = "app:1", []images.Signature{{Kind: "cosign signature", Where: "v"}}
		}), "rebuild x"},
		{"signed by cosign", rebuiltWith(func(r *images.Rebuilt) { r.Signatures = []images.Signature{{Kind: "cosign signature", Where: "v"}} }), "rebuild x"},
		{"compared", verifiedWith(compared), "verify x --against y;verify --format json x --against y"},
		{"stated", verifiedWith(images.Verified{Stated: stated, NotCompared: []string{"f"}}), "verify --provenance x;verify --provenance --progress quiet x;verify --provenance x --against y;verify --provenance --format json x"},
		{"not as stated", verifiedWith(images.Verified{Stated: stated, Problems: []string{"g differs"}}), "verify --provenance x;verify --provenance x --against y"},
		{"a container", hotfixedWith(func(h *hotfix.Hotfixed) { h.Container, h.Recreated = true, nil }), "hotfix x;hotfix --apply x"},
		{"a running container", hotfixedWith(func(h *hotfix.Hotfixed) { h.Container, h.Running = true, true }), "hotfix --for podman x;hotfix --for compose --format json x"},
		{"recreated", hotfixedWith(func(h *hotfix.Hotfixed) {
			if h.Recreated != nil {
				h.Recreated.Image = ""
			}
		}), "hotfix --apply x"},
		{"diagnosed", engine{diagnose: finds(called(), logged(), elsewhere())}, "diagnose x;diagnose --format json x"},
	} {
		for line := range strings.SplitSeq(c.lines, ";") {
			got := runLine(c.e, strings.Fields(line)...)
			fmt.Fprintf(&b, "==== %s: vfix %s: status %d\n%s--\n%s", c.name, line, got.status, got.stdout, got.stderr)
		}
	}
	golden(t, "outputs.txt", b.String())
	b.Reset()
	for _, width := range []int{120, 89, 84, 80, 70, 60, 50} {
		l := stub()
		l.Write(&b, screen.Stream{Tty: true, Width: width, Paint: screen.Palette{On: true}})
		l.After = nil
		l.Code(&b, screen.Stream{Tty: true, Width: width, Paint: screen.Palette{On: true}})
	}
	l := listing.Site{Title: "a site without code"}
	l.Write(&b, screen.Stream{})
	golden(t, "explain-colour.txt", b.String())
}
