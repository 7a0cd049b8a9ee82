package examiner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/rewriter/patch"
	"vfix.dev/vfix/tests/tinyelf"
)

// faults are what a file that has taken over the process may do, by the text in it.
var faults = map[string]func(){
	"hang": func() { time.Sleep(time.Hour) },
	"die":  func() { os.Exit(7) },
	"grow": func() {
		for b := [][]byte{}; ; b = append(b, bytes.Repeat([]byte{1}, 16<<20)) {
		}
	},
	"many":  func() { fmt.Println(`{"edits":[{}` + strings.Repeat(",{}", maxEdits) + "]}"); time.Sleep(time.Hour) },
	"other": func() { _ = reply(answer{Finding: Finding{Fix: "other"}}); time.Sleep(time.Hour) },
	"noise": func() { _, _ = os.Stdout.WriteString("noise\n"); time.Sleep(time.Hour) },
	"files": func() { _ = reply(answer{Error: openFiles()}); time.Sleep(time.Hour) },
}

func reply(a answer) error { return json.NewEncoder(os.Stdout).Encode(a) }

// openFiles lists the descriptors of this process that are regular files.
func openFiles() string {
	var st unix.Stat_t
	all := "open:"
	for fd := range 100 {
		if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
			all += fmt.Sprint(" ", fd)
		}
	}
	return all
}

// The tests run this program again as the confined process, or as one that confines itself in some way, tries what it
// should not be able to do, and reports the outcome.
func TestMain(m *testing.M) {
	switch os.Args[0] {
	case Name: // below
	case "confined":
		os.Exit(confined(os.Args[1], os.Args[2]))
	default:
		os.Exit(m.Run())
	}
	hook = func(f io.ReaderAt, size int64) {
		head := make([]byte, min(size, 16))
		_, _ = f.ReadAt(head, 0)
		for name, does := range faults {
			if strings.HasPrefix(string(head), name) {
				does()
			}
		}
	}
	os.Exit(Main())
}

func newExaminer(t *testing.T) *Examiner {
	return &Examiner{Until: time.Now().Add(20 * time.Second), Dir: t.TempDir()}
}

// padded is a file that is long enough to be looked at.
func padded(text string) []byte { return append([]byte(text), make([]byte, 100)...) }

// The patch of a finding makes the file that the rewriter makes.
func TestExamine(t *testing.T) {
	e := newExaminer(t)
	legacy := tinyelf.Bytes(1)
	for range 2 {
		f, err := e.Examine(bytes.NewReader(legacy), int64(len(legacy)))
		if err != nil || f.Empty() || f.Left != "" || !f.Static {
			t.Fatalf("got %+v, %v", f, err)
		}
		got := append(bytes.Clone(legacy), f.Tail...)
		for _, e := range f.Edits {
			if old := legacy[e.Offset:][:len(e.Old)]; !bytes.Equal(old, e.Old) {
				t.Errorf("offset %#x: got the old bytes %x, want %x", e.Offset, e.Old, old)
			}
			copy(got[e.Offset:], e.New)
		}
		r, err := patch.Scan(bytes.NewReader(legacy), int64(len(legacy)))
		if err != nil {
			t.Fatal(err)
		}
		p, err := patch.NewPlan(r, patch.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if want, err := io.ReadAll(p.Apply(bytes.NewReader(legacy))); err != nil || !bytes.Equal(got, want) {
			t.Errorf("another file: %v", err)
		}
		again, err := e.Examine(bytes.NewReader(got), int64(len(got)))
		if err != nil || !again.Empty() {
			t.Errorf("the patched file: got %+v, %v", again, err)
		}
	}
	if f, err := e.Examine(bytes.NewReader(padded("text")), 104); err != nil || !f.Empty() || f.Left != "" {
		t.Errorf("a text: got %+v, %v", f, err)
	}
	if _, err := e.Examine(bytes.NewReader(legacy), int64(len(legacy))+1); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a file that has become shorter: got %v", err)
	}
}

// Rule 8: a file that hangs, grows or ends the process is one that was not examined, and the next one is.
func TestFaults(t *testing.T) {
	legacy := tinyelf.Bytes(1)
	for name, want := range map[string]string{
		"die": "exit status 7", "grow": "the confined process ended", "noise": "invalid character", "many": "edits", "other": "the fix",
	} {
		e := newExaminer(t)
		file := padded(name)
		if _, err := e.Examine(bytes.NewReader(file), int64(len(file))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
		if f, err := e.Examine(bytes.NewReader(legacy), int64(len(legacy))); err != nil || f.Empty() {
			t.Errorf("%s: the next file: got %+v, %v", name, f, err)
		}
	}
	e := newExaminer(t)
	e.Until = time.Now().Add(500 * time.Millisecond)
	file := padded("hang")
	if _, err := e.Examine(bytes.NewReader(file), int64(len(file))); !errors.Is(err, ErrTime) {
		t.Errorf("hang: got %v", err)
	}
	if _, err := e.Examine(bytes.NewReader(legacy), int64(len(legacy))); !errors.Is(err, ErrTime) {
		t.Errorf("after the time: got %v", err)
	}
}

// Rule 8: the process has the file of its request alone, and what the engine left open is closed.
func TestDescriptors(t *testing.T) {
	e := newExaminer(t)
	inherited, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer inherited.Close()
	if _, err := unix.FcntlInt(inherited.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		legacy := tinyelf.Bytes(1)
		if _, err := e.Examine(bytes.NewReader(legacy), int64(len(legacy))); err != nil {
			t.Fatal(err)
		}
	}
	file := padded("files")
	_, err = e.Examine(bytes.NewReader(file), int64(len(file)))
	if err == nil || len(strings.Fields(err.Error())) != 2 {
		t.Errorf("got %v, want one open file", err)
	}
}
