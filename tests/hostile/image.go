// Images with one defect each: OCI layouts (image-spec v1.1) and docker archives.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/klauspost/compress/zstd"
)

const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
	typeZstd     = "application/vnd.oci.image.layer.v1.tar+zstd"
	bombSize     = 128 << 20 // bytes of zeros
	legacyPath   = "usr/bin/legacy"
)

type object = map[string]any

// image is a layout under construction. A defect changes one thing of it before it is written.
type image struct {
	layer     []byte // as it is stored
	layerType string
	diffID    string
	manifest  func(object) // changes the manifest
	config    func(object)
	index     func(object)
	after     func(dir string) // changes the files
	blobs     map[string][]byte
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(b)
	check(err)
	check(w.Close())
	return out.Bytes()
}

// tarOf is a tar of these entries; an entry without a type is a regular file.
func tarOf(entries ...tar.Header) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range entries {
		data := []byte(h.Uname) // borrowed for the content
		h.Uname = ""
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(data))
		}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		check(w.WriteHeader(&h))
		if h.Typeflag == tar.TypeReg {
			_, err := w.Write(data)
			check(err)
		}
	}
	check(w.Close())
	return out.Bytes()
}

func file(name string, data []byte) tar.Header {
	return tar.Header{Name: name, Uname: string(data)}
}

func link(typ byte, name, to string) tar.Header {
	return tar.Header{Name: name, Linkname: to, Typeflag: typ}
}

// ofTar is the good image with another layer.
func ofTar(raw []byte) *image {
	return &image{layer: gzipped(raw), layerType: typeLayer, diffID: digest(raw)}
}

func (m *image) blob(dir string, b []byte) string {
	d := digest(b)
	check(os.WriteFile(filepath.Join(dir, "blobs", "sha256", strings.TrimPrefix(d, "sha256:")), b, 0o644))
	return d
}

func (m *image) json(dir string, v object, change func(object)) (string, int) {
	if change != nil {
		change(v)
	}
	b, err := json.Marshal(v)
	check(err)
	return m.blob(dir, b), len(b)
}

// write writes the layout.
func (m *image) write(dir string) {
	check(os.MkdirAll(filepath.Join(dir, "blobs", "sha256"), 0o755))
	check(os.WriteFile(filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644))
	for _, b := range m.blobs {
		m.blob(dir, b)
	}
	layer := m.blob(dir, m.layer)
	config, configSize := m.json(dir, object{
		"architecture": "amd64", "os": "linux", "config": object{},
		"rootfs": object{"type": "layers", "diff_ids": []string{m.diffID}},
	}, m.config)
	manifest, manifestSize := m.json(dir, object{
		"schemaVersion": 2, "mediaType": typeManifest,
		"config": object{"mediaType": typeConfig, "digest": config, "size": configSize},
		"layers": []object{{"mediaType": m.layerType, "digest": layer, "size": len(m.layer)}},
	}, m.manifest)
	index := object{
		"schemaVersion": 2, "mediaType": typeIndex,
		"manifests": []object{{"mediaType": typeManifest, "digest": manifest, "size": manifestSize}},
	}
	if m.index != nil {
		m.index(index)
	}
	b, err := json.Marshal(index)
	check(err)
	check(os.WriteFile(filepath.Join(dir, "index.json"), b, 0o644))
	if m.after != nil {
		m.after(dir)
	}
}

// bomb is a layer of zeros behind a good header.
func bomb() []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	check(w.WriteHeader(&tar.Header{Name: "zeros", Mode: 0o644, Size: bombSize}))
	_, err := w.Write(make([]byte, bombSize))
	check(err)
	check(w.Close())
	return out.Bytes()
}

