// The next command: what fixes a source on this machine, as a shell reads it.

package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/textutil"
)

// destination returns the one that a rebuild of an image needs here, as words of a command: none for the default, the
// local engine, if one answers.
type destination func(image string) []string

// engineLimit is how long vfix waits for an engine before it proposes a command that needs none.
const engineLimit = 3 * time.Second

// destinations asks for an engine once, at the first image that is not in one.
func destinations(ctx context.Context, e engine, o source.Options) destination {
	answers := sync.OnceValue(func() bool {
		ctx, cancel := context.WithTimeout(ctx, engineLimit)
		defer cancel()
		return e.answers == nil || e.answers(ctx, o)
	})
	return func(image string) []string {
		ref, err := source.ParseRef(image)
		if err != nil || ref.Transport == source.Daemon || answers() {
			return nil
		}
		return []string{"-o", source.FileDest(ref).String()}
	}
}

func isImage(f *contents.Findings) bool { return f.Digest != "" }

func isDir(f *contents.Findings) bool { return strings.HasPrefix(f.Source, string(source.Dir)+":") }

func isContainer(typed string) bool { return strings.HasPrefix(typed, images.ContainerPrefix) }

// quoted puts a command into quotation marks, unless it contains some: copied with them, it would be another command.
func quoted(command string) string {
	if strings.Contains(command, "'") {
		return command
	}
	return "'" + command + "'"
}

// explain is the command that shows the code around the call sites of sources.
func explain(typed ...string) string { return scanOf("--explain ", typed...) }

// scanOf is the command that scans sources with an option.
func scanOf(option string, typed ...string) string {
	command := "vfix scan " + option + quotePaths(typed)
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
func (d destination) fixes(f scanned) []string {
	fix := ""
	if fixed := fixedIn(f.Findings); len(fixed) > 0 { // there is one fix
		fix = "--fix " + string(fixed[0].Plan.Redirect.Fix) + " "
	}
	path := strings.TrimPrefix(f.typed, string(source.Dir)+":")
	switch {
	case isImage(f.Findings) && !isContainer(f.Source): // also if nothing can be patched: a rebuild adds the fallback
		return []string{d.rebuild(f, fix)}
	case len(f.ToPatch()) == 0 && len(f.Packed) > 0:
		archive := f.Packed[0].Path
		if isDir(f.Findings) {
			archive = filepath.Join(path, archive)
		}
		return []string{"unzip -d DIR " + textutil.QuotePath(archive) + " && vfix patch -i DIR # then pack DIR again"}
	case len(f.ToPatch()) == 0:
		return []string{explain(f.typed)}
	case isContainer(f.Source):
		return []string{"vfix hotfix " + fix + textutil.QuotePath(f.typed)}
	case source.ReadOnce(f.Source) && fix == "":
		return []string{"vfix patch -o COPY FILE"}
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

// rebuild is the command for an image.
func (d destination) rebuild(f scanned, fix string) string {
	command := "vfix rebuild "
	if slices.ContainsFunc(f.Packed, func(p contents.Packed) bool { return !p.Covered }) { // not a reason for the fallback by itself
		command += "--fallback always "
	}
	if source.ReadOnce(f.Source) {
		command = "... | " + command
	}
	return strings.Join(append([]string{command + fix + textutil.QuotePath(f.typed)}, d(f.Source)...), " ")
}

// librariesElsewhere are the files to patch if some of them are libraries that do not lie in the source, quoted; none if
// all do.
func librariesElsewhere(f *contents.Findings, path string) (all []string) {
	if f.Loads == nil {
		return nil
	}
	for i := range f.Files {
		name := f.Files[i].Path
		if isDir(f) && !filepath.IsAbs(name) {
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
