package policy

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"vfix.dev/vfix/internal/hinterr"
)

func TestConfigRoundTrip(t *testing.T) {
	for _, c := range []Config{
		{}, {Runtime: "crun", FailClosed: true, CacheDir: "/x", CacheSize: 5, OptIn: true, Fallback: true, Fix: "java-cgroups"},
		{Limits: Limits{Names: 1, CopyBytes: 2, Seconds: 0.5, MemoryBytes: 3}, Record: "none", Metrics: "/x.prom", AllowDisable: true},
	} {
		b, err := c.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "runtime.json")
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if got, _, err := Read(path); err != nil || got != c {
			t.Errorf("%s: got %+v, %v", b, got, err)
		}
	}
	if _, _, err := Read(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got %v", err)
	}
}

// bad are contents that are not a configuration, with what the error says.
var bad = map[string]string{
	"":                                  "line 1, column 1: empty",
	" \n\t":                             "empty",
	"\xef\xbb\xbf{}":                    "byte order mark",
	"\xff\xfe{\x00}\x00":                "line 1, column 1: not UTF-8",
	"{\"runtime\": \"\xff\"}":           "line 1, column 14: not UTF-8",
	`[]`:                                "got an array, want an object",
	`null`:                              "got null, want an object",
	`"{}"`:                              "got a string, want an object",
	`{`:                                 "ends too early",
	`{"opt_in"`:                         "ends too early",
	`{"fail_closed": tru`:               "ends too early",
	"{\n  \"fail_closed\": true,\n}":    "line 2, column 22: a comma before '}': remove it",
	`{"fail_closed": true "opt_in": 1}`: "line 1, column 22: not valid JSON: is a comma missing",
	"{} {}":                             "line 1, column 4: unexpected content after the end",
	"{}\n\x00":                          "line 2, column 1: unexpected content after the end",
	"{} // none":                        "JSON has no comments",
	"# x\n{}":                           "JSON has no comments",
	`{"fail_closed": true /* yes */}`:   "JSON has no comments",
	`{'fail_closed': true}`:             "line 1, column 2: not valid JSON",
	`{fail_closed: true}`:               "not valid JSON",
	`no`:                                "not valid JSON",
	`{"fail_closed": NaN}`:              "not valid JSON",
	`{"limits": {"seconds": Infinity}}`: "not valid JSON",
	`{"fail_closed": True}`:             "not valid JSON",
	"{\n\t\"fail-closed\": true}":       "line 2, column 2: unknown field \"fail-closed\": write \"fail_closed\"",
	`{"Fail_Closed": true}`:             `unknown field "Fail_Closed": write "fail_closed"`,
	`{"FAIL_CLOSED": true}`:             `write "fail_closed"`,
	`{"failclosed": true}`:              `write "fail_closed"`,
	`{"fail_closed ": true}`:            `write "fail_closed"`,
	"{\"fail_clo\u017fed\": true}":      "unknown field",
	`{"x": 1}`:                          `unknown field "x": want one of runtime, fail_closed,`,
	`{"limits": {"Names": 1}}`:          `unknown field "limits.Names": write "names"`,
	`{"fail_closed":1,"fail_closed":0}`: "got a number (1), want true or false",
	`{"opt_in":true,"opt_in":false}`:    "line 1, column 16: opt_in is written twice",
	"{\"opt_in\":true,\"opt\\u005fin\":false}": "opt_in is written twice",
	`{"limits":{"names":1,"names":2}}`:         "limits.names is written twice",
	`{"limits":{},"limits":{}}`:                "limits is written twice",
	`{"fail_closed": "true"}`:                  `line 1, column 17: fail_closed: got a string ("true": remove the quotes), want true or false`,
	`{"fail_closed": 1}`:                       "fail_closed: got a number (1), want true or false",
	`{"fail_closed": null}`:                    "fail_closed: got null, want true or false",
	`{"fail_closed": []}`:                      "fail_closed: got an array, want true or false",
	`{"fail_closed": {}}`:                      "fail_closed: got an object, want true or false",
	`{"fallback": "always"}`:                   "fallback: got a string, want true or false",
	`{"cache_size": "2G"}`:                     "cache_size: got a string, want a whole number",
	`{"cache_size": 1.5}`:                      "cache_size: got a number (1.5), want a whole number",
	`{"cache_size": 1e9}`:                      "want a whole number",
	`{"cache_size": 99999999999999999999}`:     "cache_size: 99999999999999999999 is too large",
	`{"cache_size": 9223372036854775807}`:      "cache_size: got 9.223372036854776e+18, want 0 to",
	`{"limits": {},  "cache_size": -1}`:        "line 1, column 31: cache_size: got -1",
	`{"limits": 7}`:                            "limits: got a number (7), want an object",
	`{"limits": {"seconds": "1"}}`:             `limits.seconds: got a string ("1": remove the quotes), want a number`,
	`{"limits": {"seconds": 1e999}}`:           "limits.seconds: 1e999 is too large",
	`{"limits": {"seconds": 1e300}}`:           "limits.seconds: got 1e+300",
	`{"limits": {"seconds": -1}}`:              "column 24: limits.seconds: got -1",
	`{"limits": {"names": {}}}`:                "limits.names: got an object",
	`{"cache_dir": "var"}`:                     "absolute",
	`{"trusted_hooks": "/a,b"}`:                "absolute",
	`{"trusted_filesystems": "nfs4, 9p"}`:      "separated by commas",
	`{"trusted_filesystems": "/mnt"}`:          "names",
	`{"immutable_roots": "/a,"}`:               "absolute",
	`{"immutable_roots": "/a/"}`:               "shortest form",
	`{"cache_dir": "/a\u0000b"}`:               "not a valid file name",
	`{"runtime": 1}`:                           "runtime: got a number (1), want a string",
	`{"fix": "java"}`:                          "want java-cgroups",
	`{"fix": ["java-cgroups"]}`:                "fix: got an array, want a string",
	`{"record": "somewhere"}`:                  "record: got",
	`{"metrics": "/x"}`:                        "ends in .prom",
	`{"limits":` + strings.Repeat(`[`, 20000) + strings.Repeat(`]`, 20000) + `}`: "depth",
	strings.Repeat(`{"limits":`, 5000) + `{}` + strings.Repeat(`}`, 5000):        `unknown field "limits.limits"`,
	`{"runtime": "` + strings.Repeat("x", maxConfig) + `"}`:                      "more than",
}

func TestConfigRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime.json")
	for text, want := range bad {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		text = text[:min(len(text), 60)]
		c, _, err := Read(path)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		} else if said := strings.ReplaceAll(err.Error(), path+":", ""); strings.Contains(said, "json: ") || strings.Contains(said, "Go ") || !strings.Contains(hinterr.HintOf(err), "vfix runtime check") {
			t.Errorf("%q: got %v, in words of Go or without a hint", text, err)
		}
		if c != (Config{}) {
			t.Errorf("%q: got %+v with the error", text, c)
		}
	}
}

// badFiles puts something else than a readable file at a path.
var badFiles = map[string]func(path string) error{
	"a directory":                  func(path string) error { return os.Mkdir(path, 0o755) },
	"a FIFO":                       func(path string) error { return syscall.Mkfifo(path, 0o644) },
	"a symlink that leads nowhere": func(path string) error { return os.Symlink("nowhere", path) },
	"a symlink to itself":          func(path string) error { return os.Symlink(filepath.Base(path), path) },
	"a device":                     func(path string) error { return os.Symlink("/dev/zero", path) },
	"an error of input and output": func(path string) error { return os.Symlink("/proc/self/mem", path) },
}

func TestUnreadable(t *testing.T) {
	for name, put := range badFiles {
		path := filepath.Join(t.TempDir(), "runtime.json")
		if err := put(path); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"a directory": "not a regular file", "a FIFO": "not a regular file", "a device": "not a regular file", "a symlink that leads nowhere": "leads nowhere"}[name]
		if _, _, err := Read(path); err == nil || errors.Is(err, fs.ErrNotExist) || hinterr.HintOf(err) == "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}

// A file may have so many bytes, and no more.
func TestSizeOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime.json")
	for _, size := range []int{maxConfig, maxConfig + 1, maxConfig + 2} {
		if err := os.WriteFile(path, []byte("{}"+strings.Repeat(" ", size-2)), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, text, err := Read(path); (err == nil) != (size <= maxConfig) || err == nil && len(text) != size {
			t.Errorf("%d bytes: got %d, %v", size, len(text), err)
		}
	}
}
