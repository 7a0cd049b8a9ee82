package sources_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sylabs/sif/v2/pkg/sif"

	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

// tinySIF makes a SIF file whose squashfs is only a super block. capacity is the number of its descriptors, 0 for the usual one.
func tinySIF(t testing.TB, fsType sif.FSType, arch string, capacity int64, more ...sif.DescriptorInput) []byte {
	t.Helper()
	super := make([]byte, sources.SquashSuperLen)
	copy(super, sources.SquashMagic)
	binary.LittleEndian.PutUint32(super[sources.SquashBlockAt:], 1<<17)
	binary.LittleEndian.PutUint16(super[sources.SquashCompressAt:], 1)
	root := imagetest.Must[sif.DescriptorInput](t)(sif.NewDescriptorInput(sif.DataPartition, bytes.NewReader(super),
		sif.OptPartitionMetadata(fsType, sif.PartPrimSys, arch)))
	path := filepath.Join(t.TempDir(), "x.sif")
	c := imagetest.Must[*sif.FileImage](t)(sif.CreateContainerAtPath(path, sif.OptCreateDeterministic(), sif.OptCreateWithDescriptorCapacity(cmp.Or(capacity, 48)),
		sif.OptCreateWithDescriptors(append([]sif.DescriptorInput{root}, more...)...)))
	if err := c.UnloadContainer(); err != nil {
		t.Fatal(err)
	}
	return imagetest.Must[[]byte](t)(os.ReadFile(path))
}

// descriptor is where the descriptor number n begins; then DataType 4 bytes, Used 1, ID 4,
// GroupID 4, LinkedID 4, Offset 8, Size 8 (sylabs/sif, struct rawDescriptor).
func sifDescriptor(n int) int { return 4096 + n*sources.SIFDescriptorLen }

