// Opens a path, whose format is recognized by its content.

package sources

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
)

// rootDirs are names at the top of a root filesystem but never of an archive of images (Filesystem Hierarchy
// Standard 3.0, chapter 3).
var rootDirs = map[string]bool{
	"bin": true, "boot": true, "dev": true, "etc": true, "home": true, "lib": true, "lib64": true,
	"media": true, "mnt": true, "opt": true, "proc": true, "root": true, "run": true, "sbin": true,
	"srv": true, "sys": true, "tmp": true, "usr": true, "var": true,
}

// inRoot reports whether an entry can only belong to a root filesystem.
func inRoot(entry string) bool {
	top, _, _ := strings.Cut(entry, "/")
	return rootDirs[top]
}

// OpenPath opens an existing path, recognized by its content:
//
//	directory with oci-layout        OCI layout
//	directory with a manifest        what skopeo's dir: writes
//	any other directory              root filesystem
//	file with a manifest             an image with its layers beside it
//	tar with manifest.json           docker archive, also gzip'ed; docker 25 saves an OCI archive with it
//	tar with oci-layout, index.json  OCI archive
//	any other file                   Plain
//
// It returns nil without an error if the path does not exist.
func OpenPath(ctx context.Context, name string, o media.Options) (*media.Source, error) {
	fi, err := os.Stat(name)
	if err != nil {
		if _, link := os.Lstat(name); link == nil { // the name means the symlink, which leads nowhere
			return nil, err
		}
		// A name like redis:2.8 is an error of its own on some systems (Windows).
		if errors.Is(err, fs.ErrNotExist) || !media.LooksLikePath(name) && !errors.Is(err, fs.ErrPermission) {
			return nil, nil
		}
		return nil, err
	}
	switch {
	case fi.IsDir():
		if _, err := os.Stat(filepath.Join(name, media.LayoutFile)); err == nil {
			return media.OpenLayout(ctx, media.Ref{Transport: media.OCILayout, Name: name}, o)
		}
		return openDir(ctx, media.Ref{Transport: media.Dir, Name: name}, o)
	case !fi.Mode().IsRegular():
		return nil, hinterr.Errorf(hinterr.ErrUnsupported, "%s is a %s, not a file", name, contents.SpecialName(fi.Mode()))
	}
	if tarAtAll, err := contents.MaybeTar(name); err != nil {
		return nil, err
	} else if !tarAtAll {
		return openOther(ctx, name, o)
	}
	t, err := media.OpenTar(ctx, name, o, inRoot)
	switch {
	case err == nil:
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, fs.ErrPermission):
		return nil, err
	case errors.Is(err, media.ErrStopped), errors.Is(err, media.ErrNotTar), errors.Is(err, hinterr.ErrDamaged):
		return plainFile(name), nil // the read returns the error
	default:
		return nil, err
	}
	switch {
	case t.Has(media.ArchiveManifest), media.IsV1Archive(t):
		return media.FromArchive(ctx, t, media.Ref{Transport: media.DockerArchive, Name: name}, o)
	case t.Has(media.LayoutFile) && t.Has(media.LayoutIndex):
		return media.FromArchive(ctx, t, media.Ref{Transport: media.OCIArchive, Name: name}, o)
	}
	return plainFile(name), t.Close()
}

func openOther(ctx context.Context, name string, o media.Options) (*media.Source, error) {
	if sifAtAll, err := startsAsSIF(name); err != nil {
		return nil, err
	} else if sifAtAll {
		return openSIF(ctx, media.Ref{Transport: media.SIF, Name: name}, o)
	}
	if fi, err := os.Stat(name); err == nil && fi.Size() <= blob.MaxManifest {
		src, err := media.OpenManifest(ctx, media.Ref{Transport: media.Plain, Name: name}, name, o)
		if src != nil || err != nil {
			return src, err
		}
	}
	return plainFile(name), nil
}

func startsAsSIF(name string) (bool, error) {
	f, _, err := blob.OpenRegular(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	head := make([]byte, sifHeaderLen)
	n, err := io.ReadFull(f, head)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return isSIF(head[:n]), err
}

func plainFile(name string) *media.Source {
	return &media.Source{Ref: media.Ref{Transport: media.Plain, Name: name}, Path: name}
}

// openDir opens a directory: skopeo's image if it has a manifest, else a root filesystem.
func openDir(ctx context.Context, ref media.Ref, o media.Options) (*media.Source, error) {
	file := filepath.Join(ref.Name, media.DirManifest)
	if fi, err := os.Stat(file); err == nil && fi.Mode().IsRegular() && fi.Size() <= blob.MaxManifest {
		src, err := media.OpenManifest(ctx, ref, file, o)
		if src != nil || err != nil {
			return src, err
		}
	}
	return directory(ref)
}

// directory returns a root filesystem as a source.
func directory(ref media.Ref) (*media.Source, error) {
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
	return &media.Source{Ref: ref, Path: ref.Name}, nil
}
