// Where the results go: the template that makes a DEST, and two images with the same DEST.

package lists

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/textutil"
)

// claim notes that an image goes to a DEST. It is an error if another one does.
func (r *run) claim(i Item, dest string) error {
	if dest == "" {
		return nil
	}
	key, err := destKey(dest)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if other, taken := r.claims[key]; taken && other.Line != i.Line {
		return hinterr.With(fmt.Errorf("%s: duplicate destination: line %d (%s) already writes there", dest, other.Line, other.Source),
			"name another DEST behind one of the two in the list")
	}
	r.claims[key] = i
	return nil
}

// destKey is the same for all spellings of a DEST.
func destKey(dest string) (string, error) {
	r, err := source.ParseRef(dest)
	if err != nil {
		return "", err
	}
	switch r.Transport {
	case source.Registry, source.Daemon:
		if n, err := name.ParseReference(r.Name); err == nil {
			r.Name = n.Name()
		}
	default:
		r.Name = filepath.Clean(r.Name)
	}
	return r.String(), nil
}

// holes finds the blanks of a template.
var holes = textutil.LazyRegexp(`\{[^{}]*\}`)

// templateWords are what a template may have in braces.
var templateWords = []string{"{registry}", "{repository}", "{name}", "{tag}"}

// CheckTemplate says what is wrong with a template.
func CheckTemplate(t string) error {
	for _, hole := range holes().FindAllString(t, -1) {
		if !slices.Contains(templateWords, hole) {
			return fmt.Errorf("%s: want %s", hole, strings.Join(templateWords, ", "))
		}
	}
	if !holes().MatchString(t) {
		return fmt.Errorf("%s: nothing in braces, so all images would be written to the same place", t)
	}
	// Any name will do to see whether the rest is a DEST.
	dest, err := fillTemplate(t, source.Ref{Transport: source.Registry, Name: "registry.example/team/app:1"})
	if err == nil {
		_, err = source.ParseRef(dest)
	}
	return err
}

// fillTemplate makes the DEST of an image. Its name and tag are those of a result without a suffix; an image that is named
// by its digest alone has the first twelve digits of it as its tag.
func fillTemplate(t string, ref source.Ref) (string, error) {
	const short = 12
	base, digest, _ := strings.Cut(ref.Name, "@sha256:")
	tag := digest[:min(len(digest), short)]
	if source.HasTag(base) {
		tag = ""
	}
	named, err := source.ResultName(ref, tag, "")
	if err != nil {
		return "", err
	}
	n, err := name.NewTag(named)
	if err != nil {
		return "", source.BadName(named, err)
	}
	registry, repository := strings.Replace(n.RegistryStr(), name.DefaultRegistry, "docker.io", 1), n.RepositoryStr()
	words := strings.NewReplacer("{registry}", registry, "{repository}", repository, "{name}", path.Base(repository), "{tag}", n.TagStr())
	return words.Replace(t), nil
}