func TestHostileSIF(t *testing.T) {
	imagetest.CleanTemp(t)
	good := tinySIF(t, sif.FsSquash, "amd64", 0)
	poke := func(at int, v uint64, size int) []byte {
		b := bytes.Clone(good)
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], v)
		copy(b[at:at+size], word[:])
		return b
	}
	blob := imagetest.Must[sif.DescriptorInput](t)(sif.NewDescriptorInput(sif.DataOCIRootIndex, bytes.NewReader([]byte("{}"))))
	two := tinySIF(t, sif.FsSquash, "amd64", 0, imagetest.Must[sif.DescriptorInput](t)(sif.NewDescriptorInput(sif.DataPartition, strings.NewReader("x"), sif.OptPartitionMetadata(sif.FsSquash, sif.PartOverlay, "amd64"))))
	const metadata = 17 + 7*8 + 128 // where a descriptor says what a partition is: two numbers of 4 bytes, and the architecture
	two[sifDescriptor(1)+metadata+4] = byte(sif.PartPrimSys)
	squash := len(good) - sources.SquashSuperLen
	for name, c := range map[string]struct {
		data []byte
		kind error
		says string
	}{
		"no magic":                  {poke(sources.SIFMagicAt, 'x', 1), hinterr.ErrDamaged, "not a SIF file"},
		"a header alone":            {good[:sources.SIFHeaderLen], hinterr.ErrDamaged, "descriptors in"},
		"no whole header":           {good[:sources.SIFHeaderLen-1], hinterr.ErrDamaged, "not a SIF file"},
		"cut header":                {good[:100], hinterr.ErrDamaged, "not a SIF file"},
		"cut descriptors":           {good[:5000], hinterr.ErrDamaged, "descriptors in"},
		"2^40 descriptors":          {poke(sources.SIFTotalAt, 1<<40, 8), hinterr.ErrDamaged, "descriptors in"},
		"100 descriptors":           {poke(sources.SIFTotalAt, 100, 8), hinterr.ErrDamaged, "100 descriptors in"},
		"-1 descriptors":            {poke(sources.SIFTotalAt, 1<<64-1, 8), hinterr.ErrDamaged, "descriptors in"},
		"descriptors at -1":         {poke(sources.SIFTotalAt+8, 1<<64-1, 8), hinterr.ErrDamaged, "descriptors in"},
		"descriptors of 2^60 bytes": {poke(sources.SIFTotalAt+16, 1<<60, 8), hinterr.ErrDamaged, "descriptors in"},
		"no partition":              {poke(sifDescriptor(0), uint64(sif.DataGeneric), 4), hinterr.ErrDamaged, "0 root filesystems"},
		"partition beyond the end":  {poke(sifDescriptor(0)+17, uint64(len(good)), 8), hinterr.ErrDamaged, "data object 1"},
		"partition at -1":           {poke(sifDescriptor(0)+17, 1<<64-1, 8), hinterr.ErrDamaged, "data object 1"},
		"partition of 2^62 bytes":   {poke(sifDescriptor(0)+25, 1<<62, 8), hinterr.ErrDamaged, "data object 1"},
		"partition of -1 bytes":     {poke(sifDescriptor(0)+25, 1<<64-1, 8), hinterr.ErrDamaged, "data object 1: -1 bytes"},
		"no squashfs":               {poke(squash, 'x', 1), hinterr.ErrDamaged, "no squashfs"},
		"compression 99":            {poke(squash+sources.SquashCompressAt, 99, 2), hinterr.ErrUnsupported, "compression 99"},
		"compression 0":             {poke(squash+sources.SquashCompressAt, 0, 2), hinterr.ErrUnsupported, "compression 0"},
		"blocks of 2 KiB":           {poke(squash+sources.SquashBlockAt, 1<<11, 4), hinterr.ErrDamaged, "blocks of 2048 bytes"},
		"blocks of 2 MiB":           {poke(squash+sources.SquashBlockAt, 1<<21, 4), hinterr.ErrDamaged, "blocks of 2097152 bytes"},
		"blocks of 5000 bytes":      {poke(squash+sources.SquashBlockAt, 5000, 4), hinterr.ErrDamaged, "blocks of 5000 bytes"},
		"4097 descriptors":          {tinySIF(t, sif.FsSquash, "amd64", sources.MaxSIFObjects+1), hinterr.ErrDamaged, "4097 descriptors in"},
		"two root filesystems":      {two, hinterr.ErrDamaged, "2 root filesystems"},
		"squashfs cut":              {good[:len(good)-1], hinterr.ErrDamaged, "data object 1"},
		"blocks of 5 bytes":         {poke(squash+sources.SquashBlockAt, 5, 4), hinterr.ErrDamaged, "blocks of 5 bytes"},
		"ext3":                      {tinySIF(t, sif.FsExt3, "amd64", 0), hinterr.ErrUnsupported, "not a squashfs"},
		"encrypted":                 {tinySIF(t, sif.FsEncryptedSquashfs, "amd64", 0), hinterr.ErrUnsupported, "encrypted"},
		"arm64":                     {tinySIF(t, sif.FsSquash, "arm64", 0), hinterr.ErrPlatform, "arm64"},
		"OCI-SIF":                   {tinySIF(t, sif.FsSquash, "amd64", 0, blob), hinterr.ErrUnsupported, "OCI-SIF"},
	} {
		t.Run(name, func(t *testing.T) {
			path := imagetest.Write(t, filepath.Join(t.TempDir(), "x.sif"), c.data)
			imagetest.WantErr(t, imagetest.OpenErr(t, "sif:"+path), c.kind, path, c.says)
		})
	}
	// The controls: the file itself is one, and so are others.
	for name, data := range map[string][]byte{
		"131072 gzip": good, "4096 gzip": poke(squash+sources.SquashBlockAt, 1<<12, 4), "1048576 gzip": poke(squash+sources.SquashBlockAt, 1<<20, 4),
		"131072 zstd": poke(squash+sources.SquashCompressAt, 6, 2), "131072 gzip ": poke(sifDescriptor(0)+metadata+8, 0x3030, 2),
		" 131072 gzip": tinySIF(t, sif.FsSquash, "amd64", sources.MaxSIFObjects),
	} {
		s := imagetest.Must[*sources.SIFFile](t)(sources.LoadSIF(imagetest.Write(t, filepath.Join(t.TempDir(), "x.sif"), data)))
		s.Close()
		if got := fmt.Sprint(s.Super.BlockSize, " ", s.Super.Compression); got != strings.TrimSpace(name) {
			t.Errorf("got %s, want %s", got, name)
		}
	}
}

// FuzzSIF reads bytes as a SIF file, up to where other programs read the squashfs.
func FuzzSIF(f *testing.F) {
	f.Add(tinySIF(f, sif.FsSquash, "amd64", 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := sources.LoadSIF(imagetest.Write(t, filepath.Join(t.TempDir(), "x.sif"), data))
		if err != nil {
			return
		}
		defer s.Close()
		if r := s.Squashfs(); r.Size() < sources.SquashSuperLen || r.Size() > int64(len(data)) {
			t.Errorf("squashfs of %d bytes in a file of %d", r.Size(), len(data))
		}
	})
}
