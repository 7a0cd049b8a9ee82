// Text of logs in their stored forms, and the text around a message in them.

package diagnose

import (
	"bufio"
	"bytes"
	"strings"

	"github.com/tidwall/gjson"

	"vfix.dev/vfix/internal/lazy"
)

// maxZeros is how many zeros at the start of a log are skipped, in bytes: after logrotate's copytruncate, the
// writer continues at its old offset and leaves a hole.
const maxZeros = 1 << 30

// skipZeros skips the zeros at the start of r.
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

// colors are the escapes of dmesg --color (ECMA-48, SGR).
var colors = lazy.Regexp("\x1b\\[[0-9;]*m")

// writer is the origin of an entry of a log.
type writer int

const (
	unsaid    writer = iota // the log does not have it, or only in the line itself
	byKernel                // the kernel
	byProgram               // a program: its words do not count as the kernel's
	relayed                 // a program that may repeat the kernel's words
)

// entry is one message of a log: its text and, for a part of a record, the whole record, as another part may have
// more.
type entry struct {
	text, record string
	by           writer
}

// entryReader reads the lines of a log and emits its entries: a JSON value, or the fields of a journal's entry,
// may have many lines.
type entryReader struct {
	take func(entry)
	part []string // of a JSON value, or of the fields of one journal's entry
	size int      // of part, in bytes
	json bool
	deep int // the number of open brackets of the JSON value
}

// maxRecord is the longest record with several lines, in bytes.
const maxRecord = 16 << 20

// fieldLine is a line of journalctl -o export and -o verbose.
var fieldLine = lazy.Regexp(`^ *(_{0,2}[A-Z][A-Z0-9_]*)=(.*)$`)

func (r *entryReader) line(text string) {
	if strings.Contains(text, "\x1b[") {
		text = colors().ReplaceAllString(text, "")
	}
	isField := !r.json && len(text) > 0 && (text[0] == ' ' || text[0] == '_' || text[0] >= 'A' && text[0] <= 'Z') && fieldLine().MatchString(text)
	if r.part != nil && !r.json && !isField || r.size > maxRecord {
		r.end()
	}
	deep := 0 // computed only if needed: most logs have no such lines
	begins := r.part == nil && (strings.HasPrefix(text, "{") || strings.HasPrefix(text, "["))
	if r.json || begins {
		deep = depth(text)
	}
	switch {
	case r.json, begins && deep > 0:
		r.json, r.deep = true, r.deep+deep
		r.part, r.size = append(r.part, text), r.size+len(text)
		if r.deep <= 0 {
			r.end()
		}
	case isField:
		r.part, r.size = append(r.part, text), r.size+len(text)
	default:
		r.one(text)
	}
}

// depth returns how many more brackets a part of a JSON text opens than it closes. A string does not span lines.
func depth(text string) (n int) {
	inString := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			inString = !inString
		case inString:
			if c == '\\' {
				i++
			}
		case c == '{' || c == '[':
			n++
		case c == '}' || c == ']':
			n--
		}
	}
	return n
}

// end emits the entries of the record, or its lines if it has none.
func (r *entryReader) end() {
	part, isJSON := r.part, r.json
	r.part, r.size, r.json, r.deep = nil, 0, false, 0
	if isJSON {
		if value := strings.Join(part, "\n"); gjson.Valid(value) && r.value(gjson.Parse(value)) {
			return
		}
		for _, text := range part {
			r.one(text)
		}
		return
	}
	e := entry{}
	for _, text := range part {
		switch m := fieldLine().FindStringSubmatch(text); m[1] {
		case "MESSAGE":
			e.text = m[2]
		case "_TRANSPORT":
			e.by = transport(m[2])
		}
	}
	for _, text := range part {
		one := entry{text: text, by: e.by}
		if _, message, is := strings.Cut(text, "MESSAGE="); is && message == e.text {
			one.text = message
		}
		r.take(one)
	}
}

// transport returns the writer of an entry of the journal (systemd.journal-fields(7)).
func transport(name string) writer {
	if name == "kernel" || name == "audit" {
		return byKernel
	}
	return byProgram
}

// one emits the entry of a line, or of the JSON value in it.
func (r *entryReader) one(text string) {
	if i := strings.IndexByte(text, '{'); i >= 0 && strings.HasSuffix(text, "}") && gjson.Valid(text[i:]) && r.value(gjson.Parse(text[i:])) {
		return
	}
	r.take(entry{text: text})
}

// value emits the entries of a JSON value of journalctl -o json, dmesg --json, docker's json-file, or another with
// such a member; it returns false if the value has none.
func (r *entryReader) value(v gjson.Result) (any bool) {
	if list := v.Get("dmesg"); list.IsArray() {
		v = list
	}
	if v.IsArray() {
		for _, item := range v.Array() {
			any = r.value(item) || any
		}
		return any
	}
	message := v.Get("[MESSAGE,msg,log].0")
	if !message.Exists() {
		return false
	}
	e := entry{text: message.String(), record: v.Raw, by: relayed}
	if message.IsArray() { // the journal gives unprintable text as bytes
		var b []byte
		for _, n := range message.Array() {
			b = append(b, byte(n.Int()))
		}
		e.text = string(b)
	}
	const levels = 8 // of one facility; the kernel's is 0
	by, facility, priority := v.Get("_TRANSPORT"), v.Get("fac"), v.Get("pri")
	switch {
	case by.Exists():
		e.by = transport(by.String())
	case facility.Exists() && facility.String() != "kern", priority.Int() >= levels:
		e.by = byProgram
	case priority.Exists():
		e.by = byKernel
	}
	r.take(e)
	return true
}
