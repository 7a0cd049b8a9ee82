// Opening any SOURCE: a path is recognized by its content.

package source

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/internal/textutil"
)

// transports are the formats and services of images.
var transports = map[Transport]struct {
	open func(context.Context, Ref, Options) (*Source, error)
	put  func(context.Context, Ref, Result, Options) (Stored, error)
}{
	Daemon:        {openEngine, putEngine},
	Registry:      {openRegistry, putRegistry},
	DockerArchive: {openArchive, putArchive},
	OCIArchive:    {openArchive, putArchive},
	OCILayout:     {openLayout, putLayout},
	Dir:           {openDir, nil},
}

// Open resolves and opens a SOURCE. A name without a prefix is a path if it exists, else an image in the local engine,
// else one in its registry; "-" is stdin. The caller must Close the result.
func Open(ctx context.Context, source string, o Options) (*Source, error) {
	ref, err := ParseRef(source)
	if err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	open := openRef
	if isStream(ref) {
		open = openStream
	}
	src, err := open(ctx, ref, o)
	if err != nil {
		return nil, err
	}
	progress.Debug(o.Progress, "%s: opened as %s %s", source, src.Ref, src.Digest)
	return src, nil
}

func openRef(ctx context.Context, ref Ref, o Options) (*Source, error) {
	if !ref.Guessed {
		return transports[ref.Transport].open(ctx, ref, o)
	}
	src, err := OpenPath(ctx, ref.Name, o)
	if src != nil || err != nil {
		return src, err
	}
	if LooksLikePath(ref.Name) {
		return nil, NoFile(ref.Name)
	}
	return openName(ctx, ref.Name, o)
}

// OpenPath opens an existing path, or PATH:TAG with a layout or an archive at PATH. It is recognized by its content:
//
//	directory with oci-layout        OCI layout
//	any other directory              root filesystem
//	tar with manifest.json           docker archive, also gzip'ed; docker 25 saves an OCI archive with it
//	tar with oci-layout, index.json  OCI archive
//	any other file                   Plain
//
// It returns nil without an error if the path does not exist.
func OpenPath(ctx context.Context, name string, o Options) (*Source, error) {
	fi, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		if _, link := os.Lstat(name); link == nil { // a symlink to nothing
			return nil, err
		}
		return openTagged(ctx, name, o)
	}
	switch {
	case err != nil:
		return nil, err
	case fi.IsDir():
		return openAt(ctx, Ref{Name: name}, o)
	case !fi.Mode().IsRegular():
		return nil, hinterr.Errorf(hinterr.ErrUnsupported, "%s is a device, a socket or a pipe, not a file", name)
	}
	return openAt(ctx, Ref{Name: name}, o)
}

// openTagged opens PATH:TAG.
func openTagged(ctx context.Context, name string, o Options) (*Source, error) {
	path, tag, tagged := strings.Cut(name, ":")
	if _, err := os.Stat(path); err != nil || !tagged {
		return nil, nil
	}
	src, err := openAt(ctx, Ref{Name: path, Tag: tag}, o)
	if err == nil && src.Image == nil { // what has no images has no tags
		return nil, src.Close()
	}
	return src, err
}

// openAt opens a directory or file, with ref's tag if it is a layout or an archive.
func openAt(ctx context.Context, ref Ref, o Options) (*Source, error) {
	if isDir(ref.Name) {
		if _, err := os.Stat(filepath.Join(ref.Name, layoutFile)); err == nil {
			ref.Transport = OCILayout
			return openLayout(ctx, ref, o)
		}
		return openDir(ctx, Ref{Transport: Dir, Name: ref.Name}, o)
	}
	plain := &Source{Ref: Ref{Transport: Plain, Name: ref.Name}, Path: ref.Name}
	if ok, err := MaybeTar(ref.Name); !ok || err != nil {
		return plain, err
	}
	t, err := openTar(ctx, ref.Name, o, inRoot)
	switch {
	case err == nil:
	case errors.Is(err, errStopped), ctx.Err() == nil && errors.Is(err, hinterr.ErrDamaged):
		return plain, nil // what reads it returns the error
	default:
		return nil, err
	}
	switch {
	case t.has(dockerManifest), isV1Archive(t):
		ref.Transport = DockerArchive
	case t.has(layoutFile) && t.has(layoutIndex):
		ref.Transport = OCIArchive
	default:
		return plain, t.Close()
	}
	return fromArchive(ctx, t, ref, o)
}

