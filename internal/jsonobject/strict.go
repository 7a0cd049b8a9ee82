// A file that a user wrote, decoded with nothing guessed: what encoding/json lets pass (a member twice, or in
// another case, null, text that is not UTF-8) is an error, and each error says on which line.

package jsonobject

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Strict decodes a JSON object into a struct of bools, strings, int, int64, float64 and structs of these, by
// the names of its json tags. Each member may be there once, in these letters. valid, which may be nil, then says which
// member has a value that it must not have, and why.
func Strict(data []byte, to any, valid func() (member string, err error)) error {
	if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		return errors.New("line 1, column 1: a byte order mark: save the file as UTF-8 without one")
	}
	s := &strict{data: data, d: json.NewDecoder(bytes.NewReader(data)), at: map[string]int{}}
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
	s.d.UseNumber()
	if err := s.syntax(); err != nil {
		return err
	}
	if err := s.value(reflect.ValueOf(to).Elem(), ""); err != nil || valid == nil {
		return err
	}
	member, err := valid()
	if err != nil {
		return s.errorf(s.at[member], "%s: %w", member, err)
	}
	return nil
}

// syntax finds what is not JSON (RFC 8259), and says what was likely meant.
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
	d    *json.Decoder
	at   map[string]int // where the value of a member is
}

// next returns the next token, of text that is known to be JSON, and its offset.
func (s *strict) next() (any, int) {
	at := int(s.d.InputOffset())
	for at < len(s.data) && strings.IndexByte(" \t\r\n,:", s.data[at]) >= 0 {
		at++
	}
	t, err := s.d.Token()
	if err != nil && err != io.EOF {
		return err, at // deeper than the decoder goes
	}
	return t, at
}

// value reads one value into v, which name is the path of.
func (s *strict) value(v reflect.Value, name string) error {
	t, at := s.next()
	s.at[name] = at
	wrong := func() error {
		return s.errorf(at, "%sgot %s, want %s", prefix(name), described(t), wanted(v.Kind()))
	}
	number, isNumber := t.(json.Number)
	switch v.Kind() {
	case reflect.Struct:
		if t != json.Delim('{') {
			return wrong()
		}
		return s.members(v, name)
	case reflect.Bool:
		b, ok := t.(bool)
		if !ok {
			return wrong()
		}
		v.SetBool(b)
	case reflect.String:
		text, ok := t.(string)
		if !ok {
			return wrong()
		}
		v.SetString(text)
	case reflect.Float64:
		f, err := strconv.ParseFloat(string(number), 64)
		if !isNumber {
			return wrong()
		}
		if err != nil || math.IsInf(f, 0) {
			return s.errorf(at, "%s%s is too large", prefix(name), number)
		}
		v.SetFloat(f)
	default:
		n, err := strconv.ParseInt(string(number), 10, v.Type().Bits())
		if errors.Is(err, strconv.ErrRange) {
			return s.errorf(at, "%s%s is too large", prefix(name), number)
		}
		if !isNumber || err != nil {
			return wrong()
		}
		v.SetInt(n)
	}
	return nil
}

// members reads what is between the braces.
func (s *strict) members(v reflect.Value, name string) error {
	var known []string
	fields := map[string]int{}
	for i := range v.NumField() {
		tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		known, fields[tag] = append(known, tag), i
	}
	var seen []string
	for s.d.More() {
		t, at := s.next()
		key, ok := t.(string)
		if !ok {
			return s.errorf(at, "%v", t)
		}
		full := strings.TrimPrefix(name+"."+key, ".")
		field, ok := fields[key]
		switch {
		case !ok:
			if near := slices.IndexFunc(known, func(k string) bool { return folded(k) == folded(key) }); near >= 0 {
				return s.errorf(at, "unknown field %q: write %q", full, known[near])
			}
			return s.errorf(at, "unknown field %q: want one of %s", full, strings.Join(known, ", "))
		case slices.Contains(seen, key):
			return s.errorf(at, "%s is written twice: remove one", full)
		}
		seen = append(seen, key)
		if err := s.value(v.Field(field), full); err != nil {
			return err
		}
	}
	s.next() // }
	return nil
}

// folded is a name without what people get wrong in it.
func folded(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(name))
}

func prefix(name string) string {
	if name == "" {
		return ""
	}
	return name + ": "
}

// described is a token in words.
func described(t any) string {
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			return "an array"
		}
		return "an object"
	case string:
		if _, err := strconv.ParseFloat(t, 64); err == nil || t == "true" || t == "false" {
			return fmt.Sprintf("a string (%q: remove the quotes)", t)
		}
		return "a string"
	case json.Number:
		return "a number (" + t.String() + ")"
	case bool:
		return strconv.FormatBool(t)
	case nil:
		return "null"
	}
	return fmt.Sprint(t)
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
		return fmt.Errorf("no valid JSON: %w", err)
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
	case reflect.Struct:
		return "an object"
	case reflect.Float64:
		return "a number"
	}
	return "a whole number"
}
