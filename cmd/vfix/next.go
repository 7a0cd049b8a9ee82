// The next command: what fixes a source on this machine, as a shell reads it.

package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/textutil"
)

// place has the facts about a machine that decide which command works on it.
type place struct {
	noEngine bool // no container engine answers: an image needs another destination
}

// engineLimit is how long vfix waits for an engine before it proposes a command that needs none.
const engineLimit = 3 * time.Second

// noEngine reports that no container engine answers.
func noEngine(ctx context.Context, e engine, o source.Options) bool {
	if e.answers == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, engineLimit)
	defer cancel()
	return !e.answers(ctx, o)
}

// placeFor finds the facts that the commands for some findings depend on.
func placeFor(ctx context.Context, e engine, o source.Options, all []scanned) place {
	needs := slices.ContainsFunc(all, func(f scanned) bool {
		return (f.Affected() || f.UncoveredSites() > 0) && isImage(f.Findings) && !strings.HasPrefix(f.Source, string(source.Daemon)+":") && !isContainer(f.Source)
	})
	return place{noEngine: needs && noEngine(ctx, e, o)}
}

func isImage(f *contents.Findings) bool { return f.Digest != "" }

func isContainer(typed string) bool { return strings.HasPrefix(typed, images.ContainerPrefix) }

// destination is the one that a rebuild of a source needs here, as words of a command; none for the default, the local
// engine.
func (p place) destination(name string) []string {
	ref, err := source.ParseRef(name)
	if err != nil || !p.noEngine || ref.Transport == source.Daemon {
		return nil
	}
	return []string{"-o", source.FileDest(ref).String()}
}

// quoted puts a command into quotation marks, unless it contains some: copied with them, it would be another command.
func quoted(command string) string {
	if strings.Contains(command, "'") {
		return command
	}
	return "'" + command + "'"
}

// explain is the command that shows the code around the call sites of sources.
func explain(typed ...string) string {
	command := "vfix scan --explain " + quotePaths(typed)
	if slices.ContainsFunc(typed, source.ReadOnce) {
		return "... | " + command
	}
	return command
}

func quotePaths(names []string) string {
	var all []string
	for _, name := range names {
		all = append(all, textutil.QuotePath(name))
	}
	return strings.Join(all, " ")
}

// fixes are the commands that fix what a scan found; if nothing can be fixed, the one that shows why. The first leaves
// the source as it is, if there are two.
func (p place) fixes(f scanned) []string {
	fix := ""
	if names := fixNames(f.Findings); names != "" {
		fix = "--fix " + names + " "
	}
	path, isDir := strings.TrimPrefix(f.typed, string(source.Dir)+":"), strings.HasPrefix(f.Source, string(source.Dir)+":")
	always := ""
	if slices.ContainsFunc(f.Packed, func(p contents.Packed) bool { return !p.Covered }) { // not a reason for the fallback by itself
		always = "--fallback always "
	}
	rebuild := strings.Join(append([]string{"vfix rebuild " + always + fix + textutil.QuotePath(f.typed)}, p.destination(f.Source)...), " ")
	switch {
	case !f.Affected() && len(f.Packed) > 0 && !isImage(f.Findings):
		archive := f.Packed[0].Path
		if isDir {
			archive = filepath.Join(path, archive)
		}
		return []string{"unzip -d DIR " + textutil.QuotePath(archive) + " && vfix patch -i DIR # then pack DIR again"}
	case !f.Affected() && len(f.Packed) == 0 && (!isImage(f.Findings) || isContainer(f.Source)): // of an image, a rebuild adds the fallback
		return []string{explain(f.typed)}
	case isContainer(f.Source):
		return []string{"vfix hotfix " + fix + textutil.QuotePath(f.typed)}
	case source.ReadOnce(f.Source) && isImage(f.Findings):
		return []string{"... | " + rebuild}
	case source.ReadOnce(f.Source) && fix == "":
		return []string{"vfix patch -o COPY FILE"}
	case isImage(f.Findings):
		return []string{rebuild}
	}
	quoted, patched := textutil.QuotePath(path), textutil.QuotePath(textutil.CopyName(path))
	if fix != "" {
		return []string{"vfix rebuild " + fix + "dir:" + quoted + " -o dir:" + patched}
	}
	if elsewhere := librariesElsewhere(f.Findings, path); len(elsewhere) > 0 {
		return []string{"vfix patch -i " + strings.Join(elsewhere, " ")}
	}
	return []string{"vfix patch -o " + patched + " " + quoted, "vfix patch -i " + quoted}
}

// librariesElsewhere are the files to patch if some of them are libraries that do not lie in the source, quoted; none if
// all do.
func librariesElsewhere(f *contents.Findings, path string) (all []string) {
	if f.Loads == nil {
		return nil
	}
	isDir := strings.HasPrefix(f.Source, string(source.Dir)+":")
	for i := range f.Files {
		name := f.Files[i].Path
		if isDir && !filepath.IsAbs(name) {
			name = path
		}
		if !f.Files[i].Plan.Empty() {
			all = append(all, textutil.QuotePath(name))
		}
	}
	if all = slices.Compact(all); len(all) == 1 && all[0] == textutil.QuotePath(path) {
		return nil
	}
	return all
}

// fixNames are those of the requested fixes that some file needs: a value of --fix, "" for none.
func fixNames(f *contents.Findings) string {
	var all []string
	for _, r := range fixedIn(f) {
		if name := string(r.Fix); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return strings.Join(all, ",")
}
