// The type of a file, from its first bytes: a core, something compressed, text. Every other known type, and everything
// that is not text, is refused by name: lines found in binary data report no crash.

package diagnose

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"vfix.dev/vfix/internal/quote"
)

// sniffLen is how much of a file is looked at: a tar header, which has its magic at 257.
const sniffLen = 512

// format is what a file is.
type format int

const (
	isText format = iota
	isCore
	isGzip
	isZstd
	isXZ
	isLZ4
)

// formats are those that are read, or that say with which command to unpack them. Sources: RFC 1952, RFC 8878 3.1.1,
// the .xz file format 2.1.1.1, the LZ4 frame format.
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

// other is a format that holds no crash, by what it has at an offset.
type other struct {
	at    int
	magic string
	name  string
	hint  string // what to type, with FILE for the file; "" for the help
}

// Hints of other formats.
const (
	hintImage   = "for an image: 'vfix scan FILE'; for a crash in it: 'vfix diagnose --root FILE CORE'"
	hintJournal = "run: journalctl --file FILE -o short-iso | vfix diagnose -"
	hintPerf    = "run: perf script -i FILE | vfix diagnose -"
)

// others are such formats. Sources: POSIX pax (ustar), APPNOTE.TXT of PKWARE 4.3.7, the formats' own specifications.
var others = []other{
	{257, "ustar", "a tar archive", hintImage}, {0, "PK\x03\x04", "a zip archive", ""}, {0, "PK\x05\x06", "an empty zip archive", ""},
	{32, "SIF_MAGIC\x00", "a SIF image", hintImage}, {0, "hsqs", "a squashfs file system", hintImage}, {0, "BZh", "compressed with bzip2", ""},
	{0, "!<arch>\n", "an archive of ar, or a .deb package", ""}, {0, "\xed\xab\xee\xdb", "an RPM package", ""},
	{0, "MDMP", "a minidump", ""}, {0, "KDUMP   ", "a dump of the kernel", ""}, {0, "SQLite format 3\x00", "an SQLite database", ""},
	{0, "\x89PNG\r\n", "a picture", ""}, {0, "\xff\xd8\xff", "a picture", ""}, {0, "%PDF-", "a PDF document", ""},
	{0, "LPKSHHRH", "a systemd journal in its binary format", hintJournal}, {0, "PERFILE2", "data of perf", hintPerf},
	{0, "7z\xbc\xaf\x27\x1c", "a 7z archive", ""}, {0, "MZ", "a Windows program", ""}, {0, "\xca\xfe\xba\xbe", "a Java class", ""},
	{0, "JAVA PROFILE", "a heap dump of a JVM", ""},
}

// refuse is the error of a file that is not a log, nil for one that may be.
func refuse(name string, head []byte) error {
	for _, o := range others {
		if len(head) < o.at+len(o.magic) || string(head[o.at:o.at+len(o.magic)]) != o.magic {
			continue
		}
		hint := "'vfix help diagnose' lists what is understood"
		if o.hint != "" {
			hint = strings.ReplaceAll(o.hint, "FILE", quote.Shell(name))
		}
		return &refusedError{name + ": " + o.name + ", which is not read as a crash", hint}
	}
	if !looksLikeText(head) {
		return notText(name)
	}
	return nil
}

func notText(name string) error {
	return &refusedError{name + ": neither a core file nor text", "'vfix help diagnose' lists what is understood"}
}

// looksLikeText reports whether bytes are those of a log: without zeros, except at its beginning, and
// with few bytes that are neither UTF-8 nor white space nor escapes. A line may begin with zeros: a machine that crashed
// leaves them.
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
	const share = 10 // names in other encodings are in logs
	return odd*share <= len(head) && len(bytes.TrimLeft(head, "\x00")) > 0
}
