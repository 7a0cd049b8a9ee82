package sources_test

import (
	"bytes"
	"crypto"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/sylabs/sif/v2/pkg/sif"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

// squashOf makes a squashfs of a directory, with blocks of 64 KiB and its own time.
func squashOf(t *testing.T, dir string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "squashfs")
	if out, err := exec.Command("mksquashfs", dir, file, "-quiet", "-no-progress", "-comp", "xz", "-b", "65536", "-mkfs-time", "1400000001").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return imagetest.Must[[]byte](t)(os.ReadFile(file))
}

// descriptors opens a SIF file, and lists its data objects with all that their descriptors say, and the content of
// those but the root filesystem.
func descriptors(t *testing.T, path string) (*sif.FileImage, string, []byte) {
	t.Helper()
	c := imagetest.Must[*sif.FileImage](t)(sif.LoadContainerFromPath(path, sif.OptLoadWithFlag(os.O_RDONLY)))
	t.Cleanup(func() { c.UnloadContainer() })
	var all strings.Builder
	var root []byte
	c.WithDescriptors(func(d sif.Descriptor) bool {
		link, group := d.LinkedID()
		fmt.Fprintf(&all, "%d %v %q group %d link %d %v at %d", d.ID(), d.DataType(), d.Name(), d.GroupID(), link, group, d.CreatedAt().Unix())
		content := imagetest.Must[[]byte](t)(d.GetData())
		if fsType, part, arch, err := d.PartitionMetadata(); err == nil {
			fmt.Fprintf(&all, " %v %v %s", fsType, part, arch)
			if part == sif.PartPrimSys {
				root, content = content, nil
			}
		}
		if format, err := d.SBOMMetadata(); err == nil {
			fmt.Fprintf(&all, " %v", format)
		}
		fmt.Fprintf(&all, " %s\n", content)
		return false
	})
	return c, all.String(), root
}

