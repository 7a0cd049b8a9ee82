// Where the results go: the template that makes a DEST, and when two of them are one.

package batch

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/lazy"
)

// destKey is the same for all spellings of a DEST, "" for none.
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
		if _, _, _, ok := plainName(r.Name); ok {
			break
		}
		if n, err := name.ParseReference(r.Name); err == nil {
			r.Name = n.Name()
		}
	default:
		r.Name = filepath.Clean(r.Name)
	}
	return r.String(), nil
}

// holes finds the blanks of a template.
var holes = lazy.Regexp(`\{[^{}]*\}`)

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
	dest, err := fillTemplate(t, media.Ref{Transport: media.Registry, Name: "registry.example/team/app:1"})
	if err != nil {
		return err
	}
	_, err = media.ParseRef(dest)
	return err
}

// fillTemplate makes the DEST of an image. An image that is not from a registry or daemon is called
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
	if registry, repository, tag, ok := plainName(typed); ok {
		return fill(t, registry, repository, tag), nil
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
	return fill(t, registry, repository, tag), nil
}

func fill(t, registry, repository, tag string) string {
	last := repository[strings.LastIndex(repository, "/")+1:]
	for n, value := range []string{registry, repository, last, tag} { // no name has braces
		t = strings.ReplaceAll(t, templateWords[n], value)
	}
	return t
}

// plainName splits HOST/REPOSITORY:TAG if it is in the usual form of lists, which
// go-containerregistry leaves unchanged, but in five seconds for a million lines.
func plainName(typed string) (registry, repository, tag string, ok bool) {
	slash, colon := strings.IndexByte(typed, '/'), strings.LastIndexByte(typed, ':')
	if slash < 0 || colon < slash {
		return "", "", "", false
	}
	registry, repository, tag = typed[:slash], typed[slash+1:colon], typed[colon+1:]
	for n := range len(typed) {
		switch c := typed[n]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '.', c == '-':
		case c == ':' && (n < slash || n == colon):
		case c == '/' && n < colon, c == '_' && n > slash, c >= 'A' && c <= 'Z' && n > colon:
		default:
			return "", "", "", false
		}
	}
	const shortest, longest, longestTag = 2, 255, 127 // characters, as in go-containerregistry
	ok = strings.ContainsAny(registry, ".:") && !strings.HasSuffix(registry, ":") && !strings.HasSuffix(registry, "docker.io") &&
		len(repository) >= shortest && len(repository) <= longest && tag != "" && len(tag) <= longestTag
	return registry, repository, tag, ok
}
