package ociruntime

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
)

const ours = "/cache/files/1"

func isOurs(m specMount) bool { return strings.HasPrefix(m.Source, "/cache/files/") }

func TestSplice(t *testing.T) {
	add := []specMount{{Destination: "/lib/libc.so.6", Type: "bind", Source: ours, Options: []string{"bind", "ro"}}}
	const text = `{"destination":"/lib/libc.so.6","type":"bind","source":"/cache/files/1","options":["bind","ro"]}`
	for _, c := range []struct{ before, after string }{
		{`{"root":{"path":"r"}}`, `{"mounts":[` + text + `],"root":{"path":"r"}}`},
		{`{ "root":{"path":"r"} }`, `{"mounts":[` + text + `], "root":{"path":"r"} }`},
		{`{"root":{"path":"r"},"mounts":null}`, `{"root":{"path":"r"},"mounts":[` + text + `]}`},
		{`{"root":{"path":"r"},"mounts":[]}`, `{"root":{"path":"r"},"mounts":[` + text + `]}`},
		{`{"root":{"path":"r"},"mounts":[ ]}`, `{"root":{"path":"r"},"mounts":[` + text + `]}`},
		{`{"root":{"path":"r"},"mounts" : [ {"destination":"/a","x":[1,"]"]} ] , "z":1e3}` + "\n",
			`{"root":{"path":"r"},"mounts" : [{"destination":"/a","x":[1,"]"]},` + text + `] , "z":1e3}` + "\n"},
		// Additions of an earlier start go: before, between and behind the others.
		{`{"root":{"path":"r"},"mounts":[{"source":"/cache/files/0"}]}`, `{"root":{"path":"r"},"mounts":[` + text + `]}`},
		{`{"root":{"path":"r"},"mounts":[{"source":"/cache/files/0"}, {"source":"/b"}]}`, `{"root":{"path":"r"},"mounts":[{"source":"/b"},` + text + `]}`},
		{`{"root":{"path":"r"},"mounts":[{"source":"/a"}, {"source":"/cache/files/0"}, {"source":"/b"} ]}`,
			`{"root":{"path":"r"},"mounts":[{"source":"/a"},{"source":"/b"},` + text + `]}`},
		{`{"root":{"path":"r"},"mounts":[{"source":"/a"},{"source":"/cache/files/0"}]}`, `{"root":{"path":"r"},"mounts":[{"source":"/a"},` + text + `]}`},
	} {
		s, err := parseSpec([]byte(c.before))
		if err != nil {
			t.Fatalf("%s: %v", c.before, err)
		}
		if s.idMap != "" {
			t.Errorf("%s: has an ID mapping: %s", c.before, s.idMap)
		}
		got, err := s.with(add, specHooks{}, isOurs)
		if err != nil || string(got) != c.after {
			t.Errorf("%s:\n got %s, %v\nwant %s", c.before, got, err, c.after)
		}
		again, err := parseSpec(got)
		if err != nil {
			t.Fatal(err)
		}
		if twice, _ := again.with(add, specHooks{}, isOurs); !bytes.Equal(twice, got) {
			t.Errorf("%s: a second time: got %s, want %s", c.before, twice, got)
		}
	}
}

