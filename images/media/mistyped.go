// Names that probably do not mean an image in a registry, but a file or a misspelt prefix.

package media

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/lazy"
	"vfix.dev/vfix/internal/nearest"
	"vfix.dev/vfix/internal/quote"
)

// fileEnding matches the endings of files that hold images, programs, or what is said of them.
var fileEnding = lazy.Regexp(`(?i)\.(tar|tgz|tbz2?|txz|t?zst|gz|bz2|xz|lz4|zip|sif|simg|img|iso|sqsh|squashfs|oci|qcow2|raw|json|ya?ml|txt|log|core|so|deb|rpm|whl|exe)(\.[0-9.]+)?$`)

// isDomain reports whether the first part of a name is a registry (distribution/reference, "normalize.go").
func isDomain(first string) bool { return strings.ContainsAny(first, ".:") || first == "localhost" }

// Mistyped returns an error if a name without a prefix, which is not a file here, was probably not meant as an image in
// a registry: no request is sent for a file with a misspelled name.
func Mistyped(n string) error {
	if prefix, rest := splitPrefix(n); prefix != "" {
		like := likePrefix(prefix)
		if like != "" && !strings.HasSuffix(like, "//") || like != "" && strings.HasPrefix(rest, "//") {
			err := hinterr.Errorf(hinterr.ErrNotFound, "%s: unknown prefix %s", n, n[:len(prefix)+1])
			meant := "did you mean " + like + quote.Path(strings.TrimPrefix(rest, "//")) + "?"
			if _, bad := name.ParseReference(n); bad == nil {
				meant += " An image of that name in a registry is docker://" + quote.Path(n)
			}
			return hinterr.With(err, "%s", meant)
		}
	}
	path, _, tagged := strings.Cut(n, ":")
	if _, err := os.Lstat(path); err == nil && tagged && (strings.Contains(path, ".") || strings.Contains(n[len(path)+1:], ":")) {
		return hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "%s: no such file, but %s exists", n, path),
			"name an image in it with a prefix: docker-archive:%s, or oci-archive: or oci:", quote.Path(n))
	}
	if _, err := name.ParseReference(n); err != nil {
		if _, lowerErr := name.ParseReference(strings.ToLower(n)); lowerErr == nil {
			return hinterr.With(noSuchFile(n, "%s: no such file, and image names have no capital letters", n), "did you mean %s?", quote.Path(strings.ToLower(n)))
		}
		return noSuchFile(n, "%s: no such file, and not the name of an image", n)
	}
	first, _, slash := strings.Cut(n, "/")
	if slash && isDomain(first) {
		return nil
	}
	last := n[strings.LastIndex(n, "/")+1:]
	last, _, tagged = strings.Cut(strings.Replace(last, "@", ":", 1), ":")
	if fileEnding().MatchString(last) || strings.Contains(last, ".") && !tagged {
		return noSuchFile(n, "%s: no such file", n)
	}
	return nil
}

// NoFile is the error about a path that does not exist, with the file that was probably meant.
func NoFile(path string) error { return noSuchFile(path, "%s: no such file or directory", path) }

func noSuchFile(path, format string, args ...any) error {
	err := hinterr.Errorf(hinterr.ErrNotFound, format, args...)
	like := nearestFile(path)
	switch {
	case like != "":
		return hinterr.With(err, "did you mean %s?", quote.Path(like))
	case LooksLikePath(path):
		return err
	}
	if _, bad := name.ParseReference(path); bad != nil {
		return hinterr.With(err, "check the spelling: an image is NAME, NAME:TAG or HOST/NAME:TAG; see 'vfix help sources'")
	}
	return hinterr.With(err, "check the spelling; an image of that name in a registry is written docker://%s", quote.Path(path))
}

// maxEntriesNear is how many entries of a directory are compared with a name.
const maxEntriesNear = 10_000

// nearestFile is an existing path that differs from a missing one by a letter or two, "" for none.
func nearestFile(path string) string {
	dir, base := filepath.Split(path)
	f, err := os.Open(filepath.Clean(dir + "."))
	if err != nil {
		return ""
	}
	defer f.Close()
	names, _ := f.Readdirnames(maxEntriesNear)
	if like := nearest.Of(base, names); len(like) > 0 {
		return dir + like[0]
	}
	return ""
}

// splitPrefix splits a name at what may have been meant as the end of a prefix; or "".
func splitPrefix(n string) (prefix, rest string) {
	i := strings.IndexAny(n, ":;=,")
	if i <= 0 || strings.ContainsAny(n[:i], "./@") {
		return "", n
	}
	return n[:i], n[i+1:]
}

// likePrefix is the prefix that a word is nearest to, with its colon or slashes; "" for none.
func likePrefix(word string) string {
	words := make([]string, 0, len(Prefixes))
	ends := map[string]string{}
	for _, p := range Prefixes {
		w := strings.TrimRight(p, ":/")
		words, ends[w] = append(words, w), p
	}
	if p, ok := ends[strings.ToLower(word)]; ok {
		return p
	}
	if like := nearest.Of(word, words); len(like) > 0 {
		return ends[like[0]]
	}
	return ""
}