// rootDirs are names at the top of a root filesystem but never of an archive of images (Filesystem Hierarchy Standard
// 3.0, chapter 3).
var rootDirs = []string{
	"bin", "boot", "dev", "etc", "home", "lib", "lib64", "media", "mnt", "opt", "proc", "root", "run", "sbin", "srv",
	"sys", "tmp", "usr", "var",
}

// inRoot reports whether an entry can only belong to a root filesystem.
func inRoot(entry string) bool {
	top, _, _ := strings.Cut(entry, "/")
	return slices.Contains(rootDirs, top)
}

// MaybeTar reports, by its first block, whether a file may be a tar archive, compressed or not.
func MaybeTar(name string) (bool, error) {
	f, _, err := blob.OpenRegular(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	head := make([]byte, tarBlock)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return false, err
	}
	if blob.DetectCompression(head[:n]) != blob.PlainStream {
		return compressedTar(f), nil
	}
	if n < tarBlock {
		return false, nil
	}
	// The magic is missing in the name of a volume, and before 1988 (POSIX pax, "ustar Interchange Format").
	const at, magic = 257, "ustar"
	_, err = tar.NewReader(bytes.NewReader(head)).Next()
	return err == nil || strings.HasPrefix(string(head[at:]), magic), nil
}

// compressedTar is MaybeTar for the unpacked first block. It returns true for a damaged stream, so that its reader
// reports the damage.
func compressedTar(f *os.File) bool {
	r, _, err := blob.Decompress(context.Background(), io.NewSectionReader(f, 0, math.MaxInt64))
	if err != nil {
		return true
	}
	defer r.Close()
	_, err = tar.NewReader(io.LimitReader(r, tarBlock)).Next()
	return !errors.Is(err, tar.ErrHeader)
}

// skopeoVersion begins the file "version" in a directory that skopeo's transport dir: wrote (containers/image,
// directory/explanation).
const skopeoVersion = "Directory Transport Version"

// openDir opens a root filesystem.
func openDir(_ context.Context, ref Ref, _ Options) (*Source, error) {
	fi, err := os.Stat(ref.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, hinterr.Errorf(hinterr.ErrNotFound, "%s: no such directory", ref.Name)
	}
	if err != nil {
		return nil, err
	}
	if !fi.IsDir() {
		return nil, fmt.Errorf("%s: not a directory", ref.Name)
	}
	version, _ := blob.ReadSmall(filepath.Join(ref.Name, "version"), blob.MaxManifest)
	if strings.HasPrefix(string(version), skopeoVersion) {
		return nil, hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%s: an image of skopeo's transport dir:", ref.Name),
			"copy it: skopeo copy dir:%s oci-archive:image.tar", textutil.QuotePath(ref.Name))
	}
	return &Source{Ref: ref, Path: ref.Name}, nil
}

