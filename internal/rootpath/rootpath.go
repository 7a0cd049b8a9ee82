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

// Place is a position in following a path.
type Place interface {
	// Top goes to the root.
	Top()
	// Up goes to the parent; the root's is the root itself.
	Up()
	// Down descends to a name. At a symlink it stays, and returns the target. An error ends the search.
	Down(name string) (link string, err error)
}

// Follow leads p from the root along a path; neither is changed by empty and "." components.
func Follow(p Place, name string) error {
	p.Top()
	links := 0
	for rest := name; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		switch part {
		case "", ".":
			continue
		case "..":
			p.Up()
			continue
		}
		link, err := p.Down(part)
		if err != nil {
			return err
		}
		if link == "" {
			continue
		}
		if links++; links > MaxLinks {
			return ErrLoop
		}
		if path.IsAbs(link) {
			p.Top()
		}
		rest = link + "/" + rest
	}
	return nil
}

// ErrNoLink is what a function for Resolve returns for anything but a symlink.
var ErrNoLink = errors.New("no symlink")

// Resolve returns the path without symlinks that a path stands for, with slashes and without
// one in front; "" is the root. A name that does not exist is taken literally, so that the
// result is the path at which it would be created. readlink returns the target of the symlink at a path whose
// directory has no symlinks in it, or ErrNoLink.
func Resolve(name string, readlink func(real string) (string, error)) (string, error) {
	p := &resolved{readlink: readlink}
	if err := Follow(p, name); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return p.at, nil
}

// In is Resolve in a directory on this machine; the directory itself is ".".
func In(root *os.Root, name string) (string, error) {
	real, err := Resolve(name, func(real string) (string, error) {
		fi, err := root.Lstat(real)
		if err == nil && fi.Mode()&fs.ModeSymlink == 0 {
			err = ErrNoLink
		}
		if err != nil {
			return "", err
		}
		return root.Readlink(real)
	})
	if real == "" && err == nil {
		real = "."
	}
	return real, err
}

// resolved is a Place that is a path.
type resolved struct {
	readlink func(string) (string, error)
	at       string
	missing  bool // at does not exist
}

func (p *resolved) Top() { p.at, p.missing = "", false }

func (p *resolved) Up() {
	p.at = p.at[:max(strings.LastIndexByte(p.at, '/'), 0)]
	p.missing = false // perhaps; then the next name does not exist either
}

func (p *resolved) Down(name string) (string, error) {
	below := name
	if p.at != "" {
		below = p.at + "/" + name
	}
	if !p.missing {
		link, err := p.readlink(below)
		switch {
		case errors.Is(err, ErrNoLink):
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			p.missing = true
		case err != nil || link != "": // Linux makes no symlink to ""
			return link, err
		}
	}
	p.at = below
	return "", nil
}
