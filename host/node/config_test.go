package node

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseConfig(t *testing.T) {
	for text, want := range map[string]string{
		"{}": "", `{"enabled": "always"}`: "", `{"runtime": "/usr/bin/crun", "enabled": "opt-in", "fallback": true, "fix": "java-cgroups", "required": true, "state": "/s"}`: "",
		"": "EOF", "{": "EOF", "[]": "array", `{"fail_closed": true}`: "fail_closed", `{"required": "true"}`: "required",
		`{"enabled": "sometimes"}`: "enabled", `{"runtime": "runc"}`: "not an absolute path", `{"state": "s"}`: "not an absolute path",
		`{"cache_bytes": 1}`: "cache_bytes",
	} {
		c, err := ParseConfig([]byte(text))
		if c.Runtime != "" && c.Runtime[0] != '/' || c.State != "" && c.State[0] != '/' {
			t.Errorf("%s: got %+v beside the error", text, c)
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// A mistake in another member does not change the runtime that containers get, nor where the record is.
func TestParseConfigPartly(t *testing.T) {
	for _, mistake := range []string{`"enabled": "sometimes"`, `"enable": "opt-in"`, `"required": "true"`} {
		text := `{` + mistake + `, "runtime": "/r", "state": "/s"}`
		if c, err := ParseConfig([]byte(text)); err == nil || c.Runtime != "/r" || c.State != "/s" {
			t.Errorf("%s: got %+v, %v", text, c, err)
		}
	}
}

func TestDecide(t *testing.T) {
	annotated := func(pairs ...string) map[string]string {
		all := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			all[AnnotationPrefix+pairs[i]] = pairs[i+1]
		}
		return all
	}
	for _, tc := range []struct {
		config      Config
		annotations map[string]string
		want        string
	}{
		{Config{}, nil, "{true false false []} <nil>"},
		{Config{Enabled: OptIn, Fallback: true, Required: true, Fix: "java-cgroups"}, nil, "{false true true [java-cgroups]} <nil>"},
		{Config{Enabled: OptIn}, annotated("enable", "true"), "{true false false []} <nil>"},
		{Config{}, annotated("enable", "false", "fallback", "1", "required", "true", "fix", "java-cgroups"), "{false true true [java-cgroups]} <nil>"},
		{Config{Fallback: true, Required: true, Fix: "java-cgroups"}, annotated("fallback", "false", "required", "false", "fix", "none"), "{true false false []} <nil>"},
		{Config{}, annotated("enable", ""), "{true false false []} <nil>"},
		{Config{}, annotated("unknown", "x"), "{true false false []} <nil>"},
	} {
		s, err := tc.config.decide(tc.annotations)
		if got := fmt.Sprint(s, err); got != tc.want {
			t.Errorf("%+v, %v: got %s, want %s", tc.config, tc.annotations, got, tc.want)
		}
	}
	if _, err := (&Config{Fix: "all"}).decide(nil); err == nil || !strings.Contains(err.Error(), "configuration: fix") {
		t.Errorf("fix: got %v", err)
	}
	for _, name := range []string{"enable", "fallback", "required", "fix"} {
		if _, err := (&Config{}).decide(annotated(name, "yes")); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=yes: got %v", name, err)
		}
	}
}
