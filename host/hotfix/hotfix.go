// Hotfix: fix one container now, without installing anything or changing an image. Patched copies of the
// files are kept in a directory of this machine, and mounted over the originals.

// Package hotfix starts a container with patched files mounted over its own.
package hotfix

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/engine"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/mountopts"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/fixes"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/quote"
	"vfix.dev/vfix/rewriter/find"
)

// HotfixDir is where the patched copies are kept.
const HotfixDir = "/var/lib/vfix/hotfix"

// Options are the choices of vfix hotfix.
type Options struct {
	images.ScanOptions
	Dir string // where the patched copies are kept; "" is HotfixDir
	// Apply recreates the container, which must be a stopped one of docker's.
	Apply bool
}

// Hotfixed is what a hotfix made.
type Hotfixed struct {
	Findings *contents.Findings `json:"-"`
	// Container says that it is about a container, and Name is the container's name; else Name is the
	// image's, in the form that an engine runs, "" if it has none.
	Container bool   `json:"container"`
	Name      string `json:"name"`
	// Image is the image of the container; for an image the same as Name.
	Image string `json:"image"`
	// Service is a short name that compose and Kubernetes take: of the container's service,
	// else the last part of the image's name.
	Service string            `json:"service"`
	Mounts  []mountopts.Mount `json:"mounts"` // sorted by target; of patched files, and of what a fix needs
	// Covered are the container's own mounts (volumes, directories of the host): their content was not examined,
	// and they hide the image's files below them.
	Covered []string `json:"covered_by"`
	// Running says that the container runs: it cannot be recreated before it is stopped.
	Running bool `json:"running"`
	// Recreated is set if Apply was given and there was something to do.
	Recreated *Recreated `json:"recreated"`
}

// containerName matches the names that docker allows for containers, and IDs (daemon/names).
const containerName = `^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`

// Hotfix writes patched copies of an image's or container's files, to be mounted over the
// originals, and with Apply recreates a stopped docker container so. A name without a prefix
// is a container if an engine has one of that name, else an image.
func Hotfix(ctx context.Context, source string, o Options) (*Hotfixed, error) {
	o.Dir = cmp.Or(o.Dir, HotfixDir)
	s := contents.NewSession(o.Jobs, o.Media.Progress, o.Rewriter)
	defer s.Close()
	h := &hotfix{s: s, o: o, out: &Hotfixed{}}
	name, isContainer := strings.CutPrefix(source, images.ContainerPrefix)
	if isContainer || regexp.MustCompile(containerName).MatchString(name) {
		found, err := h.findContainer(ctx, name)
		switch {
		case err != nil && (isContainer || o.Apply || !media.IsNoDaemon(err)):
			return nil, err
		case found:
			return h.out, nil
		case isContainer || o.Apply:
			return nil, hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "no container %s", name), "docker ps --all lists them")
		}
	} else if o.Apply {
		return nil, hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "%s: no container", source), "--apply recreates a container: name it as 'docker ps --all' does")
	}
	return h.out, h.image(ctx, source)
}

type hotfix struct {
	s   *contents.Session
	o   Options
	out *Hotfixed
}

// findContainer does the work for a container, if one of the daemons has it.
func (h *hotfix) findContainer(ctx context.Context, name string) (found bool, err error) {
	err = media.EachDaemon(ctx, "", h.o.Media, func(c *engine.Client) (bool, error) {
		got, err := c.Container(ctx, name)
		if engine.NotFound(err) {
			if !h.o.Apply {
				return false, nil
			}
			if err = notRenamed(ctx, c, name); err == nil {
				return false, nil
			}
		}
		found = true
		if err == nil {
			err = h.container(ctx, c, got)
		}
		if err != nil {
			err = fmt.Errorf("container %s: %w", name, err)
		}
		return true, err
	})
	return found, err
}

