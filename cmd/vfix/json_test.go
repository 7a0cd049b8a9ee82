// The JSON of each verb against docs/schema.json, and the schema against docs/json.md.

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"vfix.dev/vfix/docs"
)

// schema compiles docs/schema.json.
func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.CompileString("schema.json", docs.Schema)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, text)
	}
	return s.Validate(v)
}

func TestJSONMatchesSchema(t *testing.T) {
	s := schema(t)
	for _, line := range []string{
		"scan x", "scan x y", "scan --explain x", "patch -i x", "patch --dry-run x", "patch --explain -o y x",
		"rebuild x", "rebuild --dry-run x", "verify x", "verify x --against y", "layer",
	} {
		for name, e := range map[string]engine{
			"clean": fake(clean(), nil), "patchable": fake(patchable(), nil),
			"mixed": fake(mixed(), nil), "harmless": fake(harmless(), nil),
			"covered": fake(covered(), nil),
		} {
			got := runLine(e, append(strings.Fields(line), "--format", "json")...)
			if err := validate(t, s, got.stdout); err != nil {
				t.Errorf("vfix %s (%s): %#v", line, name, err)
			}
			var head struct {
				Verb   string
				DryRun bool `json:"dry_run"`
			}
			if err := json.Unmarshal([]byte(got.stdout), &head); err != nil || !strings.HasPrefix(line, head.Verb) || head.DryRun != strings.Contains(line, "--dry-run") {
				t.Errorf("vfix %s (%s): %v, got %+v", line, name, err, head)
			}
		}
	}
	if err := validate(t, s, runLine(engine{}, "version", "--format", "json").stdout); err != nil {
		t.Errorf("vfix version: %#v", err)
	}
}

// The control: the schema refuses what is wrong in one field.
func TestSchemaRefuses(t *testing.T) {
	s := schema(t)
	good := runLine(fake(mixed(), nil), "scan", "--format", "json", "x").stdout
	for _, c := range [][2]string{
		{`"schema": 1`, `"schema": 2`},
		{`"verb": "scan"`, `"verb": "rebuild"`},
		{`"function": "time"`, `"function": "clock"`},
		{`"vaddr": "0x4a0010"`, `"vaddr": 4849680`},
		{`"left_over": 1`, `"left_over": -1`},
		{`"libc":`, `"Libc":`},
		{`"links": []`, `"links": null`},
	} {
		bad := strings.Replace(good, c[0], c[1], 1)
		if bad == good {
			t.Fatalf("%s is not in the output", c[0])
		}
		if validate(t, s, bad) == nil {
			t.Errorf("the schema takes %s for %s", c[1], c[0])
		}
	}
}
