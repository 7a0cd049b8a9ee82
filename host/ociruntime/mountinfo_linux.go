// The mounts at a directory, and the layers of an overlay, from /proc/self/mountinfo.

package ociruntime

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"

	"vfix.dev/vfix/host/rootfs"
	"vfix.dev/vfix/internal/mounts"
	"vfix.dev/vfix/internal/nodefile"
)

// mount is a mount of mountinfo. Source: proc_pid_mountinfo(5).
type mount struct{ *mountinfo.Info }

// parseMounts parses a mountinfo file. Its order does not show which mount covers which.
func parseMounts(text []byte) (all []mount) {
	for _, m := range mounts.Read(text) {
		all = append(all, mount{m})
	}
	return all
}

func (m mount) readOnly() bool { return hasOption(m.Options, "ro") || hasOption(m.VFSOptions, "ro") }

// peers reports whether a mount has a propagation field, "shared:N" or "master:N".
func (m mount) peers(field string) bool { return slices.Contains(strings.Fields(m.Optional), field) }

func (m mount) isBelow(path string) bool {
	return strings.HasPrefix(m.Mountpoint, strings.TrimSuffix(path, "/")+"/")
}

// bare reports whether no mount is below a path.
func bare(all []mount, path string) bool {
	above := strings.TrimSuffix(path, "/") + "/"
	return !slices.ContainsFunc(all, func(m mount) bool { return strings.HasPrefix(m.Mountpoint, above) })
}

// mountAt returns the uppermost mount at path, which has the open file fd; false if path is not a mount.
func mountAt(all []mount, path string, fd int) (mount, bool) {
	id, err := rootfs.MountOf(fd)
	i := slices.IndexFunc(all, func(m mount) bool { return err == nil && m.ID == id && m.Mountpoint == path })
	if i < 0 {
		return mount{}, false
	}
	return all[i], true
}

func hasOption(list, option string) bool { return slices.Contains(strings.Split(list, ","), option) }

// unescape decodes octal escapes.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		const digits = 3
		if s[i] == '\\' && i+digits < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+1+digits], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += digits
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// wholeOverlay reports whether all of an overlay is mounted. A runtime binds the root to itself, and the root may
// be a directory in an overlay, as on live systems.
func (m mount) wholeOverlay() bool { return m.FSType == "overlay" && m.Root == "/" }

// overlay has the layers of an overlay file system.
type overlay struct {
	lower []string // uppermost first
	upper string   // "" for none
}

var errLayers = errors.New("the paths of the overlay's layers are unknown")

// layersOf parses the options of an overlay. Source: fs/overlayfs/params.c, ovl_show_options; a colon in a layer's
// path has a backslash before it. It returns an error, and the layers, if files may have other paths in the overlay
// than in the layers: relative layer paths (which an engine gave from another directory), directories renamed by
// redirect_dir, metadata without data (metacopy, data-only layers).
func layersOf(m mount) (o overlay, err error) {
	for _, opt := range optionsOf(m.VFSOptions) {
		name, value, _ := strings.Cut(opt, "=")
		switch name {
		case "datadir+":
			err = errLayers
			fallthrough
		case "lowerdir", "lowerdir+":
			o.lower = append(o.lower, splitLayers(unescape(value))...)
		case "upperdir":
			o.upper = unescape(value)
		case "redirect_dir", "metacopy", "verity":
			if value != "off" && value != "nofollow" {
				err = errLayers
			}
		case "ro", "rw", "sync", "dirsync", "lazytime", "workdir", "index", "nfs_export", "xino", "volatile", "uuid",
			"userxattr", "default_permissions", "fsync", "seclabel", "context", "fscontext", "defcontext", "rootcontext":
		default: // options of later kernels
			err = errLayers
		}
	}
	if parameterOn("redirect_dir") || parameterOn("metacopy") || len(o.lower) == 0 ||
		slices.ContainsFunc(o.lower, func(dir string) bool { return !filepath.IsAbs(dir) }) {
		err = errLayers
	}
	return o, err
}

// optionsOf splits the options of a file system; a SELinux context may have quoted commas.
func optionsOf(text string) (all []string) {
	from, quoted := 0, false
	for i, c := range text {
		switch {
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			all, from = append(all, text[from:i]), i+1
		}
	}
	return append(all, text[from:])
}

// splitLayers splits at the colons without a backslash before them.
func splitLayers(s string) (all []string) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case s[i] == ':':
			all = append(all, b.String())
			b.Reset()
		default:
			b.WriteByte(s[i])
		}
	}
	return append(all, b.String())
}

// parameterOn returns a boolean parameter of the overlay module.
func parameterOn(name string) bool {
	b, _ := nodefile.Text("/sys/module/overlay/parameters/" + name) // without the module it is off
	return strings.HasPrefix(string(b), "Y")
}

// immutable reports whether a lower layer is one of an image in an engine's store, which does not change once it
// exists: docker's overlay2, containers/storage's overlay, containerd's overlayfs snapshots.
func immutable(layer string) bool {
	parts := strings.Split(layer, "/")
	n := len(parts)
	if n < 4 {
		return false
	}
	switch {
	case parts[n-1] == "diff": // …/overlay2/ID/diff
		return (parts[n-3] == "overlay2" || parts[n-3] == "overlay") && isID(parts[n-2])
	case parts[n-2] == "l": // …/overlay2/l/SHORT, a symlink to …/overlay2/ID/diff
		return parts[n-3] == "overlay2" || parts[n-3] == "overlay"
	case parts[n-1] == "fs" && parts[n-3] == "snapshots": // …/NAME.overlayfs/snapshots/N/fs
		return strings.HasSuffix(parts[n-4], ".overlayfs")
	}
	return false
}

// engineRoot reports whether an engine made a directory for one container: a directory of docker's and
// containers/storage's vfs, btrfs, zfs and devicemapper drivers.
func engineRoot(path string) bool {
	path = strings.TrimSuffix(path, "/rootfs")
	id := filepath.Base(path)
	kind := filepath.Dir(path)
	for _, suffix := range []string{"/vfs/dir", "/btrfs/subvolumes", "/zfs/graph", "/devicemapper/mnt"} {
		if strings.HasSuffix(kind, suffix) && isID(id) {
			return true
		}
	}
	return false
}

// snapshotRoot reports whether the mount at a root is a snapshot of containerd without an overlay: "native"
// snapshots are bind mounts of a directory.
func snapshotRoot(m mount) bool {
	dir, _ := filepath.Split(m.Root)
	return strings.HasSuffix(dir, ".native/snapshots/")
}

// isID reports whether a name is an engine's ID: 64 hex digits; docker adds -init to the first layer of a
// container.
func isID(s string) bool {
	s = strings.TrimSuffix(s, "-init")
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && s == strings.ToLower(s)
}
