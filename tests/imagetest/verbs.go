// The verbs as tests call them, and images and files for them.

package imagetest

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/patch"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/progress"
)

// TestShim stands for the fallback's programs: this package does not know what they are.
var TestShim = fallback.Shim{Library: []byte("the library"), Library32: []byte("its twin"), Trace: []byte("the supervisor")}

// storeTime is mov $0xffffffffff600400,%rax; mov %rax,(%rdi); ret: unknown, it stays.
var storeTime = []byte{0x48, 0xc7, 0xc0, 0x00, 0x04, 0x60, 0xff, 0x48, 0x89, 0x07, 0xc3}

// leftTime is xor %eax,%eax; sub $8,%rsp; mov $0xffffffffff600400,%rax; call *%rax; add $8,%rsp; ret: no whole stub, so
// that it stays in a file without room for a trampoline.
var leftTime = append([]byte{0x31, 0xc0}, CallTime...)

// LeftM is a program, or a library, with a live call site that cannot be patched.
func LeftM(name string, library bool) TestMember {
	m := FileM(name, testELF(leftTime, name))
	m.Mode = 0o755
	if library {
		m.Body[16] = 3 // e_type ET_DYN
	}
	return m
}

// FindingM is a file with a call site that stays: a static program, or a library.
func FindingM(name string, library bool) TestMember {
	m := FileM(name, testELF(storeTime, name))
	m.Mode = 0o755
	if library {
		m.Body[16] = 3 // e_type ET_DYN
	}
	return m
}

// LoaderM is what vfix looks for in the loader of a 64-bit glibc, at its place.
func LoaderM() TestMember {
	return FileM("lib64/ld-linux-x86-64.so.2", []byte("not loaded here\x00/etc/ld.so.preload\x00"))
}

func RebuildWith(t testing.TB, source, dest string, mode fallback.Mode) *images.Rebuilt {
	t.Helper()
	return Must[*images.Rebuilt](t)(images.Rebuild(context.Background(), source, images.RebuildOptions{Dest: dest, Version: "1.2", Fallback: mode, ScanOptions: images.ScanOptions{Shim: TestShim}}))
}

// Entrypoint is that of a stored image, in one line.
func Entrypoint(t testing.TB, source string) string {
	return strings.Join(Must[*v1.ConfigFile](t)(Open(t, source).Image.ConfigFile()).Config.Entrypoint, " ")
}

func ModernM(name string) TestMember { return FileM(name, ModernELF(name)) }

func Patch(t testing.TB, o patch.Options, paths ...string) *contents.Findings {
	t.Helper()
	return Must[*contents.Findings](t)(patch.All(context.Background(), paths, o))
}

func Paths(f *contents.Findings) string {
	var all []string
	for _, file := range f.Files {
		all = append(all, strings.Join(append([]string{file.Path}, file.Links...), "="))
	}
	return strings.Join(all, " ")
}

// StoreOCI writes an image to a layout in a directory of its own and returns the SOURCE.
func StoreOCI(t testing.TB, img v1.Image) string {
	t.Helper()
	typed := "oci:" + filepath.Join(t.TempDir(), "img") + ":base"
	Put(t, typed, source.Result{Image: img})
	return typed
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

// CapNetRaw is the xattr security.capability for cap_net_raw+ep: revision 2, effective,
// permitted bit 13 (linux/capability.h, struct vfs_cap_data).
const CapNetRaw = "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

func Verify(t testing.TB, source, against string) *images.Verified {
	t.Helper()
	return Must[*images.Verified](t)(images.Verify(context.Background(), source, images.VerifyOptions{Against: against, Version: "1.2"}))
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
