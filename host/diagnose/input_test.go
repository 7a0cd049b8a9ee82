package diagnose

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"vfix.dev/vfix/internal/hinterr"
)

const (
	attempted = "bash[4242] vsyscall attempted with vsyscall=none ip:ffffffffff600400 cs:33 sp:7ffeaaaa0000 ax:ffffffffff600400 si:0 di:7ffeaaaa0010"
	segfault  = "segfault at ffffffffff600400 ip ffffffffff600400 sp 00007ffeaaaa0000 error 15"
)

func inUTF16(order binary.AppendByteOrder, text string) string {
	var b []byte
	for _, u := range utf16.Encode([]rune("\ufeff" + text)) {
		b = order.AppendUint16(b, u)
	}
	return string(b)
}

// The text around a kernel's message, and the form of the log, do not matter: the crash is found, with the
// program's name.
func TestLogsInAllForms(t *testing.T) {
	stamped := "[12345.678901] " + attempted + "\n"
	field, err := json.Marshal(map[string]any{"__CURSOR": "s=1", "MESSAGE": attempted, "_TRANSPORT": "kernel"})
	if err != nil {
		t.Fatal(err)
	}
	numbers := []int{}
	for _, b := range []byte(attempted + "\x1b") { // journalctl -o json, what cannot be printed
		numbers = append(numbers, int(b))
	}
	list, err := json.Marshal(map[string]any{"MESSAGE": numbers})
	if err != nil {
		t.Fatal(err)
	}
	for name, log := range map[string]string{
		"plain":                           stamped,
		"UTF-16, PowerShell's":            inUTF16(binary.LittleEndian, "caf\u00e9 \U0001f600\r\n"+strings.ReplaceAll(stamped, "\n", "\r\n")),
		"UTF-16, big-endian":              inUTF16(binary.BigEndian, stamped),
		"UTF-16, cut off":                 inUTF16(binary.LittleEndian, stamped) + "x",
		"zeros first, as of copytruncate": strings.Repeat("\x00", 100_000) + stamped,
		"a few zeros first":               "\x00\x00\x00" + stamped,
		"dmesg --color, attempted":        "\x1b[32m[12345.678901] \x1b[0m" + attempted + "\n",
		"dmesg --color, segfault":         "\x1b[32m[12345.678901] \x1b[0m\x1b[33mbash[4242]: \x1b[0m\x1b[31m" + segfault + "\x1b[0m\n",
		"journalctl -o export":            "__CURSOR=s=1\nMESSAGE=" + attempted + "\nPRIORITY=4\n\n",
		"journalctl -o json":              string(field) + "\n",
		"journalctl -o json, numbers":     string(list) + "\n",
		"dmesg --json":                    "{\n   \"dmesg\": [\n      {\n         \"pri\": 4,\n         \"msg\": \"" + attempted + "\"\n      }\n   ]\n}\n",
		"docker's":                        `{"log":"` + attempted + `\n","stream":"stderr"}` + "\n",
	} {
		r, err := Text(name, strings.NewReader(log), Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(r.Crashes) != 1 || r.Crashes[0].Kind != Call || r.Crashes[0].Program != "bash" || pid(r.Crashes[0]) != 4242 {
			t.Errorf("%s: got %d crashes, %+v", name, len(r.Crashes), r.Crashes)
		}
	}
	// A field of another name has the message.
	r, err := diagnosedText(t, `{"msg":"failed","error":"exec /x: exec format error"}`, Options{})
	if err != nil || len(r.Crashes) != 1 {
		t.Errorf("another field: got %+v, %v", r, err)
	}
}

// zeros is an endless file of zeros.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// Input that is not text is reported as such, and endless zeros are not read forever.
func TestNoText(t *testing.T) {
	for name, data := range map[string]io.Reader{
		"zeros":                 bytes.NewReader(make([]byte, 1000)),
		"zeros, then numbers":   bytes.NewReader(append(make([]byte, 1000), "ab\x00\x01\x00"...)),
		"numbers":               strings.NewReader("\x01\x00\x02\x00"),
		"zeros, then a core":    bytes.NewReader(append(make([]byte, 100), "\x7fELF\x02\x01\x01\x00"...)),
		"UTF-16 without a mark": strings.NewReader(inUTF16(binary.LittleEndian, attempted)[2:]),
		"zeros without an end":  zeros{},
	} {
		_, err := Text(name, data, Options{})
		if hinterr.HintOf(err) == "" || errors.Is(err, hinterr.ErrDamaged) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// A file that begins with a hole is also a log.
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, append(make([]byte, 4096), attempted...), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := File(file, Options{}); err != nil || len(r.Crashes) != 1 {
		t.Errorf("a hole first: got %+v, %v", r, err)
	}
}

// Other formats are refused by name, whatever lines are in them.
func TestRefusedByName(t *testing.T) {
	var tarball bytes.Buffer
	tw := tar.NewWriter(&tarball)
	body := []byte(attempted + "\n/bin/x: exec format error\n")
	tw.WriteHeader(&tar.Header{Name: strings.Repeat("0123456789abcdef", 4) + ".tar", Size: int64(len(body)), Mode: 0o644})
	tw.Write(body)
	tw.Close()
	var packed bytes.Buffer
	zw := gzip.NewWriter(&packed)
	zw.Write(tarball.Bytes())
	zw.Close()
	random := make([]byte, 4096)
	for i := range random {
		random[i] = byte(i*7919>>3) | 1
	}
	for name, c := range map[string]struct {
		data []byte
		says string
	}{
		"image.tar":    {tarball.Bytes(), "a tar archive"},
		"image.tar.gz": {packed.Bytes(), "a tar archive"},
		"app.jar":      {[]byte("PK\x03\x04" + attempted), "a zip archive"},
		"x.sif":        {append(append(bytes.Repeat([]byte("#"), 32), "SIF_MAGIC\x00"...), attempted...), "a SIF image"},
		"noise":        {append(random, attempted...), "neither a core file nor text"},
		"program":      {append([]byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x3e\x00"), make([]byte, 64)...), "not a core file"},
		"journal":      {[]byte("LPKSHHRH" + attempted), "a systemd journal"},
	} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := File(file, Options{})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %+v, %v, want %q", name, r, err, c.says)
		}
		if name == "program" && hinterr.HintOf(err) != "'vfix scan "+file+"' examines programs and libraries" {
			t.Errorf("%s: got hint %q", name, hinterr.HintOf(err))
		}
		if name == "program" || name == "image.tar.gz" {
			continue // a core, or what is packed, is read from a file alone
		}
		if r, err := Text("stdin", bytes.NewReader(c.data), Options{}); err == nil {
			t.Errorf("%s on stdin: got %+v", name, r)
		}
	}
	// Zeros in the middle of a log, and binary data in a line.
	r, err := diagnosedText(t, strings.Repeat("a line\n", 100)+"\x00\x00\x00"+attempted+"\nx\x00"+strings.ReplaceAll(attempted, "bash", "evil")+"\n", Options{})
	if err != nil || len(r.Crashes) != 1 || r.Crashes[0].Program != "bash" {
		t.Errorf("zeros in a log: got %+v, %v", r, err)
	}
}

// A line as an argument is read like one in a file, except that it may be a mistyped name if it is not understood.
func TestLineWithoutCrash(t *testing.T) {
	if r, err := Line("web exited with code 0", Options{}); err != nil || !r.Understood || len(r.Crashes) > 0 {
		t.Errorf("got %+v, %v", r, err)
	}
	if r, err := Line("my core file", Options{}); err == nil || !strings.Contains(err.Error(), "not understood: my core file") {
		t.Errorf("got %+v, %v", r, err)
	}
}
