package oldexaminer

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/tinyelf"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

const someFix = find.Fix("some-fix")

// TestBelievable: what a finding can be; anything else is not the answer of a process that is in nobody's hands.
func TestBelievable(t *testing.T) {
	long := strings.Repeat("x", maxReason)
	for _, tc := range []struct {
		f     Finding
		fixes []find.Fix
		want  bool
	}{
		{Finding{}, nil, true},
		{Finding{Size: 1, Sites: 1}, nil, true},
		{Finding{Stay: 1, Left: "x"}, nil, true},
		{Finding{Stay: 1, Left: long}, nil, true},
		{Finding{Stay: 1, Left: long + "x"}, nil, false},
		{Finding{Stay: 1}, nil, false},
		{Finding{Left: "x"}, nil, false},
		{Finding{Left: "x"}, []find.Fix{someFix}, true},
		{Finding{Fix: someFix}, []find.Fix{someFix}, true},
		{Finding{Fix: someFix}, nil, false},
		{Finding{Fix: "another"}, []find.Fix{someFix}, false},
		{Finding{Size: -1}, nil, false},
		{Finding{Sites: -1}, nil, false},
		{Finding{Stay: -1, Left: "x"}, nil, false},
	} {
		e := &Examiner{Fixes: tc.fixes}
		if got := e.believable(&tc.f); got != tc.want {
			t.Errorf("%+.60v, with fixes %v: got %v", tc.f, tc.fixes, got)
		}
	}
}

// TestFindingOfPlan: what stays is counted and named, and so is a fix that is not made.
func TestFindingOfPlan(t *testing.T) {
	left := func(verdict find.Verdict, vaddr uint64) patch.Patch {
		return patch.Patch{Site: find.Site{Verdict: verdict, Vaddr: vaddr}, Form: patch.Left, Reason: patch.Reason{Cause: patch.OverEnd}}
	}
	done := patch.Patch{Form: patch.Syscall}
	edits := []patch.Edit{{}}
	refused := &find.Redirect{Fix: someFix, Reason: "no room"}
	for _, tc := range []struct {
		p      patch.Plan
		wanted bool
		want   Finding
	}{
		{patch.Plan{Size: 7}, false, Finding{}},
		{patch.Plan{Size: 7, Edits: edits, Patches: []patch.Patch{done, left(find.Benign, 1), done}}, false, Finding{Size: 7, Sites: 2}},
		{patch.Plan{Patches: []patch.Patch{left(find.Unknown, 0x10)}}, false, Finding{Stay: 1, Left: "1 call site left, at vaddr 0x10: the site runs over the end of its segment"}},
		{patch.Plan{Size: 7, Edits: edits, Patches: []patch.Patch{left(find.Unknown, 0x10), done, left(find.Unknown, 0x20)}}, false,
			Finding{Size: 7, Sites: 1, Stay: 2, Left: "2 call sites left, the first at vaddr 0x10: the site runs over the end of its segment"}},
		{patch.Plan{Redirect: refused}, false, Finding{}},
		{patch.Plan{Redirect: refused}, true, Finding{Left: "not fixed (some-fix): no room"}},
		{patch.Plan{Redirect: refused, Patches: []patch.Patch{left(find.Unknown, 0x10)}}, true,
			Finding{Stay: 1, Left: "1 call site left, at vaddr 0x10: the site runs over the end of its segment; not fixed (some-fix): no room"}},
		{patch.Plan{Size: 7, Edits: edits, Redirect: &find.Redirect{Fix: someFix, After: []byte{1}}}, true, Finding{Size: 7, Fix: someFix}},
		{patch.Plan{Redirect: &find.Redirect{Fix: someFix, Reason: strings.Repeat("x", 2*maxReason)}}, true,
			Finding{Left: ("not fixed (some-fix): " + strings.Repeat("x", maxReason))[:maxReason]}},
	} {
		var got Finding
		if got.add(&tc.p, tc.wanted); got != tc.want {
			t.Errorf("got %+v, want %+v", got, tc.want)
		}
	}
}

