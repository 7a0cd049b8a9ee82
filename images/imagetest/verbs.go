// The verbs as tests call them, and images and files for them.

package imagetest

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/patch"
	"vfix.dev/vfix/internal/progress"
)

// TestShim stands for the fallback's programs: this package does not know what they are.
var TestShim = fallback.Shim{Library: []byte("the library"), Library32: []byte("its twin"), Trace: []byte("the supervisor")}

// storeTime is mov $0xffffffffff600400,%rax; mov %rax,(%rdi); ret: unknown, it stays.
var storeTime = []byte{0x48, 0xc7, 0xc0, 0x00, 0x04, 0x60, 0xff, 0x48, 0x89, 0x07, 0xc3}

// FindingM is a file with a call site that stays: a static program, or a library.
func FindingM(name string, library bool) TestMember {
	m := FileM(name, testELF(storeTime, name))
	m.Mode = 0o755
	if library {
		m.Body[16] = 3 // e_type ET_DYN
	}
	return m
}

// LoadedM is a program with a call site that stays, which a loader of that path loads. Its
// program headers are at the end: PT_LOAD as in FindingM, and PT_INTERP.
func LoadedM(name, interp string) TestMember {
	const header, entry = 64, 56
	m := FindingM(name, false)
	at := len(m.Body)
	m.Body = append(m.Body, m.Body[header:header+entry]...)
	text := uint64(at + 2*entry)
	for _, v := range []any{uint32(3), uint32(4), []uint64{text, text, text, uint64(len(interp) + 1), uint64(len(interp) + 1), 1}} {
		m.Body, _ = binary.Append(m.Body, binary.LittleEndian, v)
	}
	m.Body = append(m.Body, interp+"\x00"...)
	binary.LittleEndian.PutUint64(m.Body[32:], uint64(at)) // e_phoff
	m.Body[56] = 2                                         // e_phnum
	return m
}

// ObjectM is an archive of one relocatable object with a call site: sections are .text and the
// table of names.
func ObjectM(name string) TestMember {
	const header, names = 64, "\x00.text\x00.shstrtab\x00"
	callTime := []byte{0x48, 0xc7, 0xc0, 0x00, 0x04, 0x60, 0xff, 0xff, 0xd0, 0xc3}
	o := append(make([]byte, header), callTime...)
	namesAt := len(o)
	o = append(o, names...)
	sections := len(o)
	o = append(o, make([]byte, header)...) // section 0; their headers are as long
	for _, s := range [][]any{
		{uint32(1), uint32(1), uint64(6), uint64(0), uint64(header), uint64(len(callTime))},
		{uint32(7), uint32(3), uint64(0), uint64(0), uint64(namesAt), uint64(len(names))},
	} {
		start := len(o)
		for _, v := range s {
			o, _ = binary.Append(o, binary.LittleEndian, v)
		}
		o = append(o, make([]byte, header-(len(o)-start))...)
	}
	copy(o, "\x7fELF\x02\x01\x01")
	for at, v := range map[int]uint16{16: 1, 18: 62, 40: uint16(sections), 58: header, 60: 3, 62: 2} {
		binary.LittleEndian.PutUint16(o[at:], v)
	}
	return FileM(name, fmt.Appendf(nil, "!<arch>\n%-48s%-10d`\n%s", "x.o/", len(o), o))
}

// LoaderM is what vfix looks for in the loader of a 64-bit glibc, at its place.
func LoaderM() TestMember {
	return FileM("lib64/ld-linux-x86-64.so.2", []byte("not loaded here\x00/etc/ld.so.preload\x00"))
}

