// Package rootpath follows a path inside a root filesystem as a process whose root it is
// would: an absolute link begins at the root, and .. does not leave it. Source: Linux,
// path_resolution(7). It opens nothing, and knows no file system: the caller looks names up, in a directory on
// this machine or in the layers of an image.
package rootpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// Programs are the directories of a root in which a program without a slash in its name is looked for.
var Programs = []string{"usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin"}

// MaxLinks is how many symlinks one path may pass through (linux/namei.h, MAXSYMLINKS).
const MaxLinks = 40

// ErrLoop: a path passes through more symlinks than that.
var ErrLoop = errors.New("too many levels of symbolic links")

// Resolve returns the path without symlinks that a path stands for, with slashes and without
// one in front; "" is the root. A name that does not exist is taken literally, so that the
// result is the path at which it would be created. readlink returns the target of the symlink at a path whose
// directory has no symlinks in it, or "" for anything but a symlink.
func Resolve(name string, readlink func(real string) (string, error)) (string, error) {
	at, missing, links := "", false, 0
	for rest := name; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		switch part {
		case "", ".":
			continue
		case "..":
			at = at[:max(strings.LastIndexByte(at, '/'), 0)]
			missing = false // perhaps; then the next name does not exist either
			continue
		}
		below, link := path.Join(at, part), ""
		if !missing {
			var err error
			link, err = readlink(below)
			missing = errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
			if err != nil && !missing {
				return "", fmt.Errorf("%s: %w", name, err)
			}
		}
		if link == "" {
			at = below
			continue
		}
		if links++; links > MaxLinks {
			return "", fmt.Errorf("%s: %w", name, ErrLoop)
		}
		if path.IsAbs(link) {
			at = ""
		}
		rest = link + "/" + rest
	}
	return at, nil
}

// In is Resolve in a directory on this machine; the directory itself is ".".
func In(root *os.Root, name string) (string, error) {
	real, err := Resolve(name, func(real string) (string, error) {
		fi, err := root.Lstat(real)
		if err != nil || fi.Mode()&fs.ModeSymlink == 0 {
			return "", err
		}
		return root.Readlink(real)
	})
	if real == "" && err == nil {
		real = "."
	}
	return real, err
}