func (h *hotfix) image(ctx context.Context, source string) error {
	src, err := sources.Open(ctx, source, h.o.Media)
	if err != nil {
		return err
	}
	defer src.Close()
	if src.Image == nil {
		return hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%v: not an image or container", src.Ref),
			"patch files, directories and tarballs with: vfix patch -o OUTPUT %s", quote.Path(src.Path))
	}
	var e engine.Traits
	if src.Ref.Transport == media.Daemon {
		h.out.Name = src.Ref.Name
		err := media.EachDaemon(ctx, src.Ref.Where(), h.o.Media, func(c *engine.Client) (bool, error) {
			e, err = c.Traits(ctx)
			return true, err
		})
		if err != nil {
			return err
		}
	} else if src.Ref.Transport == media.Registry {
		h.out.Name = src.Ref.Name
	}
	h.out.Image, h.out.Service = h.out.Name, serviceName(h.out.Name)
	sub, err := h.s.OpenSubject(ctx, src)
	if err != nil {
		return err
	}
	defer sub.Close()
	h.out.Findings = sub.F.Findings
	return h.keep(ctx, sub.F.ToPatch(), nil, e)
}

// serviceName is the last part of an image's name, as far as it can be the name of a
// container of Kubernetes (RFC 1123, DNS label).
func serviceName(image string) string {
	image, _, _ = strings.Cut(image, "@")
	base := path.Base(image)
	base, _, _ = strings.Cut(base, ":")
	base = strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, base), "-")
	const longest = 63
	if len(base) > longest {
		base = strings.TrimRight(base[:longest], "-")
	}
	if base == "" {
		return "app"
	}
	return base
}

// keep writes the patched copies of targets and fills in the mounts. Names below one of the
// directories or files covered are left out: the container does not see these files.
func (h *hotfix) keep(ctx context.Context, targets []contents.Target, covered []string, e engine.Traits) error {
	var k *copyDir
	var fixed []find.Fix
	for _, one := range targets {
		targets := visibleNames(one.Names, covered)
		if len(targets) == 0 {
			continue
		}
		if k == nil {
			var err error
			if k, err = openCopyDir(h.o.Dir, e, h.s.Progress); err != nil {
				return err
			}
			defer k.close()
		}
		source, err := k.put(ctx, *one.Meta.Unmarked(), one.Plan.Size, one.Plan.Apply(one.ELF.Content))
		if err != nil {
			return fmt.Errorf("patched copy of %s: %w", targets[0], err)
		}
		for _, t := range targets {
			h.out.Mounts = append(h.out.Mounts, mountopts.Mount{Source: source, Target: t, Size: one.Plan.Size})
		}
		if d := one.Plan.Redirect; one.Plan.Redirected() && !slices.Contains(fixed, d.Fix) {
			fixed = append(fixed, d.Fix)
		}
	}
	for _, r := range fixed {
		if err := h.keepFile(ctx, k, fixes.Of(r).File, covered); err != nil {
			return fmt.Errorf("%s: %w", r, err)
		}
	}
	slices.SortFunc(h.out.Mounts, func(a, b mountopts.Mount) int { return strings.Compare(a.Target, b.Target) })
	return nil
}

// keepFile writes the file that fixed programs read, and adds its mount.
func (h *hotfix) keepFile(ctx context.Context, k *copyDir, f fixes.File, covered []string) error {
	if len(visibleNames([]string{f.Name}, covered)) == 0 {
		return hinterr.With(fmt.Errorf("/%s: the container has a mount there", f.Name), "omit --fix, or remove that mount")
	}
	source, err := k.put(ctx, contents.Meta{Mode: fixes.Mode, Mtime: time.Unix(0, 0)}, int64(len(f.Body)), bytes.NewReader(f.Body))
	if err != nil {
		return err
	}
	h.out.Mounts = append(h.out.Mounts, mountopts.Mount{Source: source, Target: "/" + f.Name, Size: int64(len(f.Body))})
	return nil
}

// visibleNames are the absolute names that no mount covers.
func visibleNames(names, covered []string) (all []string) {
	for _, n := range names {
		n = "/" + n
		if !slices.ContainsFunc(covered, func(c string) bool { return n == c || c == "/" || strings.HasPrefix(n, c+"/") }) {
			all = append(all, n)
		}
	}
	return all
}