func RebuildWith(t testing.TB, source, dest string, mode fallback.Mode) *images.Rebuilt {
	t.Helper()
	r, err := images.Rebuild(context.Background(), source, images.RebuildOptions{Dest: dest, Version: "1.2", Fallback: mode, ScanOptions: images.ScanOptions{Shim: TestShim}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func VerifyWith(t testing.TB, source, against string, s fallback.Shim) *images.Verified {
	t.Helper()
	v, err := images.Verify(context.Background(), source, images.VerifyOptions{Against: against, ScanOptions: images.ScanOptions{Shim: s}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Entrypoint is that of a stored image, in one line.
func Entrypoint(t testing.TB, source string) string {
	return strings.Join(Must[*v1.ConfigFile](t)(Open(t, source).Image.ConfigFile()).Config.Entrypoint, " ")
}

func ModernM(name string) TestMember { return FileM(name, ModernELF(name)) }

func Patch(t testing.TB, o patch.Options, paths ...string) *contents.Findings {
	t.Helper()
	f, err := patch.All(context.Background(), paths, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func Paths(f *contents.Findings) string {
	var all []string
	for _, file := range f.Files {
		all = append(all, strings.Join(append([]string{file.Path}, file.Links...), "="))
	}
	return strings.Join(all, " ")
}

// StoreOCI writes an image to a layout in a folder of its own and returns the SOURCE.
func StoreOCI(t testing.TB, img v1.Image) string {
	t.Helper()
	source := "oci:" + filepath.Join(t.TempDir(), "img") + ":base"
	Put(t, source, media.Result{Image: img})
	return source
}

func RebuildTo(t testing.TB, source, dest string) *images.Rebuilt {
	t.Helper()
	r, err := images.Rebuild(context.Background(), source, images.RebuildOptions{Dest: dest, Version: "1.2"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// AddedMembers reads the last layer of a stored image.
func AddedMembers(t testing.TB, source string) []TestMember {
	t.Helper()
	src := Open(t, source)
	ls := Must[[]v1.Layer](t)(src.Image.Layers())
	r := Must[io.ReadCloser](t)(ls[len(ls)-1].Uncompressed())
	defer r.Close()
	return ReadTar(t, r)
}

// Countdown is a Progress that cancels when it has been called left times.
type Countdown struct {
	Left   atomic.Int64
	Cancel context.CancelFunc
}

func (c *Countdown) tick() {
	if c.Left.Add(-1) == -1 {
		c.Cancel()
	}
}

func (c *Countdown) Start(string, string, int64) progress.Task { c.tick(); return c }

func (c *Countdown) Note(string, ...any) {}

func (c *Countdown) Add(int64) { c.tick() }

func (c *Countdown) Done() {}

func RebuildProved(t testing.TB, source, dest, where string) *images.Rebuilt {
	t.Helper()
	r, err := images.Rebuild(context.Background(), source, images.RebuildOptions{
		Dest: dest, Version: "1.2", Provenance: where, ScanOptions: images.ScanOptions{Media: Fast},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func VerifyProved(t testing.TB, source, statement, against string) *images.Verified {
	t.Helper()
	v, err := images.Verify(context.Background(), source, images.VerifyOptions{Provenance: true, Statement: statement, Against: against, ScanOptions: images.ScanOptions{Media: Fast}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// ProvedBase has hard links, xattrs that vouch for content, and a file over two layers.
func ProvedBase(t testing.TB) v1.Image {
	marked := LegacyM("bin/c", "2")
	marked.PAXRecords = map[string]string{"SCHILY.xattr.security.ima": "\x03\x02sig", "SCHILY.xattr.user.kept": "1"}
	return Stack(t,
		[]TestMember{DirM("lib"), LegacyM("lib/a", "1"), LinkM("lib/b", "lib/a"), FileM("etc/x", []byte("x"))},
		[]TestMember{marked})
}

// CapNetRaw is the xattr security.capability for cap_net_raw+ep: revision 2, effective,
// permitted bit 13 (linux/capability.h, struct vfs_cap_data).
const CapNetRaw = "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

func Verify(t testing.TB, source, against string) *images.Verified {
	t.Helper()
	v, err := images.Verify(context.Background(), source, images.VerifyOptions{Against: against})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// WantProblems fails unless there is one problem for each of want, which it contains.
func WantProblems(t testing.TB, v *images.Verified, want ...string) {
	t.Helper()
	if len(v.Problems) != len(want) {
		t.Errorf("got problems\n%s\nwant %d with %q", strings.Join(v.Problems, "\n"), len(want), want)
		return
	}
	for i, w := range want {
		if !strings.Contains(v.Problems[i], w) {
			t.Errorf("got problem %q, want one with %q", v.Problems[i], w)
		}
	}
}
