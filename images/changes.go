// The changes that vfix makes to a file system: the files that it patches, and the additions because of those
// that it cannot patch, and for fixes. Rebuild writes it, verify compares with it.

package images

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/records"
	"vfix.dev/vfix/internal/fixes"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

// changes is what vfix makes of a file system.
type changes struct {
	targets  []contents.Target
	extras   []contents.Extra // files of the fallback and of fixes, and corrected package databases
	fallback bool             // files of the fallback are among them
	traced   bool             // vfix-trace is put before the entrypoint
	fixed    []Fixed
}

// Fixed is a file with a fix beyond calls of the page.
type Fixed struct {
	Path string   `json:"path"`
	Fix  find.Fix `json:"fix"`
}

// findChanges decides what is patched and added. It notes in the findings what the fallback covers then.
func findChanges(ctx context.Context, sub *contents.Subject, shim *fallback.Shim, mode fallback.Mode) (*changes, error) {
	c := &changes{targets: sub.F.ToPatch()}
	chosen, err := shim.Choose(ctx, sub, mode)
	if err != nil {
		return c, err
	}
	c.extras, c.fallback, c.traced = chosen.Files, len(chosen.Files) > 0, chosen.Traced
	if c.none() {
		return c, nil
	}
	return c, c.findFixes(ctx, sub)
}

// none reports whether there is nothing to do.
func (c *changes) none() bool { return len(c.targets) == 0 && len(c.extras) == 0 && !c.traced }

// findFixes notes what the targets' plans fix, and adds the files that the fixed programs
// read. A file of that name in the base, with other content, is an error: it is somebody else's.
func (c *changes) findFixes(ctx context.Context, sub *contents.Subject) error {
	added := map[find.Fix]bool{}
	for _, h := range c.targets {
		if !h.Plan.Redirected() {
			continue
		}
		d := h.Plan.Redirect
		c.fixed = append(c.fixed, Fixed{h.Names[0], d.Fix})
		if added[d.Fix] {
			continue
		}
		added[d.Fix] = true
		f := fixes.Of(d.Fix).File
		there, err := hasFile(ctx, sub, f.Name, f.Body)
		if err != nil {
			return err
		}
		if !there {
			c.extras = append(c.extras, contents.Extra{Name: f.Name, Mode: fixes.Mode, Body: f.Body})
		}
	}
	return nil
}

// hasFile reports whether the base already has a fix's file with this content.
func hasFile(ctx context.Context, sub *contents.Subject, name string, body []byte) (bool, error) {
	k := sub.T.Find(name)
	if k == nil {
		return false, nil
	}
	other := hinterr.With(fmt.Errorf("%s: the image has such a file, and it is not vfix's", name), "rebuild without --fix, or remove the file from the image")
	if k.Kind != contents.KindFile || k.Size != int64(len(body)) {
		return false, other
	}
	same := false
	err := sub.T.EachContent(ctx, map[string]*contents.Inode{name: k.Inode}, func(_ string, b []byte) { same = bytes.Equal(b, body) })
	if err == nil && !same {
		err = other
	}
	return same, err
}

// derivation is the image's statement about these changes and its origin.
func (c *changes) derivation(baseName, baseDigest, version string, made bool) derivation {
	d := derivation{BaseName: baseName, BaseDigest: baseDigest, Version: version, fallback: c.fallback, Traced: c.traced, made: made}
	d.calls = c.fallback || slices.ContainsFunc(c.targets, func(h contents.Target) bool {
		return slices.ContainsFunc(h.Plan.Patches, func(p patch.Patch) bool { return p.Form != patch.Left })
	})
	for _, r := range find.Fixes {
		if slices.ContainsFunc(c.fixed, func(f Fixed) bool { return f.Fix == r }) {
			d.fixed = append(d.fixed, r)
		}
	}
	return d
}

// correctPackages finds the records that package databases have of the patched files, and with update adds
// the databases to correct. Warnings say what could not be found out.
func (c *changes) correctPackages(ctx context.Context, sub *contents.Subject, update bool) (files []records.Record, warnings []string, err error) {
	files, corrected, err := records.DpkgRecords(ctx, sub, c.targets)
	if err != nil {
		return nil, nil, err
	}
	if update {
		for i := range files {
			files[i].Corrected = !files[i].Stale
		}
		c.extras = append(c.extras, corrected...)
	}
	rpm, err := records.RpmRecords(ctx, sub, c.targets)
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	if err != nil {
		warnings = []string{fmt.Sprintf("whether rpm has digests of the patched files could not be found out: %v", err)}
	}
	return append(files, rpm...), warnings, nil
}

// xattrWarnings are about xattrs that the patched files lose, or have in some engines only.
func (c *changes) xattrWarnings() (warnings []string) {
	for _, h := range c.targets {
		if h.Meta.CapabilityDisputed() {
			warnings = append(warnings, h.Names[0]+": has its security.capability in some engines only, before and after: docker and containerd apply the headers of its hard links, podman and umoci do not")
		}
		if all := contents.Marks(h.Meta.Xattrs); len(all) > 0 {
			warnings = append(warnings, h.Names[0]+": "+contents.MarkWarning(all))
		}
	}
	return warnings
}
