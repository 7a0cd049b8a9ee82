// The user's input: files, whose format is recognized from their first bytes, and text.

package diagnose

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"vfix.dev/vfix/internal/lazy"
	"vfix.dev/vfix/internal/quote"
	"vfix.dev/vfix/internal/utf8text"
)

// Result is the result of the diagnosis of one input.
type Result struct {
	Input   string   `json:"input"`
	Crashes []*Crash `json:"-"`
	// Lines is how many lines a log or trace had, 0 for other inputs.
	Lines int `json:"lines"`
	// Understood reports that the input has something of a kind that reports crashes. Otherwise, the absence of
	// crashes means nothing.
	Understood bool `json:"understood"`
	// Unread is how many lines, or entries of a journal, are of an unknown kind: each may report a crash.
	Unread int `json:"unread"`
	// UnreadLine is the first of them.
	UnreadLine string `json:"-"`
	// Containers is how many containers a description is about, 0 for other inputs.
	Containers int `json:"containers"`
}

// compressedError returns the error for a compression that vfix does not read.
func compressedError(kind, command string) error {
	return refused("compressed with "+kind+", which vfix does not read", "unpack it first: "+command)
}

// File diagnoses a file: a core file, also compressed with gzip or zstd as systemd-coredump does, or the text of a
// log or a trace.
func File(name string, o Options) (*Result, error) {
	fi, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if fi.IsDir() {
		return nil, refused(name+": a directory", "name one core file or log in it; 'vfix scan "+name+"' looks for programs that call the page")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !fi.Mode().IsRegular() { // a pipe, /dev/kmsg
		return Text(name, f, o)
	}
	head := make([]byte, sniffLen)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	head = head[:n]
	switch kind := sniff(head); kind {
	case isCore:
		return coreFile(name, f, o)
	case isGzip, isZstd:
		return packed(name, f, kind, o)
	case isXZ:
		return nil, fmt.Errorf("%s: %w", name, compressedError("xz", "xz -dk "+quote.Shell(name)))
	case isLZ4:
		return nil, fmt.Errorf("%s: %w", name, compressedError("lz4", "lz4 -d "+quote.Shell(name)))
	}
	return Text(name, f, o)
}

// coreFile diagnoses a core file.
func coreFile(name string, r io.ReaderAt, o Options) (*Result, error) {
	c, err := Core(name, r, o)
	if err != nil {
		return nil, err
	}
	return &Result{Input: name, Crashes: []*Crash{c}, Understood: true}, nil
}

func packed(name string, f *os.File, kind format, o Options) (*Result, error) {
	p := &unpacker{f: f, kind: kind}
	defer p.Close()
	head := make([]byte, sniffLen)
	n, err := p.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if sniff(head[:n]) == isCore {
		return coreFile(name, p, o)
	}
	r, err := p.restart()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return Text(name, r, o)
}

// emptyHint is the hint for an empty file or pipe.
const emptyHint = "an empty core file: check 'ulimit -c', the disk and /proc/sys/kernel/core_pattern; " +
	"an empty log: dmesg and journalctl -k may need root"

// Text diagnoses the text of a log.
func Text(name string, in io.Reader, o Options) (*Result, error) {
	br := bufio.NewReader(in)
	head, err := br.Peek(sniffLen)
	if len(head) == 0 && err == io.EOF {
		return nil, refused(name+": empty: nothing to diagnose", emptyHint)
	}
	if err := skipZeros(br); err != nil && err != io.EOF {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	br = bufio.NewReader(utf8text.Reader(br))
	head, _ = br.Peek(sniffLen)
	switch kind := sniff(head); {
	case kind == isCore:
		return nil, refused(name+": a core file that cannot be read at any offset", "save it to a file, and name that")
	case kind != isText:
		return nil, refused(name+": compressed", "unpack it first")
	case len(head) == 0:
		return nil, notText(name)
	}
	if err := refuse(name, head); err != nil {
		return nil, err
	}
	r, rest, err := described(name, br, head, o)
	if r != nil || err != nil {
		return r, err
	}
	r, err = readLog(name, rest, o)
	if err != nil {
		return nil, err
	}
	if len(r.Crashes) == 0 && r.Lines == 1 && bytes.HasPrefix(head, []byte("dmesg: ")) { // 2>&1
		return nil, refused(name+": an error of dmesg instead of a log: "+strings.TrimSpace(string(head)), "run dmesg as root")
	}
	return r, nil
}

// listHints recognize lists without an exit status by their headings, and propose a command with one.
var listHints = []struct {
	head func() *regexp.Regexp
	what string
	hint string
}{
	{lazy.Regexp(`^(?:NAMESPACE\s+)?NAME\s+READY\s+STATUS\s+RESTARTS`), "the list of kubectl get pods has no exit status", "kubectl get pods -o json | vfix diagnose -"},
	{lazy.Regexp(`^CONTAINER\s+IMAGE\s+CREATED\s+STATE`), "the list of crictl ps has no exit status", "crictl inspect CONTAINER | vfix diagnose -"},
	{lazy.Regexp(`^TIME\s+PID\s+UID\s+GID\s+SIG\s`), "the list of coredumpctl does not have the places of the crashes", "coredumpctl info PID | vfix diagnose -"},
}

// described diagnoses a description of containers by an engine or Kubernetes. For other input r is nil, and rest
// reads all of it.
func described(name string, br *bufio.Reader, head []byte, o Options) (r *Result, rest io.Reader, err error) {
	first := bytes.TrimLeft(head, " \t\r\n")
	line, _, _ := bytes.Cut(first, []byte("\n"))
	for _, l := range listHints {
		if l.head().Match(line) {
			return nil, nil, refused(name+": "+l.what, l.hint)
		}
	}
	var d document
	lines := 0
	var read bytes.Buffer // text without a description is a log
	text := io.TeeReader(br, &read)
	rest = io.MultiReader(&read, br)
	switch {
	case bytes.HasPrefix(first, []byte("{")), bytes.HasPrefix(first, []byte("[")):
		d, rest, err = documents(br)
	case yamlStart().Match(head) && bytes.Contains(head, []byte("apiVersion:")):
		d, err = yamlDocuments(text)
	case bytes.HasPrefix(first, []byte("Name:")):
		d, lines, err = describedPods(text)
	case tableHead().Match(line):
		d, lines, err = table(br)
	}
	switch {
	case !d.known:
		return nil, rest, nil
	case err != nil:
		return nil, nil, refused(fmt.Sprintf("%s: %v", name, err), "give the whole output of docker inspect, kubectl get pod -o json or kubectl describe pod")
	case d.total == 0:
		return nil, nil, refused(name+": it has no container that was started", "docker ps -a and kubectl get pods -A list them all")
	}
	r = &Result{Input: name, Lines: lines, Containers: d.total, Understood: true}
	for _, e := range d.ended {
		if len(d.ended) > 1 && e.Status < notStarted[0] && e.Error == "" && e.Lost == "" { // it exited by itself
			continue
		}
		for _, c := range e.resolved(o).Crashes {
			if c.Kind != None || len(d.ended) == 1 {
				r.Crashes = append(r.Crashes, c)
			}
		}
	}
	return r, nil, nil
}

// Line diagnoses one line of a log, or several, from the command line.
func Line(text string, o Options) (*Result, error) {
	r, err := Text("line", strings.NewReader(text), o)
	if err == nil && len(r.Crashes) == 0 && !r.Understood {
		return nil, refused("not understood: "+text,
			"give a line with 'vsyscall attempted', 'segfault at' or 'exited with code 139', or an error message such as 'exec format error'; to name a file, give an existing path")
	}
	return r, err
}

// ParsePID reads a process ID: digits, also after "pid:".
func ParsePID(arg string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimPrefix(arg, "pid:"))
	return n, err == nil && n > 0
}

// IsFile reports whether a name, which may also be a line of a log, is the name of a file.
func IsFile(name string) bool {
	_, err := os.Stat(name)
	return err == nil || !errors.Is(err, fs.ErrNotExist) && !strings.Contains(name, " ")
}

// sniffLen is how much of a file is examined, in bytes: a tar header, which has its magic at 257.
const sniffLen = 512

type format int

const (
	isText format = iota
	isCore
	isGzip
	isZstd
	isXZ
	isLZ4
)

// formats are those that vfix reads, or for which it names the command that unpacks them. Sources: RFC 1952, RFC
// 8878 3.1.1, the .xz file format 2.1.1.1, the LZ4 frame format.
var formats = []struct {
	magic string
	f     format
}{
	{"\x7fELF", isCore}, {"\x1f\x8b", isGzip}, {"\x28\xb5\x2f\xfd", isZstd}, {"\xfd7zXZ\x00", isXZ}, {"\x04\x22\x4d\x18", isLZ4},
}

func sniff(head []byte) format {
	for _, m := range formats {
		if bytes.HasPrefix(head, []byte(m.magic)) {
			return m.f
		}
	}
	return isText
}

// other is a format that has no crash, by its magic at an offset.
type other struct {
	at    int
	magic string
	name  string
	hint  string // the command to type, with FILE for the file; "" for the help
}

// Hints of other formats.
const (
	hintImage   = "for an image: 'vfix scan FILE'; for a crash in it: 'vfix diagnose --root FILE CORE'"
	hintScan    = "for programs in it: 'vfix scan FILE'"
	hintBzip2   = "run: bzip2 -dc FILE | vfix diagnose -"
	hintJournal = "run: journalctl --file FILE -o short-iso | vfix diagnose -"
	hintPerf    = "run: perf script -i FILE | vfix diagnose -"
)

// others are the formats without a crash. Sources: POSIX pax (ustar), APPNOTE.TXT of PKWARE 4.3.7, the formats'
// own specifications.
var others = []other{
	{257, "ustar", "a tar archive", hintImage}, {0, "PK\x03\x04", "a zip archive", hintScan}, {0, "PK\x05\x06", "an empty zip archive", ""},
	{32, "SIF_MAGIC\x00", "a SIF image", hintImage}, {0, "hsqs", "a squashfs file system", hintScan}, {0, "BZh", "compressed with bzip2", hintBzip2},
	{0, "!<arch>\n", "an ar archive, or a .deb package", hintScan}, {0, "\xed\xab\xee\xdb", "an RPM package", hintScan},
	{0, "07070", "a cpio archive", hintScan}, {0, "QFI\xfb", "a disk image", hintScan},
	{0, "MDMP", "a minidump", ""}, {0, "KDUMP   ", "a kernel dump", ""}, {0, "SQLite format 3\x00", "an SQLite database", ""},
	{0, "\x89PNG\r\n", "a picture", ""}, {0, "\xff\xd8\xff", "a picture", ""}, {0, "%PDF-", "a PDF document", ""},
	{0, "LPKSHHRH", "a systemd journal in its binary format", hintJournal}, {0, "PERFILE2", "perf data", hintPerf},
	{0, "7z\xbc\xaf\x27\x1c", "a 7z archive", ""}, {0, "MZ", "a Windows program", ""}, {0, "\xca\xfe\xba\xbe", "a Java class", ""},
	{0, "JAVA PROFILE", "a heap dump of a JVM", ""},
}

// refuse returns the error for a file that is not a log, nil for a possible one: lines in binary data do not
// report a crash.
func refuse(name string, head []byte) error {
	for _, o := range others {
		if len(head) < o.at+len(o.magic) || string(head[o.at:o.at+len(o.magic)]) != o.magic {
			continue
		}
		hint := "'vfix help diagnose' lists the supported input"
		if o.hint != "" {
			hint = strings.ReplaceAll(o.hint, "FILE", quote.Shell(name))
		}
		return refused(name+": "+o.name+", which is not read as a crash", hint)
	}
	if !looksLikeText(head) {
		return notText(name)
	}
	return nil
}

func notText(name string) error {
	return refused(name+": neither a core file nor text", "'vfix help diagnose' lists the supported input")
}

// looksLikeText reports whether head is the start of a log: few bytes are neither UTF-8 nor white space nor
// escapes, and zeros are only at the start of lines, where a machine that crashed leaves them.
func looksLikeText(head []byte) bool {
	odd, begins := 0, true
	for b := head; len(b) > 0; {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == 0 && !begins:
			return false
		case r == 0:
		case r == utf8.RuneError && n == 1 && len(b) >= utf8.UTFMax, r < ' ' && !bytes.ContainsRune([]byte("\t\n\r\v\f\b\a\x1b"), r):
			odd++
		}
		begins = r == '\n' || r == 0
		b = b[n:]
	}
	const share = 10 // logs may have names in other encodings
	return odd*share <= len(head) && len(bytes.TrimLeft(head, "\x00")) > 0
}
