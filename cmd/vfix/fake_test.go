// Findings, rebuilds and installations made up for the tests.

package main

import (
	"strings"

	"golang.org/x/arch/x86/x86asm"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/hazards"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

// Findings as the engine might return them.

const (
	layer0 = "sha256:a3ed95caeb02ffe68cdd9fd84406680ae93d633cb16422d00e8a7c22955b46d4"
	layer3 = "sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"
	digest = "sha256:0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0"
)

func site(vaddr uint64, f find.Function, v find.Verdict, reason find.Reason) find.Site {
	return find.Site{Vaddr: vaddr, Offset: vaddr - 0x400000, Len: 7, Function: f, Verdict: v, Reason: reason, Called: v == find.Live}
}

func calledAt(at uint64) find.Reason { return find.Reason{Cause: find.Called, At: at} }

func patchOf(s find.Site, form patch.Form, why patch.Cause) patch.Patch {
	p := patch.Patch{Site: s, Form: form, Reason: patch.Reason{Cause: why}}
	if form != patch.Left {
		p.Vaddr, p.Offset = s.Vaddr, s.Offset
		p.Before = []byte{0x48, 0xc7, 0xc0, 0x00, 0x04, 0x60, 0xff, 0xff, 0xd0}
		p.After = []byte{0x0f, 0x1f, 0x40, 0x00, 0xe8, 0x10, 0x20, 0x30, 0x00}
	}
	return p
}

func fileOf(path, libc string, patches ...patch.Patch) contents.File {
	f := contents.File{
		Path: path, Size: 1 << 20, Layer: layer0,
		Report: &find.Report{Libc: libc}, Plan: &patch.Plan{Patches: patches, Size: 1<<20 + 8192},
	}
	for _, p := range patches {
		f.Report.Sites = append(f.Report.Sites, p.Site)
		if p.Form != patch.Left {
			f.Plan.Edits = append(f.Plan.Edits, patch.Edit{Offset: p.Offset, Old: p.Before, New: p.After, Why: "call site"})
		}
	}
	return f
}

func clean() *contents.Findings {
	return &contents.Findings{Source: "docker-daemon:debian:12", Digest: digest, ELFFiles: 812, ExecBytes: 220 << 20}
}

func patchable() *contents.Findings {
	f := clean()
	f.Source = "docker-daemon:redis:2.8.22"
	libc := fileOf("lib/x86_64-linux-gnu/libc-2.13.so", "glibc 2.13",
		patchOf(site(0x4a0010, find.Gettimeofday, find.Live, calledAt(0x4a0017)), patch.Entry, patch.WholeStub),
		patchOf(site(0x4a0050, find.Time, find.Live, calledAt(0x4a0057)), patch.Entry, patch.WholeStub),
		patchOf(site(0x4b0050, find.Getcpu, find.Live, calledAt(0x4b0057)), patch.Lea, patch.OnlyCalled))
	pthread := fileOf("lib/x86_64-linux-gnu/libpthread-2.13.so", "glibc 2.13",
		patchOf(site(0x40c000, find.Gettimeofday, find.Live, calledAt(0x40c007)), patch.Lea, patch.OnlyCalled),
		patchOf(site(0x40d000, find.Gettimeofday, find.Live, calledAt(0x40d007)), patch.Lea, patch.OnlyCalled))
	f.Files = []contents.File{libc, pthread}
	return f
}

func mixed() *contents.Findings {
	f := patchable()
	odd := fileOf("usr/local/bin/odd", "",
		patchOf(site(0x4012ab, find.Time, find.Unknown, find.Reason{Cause: find.Used, At: 0x4012b5, Op: x86asm.MOV}), patch.Left, 0),
		patchOf(site(0x4013ab, find.Time, find.Live, calledAt(0x4013c2)), patch.Lea, patch.OnlyCalled))
	odd.Layer, odd.Index = layer3, 3
	odd.Links = []string{"usr/local/bin/even"}
	odd.Plan.Warnings = []string{"the build id note was spent on the segment"}
	f.Files = append(f.Files, harmless().Files[0], odd)
	f.Passed = []contents.Passed{{Path: "usr/lib/broken\x1b[31m.so", Layer: layer3, Reason: "damaged ELF: no program headers"}}
	f.Hazards = []contents.Hazard{{Hazard: hazards.Hazard{Kind: hazards.JavaCgroups, Version: "17.0.9+9"}, Path: "opt/jdk/lib/server/libjvm\x1b[31m.so", Layer: layer3}}
	return f
}

// covered is mixed with a fallback that takes care of what is left.
func covered() *contents.Findings {
	f := mixed()
	f.Files[len(f.Files)-1].Covered = "vfix-trace"
	f.Fallback = contents.Fallback{
		Library: true, Trace: true, Wrapped: true,
		Added:   []string{"etc/ld.so.preload", "vfix/vfix-trace", "vfix/x86_64/libvfix.so"},
		Reasons: []string{"usr/local/bin/odd: a static program: nothing loads libvfix.so into it"},
	}
	return f
}

func harmless() *contents.Findings {
	f := clean()
	goProgram := fileOf("usr/bin/gosu", "",
		patchOf(site(0x5012a0, find.Gettimeofday, find.Dormant, find.Reason{Cause: find.GoData}), patch.Left, 0),
		patchOf(site(0x5012a8, find.Gettimeofday, find.Dormant, find.Reason{Cause: find.GoData}), patch.Left, 0),
		patchOf(site(0x5022a8, find.Time, find.Benign, find.Reason{Cause: find.Compared}), patch.Left, 0))
	f.Files = []contents.File{goProgram}
	return f
}

func rebuiltOf(f *contents.Findings, o images.RebuildOptions) *images.Rebuilt {
	r := &images.Rebuilt{
		Findings: f, BaseName: strings.TrimPrefix(f.Source, "docker-daemon:"), BaseDigest: digest, Reference: "redis:2.8.22-vfix@" + layer3,
		Digest: layer3, LayerSize: 1234567,
	}
	if len(f.ToPatch()) == 0 {
		r.Unchanged, r.Reference, r.Digest, r.LayerSize = true, "debian:12", digest, 0
	}
	if o.DryRun {
		r.Reference, r.Digest, r.LayerSize = r.BaseName, "", 0
	}
	return r
}

// unread is clean except for what could not be read.
func unread() *contents.Findings {
	f := clean()
	f.Passed = []contents.Passed{{Path: "root", Reason: "permission denied", Denied: true, Unread: true}, {Path: "usr/bin/x", Reason: "permission denied", Denied: true, Unread: true}}
	return f
}

// caught is patchable with a fallback that catches all of it.
func caught() *contents.Findings {
	f := patchable()
	for i := range f.Files {
		f.Files[i].Covered = "libvfix.so"
	}
	return f
}
