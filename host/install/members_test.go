package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

var dockerSet = []value{jsonValue(map[string]string{"path": "/p"}, "runtimes", "vfix"), jsonValue("vfix", "default-runtime")}

// Each new value is in its place, in the file's own style, and nothing else changes.
func TestAddMembers(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"missing":    {"", "{\n  \"runtimes\": {\n    \"vfix\": {\n      \"path\": \"/p\"\n    }\n  },\n  \"default-runtime\": \"vfix\"\n}\n"},
		"empty":      {"{}", "{\n  \"runtimes\": {\n    \"vfix\": {\n      \"path\": \"/p\"\n    }\n  },\n  \"default-runtime\": \"vfix\"\n}"},
		"one line":   {`{"a":1}`, `{"a":1, "runtimes": {"vfix": {"path": "/p"}}, "default-runtime": "vfix"}`},
		"inner line": {"{\n\t\"runtimes\": {\"k\": {\"path\": \"/k\"}}\n}\n", "{\n\t\"runtimes\": {\"k\": {\"path\": \"/k\"}, \"vfix\": {\"path\": \"/p\"}},\n\t\"default-runtime\": \"vfix\"\n}\n"},
		"tabs":       {"{\n\t\"a\" : [ 1,2 ] }\n", "{\n\t\"a\" : [ 1,2 ],\n\t\"runtimes\": {\n\t\t\"vfix\": {\n\t\t\t\"path\": \"/p\"\n\t\t}\n\t},\n\t\"default-runtime\": \"vfix\" }\n"},
		"crlf":       {"{\r\n \"a\": 1\r\n}\r\n", "{\r\n \"a\": 1,\r\n \"runtimes\": {\r\n  \"vfix\": {\r\n   \"path\": \"/p\"\r\n  }\r\n },\r\n \"default-runtime\": \"vfix\"\r\n}\r\n"},
		"set before": {"{\"default-runtime\":\"kata\"}", "{\"default-runtime\":\"vfix\", \"runtimes\": {\"vfix\": {\"path\": \"/p\"}}}"},
	} {
		got, err := addMembers("f", []byte(c.in), dockerSet)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, c.want)
			continue
		}
		again, err := addMembers("f", got, dockerSet)
		if err != nil || string(again) != string(got) {
			t.Errorf("%s: setting it twice gives %q, %v", name, again, err)
		}
		back, changed, err := takeMembers("f", got, []byte(c.in), dockerSet)
		if err != nil || len(changed) > 0 {
			t.Errorf("%s: taking it out: %v, %v", name, changed, err)
		}
		if !sameJSON(t, back, []byte(c.in)) {
			t.Errorf("%s: taken out gives %q, want what %q says", name, back, c.in)
		}
	}
}

// sameJSON compares what two files say.
func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	text := func(raw []byte) string {
		if len(raw) == 0 {
			raw = []byte("{}")
		}
		var v any
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber() // a number is what it says, of any size
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		out, _ := json.Marshal(v)
		return string(out)
	}
	return text(a) == text(b)
}

// A value that somebody changed is theirs; the rest of what was set still goes.
func TestTakeMembersChanged(t *testing.T) {
	now := `{"runtimes": {"vfix": {"path": "/other"}, "kata": {}}, "default-runtime": "vfix", "new": true}`
	got, changed, err := takeMembers("f", []byte(now), []byte(`{"default-runtime": "runc"}`), dockerSet)
	want := `{"runtimes": {"vfix": {"path": "/other"}, "kata": {}}, "default-runtime": "runc", "new": true}`
	if err != nil || string(got) != want || strings.Join(changed, " ") != "runtimes.vfix" {
		t.Errorf("got %s, %v, %v, want %s", got, changed, err, want)
	}
}

func TestMembersRefused(t *testing.T) {
	for in, want := range map[string]string{
		"\xef\xbb\xbf{}":                    "byte order mark",
		"\xff\xfe{\x00}\x00":                "byte order mark",
		"{ // x\n}":                         "comments",
		"{\"a\": 1,}":                       "trailing commas",
		"{\"a\": 1":                         "unexpected EOF",
		"[]":                                "not a JSON object",
		"{\"a\": 1, \"a\": 2}":              "twice",
		"{\"runtimes\": []}":                "is not an object",
		"{\"runtimes\":{},\"runtimes\":{}}": "twice",
	} {
		_, err := addMembers("/etc/x.json", []byte(in), dockerSet)
		var hint interface{ Hint() string }
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "/etc/x.json") || !errors.As(err, &hint) {
			t.Errorf("%q: got %v, want %q, the file's name and a hint", in, err, want)
		}
	}
}

// FuzzMembers: what a file says stays what it says, whatever is in it.
func FuzzMembers(f *testing.F) {
	for _, s := range []string{"", "{}", `{"a":1}`, "{\n\t\"runtimes\": {\"k\": {}}\n}\n", `{"runtimes":1}`, "{\"default-runtime\":\"x\",\"b\":[{}]}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := addMembers("f", in, dockerSet)
		if err != nil {
			return
		}
		if !json.Valid(got) {
			t.Fatalf("%q becomes %q", in, got)
		}
		back, changed, err := takeMembers("f", got, in, dockerSet)
		if err != nil || len(changed) > 0 {
			t.Fatalf("%q becomes %q, and then: %v, %v", in, got, changed, err)
		}
		if json.Valid(in) && !sameJSON(t, back, in) {
			t.Fatalf("%q comes back as %q", in, back)
		}
	})
}