// TestServe: requests as the confined process answers them, in this one.
func TestServe(t *testing.T) {
	legacy := tinyelf.Bytes(1)
	size := int64(len(legacy))
	damaged := append([]byte(nil), legacy...)
	binary.LittleEndian.PutUint64(damaged[64+32:], 1<<40) // p_filesz
	found := serve(&request{Size: size}, []*os.File{file(t, legacy)}, nil)
	if found.Error != "" || found.Sites != 1 || found.Size <= size {
		t.Fatalf("got %+v", found)
	}
	patched := file(t, nil)
	if a := serve(&request{Size: size, Want: found.Size}, []*os.File{file(t, legacy), patched}, nil); a != (answer{}) {
		t.Errorf("the copy: got %+v", a)
	}
	if again := serve(&request{Size: found.Size}, []*os.File{patched}, nil); again != (answer{}) {
		t.Errorf("of the copy: got %+v", again)
	}
	text := file(t, []byte("text"))
	for _, tc := range []struct {
		name    string
		r       request
		files   []*os.File
		says    string
		tooMuch bool
	}{
		{"no file", request{Size: 4}, nil, "0 files", false},
		{"three files", request{Size: 4}, []*os.File{text, text, text}, "3 files", false},
		{"damaged", request{Size: size}, []*os.File{file(t, damaged)}, "damaged ELF", true},
		{"a copy of another size", request{Size: size, Want: found.Size + 1}, []*os.File{file(t, legacy), file(t, nil)}, errOther.Error(), false},
		{"a copy of what needs none", request{Size: 4, Want: 4}, []*os.File{text, file(t, nil)}, errOther.Error(), false},
		{"a copy that cannot be written", request{Size: size, Want: found.Size}, []*os.File{file(t, legacy), readOnly(t)}, "bad file descriptor", false},
		{"a copy of what is damaged", request{Size: size, Want: found.Size}, []*os.File{file(t, damaged), file(t, nil)}, "damaged ELF", true},
		{"a closed file", request{Size: size}, []*os.File{closed(t)}, "closed", false},
	} {
		a := serve(&tc.r, tc.files, nil)
		if !strings.Contains(a.Error, tc.says) || a.Error == "" || a.TooMuch != tc.tooMuch || a.Finding != (Finding{}) {
			t.Errorf("%s: got %+v, want an error with %q", tc.name, a, tc.says)
		}
	}
}

func readOnly(t *testing.T) *os.File {
	f, err := os.Open(file(t, nil).Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func closed(t *testing.T) *os.File {
	f := file(t, tinyelf.Bytes(1))
	f.Close()
	return f
}

// TestMessages: a message arrives whole, with the files beside it, or is an error.
func TestMessages(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[1])
	a, b := file(t, []byte("a")), file(t, []byte("b"))
	buf := make([]byte, maxMessage)
	got := func(most int) (r request, text string, err error) {
		files, err := receive(pair[1], buf, &r, most)
		for _, f := range files {
			c := make([]byte, 1)
			f.ReadAt(c, 0)
			text += string(c)
			f.Close()
		}
		return r, text, err
	}
	if err := errors.Join(send(pair[0], request{Size: 1}), send(pair[0], request{Size: 2}, int(a.Fd())), send(pair[0], request{Size: 3}, int(a.Fd()), int(b.Fd())),
		send(pair[0], request{Size: 4}, int(a.Fd()), int(b.Fd())), send(pair[0], strings.Repeat("x", maxMessage))); err != nil {
		t.Fatal(err)
	}
	for n, want := range []string{"", "a", "ab"} {
		if r, text, err := got(maxFiles); err != nil || r.Size != int64(n+1) || text != want {
			t.Errorf("message %d: got %+v with %q, %v", n+1, r, text, err)
		}
	}
	for _, most := range []int{0, maxFiles} { // more files than may come, then too many bytes
		if _, _, err := got(most); err == nil || !strings.Contains(err.Error(), "a message of more than") {
			t.Errorf("got %v", err)
		}
	}
	if err := send(pair[0], func() {}); err == nil {
		t.Error("something that is not JSON is sent")
	}
	unix.Close(pair[0])
	if _, _, err := got(0); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	if err := send(pair[1], request{}); !errors.Is(err, unix.EPIPE) {
		t.Errorf("to nobody: %v", err)
	}
}