// openName opens an image by its name alone: in the local engine, else in its registry. It prints a message before it
// contacts the registry, and does not contact it for a name that is probably a file.
func openName(ctx context.Context, n string, o Options) (*Source, error) {
	ref, nameErr := name.ParseReference(n)
	if nameErr != nil {
		return nil, cmp.Or(mistyped(n), nameErr)
	}
	src, engineErr := openEngine(ctx, Ref{Transport: Daemon, Name: n}, o)
	if engineErr == nil || ctx.Err() != nil {
		return src, engineErr
	}
	if !errors.Is(engineErr, hinterr.ErrNotFound) && !IsNoDaemon(engineErr) {
		return nil, engineErr
	}
	if err := mistyped(n); err != nil {
		return nil, err
	}
	o.Progress.Note("%s: not a file here and not in a local engine: asking the registry %s", n, ref.Context().RegistryStr())
	src, err := openRegistry(ctx, Ref{Transport: Registry, Name: n}, o)
	if err == nil || ctx.Err() != nil {
		return src, err
	}
	// The engine's hint is only for users who meant the engine.
	if h, is := errors.AsType[hinterr.Hinted](engineErr); is && errors.Is(engineErr, hinterr.ErrNotFound) {
		engineErr = errors.Unwrap(h)
	}
	return nil, &hinterr.Tried{Name: n, Places: []error{errors.New("files: none of that name"), engineErr, err}}
}

// fileEnding matches the endings of files that hold images, programs, or reports about them.
var fileEnding = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\.(tar|tgz|tbz2?|txz|t?zst|gz|bz2|xz|lz4|zip|sif|simg|img|iso|oci|raw|json|ya?ml|txt|log|core|so|deb|rpm|whl|exe)(\.[0-9.]+)?$`)
})

// mistyped returns an error for a name without a prefix, which is not a file here, if it was probably not meant as an
// image in a registry: no request is sent for a file or a prefix with a misspelled name.
func mistyped(n string) error {
	if i := strings.IndexAny(n, ":;=,"); i > 0 && !strings.ContainsAny(n[:i], "./@") {
		like, rest := likePrefix(n[:i]), n[i+1:]
		if like != "" && (!strings.HasSuffix(like, "//") || strings.HasPrefix(rest, "//")) {
			meant := "did you mean " + like + textutil.QuotePath(strings.TrimPrefix(rest, "//")) + "?"
			if _, bad := name.ParseReference(n); bad == nil {
				meant += " An image of that name in a registry is docker://" + textutil.QuotePath(n)
			}
			return hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "%s: unknown prefix %s", n, n[:i+1]), "%s", meant)
		}
	}
	if _, err := name.ParseReference(n); err != nil {
		if lower := strings.ToLower(n); lower != n {
			if _, err := name.ParseReference(lower); err == nil {
				return hinterr.With(noSuchFile(n, "%s: no such file, and image names have no capital letters", n), "did you mean %s?", textutil.QuotePath(lower))
			}
		}
		return noSuchFile(n, "%s: no such file, and not the name of an image", n)
	}
	first, _, slash := strings.Cut(n, "/")
	if slash && (strings.ContainsAny(first, ".:") || first == "localhost") { // a registry
		return nil
	}
	last, _, tagged := strings.Cut(strings.Replace(n[strings.LastIndex(n, "/")+1:], "@", ":", 1), ":")
	if fileEnding().MatchString(last) || strings.Contains(last, ".") && !tagged {
		return noSuchFile(n, "%s: no such file", n)
	}
	return nil
}

// NoFile is the error about a path that does not exist, with the file that was probably meant.
func NoFile(path string) error { return noSuchFile(path, "%s: no such file or directory", path) }

func noSuchFile(path, format string, args ...any) error {
	err := hinterr.Errorf(hinterr.ErrNotFound, format, args...)
	if like := nearestFile(path); like != "" {
		return hinterr.With(err, "did you mean %s?", textutil.QuotePath(like))
	}
	if LooksLikePath(path) {
		return err
	}
	if _, bad := name.ParseReference(path); bad != nil {
		return hinterr.With(err, "check the spelling: an image is NAME, NAME:TAG or HOST/NAME:TAG; see 'vfix help sources'")
	}
	return hinterr.With(err, "check the spelling; an image of that name in a registry is written docker://%s", textutil.QuotePath(path))
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
	if like := textutil.Nearest(base, names); len(like) > 0 {
		return dir + like[0]
	}
	return ""
}