// sparse is an old GNU sparse header that claims 10 GB of which nothing is stored.
func sparse() []byte {
	b := tarOf(link(tar.TypeLink, "zeros", ""))
	b[156] = 'S'                                // GNU sparse
	copy(b[257:], "ustar  \x00")                // magic, GNU
	copy(b[483:], "00000000000\x0000000000000") // no parts
	copy(b[386:], strings.Repeat("\x00", 96))
	copy(b[386:], "112402762000\x0000000000000\x00") // one empty part at the end
	copy(b[483:], "112402762000")                    // real size, octal: 10e9
	sum := 0
	copy(b[148:156], "        ")
	for _, c := range b[:512] {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	return b
}

// rawHeader is a header with a claimed size and nothing behind it.
func rawHeader(typ byte, size int64) []byte {
	b := tarOf(link(tar.TypeSymlink, "claim", "x"))[:512]
	b[156] = typ
	copy(b[124:], fmt.Sprintf("%011o\x00", size))
	copy(b[148:156], "        ")
	sum := 0
	for _, c := range b {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	return b
}

func writeImages(dir string, program []byte) {
	legacy := file(legacyPath, program)
	layer := tarOf(legacy)
	with := func(change func(*image)) *image {
		m := ofTar(layer)
		change(m)
		return m
	}
	lie := func(field string, v any) *image {
		return with(func(m *image) {
			m.manifest = func(o object) { o["layers"].([]object)[0][field] = v }
		})
	}
	manifest := func(key string, v any) *image {
		return with(func(m *image) { m.manifest = func(o object) { o[key] = v } })
	}
	index := func(key string, v any) *image {
		return with(func(m *image) { m.index = func(o object) { o[key] = v } })
	}
	after := func(f func(dir string)) *image { return with(func(m *image) { m.after = f }) }
	replace := func(name string, make func(path string) error) *image {
		return after(func(dir string) {
			path := filepath.Join(dir, name)
			check(os.RemoveAll(path))
			check(make(path))
		})
	}
	fifo := func(path string) error { return syscall.Mkfifo(path, 0o644) }
	toPasswd := func(path string) error { return os.Symlink("/etc/passwd", path) }
	layerBlob := filepath.Join("blobs", "sha256", strings.TrimPrefix(digest(gzipped(layer)), "sha256:"))
	zip := zstdOf(bomb())

	for name, m := range map[string]*image{
		"good":                      ofTar(layer),
		"layer-no-tar":              ofTar([]byte(strings.Repeat("this is not tar\n", 100))),
		"layer-empty":               ofTar(nil),
		"layer-cut":                 ofTar(layer[:len(layer)/2]),
		"layer-not-compressed":      {layer: layer, layerType: typeLayer, diffID: digest(layer)},
		"layer-gzip-cut":            {layer: gzipped(layer)[:1000], layerType: typeLayer, diffID: digest(layer)},
		"layer-gzip-garbage-behind": {layer: append(gzipped(layer), "garbage"...), layerType: typeLayer, diffID: digest(layer)},
		"layer-gzip-bomb":           ofTar(bomb()),
		"layer-zstd-bomb":           {layer: zip, layerType: typeZstd, diffID: digest(bomb())},
		"layer-sparse-10-gb":        ofTar(sparse()),
		"name-parent":               ofTar(tarOf(file("../../etc/vfix-hostile", program), legacy)),
		"name-absolute":             ofTar(tarOf(file("/etc/vfix-hostile", program), legacy)),
		"name-empty":                ofTar(tarOf(file("", program), legacy)),
		"name-dot":                  ofTar(tarOf(file(".", program), legacy)),
		"name-nul-and-newline":      ofTar(tarOf(file("usr/bin/a\nb", program), legacy)),
		"name-not-utf8":             ofTar(tarOf(file("usr/bin/\xff\xfe", program), legacy)),
		"name-long":                 ofTar(tarOf(file(strings.Repeat("long/", 4000)+"x", program), legacy)),
		"name-twice":                ofTar(tarOf(legacy, file(legacyPath, []byte("text")))),
		"name-under-a-file":         ofTar(tarOf(legacy, file(legacyPath+"/below", program))),
		"device":                    ofTar(tarOf(tar.Header{Name: "usr/bin/dev", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 5}, legacy)),
		"fifo":                      ofTar(tarOf(tar.Header{Name: "usr/bin/fifo", Typeflag: tar.TypeFifo}, legacy)),
		"symlink-to-host":           ofTar(tarOf(link(tar.TypeSymlink, "usr/lib", "/etc"), file("usr/lib/x", program), legacy)),
		"symlink-loop":              ofTar(tarOf(link(tar.TypeSymlink, "a", "b"), link(tar.TypeSymlink, "b", "a"), file("a/x", program), legacy)),
		"hardlink-to-host":          ofTar(tarOf(link(tar.TypeLink, "usr/bin/x", "../../etc/passwd"), legacy)),
		"hardlink-to-itself":        ofTar(tarOf(link(tar.TypeLink, "usr/bin/x", "usr/bin/x"), legacy)),
		"hardlink-to-nothing":       ofTar(tarOf(link(tar.TypeLink, "usr/bin/x", "nowhere"), legacy)),
		"hardlink-to-later":         ofTar(tarOf(link(tar.TypeLink, "usr/bin/x", legacyPath), legacy)),
		"whiteout-of-parent":        ofTar(tarOf(file("usr/.wh...", nil), legacy)),
		"whiteout-of-nothing":       ofTar(tarOf(file("usr/.wh.", nil), legacy)),
		"pax-record-huge":           ofTar(rawHeader('x', 1<<32)),
		"pax-record-of-1-mib":       ofTar(tarOf(tar.Header{Name: "x", PAXRecords: map[string]string{"VFIX.x": strings.Repeat("a", 1<<20-100)}}, legacy)),
		"long-name-huge":            ofTar(rawHeader('L', 1<<32)),
		"size-negative":             ofTar(append(rawHeader('0', 0)[:124], append([]byte("\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), rawHeader('0', 0)[136:]...)...)),
		"size-huge":                 ofTar(rawHeader('0', 1<<32)),
		"digest-lies":               lie("digest", "sha256:"+strings.Repeat("0", 64)),
		"digest-no-digest":          lie("digest", "../../../etc/passwd"),
		"digest-unknown-algorithm":  lie("digest", "md5:d41d8cd98f00b204e9800998ecf8427e"),
		"digest-of-other-blob":      lie("digest", digest([]byte("another"))),
		"size-lies":                 lie("size", 12),
		"size-below-zero":           lie("size", -1),
		"size-of-an-exabyte":        lie("size", int64(1)<<60),
		"media-type-unknown":        lie("mediaType", "application/x-unknown"),
		"diff-id-lies":              {layer: gzipped(layer), layerType: typeLayer, diffID: "sha256:" + strings.Repeat("1", 64)},
		"diff-id-missing":           with(func(m *image) { m.config = func(o object) { o["rootfs"] = object{"type": "layers"} } }),
		"diff-ids-too-many": with(func(m *image) {
			m.config = func(o object) { o["rootfs"].(object)["diff_ids"] = []string{m.diffID, m.diffID} }
		}),
		"config-no-object":            with(func(m *image) { m.manifest = func(o object) { o["config"] = 7 } }),
		"config-absent":               manifest("config", nil),
		"layers-no-list":              manifest("layers", "none"),
		"layers-100000":               manifest("layers", many(100000)),
		"schema-version-3":            manifest("schemaVersion", 3),
		"index-empty":                 index("manifests", []object{}),
		"index-no-list":               index("manifests", object{}),
		"index-nested-deep":           nested(layer, 200),
		"manifest-deep-json":          deepIndex(layer, 20000),
		"index-not-json":              replace("index.json", func(p string) error { return os.WriteFile(p, []byte("{"), 0o644) }),
		"index-is-a-fifo":             replace("index.json", fifo),
		"index-is-a-directory":        replace("index.json", func(p string) error { return os.Mkdir(p, 0o755) }),
		"index-of-zeros":              replace("index.json", func(p string) error { return sparseFile(p, 8<<30) }),
		"layer-is-a-fifo":             replace(layerBlob, fifo),
		"layer-is-a-link-to-host":     replace(layerBlob, toPasswd),
		"layer-is-a-directory":        replace(layerBlob, func(p string) error { return os.Mkdir(p, 0o755) }),
		"layer-missing":               replace(layerBlob, func(string) error { return nil }),
		"layer-changed":               replace(layerBlob, func(p string) error { return os.WriteFile(p, gzipped(tarOf(file("x", nil))), 0o644) }),
		"oci-layout-unknown-version":  replace("oci-layout", func(p string) error { return os.WriteFile(p, []byte(`{"imageLayoutVersion":"9"}`), 0o644) }),
		"blobs-are-a-link-to-nowhere": replace("blobs", func(p string) error { return os.Symlink("/nowhere", p) }),
	} {
		m.write(filepath.Join(dir, name))
	}
	writeArchives(dir, layer)
}

// many are n descriptors of a layer.
func many(n int) []object {
	out := make([]object, n)
	for i := range out {
		out[i] = object{"mediaType": typeLayer, "digest": digest([]byte("x")), "size": 1}
	}
	return out
}

// nested is an index in an index, n times.
func nested(layer []byte, n int) *image {
	m := ofTar(layer)
	m.blobs = map[string][]byte{}
	m.index = func(o object) {
		for range n {
			b, err := json.Marshal(o)
			check(err)
			d := digest(b)
			m.blobs[d] = b
			o["manifests"] = []object{{"mediaType": typeIndex, "digest": d, "size": len(b)}}
		}
	}
	m.after = func(dir string) {
		for _, b := range m.blobs {
			m.blob(dir, b)
		}
	}
	return m
}

// deepIndex has an index with annotations n levels deep, more than encoding/json writes or reads.
func deepIndex(layer []byte, n int) *image {
	m := ofTar(layer)
	m.index = func(o object) { o["annotations"] = "DEEP" }
	m.after = func(dir string) {
		path := filepath.Join(dir, "index.json")
		b, err := os.ReadFile(path)
		check(err)
		b = bytes.Replace(b, []byte(`"DEEP"`), []byte(strings.Repeat(`{"a":`, n)+"1"+strings.Repeat("}", n)), 1)
		check(os.WriteFile(path, b, 0o644))
	}
	return m
}

func sparseFile(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Truncate(size)
}

func zstdOf(b []byte) []byte {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	check(err)
	return w.EncodeAll(b, nil)
}

// writeArchives writes docker archives (docker save of 1.10 and later).
func writeArchives(dir string, layer []byte) {
	config, err := json.Marshal(object{
		"architecture": "amd64", "os": "linux",
		"rootfs": object{"type": "layers", "diff_ids": []string{digest(layer)}},
	})
	check(err)
	archive := func(name, manifest string, entries ...tar.Header) {
		all := append([]tar.Header{file("manifest.json", []byte(manifest))}, entries...)
		check(os.WriteFile(filepath.Join(dir, name+".tar"), tarOf(all...), 0o644))
	}
	const whole = `[{"Config":"config.json","RepoTags":["hostile:1"],"Layers":["layer.tar"]}]`
	c, l := file("config.json", config), file("layer.tar", layer)
	archive("good-archive", whole, c, l)
	archive("archive-layer-missing", whole, c)
	archive("archive-config-missing", whole, l)
	archive("archive-empty-list", `[]`, c, l)
	archive("archive-no-list", `{"Config":1}`, c, l)
	archive("archive-not-json", `[{`, c, l)
	archive("archive-config-of-host", `[{"Config":"../../../etc/passwd","Layers":["layer.tar"]}]`, c, l)
	archive("archive-layer-of-host", `[{"Config":"config.json","Layers":["/etc/passwd"]}]`, c, l)
	archive("archive-layer-link-of-host", whole, c, link(tar.TypeSymlink, "layer.tar", "/etc/passwd"))
	archive("archive-layer-link-loop", whole, c, link(tar.TypeSymlink, "layer.tar", "layer.tar"))
	archive("archive-layer-no-tar", whole, c, file("layer.tar", []byte("no tar")))
	archive("archive-layers-too-many", `[{"Config":"config.json","Layers":["layer.tar","layer.tar"]}]`, c, l)
	archive("archive-null", `null`, c, l)
	check(os.WriteFile(filepath.Join(dir, "archive-cut.tar"), tarOf(file("manifest.json", []byte(whole)), c, l)[:3000], 0o644))
}
