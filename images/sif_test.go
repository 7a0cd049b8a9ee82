package images

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/sylabs/sif/v2/pkg/sif"
)

// tinySIF makes a SIF file whose squashfs is a super block and nothing else.
func tinySIF(t testing.TB, fsType sif.FSType, arch string, more ...sif.DescriptorInput) []byte {
	t.Helper()
	super := make([]byte, squashSuperLen)
	copy(super, squashMagic)
	binary.LittleEndian.PutUint32(super[squashBlockAt:], 1<<17)
	binary.LittleEndian.PutUint16(super[squashCompressAt:], 1)
	root := must[sif.DescriptorInput](t)(sif.NewDescriptorInput(sif.DataPartition, bytes.NewReader(super),
		sif.OptPartitionMetadata(fsType, sif.PartPrimSys, arch)))
	path := filepath.Join(t.TempDir(), "x.sif")
	c := must[*sif.FileImage](t)(sif.CreateContainerAtPath(path, sif.OptCreateDeterministic(),
		sif.OptCreateWithDescriptors(append([]sif.DescriptorInput{root}, more...)...)))
	if err := c.UnloadContainer(); err != nil {
		t.Fatal(err)
	}
	return must[[]byte](t)(os.ReadFile(path))
}

// descriptor is where the descriptor number n begins; then DataType 4 bytes, Used 1, ID 4,
// GroupID 4, LinkedID 4, Offset 8, Size 8 (sylabs/sif, struct rawDescriptor).
func sifDescriptor(n int) int { return 4096 + n*sifDescriptorLen }

func TestHostileSIF(t *testing.T) {
	cleanTemp(t)
	good := tinySIF(t, sif.FsSquash, "amd64")
	poke := func(at int, v uint64, size int) []byte {
		b := bytes.Clone(good)
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], v)
		copy(b[at:at+size], word[:])
		return b
	}
	blob := must[sif.DescriptorInput](t)(sif.NewDescriptorInput(sif.DataOCIRootIndex, bytes.NewReader([]byte("{}"))))
	squash := len(good) - squashSuperLen
	for name, c := range map[string]struct {
		data []byte
		kind error
		says string
	}{
		"no magic":                  {poke(sifMagicAt, 'x', 1), ErrDamaged, "not a SIF file"},
		"cut header":                {good[:100], ErrDamaged, "not a SIF file"},
		"cut descriptors":           {good[:5000], ErrDamaged, "descriptors in"},
		"2^40 descriptors":          {poke(sifTotalAt, 1<<40, 8), ErrDamaged, "descriptors in"},
		"-1 descriptors":            {poke(sifTotalAt, 1<<64-1, 8), ErrDamaged, "descriptors in"},
		"descriptors at -1":         {poke(sifTotalAt+8, 1<<64-1, 8), ErrDamaged, "descriptors in"},
		"descriptors of 2^60 bytes": {poke(sifTotalAt+16, 1<<60, 8), ErrDamaged, "descriptors in"},
		"no partition":              {poke(sifDescriptor(0), uint64(sif.DataGeneric), 4), ErrDamaged, "0 root filesystems"},
		"partition beyond the end":  {poke(sifDescriptor(0)+17, uint64(len(good)), 8), ErrDamaged, "data object 1"},
		"partition at -1":           {poke(sifDescriptor(0)+17, 1<<64-1, 8), ErrDamaged, "data object 1"},
		"partition of 2^62 bytes":   {poke(sifDescriptor(0)+25, 1<<62, 8), ErrDamaged, "data object 1"},
		"no squashfs":               {poke(squash, 'x', 1), ErrDamaged, "no squashfs"},
		"compression 99":            {poke(squash+squashCompressAt, 99, 2), ErrUnsupported, "compression 99"},
		"blocks of 5 bytes":         {poke(squash+squashBlockAt, 5, 4), ErrDamaged, "blocks of 5 bytes"},
		"ext3":                      {tinySIF(t, sif.FsExt3, "amd64"), ErrUnsupported, "no squashfs"},
		"encrypted":                 {tinySIF(t, sif.FsEncryptedSquashfs, "amd64"), ErrUnsupported, "encrypted"},
		"arm64":                     {tinySIF(t, sif.FsSquash, "arm64"), ErrPlatform, "arm64"},
		"OCI-SIF":                   {tinySIF(t, sif.FsSquash, "amd64", blob), ErrUnsupported, "OCI-SIF"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, filepath.Join(t.TempDir(), "x.sif"), c.data)
			wantErr(t, openErr(t, "sif:"+path), c.kind, path, c.says)
		})
	}
	// The control: the file itself is one.
	s := must[*sifFile](t)(loadSIF(write(t, filepath.Join(t.TempDir(), "x.sif"), good)))
	s.Close()
	if s.super.blockSize != 1<<17 || s.super.compression != "gzip" {
		t.Errorf("got %+v", s.super)
	}
}

// FuzzSIF reads bytes as a SIF file, up to where other programs read the squashfs.
func FuzzSIF(f *testing.F) {
	f.Add(tinySIF(f, sif.FsSquash, "amd64"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := loadSIF(write(t, filepath.Join(t.TempDir(), "x.sif"), data))
		if err != nil {
			return
		}
		defer s.Close()
		if r := s.squashfs(); r.Size() < squashSuperLen || r.Size() > int64(len(data)) {
			t.Errorf("squashfs of %d bytes in a file of %d", r.Size(), len(data))
		}
	})
}

// What replaces a file of the base takes all its names, and folders are there once.
func TestMergeTars(t *testing.T) {
	base := tarOf(t, "a", "1", "b", "2", "c", "3")
	l := must[*addedLayer](t)(packLayer(memberWriters{
		"b": (extra{name: "b", body: []byte("new")}).write,
		"d": (extra{name: "d", body: []byte("more")}).write,
	}.write))
	defer l.Close()
	var out bytes.Buffer
	if err := mergeTars(context.Background(), &out, bytes.NewReader(base), l); err != nil {
		t.Fatal(err)
	}
	var names string
	for tr := newMemberReader(&out); ; {
		m, err := tr.next()
		if err != nil {
			break
		}
		names += m.name + " "
	}
	if names != "a c b d " {
		t.Errorf("got %q", names)
	}
}
