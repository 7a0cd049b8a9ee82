// File systems that may show the container other files than vfix: a server decides by itself whom it gives what.

package ociruntime

import (
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/rootfs"
)

// uncertain returns why the container may get other files than vfix from the file system at a descriptor, which is in one
// of these mounts; "" if it cannot. No program runs, and no library is loaded, from a mount with noexec.
func (k *container) uncertain(fd int, in []mount) string {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return err.Error()
	}
	if fs.Flags&unix.ST_NOEXEC != 0 || rootfs.KindOf(fd).Has(rootfs.Certain) {
		return ""
	}
	id, err := rootfs.MountOf(fd)
	if err != nil {
		return err.Error()
	}
	kind := "an unknown file system"
	if i := slices.IndexFunc(in, func(m mount) bool { return m.ID == id }); i >= 0 {
		if kind = in[i].FSType; kind == "overlay" {
			return k.uncertainLayer(in[i])
		}
	}
	if slices.Contains(kernelOnly, kind) || k.TrustsFiles(kind) {
		return ""
	}
	return kind + ": such a file system may show the container other files than vfix (trusted_filesystems)"
}

// uncertainLayer is uncertain for the layers of an overlay.
func (k *container) uncertainLayer(m mount) string {
	layers, _ := layersOf(m)
	others := slices.DeleteFunc(slices.Clone(k.machine), func(o mount) bool { return o.ID == m.ID }) // this ends, whatever covers a layer
	for _, dir := range append(layers.lower, layers.upper) {
		if dir == "" {
			continue // before data-only layers
		}
		dir, err := nearby(dir, m.Mountpoint, layers.upper)
		if err != nil {
			return err.Error()
		}
		if dir == m.Mountpoint { // it covers this layer of its own
			continue
		}
		if why := k.uncertainAt(dir, others); why != "" {
			return fmt.Sprintf("layer %s: %s", dir, why)
		}
	}
	return ""
}

// nearby returns the path of a layer. Engines give relative ones from a directory that has the mountpoint or the upper
// layer somewhere below it.
func nearby(layer string, places ...string) (string, error) {
	if filepath.IsAbs(layer) {
		return layer, nil
	}
	for _, at := range places {
		for ; filepath.IsAbs(at) && at != "/"; at = filepath.Dir(at) {
			var st unix.Stat_t
			if path := filepath.Join(at, layer); unix.Stat(path, &st) == nil {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("layer %s: %w", layer, errLayers)
}

// uncertainAt is uncertain for a file or directory at a path of this machine, if there is one.
func (k *container) uncertainAt(path string, in []mount) string {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		if gone(err) {
			return ""
		}
		return err.Error()
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err.Error()
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFDIR {
		return ""
	}
	return k.uncertain(fd, in)
}

// uncertainRoot is uncertain for the root.
func (k *container) uncertainRoot() string {
	fd, err := k.root.Name("")
	if err != nil {
		return err.Error()
	}
	defer unix.Close(fd)
	return k.uncertain(fd, k.mounts)
}