// A SIF file that is made from another one keeps its data objects and all that is said of them, except signatures,
// its mode, and the form of its squashfs.
func TestSIFAgain(t *testing.T) {
	imagetest.CleanTemp(t)
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/.singularity.d", 0o755); err != nil {
		t.Fatal(err)
	}
	imagetest.Write(t, dir+"/.singularity.d/runscript", []byte("#!/bin/sh\n"))
	imagetest.Write(t, dir+"/old", []byte("old"))
	object := func(kind sif.DataType, content []byte, at int64, opts ...sif.DescriptorInputOpt) sif.DescriptorInput {
		return imagetest.Must[sif.DescriptorInput](t)(sif.NewDescriptorInput(kind, bytes.NewReader(content), append(opts, sif.OptObjectTime(time.Unix(at, 0)))...))
	}
	path := t.TempDir() + "/x.sif"
	const created, capacity = 1300000000, 60
	c := imagetest.Must[*sif.FileImage](t)(sif.CreateContainerAtPath(path, sif.OptCreateWithTime(time.Unix(created, 0)), sif.OptCreateWithLaunchScript("#!/bin/launch\n"),
		sif.OptCreateWithDescriptorCapacity(capacity), sif.OptCreateWithDescriptors(
			object(sif.DataSignature, []byte("signed"), 1, sif.OptSignatureMetadata(crypto.SHA256, make([]byte, 20)), sif.OptLinkedID(3)),
			object(sif.DataDeffile, []byte("bootstrap: x\n"), 2, sif.OptGroupID(7)),
			object(sif.DataPartition, squashOf(t, dir), 3, sif.OptPartitionMetadata(sif.FsSquash, sif.PartPrimSys, "amd64"), sif.OptObjectName("rootfs")),
			object(sif.DataPartition, []byte("overlay"), 4, sif.OptPartitionMetadata(sif.FsExt3, sif.PartOverlay, "amd64"), sif.OptNoGroup()),
			object(sif.DataGenericJSON, []byte("{}"), 5, sif.OptLinkedID(3), sif.OptObjectName("labels.json")),
			object(sif.DataSBOM, []byte("[]"), 6, sif.OptLinkedGroupID(7), sif.OptSBOMMetadata(sif.SBOMFormatSPDXJSON)),
			object(sif.DataGeneric, nil, 7, sif.OptLinkedID(1)),
			object(sif.DataGenericJSON, []byte("1"), 8, sif.OptLinkedID(2)),
		)))
	if err := c.UnloadContainer(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o751); err != nil {
		t.Fatal(err)
	}
	old, _, _ := descriptors(t, path)

	src := imagetest.Open(t, "sif:"+path)
	if got, want := fmt.Sprint(src.Beside), "[partition 4]"; got != want {
		t.Errorf("beside: got %s, want %s", got, want)
	}
	if got := imagetest.Must[*v1.ConfigFile](t)(src.Image.ConfigFile()).Config.Entrypoint; len(got) != 1 || got[0] != "/.singularity.d/runscript" {
		t.Errorf("got the entrypoint %q", got)
	}
	changed := withLayer{imagetest.Derived(t, src.Image, false, false, imagetest.FileM("old", []byte("new"))), src.Image, false}
	out := t.TempDir()
	var notes imagetest.Notes
	var same []byte
	for _, name := range []string{out + "/1", out + "/2"} {
		ref := media.Ref{Transport: media.SIF, Name: name}
		if _, err := sources.Put(t.Context(), ref, media.Result{Image: changed}, media.Options{Options: registry.Options{Progress: &notes}}); err != nil {
			t.Fatal(err)
		}
		b := imagetest.Must[[]byte](t)(os.ReadFile(name))
		if same != nil && !bytes.Equal(b, same) {
			t.Error("twice the same gives other bytes")
		}
		same = b
	}
	if len(notes.Text) != 2 || !strings.Contains(notes.Text[0], path+": its signature is not valid") || notes.Unfinished.Load() != 0 {
		t.Errorf("notes %q, %d tasks have not ended", notes.Text, notes.Unfinished.Load())
	}
	again, got, root := descriptors(t, out+"/1")
	want := `1 Def.FILE "" group 7 link 0 false at 2 bootstrap: x

2 FS "rootfs" group 1 link 0 false at 3 Squashfs *System amd64 
3 FS "" group 0 link 0 false at 4 Ext3 Overlay amd64 overlay
4 JSON.Generic "labels.json" group 1 link 2 false at 5 {}
5 SBOM "" group 1 link 7 true at 6 spdx-json []
6 Generic/Raw "" group 1 link 0 false at 7 
7 JSON.Generic "" group 1 link 1 false at 8 1
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for what, c := range map[string]struct{ got, want any }{
		"launch script": {again.LaunchScript(), "#!/bin/launch\n"}, "created": {again.CreatedAt().Unix(), int64(created)},
		"descriptors": {again.DescriptorsTotal(), int64(capacity)}, "ID differs": {again.ID() != old.ID(), true},
		"time": {binary.LittleEndian.Uint32(root[sources.SquashTimeAt:]), uint32(1400000001)}, "block": {binary.LittleEndian.Uint32(root[sources.SquashBlockAt:]), uint32(65536)},
		"compression": {binary.LittleEndian.Uint16(root[sources.SquashCompressAt:]), uint16(4)}, "mode": {imagetest.Stat(t, out+"/1").Mode(), os.FileMode(0o751)},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", what, c.got, c.want)
		}
	}
	root2 := t.TempDir()
	if err := sources.Unpack(t.Context(), imagetest.Open(t, "sif:"+out+"/1").Image, root2, media.Options{}); err != nil {
		t.Fatal(err)
	}
	imagetest.WantContent(t, root2+"/old", []byte("new"))

	// Nothing to change: the same file.
	imagetest.Put(t, "sif:"+out+"/3", media.Result{Image: src.Image})
	imagetest.WantContent(t, out+"/3", imagetest.Must[[]byte](t)(os.ReadFile(path)))
	changed.traced = true
	_, err := sources.Put(t.Context(), media.Ref{Transport: media.SIF, Name: out + "/4"}, media.Result{Image: changed}, media.Options{})
	imagetest.WantErr(t, err, hinterr.ErrUnsupported, out+"/4: ", "cannot be run under vfix-trace")
	imagetest.WantEmpty(t, out, "1", "2", "3")
}
