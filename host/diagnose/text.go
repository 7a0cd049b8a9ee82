// Text as logs are stored, and the text around a message in them.

package diagnose

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strings"

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

// colors are those of dmesg --color (ECMA-48, SGR).
var colors = lazy.Regexp("\x1b\\[[0-9;]*m")

// fields are the members that hold a message: journalctl -o json (as numbers if it has what cannot be
// printed), dmesg --json, docker's json-file.
var fields = lazy.Regexp(`"(?:MESSAGE|msg|log)"\s*:\s*("(?:[^"\\]|\\.)*"|\[[0-9, ]*\])`)

// programs matches an entry of a journal, in JSON, that a program wrote.
var programs = lazy.Regexp(`"_TRANSPORT"\s*:\s*"(?:stdout|journal|syslog)"`)

// messages are what a line says, without what a log has around it, best first: without colors, the field's name of
// journalctl -o export, or a JSON object. Another member of an object may say more, so the line itself is also one.
func messages(line string) []string {
	if strings.Contains(line, "\x1b[") {
		line = colors().ReplaceAllString(line, "")
	}
	if text, ok := strings.CutPrefix(line, "MESSAGE="); ok {
		return []string{text}
	}
	m := fields().FindStringSubmatch(line)
	if m == nil {
		return []string{line}
	}
	text := ""
	if json.Unmarshal([]byte(m[1]), &text) == nil {
		return []string{text, line}
	}
	var numbers []byte
	for _, n := range strings.Split(strings.Trim(m[1], "[]"), ",") {
		var b byte
		if json.Unmarshal([]byte(n), &b) != nil {
			return []string{line}
		}
		numbers = append(numbers, b)
	}
	return []string{string(numbers), line}
}
