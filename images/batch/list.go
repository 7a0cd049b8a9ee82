// Lists of images: how they are read and split, and the template that names each result.

package batch

import (
	"bufio"
	"fmt"
	"hash/fnv"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
)

// Item is one line of a list of images.
type Item struct {
	Line   int // in the list, the first being 1
	Source string
	Dest   string // "" where the line has none
}

// maxLine is the longest line of a list, in bytes: no name of an image or path is longer.
const maxLine = 64 << 10

// ReadList reads a list: a line is SOURCE or SOURCE DEST, apart by spaces or tabs. Empty
// lines mean nothing, nor does what begins with a # at the start of a line or behind a
// space. A line that is there twice counts once.
func ReadList(r io.Reader) ([]Item, error) {
	var items []Item
	seen := map[Item]bool{}
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, maxLine)
	line := 0
	for sc.Scan() {
		line++
		text := strings.TrimPrefix(sc.Text(), "\ufeff") // what Windows begins a text with
		words := strings.Fields(text)
		for n, w := range words {
			if strings.HasPrefix(w, "#") {
				words = words[:n]
				break
			}
		}
		if len(words) == 0 {
			continue
		}
		if len(words) > 2 {
			return nil, hinterr.With(fmt.Errorf("line %d: %d words, want SOURCE or SOURCE DEST", line, len(words)),
				"a path with a space in it cannot be in a list")
		}
		i := Item{Source: words[0]}
		if len(words) == 2 {
			i.Dest = words[1]
			if _, err := media.ParseRef(i.Dest); err != nil {
				return nil, fmt.Errorf("line %d: %w", line, err)
			}
		}
		if _, err := media.ParseRef(i.Source); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if seen[i] {
			continue
		}
		seen[i] = true
		i.Line = line
		items = append(items, i)
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", line+1, err)
	}
	return items, nil
}

// Part is one of the parts of a list, the first being 0; the zero value is all of it.
type Part struct{ Index, Of int }

// has reports whether a line is in the part. A hash of the line says so, so that a line that is
// put in or taken out moves no other one.
func (p Part) has(i Item) bool {
	if p.Of < 2 {
		return true
	}
	h := fnv.New64a()
	io.WriteString(h, i.Source+" "+i.Dest)
	return h.Sum64()%uint64(p.Of) == uint64(p.Index)
}

// Count is how many lines of a list are in the part.
func (p Part) Count(items []Item) int {
	n := 0
	for _, i := range items {
		if p.has(i) {
			n++
		}
	}
	return n
}

// taken finds the lines whose DEST an earlier line has, and that earlier line. What a line without
// a DEST is called is known only when it is open, where it is a file.
func taken(items []Item, template string) map[int]Item {
	first, again := map[string]Item{}, map[int]Item{}
	for _, i := range items {
		dest := i.Dest
		if dest == "" && template != "" {
			if ref, err := media.ParseRef(i.Source); err == nil && (ref.Transport == media.Registry || ref.Transport == media.Daemon) {
				dest, _ = fillTemplate(template, ref)
			}
		}
		key, err := destKey(dest)
		if err != nil || key == "" {
			continue
		}
		if other, ok := first[key]; ok {
			again[i.Line] = other
		} else {
			first[key] = i
		}
	}
	return again
}

// destKey is the same for all ways to write a DEST, "" for none.
func destKey(dest string) (string, error) {
	if dest == "" {
		return "", nil
	}
	r, err := media.ParseRef(dest)
	if err != nil {
		return "", err
	}
	switch r.Transport {
	case media.Registry, media.Daemon:
		if n, err := name.ParseReference(r.Name); err == nil {
			r.Name = n.Name()
		}
	default:
		r.Name = filepath.Clean(r.Name)
	}
	return r.String(), nil
}

// holes finds what is to be filled in in a template.
var holes = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{[^{}]*\}`) })

// templateWords are what a template may have in braces.
var templateWords = []string{"{registry}", "{repository}", "{name}", "{tag}"}

// CheckTemplate says what is wrong with a template.
func CheckTemplate(t string) error {
	for _, hole := range holes().FindAllString(t, -1) {
		known := false
		for _, w := range templateWords {
			known = known || w == hole
		}
		if !known {
			return fmt.Errorf("%s: want %s", hole, strings.Join(templateWords, ", "))
		}
	}
	if !holes().MatchString(t) {
		return fmt.Errorf("%s: nothing in braces, so all images would go to the same place", t)
	}
	// Any name will do to see whether the rest is a DEST.
	dest, err := fillTemplate(t, media.Ref{Transport: media.Registry, Name: "registry.example/team/app:1"})
	if err != nil {
		return err
	}
	_, err = media.ParseRef(dest)
	return err
}

// fillTemplate makes the DEST of an image. What is not from a registry or daemon is called
// as DefaultDest would call it; an image that is named by its digest alone has the first
// twelve digits of it as its tag.
func fillTemplate(t string, ref media.Ref) (string, error) {
	typed := ref.Name
	if ref.Transport != media.Daemon && ref.Transport != media.Registry {
		var err error
		if typed, err = media.DefaultName(ref, ""); err != nil {
			return "", err
		}
	}
	n, err := name.ParseReference(typed)
	if err != nil {
		return "", media.BadName(typed, err)
	}
	repo := n.Context()
	tag := n.Identifier()
	if base, digest, ok := strings.Cut(typed, "@"); ok {
		if named, err := name.NewTag(base); err == nil && media.HasTag(base) {
			tag = named.TagStr()
		} else if _, hex, ok := strings.Cut(digest, ":"); ok {
			tag = hex[:min(len(hex), 12)]
		}
	}
	registry := repo.RegistryStr()
	if registry == name.DefaultRegistry {
		registry = "docker.io"
	}
	repository := repo.RepositoryStr()
	return strings.NewReplacer("{registry}", registry, "{repository}", repository,
		"{name}", repository[strings.LastIndex(repository, "/")+1:], "{tag}", tag).Replace(t), nil
}
