// Opening any SOURCE: a path is recognized by its content.

package source

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
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
		src, err := transports[ref.Transport].open(ctx, ref, o)
		return src, ref.about(err)
	}
	src, err := OpenPath(ctx, ref.Name, o)
	if src != nil || err != nil {
		return src, err
	}
	if LooksLikePath(ref.Name) {
		return nil, noSuchFile(ref.Name)
	}
	return openName(ctx, ref.Name, o)
}

// about names a file or directory in an error about it. Errors about registries and engines name them themselves.
func (r Ref) about(err error) error {
	if err == nil || r.Transport == Daemon || r.Transport == Registry {
		return err
	}
	return fmt.Errorf("%s: %w", Ref{Transport: r.Transport, Name: r.Name}, err)
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
	ref := Ref{Name: name}
	fi, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		ref.Name, ref.Tag, _ = strings.Cut(name, ":")
		if fi, err = os.Stat(ref.Name); err != nil || ref.Tag == "" {
			return nil, nil
		}
	}
	switch {
	case err != nil:
		return nil, err
	case !fi.IsDir() && !fi.Mode().IsRegular():
		return nil, hinterr.Errorf(hinterr.ErrUnsupported, "%s is a device, a socket or a pipe, not a file", ref.Name)
	}
	src, err := openFile(ctx, ref, o)
	if err == nil && ref.Tag != "" && src.Image == nil { // what has no images has no tags
		return nil, src.Close()
	}
	return src, ref.about(err)
}

// openFile opens a directory or file that is recognized by its content.
func openFile(ctx context.Context, ref Ref, o Options) (*Source, error) {
	if isDir(ref.Name) {
		ref.Transport = Dir
		if _, err := os.Stat(filepath.Join(ref.Name, layoutFile)); err == nil {
			ref.Transport = OCILayout
		}
		return transports[ref.Transport].open(ctx, ref, o)
	}
	t, err := openTar(ctx, ref.Name, o)
	plain := &Source{Ref: ref, Path: ref.Name}
	switch {
	case errors.Is(err, errRootFS), ctx.Err() == nil && errors.Is(err, hinterr.ErrDamaged):
		return plain, nil // what reads it returns the error
	case err != nil:
		return nil, err
	case t.has(dockerManifest):
		ref.Transport = DockerArchive
	case t.has(layoutFile) && t.has(layoutIndex):
		ref.Transport = OCIArchive
	default:
		ref.Transport = DockerArchive // of before docker 1.10
		if old, err := v1Links(t); err == nil && len(old) == 0 {
			return plain, t.Close()
		}
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

// IsTarball reports, by its first block, whether a path is a file that may be a tar archive, compressed or not. A damaged
// compressed stream may be one, so that its reader reports the damage.
func IsTarball(name string) (bool, error) {
	if fi, err := os.Stat(name); err != nil || !fi.Mode().IsRegular() {
		return false, err
	}
	f, _, err := blob.OpenRegular(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	r, kind, err := blob.Decompress(context.Background(), f)
	if err != nil {
		return true, nil
	}
	defer r.Close()
	packed := kind != blob.PlainStream
	head := make([]byte, blob.TarBlock)
	if _, err := io.ReadFull(r, head); err != nil {
		return packed, nil
	}
	// The magic is missing in the name of a volume, and before 1988 (POSIX pax, "ustar Interchange Format").
	const at, magic = 257, "ustar"
	_, err = tar.NewReader(bytes.NewReader(head)).Next()
	return err == nil || packed && !errors.Is(err, tar.ErrHeader) || strings.HasPrefix(string(head[at:]), magic), nil
}

// openDir opens a root filesystem.
func openDir(_ context.Context, ref Ref, _ Options) (*Source, error) {
	if !isDir(ref.Name) {
		return nil, hinterr.Errorf(hinterr.ErrNotFound, "no such directory")
	}
	return &Source{Ref: ref, Path: ref.Name}, nil
}

// openName opens an image by its name alone: in the local engine, else in its registry. It prints a message before it
// contacts the registry, and does not contact docker.io for a name that is probably a file's: its last part has a dot,
// or it ends in .tar.
func openName(ctx context.Context, n string, o Options) (*Source, error) {
	ref, nameErr := name.ParseReference(n)
	if nameErr != nil {
		return nil, noSuchFile(n)
	}
	src, engineErr := openEngine(ctx, Ref{Transport: Daemon, Name: n}, o)
	if engineErr == nil || ctx.Err() != nil || !errors.Is(engineErr, hinterr.ErrNotFound) && !errors.Is(engineErr, hinterr.ErrNoDaemon) {
		return src, engineErr
	}
	repo := ref.Context()
	isFile := strings.Contains(path.Base(repo.RepositoryStr()), ".") || strings.HasSuffix(n, ".tar")
	if isFile && repo.RegistryStr() == name.DefaultRegistry {
		return nil, noSuchFile(n)
	}
	o.Progress.Note("%s: not a file here and not in a local engine: asking the registry %s", n, repo.RegistryStr())
	src, err := openRegistry(ctx, Ref{Transport: Registry, Name: n}, o)
	if err == nil || ctx.Err() != nil {
		return src, err
	}
	// The engine's hint is only for users who meant the engine.
	if h, is := errors.AsType[hinterr.Hinted](engineErr); is {
		engineErr = errors.Unwrap(h)
	}
	return nil, &hinterr.Tried{Name: n, Places: []error{errors.New("files: none of that name"), engineErr, err}}
}

// noSuchFile is the error about a name that is neither that of a file here nor of an image.
func noSuchFile(n string) error {
	return hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "%s: no such file or directory", n),
		"check the spelling; an image in a registry is written docker://NAME:TAG; see 'vfix help sources'")
}
