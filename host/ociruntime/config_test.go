package ociruntime

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"vfix.dev/vfix/internal/hinterr"
)

func TestConfigRoundTrip(t *testing.T) {
	for _, c := range []Config{
		{}, {Runtime: "crun", FailClosed: true, CacheDir: "/x", CacheSize: 5, OptIn: true, Fallback: true, Fix: "java-cgroups"},
	} {
		b, err := c.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "runtime.json")
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := ReadConfig(path)
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("%s: got %+v, %v", b, got, err)
		}
	}
	if c, err := ReadConfig(filepath.Join(t.TempDir(), "none")); err != nil || c != (Config{}) {
		t.Errorf("no file: got %+v, %v", c, err)
	}
}

func TestConfigRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``: "empty, want JSON", `[]`: "got an array, want an object", `{"failclosed":true}`: `unknown field "failclosed"`, `{} {}`: "after the end",
		`{"cache_size":"2G"}`: "cache_size: got a string, want a whole number", `{"fail_closed":1}`: "fail_closed: got a number, want true or false",
		`{"limits":7}`: "limits: got a number, want an object", `{"limits":{"seconds":"1"}}`: "limits.seconds: got a string, want a number", `{"opt_in"`: "ends too early", `no`: "no valid JSON",
		`{"cache_size":-1}`: "cache_size", `{"cache_dir":"var"}`: "absolute", `{"runtime":1}`: "runtime",
		`{"fix":"java"}`: "want java-cgroups", `{"fix":["java-cgroups"]}`: "fix: got an array, want a string",
	} {
		if _, err := ParseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		} else if strings.Contains(err.Error(), "json: ") || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%s: got %v, in words of Go", text, err)
		}
	}
}

// What cannot be read comes with what to do.
func TestConfigHint(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runtime.json")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Dir(file)} {
		_, err := ReadConfig(path)
		if !strings.Contains(hinterr.HintOf(err), "vfix help runtime") || err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("got %v, want %s and a hint", err, path)
		}
	}
}

func TestConfigKeepsWhatIsRight(t *testing.T) {
	want := Config{Runtime: "crun", FailClosed: true}
	for _, text := range []string{
		`{"fail_closed":true,"cach_dir":"/x","runtime":"crun"}`, `{"cach_dir":"/x","fail_closed":true,"runtime":"crun"}`,
		`{"fail_closed":true,"runtime":"crun","cache_dir":"x"}`, `{"fail_closed":true,"runtime":"crun","cache_size":-1}`,
		`{"fail_closed":true,"runtime":"crun","fix":"java"}`,
		`{"fail_closed":true,"runtime":"crun"} {}`, `{"opt_in":1,"fail_closed":true,"runtime":"crun"}`,
	} {
		if c, err := ParseConfig([]byte(text)); err == nil || c != want {
			t.Errorf("%s: got %+v, %v, want %+v and an error", text, c, err, want)
		}
	}
}
