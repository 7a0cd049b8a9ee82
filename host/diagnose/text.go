// Text as logs are stored, and what stands around a message in them.

package diagnose

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"vfix.dev/vfix/internal/lazy"
)

// maxZeros is how many zeros at a log's beginning are passed over, in bytes: logrotate's copytruncate leaves a hole
// there where the writer goes on at its old offset.
const maxZeros = 1 << 30

// skipZeros passes over the zeros that r begins with.
func skipZeros(r *bufio.Reader) error {
	for skipped := 0; skipped < maxZeros; {
		if _, err := r.Peek(1); err != nil {
			return err
		}
		b, _ := r.Peek(r.Buffered())
		zeros := len(b) - len(bytes.TrimLeft(b, "\x00"))
		if zeros == 0 {
			return nil
		}
		n, err := r.Discard(zeros)
		if err != nil {
			return err
		}
		skipped += n
	}
	return nil
}

// asUTF8 reads UTF-16 with a byte order mark, as PowerShell writes what a command prints, and anything else as
// it is.
func asUTF8(r *bufio.Reader) *bufio.Reader {
	mark, _ := r.Peek(2)
	switch string(mark) {
	case "\xff\xfe":
		return bufio.NewReader(&utf16Reader{r, binary.LittleEndian})
	case "\xfe\xff":
		return bufio.NewReader(&utf16Reader{r, binary.BigEndian})
	}
	return r
}

// utf16Reader reads UTF-16 as UTF-8 (RFC 2781); what is none becomes U+FFFD.
type utf16Reader struct {
	r     *bufio.Reader
	order binary.ByteOrder
}

func (u *utf16Reader) Read(b []byte) (n int, err error) {
	if len(b) < utf8.UTFMax {
		return 0, io.ErrShortBuffer
	}
	for n+utf8.UTFMax <= len(b) {
		r, err := u.rune()
		if err != nil {
			return n, err
		}
		n += utf8.EncodeRune(b[n:], r)
	}
	return n, nil
}

func (u *utf16Reader) rune() (rune, error) {
	r, err := u.unit()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	second, err := u.unit()
	return utf16.DecodeRune(r, second), err
}

// unit reads 16 bits; half of them at the end is none.
func (u *utf16Reader) unit() (rune, error) {
	var b [2]byte
	_, err := io.ReadFull(u.r, b[:])
	if err == io.ErrUnexpectedEOF {
		err = io.EOF
	}
	return rune(u.order.Uint16(b[:])), err
}

// colors are those of dmesg --color (ECMA-48, SGR).
var colors = lazy.Regexp("\x1b\\[[0-9;]*m")

// fields are the members that hold a message: journalctl -o json (as numbers where it has what cannot be
// printed), dmesg --json, docker's json-file.
var fields = lazy.Regexp(`"(?:MESSAGE|msg|log)"\s*:\s*("(?:[^"\\]|\\.)*"|\[[0-9, ]*\])`)

// message is what a line says without what a log has around it: colors, the field's name of journalctl -o export, or
// a JSON object.
func message(line string) string {
	if strings.Contains(line, "\x1b[") {
		line = colors().ReplaceAllString(line, "")
	}
	if text, ok := strings.CutPrefix(line, "MESSAGE="); ok {
		return text
	}
	m := fields().FindStringSubmatch(line)
	if m == nil {
		return line
	}
	text := ""
	if json.Unmarshal([]byte(m[1]), &text) != nil {
		var numbers []byte
		for _, n := range strings.Split(strings.Trim(m[1], "[]"), ",") {
			var b byte
			if json.Unmarshal([]byte(n), &b) != nil {
				return line
			}
			numbers = append(numbers, b)
		}
		text = string(numbers)
	}
	if _, ok := parseLine(text); !ok {
		return line // another member may tell more
	}
	return text
}
