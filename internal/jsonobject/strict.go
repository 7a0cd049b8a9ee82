// A file that a user wrote, decoded strictly: everything that encoding/json tolerates (a duplicate member,
// one in another case, null, text that is not UTF-8) is an error, and each error names the line.

package jsonobject

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

// Strict decodes a JSON object into a struct of bools, strings, int, int64, float64 and structs of these, by
// the names of its json tags. Each member may occur once, in exactly this case. valid, which may be nil, then
// returns a member with an invalid value, and the reason.
func Strict(data []byte, to any, valid func() (member string, err error)) error {
	if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		return errors.New("line 1, column 1: a byte order mark: save the file as UTF-8 without one")
	}
	s := &strict{data: data, at: map[string]int{}}
	if len(bytes.TrimSpace(data)) == 0 {
		return s.errorf(0, "empty, want a JSON object such as {}")
	}
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return s.errorf(i, "not UTF-8: byte 0x%02x", data[i])
		}
		i += n
	}
	if err := s.syntax(); err != nil {
		return err
	}
	tree, err := hujson.Parse(data)
	if err == nil {
		err = s.value(&tree, reflect.ValueOf(to).Elem(), "")
	}
	if err != nil || valid == nil {
		return err
	}
	member, err := valid()
	if err != nil {
		return s.errorf(s.at[member], "%s: %w", member, err)
	}
	return nil
}

// syntax finds violations of JSON (RFC 8259), and suggests corrections.
func (s *strict) syntax() error {
	var raw json.RawMessage
	var bad *json.SyntaxError
	err := json.Unmarshal(s.data, &raw)
	if !errors.As(err, &bad) {
		return err
	}
	at := max(int(bad.Offset)-1, 0)
	rest := s.data[min(at, len(s.data)):]
	before := bytes.TrimRight(s.data[:min(at, len(s.data))], " \t\r\n")
	text := strings.TrimPrefix(bad.Error(), "json: ")
	switch {
	case int(bad.Offset) >= len(s.data) && (strings.Contains(text, "unexpected end") || strings.Contains(text, "' '") && s.data[at] != ' '):
		return s.errorf(len(s.data), "the JSON ends too early: is the file cut off, or a brace missing?")
	case len(rest) > 0 && (rest[0] == '}' || rest[0] == ']') && bytes.HasSuffix(before, []byte(",")):
		return s.errorf(len(before)-1, "a comma before %q: remove it", rest[0])
	case len(rest) > 0 && (rest[0] == '/' || rest[0] == '#'):
		return s.errorf(at, "JSON has no comments: remove it")
	case strings.Contains(text, "after top-level value"):
		return s.errorf(at, "unexpected content after the end of the object")
	case len(rest) > 0 && rest[0] == '"' && strings.Contains(text, "after"):
		return s.errorf(at, "not valid JSON: is a comma missing before this? (%s)", text)
	}
	return s.errorf(at, "not valid JSON: %s", text)
}

type strict struct {
	data []byte
	at   map[string]int // the position of a member's value
}

// value decodes one value into v; name is its path.
func (s *strict) value(from *hujson.Value, v reflect.Value, name string) error {
	s.at[name] = from.StartOffset
	object, _ := from.Value.(*hujson.Object)
	literal, _ := from.Value.(hujson.Literal)
	number := v.Kind() != reflect.Bool && v.Kind() != reflect.String
	switch kind := from.Value.Kind(); {
	case v.Kind() == reflect.Struct:
		if object != nil {
			return s.members(object, v, name)
		}
	case v.Kind() == reflect.Bool && (kind == 't' || kind == 'f'), v.Kind() == reflect.String && kind == '"', number && kind == '0':
		if json.Unmarshal(literal, v.Addr().Interface()) == nil {
			return nil
		}
		if v.Kind() == reflect.Float64 || !bytes.ContainsAny(literal, ".eE") {
			return s.errorf(from.StartOffset, "%s%s is too large", prefix(name), literal)
		}
	}
	return s.errorf(from.StartOffset, "%sgot %s, want %s", prefix(name), described(from.Value), wanted(v.Kind()))
}

// members reads the part between the braces.
func (s *strict) members(object *hujson.Object, v reflect.Value, name string) error {
	var known []string
	for i := range v.NumField() {
		tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		known = append(known, tag)
	}
	var seen []string
	for i := range object.Members {
		m := &object.Members[i]
		key, at := m.Name.Value.(hujson.Literal).String(), m.Name.StartOffset
		full := strings.TrimPrefix(name+"."+key, ".")
		field := slices.Index(known, key)
		switch {
		case field < 0:
			if near := slices.IndexFunc(known, func(k string) bool { return folded(k) == folded(key) }); near >= 0 {
				return s.errorf(at, "unknown field %q: write %q", full, known[near])
			}
			return s.errorf(at, "unknown field %q: want one of %s", full, strings.Join(known, ", "))
		case slices.Contains(seen, key):
			return s.errorf(at, "%s is written twice: remove one", full)
		}
		seen = append(seen, key)
		if err := s.value(&m.Value, v.Field(field), full); err != nil {
			return err
		}
	}
	return nil
}

// folded is a name in lower case without separators, which people get wrong.
func folded(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(name))
}

func prefix(name string) string {
	if name == "" {
		return ""
	}
	return name + ": "
}

// described is a value in words.
func described(v hujson.ValueTrimmed) string {
	switch literal, _ := v.(hujson.Literal); v.Kind() {
	case '[':
		return "an array"
	case '{':
		return "an object"
	case '"':
		text := literal.String()
		if _, err := strconv.ParseFloat(text, 64); err == nil || text == "true" || text == "false" {
			return fmt.Sprintf("a string (%q: remove the quotes)", text)
		}
		return "a string"
	case '0':
		return "a number (" + string(literal) + ")"
	default:
		return string(literal)
	}
}

// errorf is an error at an offset, in bytes.
func (s *strict) errorf(at int, format string, a ...any) error {
	before := s.data[:min(at, len(s.data))]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	return fmt.Errorf("line %d, column %d: %w", line, column, fmt.Errorf(format, a...))
}

// Errors of a decoder about a file that a user wrote, in words.

// InWords is an error of encoding/json's decoder in words of JSON, not of Go; nil and other errors stay as they are.
func InWords(err error) error {
	var other *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case err == io.EOF:
		return errors.New("empty, want JSON")
	case err == io.ErrUnexpectedEOF:
		return errors.New("the JSON ends too early")
	case errors.As(err, &other):
		where, article := "", "a"
		if other.Field != "" {
			where = other.Field + ": "
		}
		if other.Value == "array" || other.Value == "object" {
			article = "an"
		}
		return fmt.Errorf("%sgot %s %s, want %s", where, article, other.Value, wanted(other.Type.Kind()))
	case errors.As(err, &syntax):
		return fmt.Errorf("invalid JSON: %w", err)
	case err != nil && strings.HasPrefix(err.Error(), "json: "): // has no type (decode.go, "unknown field")
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return err
}

// wanted is what a member may be.
func wanted(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Float64:
		return "a number"
	}
	return "a whole number"
}
