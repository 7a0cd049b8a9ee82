// Package utf8text reads the texts that a user gives, whichever way they were stored: Windows PowerShell writes
// UTF-16 where the output of a command goes to a file.
package utf8text

import (
	"bufio"
	"encoding/binary"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// marks begin a text that says how it is stored (Unicode, "Byte Order Mark"); the order is nil for UTF-8.
var marks = []struct {
	mark  string
	order binary.ByteOrder
}{{"\xef\xbb\xbf", nil}, {"\xff\xfe", binary.LittleEndian}, {"\xfe\xff", binary.BigEndian}}

// Reader reads a text that begins with a byte order mark as UTF-8 without it, and anything else as it is.
func Reader(r *bufio.Reader) *bufio.Reader {
	for _, m := range marks {
		if head, _ := r.Peek(len(m.mark)); string(head) != m.mark {
			continue
		}
		_, _ = r.Discard(len(m.mark)) // it is there
		if m.order != nil {
			return bufio.NewReader(&utf16Reader{r, m.order})
		}
		break
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