func TestSpecIsRead(t *testing.T) {
	s, err := parseSpec([]byte(`{"ociVersion":"1.0.2","root":{"path":"r","readonly":true},
		"annotations":{"dev.vfix.enable":"false","A":"1","a":"2"},
		"linux":{"uidMappings":[{"containerID":0,"hostID":1000,"size":10}],"mountLabel":"l"},
		"mounts":[{"destination":"/proc","source":"p\u0072oc"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	uid, gid := s.containerRoot()
	for all, want := range map[string]uint32{
		``: 0, `{"containerID":5,"hostID":7,"size":9}`: 0, `{"containerID":0,"hostID":7,"size":0}`: 0,
		`{"containerID":5,"hostID":7,"size":9},{"containerID":0,"hostID":8,"size":1}`: 8,
	} {
		s, err := parseSpec([]byte(`{"root":{"path":"r"},"linux":{"gidMappings":[` + all + `]}}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, gid := s.containerRoot(); gid != want {
			t.Errorf("%s: got %d, want %d", all, gid, want)
		}
	}
	for text, want := range map[string][]string{
		`{"root":{"path":"r"},"process":{"later":1},"later":{}}`: {"process.later", "later"},
		`{"root":{"path":"r","lat\u0065r":1}}`:                   {"root.later"},
		`{"r\u006fot":{"path":"r"}}`:                             nil,
	} {
		if s, err := parseSpec([]byte(text)); err != nil || !reflect.DeepEqual(s.unknown, want) {
			t.Errorf("%s: got %q, %v, want %q", text, s.unknown, err, want)
		}
	}
	got := []any{s.Root, s.Annotations["dev.vfix.enable"], uid, gid, s.Linux.MountLabel, s.Mounts[0].Source, s.idMap != ""}
	if want := []any{specRoot{"r", true}, "false", uint32(1000), uint32(0), "l", "proc", true}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSpecRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``: "not JSON", `{`: "not JSON", `[]`: "no object", `{}`: "no root.path", `{"root":{}}`: "no root.path",
		`{"root":{"path":"a"},"root":{"path":"b"}}`:                        "twice",
		`{"root":{"path":"a"},"Root":{"path":"b"}}`:                        "twice",
		`{"root":{"path":"a"},"hoo\u212as":{}}`:                            "another case", // the sign of kelvin
		`{"Root":{"path":"b"}}`:                                            "another case",
		`{"root":{"path":"a","path":"b"}}`:                                 "twice",
		`{"root":{"path":"a"},"mounts":[],"Mounts":[]}`:                    "twice",
		`{"root":{"path":"a"},"mounts":{}}`:                                "mounts",
		`{"root":{"path":"a"},"mounts":[1]}`:                               "mounts",
		`{"root":{"path":"a"},"mounts":[{"source":"/a","Source":"/b"}]}`:   "twice",
		`{"root":{"path":"a"},"linux":{"namespaces":[{"Type":"mount"}]}}`:  "another case",
		`{"root":{"path":"a"},"hooks":{"createruntime":[]}}`:               "another case",
		"{\"root\":{\"path\":\"a\"},\"mounts\":[{\"source\":\"/a\xff\"}]}": "not UTF-8",
		`{"root":{"path":"a"},"mounts":[{"options":["bind\u0000"]}]}`:      "NUL",
		`{"root":{"path":1}}`:                                              "root",
		`{"root":{"path":"a"},"linux":{"uidMappings":"x"}}`:                "uidMappings",
		`{"root":{"path":"a"},"annotations":{"a":{"b":"c"}}}`:              "annotations",
	} {
		if _, err := parseSpec([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// FuzzSpec: the output equals the input except for the mounts.
func FuzzSpec(f *testing.F) {
	f.Add(`{"root":{"path":"r"},"mounts":[{"source":"/a","x":"\"]"},{"source":"/cache/files/0"}],"z":[1, 2.50]}`)
	f.Add(`{"root":{"path":"r"},"mounts":null}`)
	f.Add(` {"mounts" :[ ] ,"root": {"path":"\u0041"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseSpec([]byte(text))
		if err != nil {
			return
		}
		got, err := s.with([]specMount{{Destination: "/x", Source: ours}}, specHooks{}, isOurs)
		if err != nil {
			return
		}
		var before, after map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(got, &after); err != nil {
			t.Fatalf("%s became %s: %v", text, got, err)
		}
		delete(before, "mounts")
		var mounts []specMount
		if err := json.Unmarshal(after["mounts"], &mounts); err != nil || len(mounts) == 0 || mounts[len(mounts)-1].Source != ours {
			t.Fatalf("%s became %s: %v", text, got, err)
		}
		delete(after, "mounts")
		if !reflect.DeepEqual(before, after) {
			t.Errorf("%s became %s", text, got)
		}
	})
}

// Hooks are added after the others of their kinds; those of an earlier start go, and a hook of vfix that the NRI plugin or an
// operator has put there stays.
func TestSpliceHooks(t *testing.T) {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	text := func(args ...string) string {
		b, err := json.Marshal(specHook{Path: self, Args: append([]string{"vfix-runtime"}, args...)})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	hook := func(args ...string) []specHook {
		return []specHook{{Path: self, Args: append([]string{"vfix-runtime"}, args...)}}
	}
	const other = `{"path":"/a","x":1}`
	old, plugins, added := text("--start-id", "0", HookCommand), text(HookCommand), text("--start-id", "1", HookCommand)
	foreign := `{"path":"/b","args":["b","--start-id","hook"]}`
	create := specHooks{CreateRuntime: hook("--start-id", "1", HookCommand)}
	post := specHooks{Poststart: hook("--start-id", "1", startedCommand)}
	for _, c := range []struct {
		hooks string // of config.json
		add   specHooks
		want  string
	}{
		{"", create, `"hooks":{"createRuntime":[` + added + `]},`},
		{"", specHooks{}, ""},
		{`"hooks":{},`, create, `"hooks":{"createRuntime":[` + added + `]},`},
		{`"hooks":null,`, create, `"hooks":{"createRuntime":[` + added + `]},`},
		{`"hooks":{"createRuntime":null},`, create, `"hooks":{"createRuntime":[` + added + `]},`},
		{`"hooks":{"poststop":[]},`, create, `"hooks":{"createRuntime":[` + added + `],"poststop":[]},`},
		{`"hooks":{"createRuntime":[` + other + `]},`, create, `"hooks":{"createRuntime":[` + other + `,` + added + `]},`},
		{`"hooks":{"createRuntime":[` + old + `, ` + other + `]},`, create, `"hooks":{"createRuntime":[` + other + `,` + added + `]},`},
		{`"hooks":{"createRuntime":[` + old + `, ` + other + `]},`, specHooks{}, `"hooks":{"createRuntime":[` + other + `]},`},
		{`"hooks":{"createRuntime":[ ` + other + ` ]},`, specHooks{}, `"hooks":{"createRuntime":[ ` + other + ` ]},`},
		{`"hooks":{"createRuntime":[ ` + plugins + ` ]},`, specHooks{}, `"hooks":{"createRuntime":[ ` + plugins + ` ]},`},
		{`"hooks":{"createRuntime":[ ` + foreign + ` ]},`, specHooks{}, `"hooks":{"createRuntime":[ ` + foreign + ` ]},`},
		{`"hooks":{"createRuntime":[` + plugins + `,` + old + `,` + foreign + `]},`, specHooks{}, `"hooks":{"createRuntime":[` + plugins + `,` + foreign + `]},`},
		{`"hooks":{"poststart":[` + old + `],"createRuntime":[` + old + `]},`, post, `"hooks":{"poststart":[` + text("--start-id", "1", startedCommand) + `],"createRuntime":[]},`},
	} {
		s, err := parseSpec([]byte(`{` + c.hooks + `"root":{"path":"r"}}`))
		if err != nil {
			t.Fatalf("%s: %v", c.hooks, err)
		}
		got, err := s.with(nil, c.add, isOurs)
		if want := `{` + c.want + `"root":{"path":"r"}}`; err != nil || string(got) != want {
			t.Errorf("%s:\n got %s, %v\nwant %s", c.hooks, got, err, want)
		}
	}
}
