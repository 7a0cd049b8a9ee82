// docs/schema.json is made from the types of what the verbs print, and what they print matches it.
//
// go test ./cmd/vfix -run Schema -update writes it again.

package main

import (
	"bytes"
	"encoding"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	generator "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v5"

	"vfix.dev/vfix/docs"
	"vfix.dev/vfix/host/install"
	"vfix.dev/vfix/images"
)

var update = flag.Bool("update", false, "write docs/schema.json again")

// documents are the types of what each verb prints, behind the members that all documents begin with.
var documents = map[string]any{
	"scan": jsonFindings{}, "patch": jsonFindings{}, "rebuild": jsonRebuilt{}, "verify": jsonVerified{}, "list": listJSON{},
	"layer": images.Layered{}, "hotfix": jsonHotfixed{}, "install": install.Result{}, "uninstall": install.Result{},
	"doctor": jsonDoctor{}, "diagnose": jsonDiagnosis{}, "bench": jsonBench{}, "version": buildInfo{},
}

// listVerbs are what scan and rebuild print with --from-file.
var listVerbs = map[string]any{"scan": jsonBatch{}, "rebuild": jsonBatch{}}

// generate makes the schema: one alternative for each document.
func generate(t *testing.T) []byte {
	t.Helper()
	defs := map[string]json.RawMessage{}
	var alternatives []any
	add := func(verb, name string, v any) {
		r := generator.Reflector{Anonymous: true, ExpandedStruct: true, Namer: nameOf, Mapper: marshaled}
		t.Chdir(filepath.Join("..", ".."))
		for _, dir := range []string{"./images", "./host", "./rewriter", "./cmd"} {
			if err := r.AddGoComments(strings.TrimSuffix(module, "/"), dir, generator.WithFullComment()); err != nil {
				t.Fatal(err)
			}
		}
		t.Chdir(filepath.Join("cmd", "vfix"))
		s := r.Reflect(v)
		for n, d := range s.Definitions {
			defs[n] = marshal(t, d)
		}
		s.Definitions, s.Version = nil, ""
		for i, member := range []struct{ name, kind, means string }{{"schema", "", "the version of this schema"}, {"verb", "", "the verb"}, {"dry_run", "boolean", "true if nothing was written"}} {
			p := &generator.Schema{Type: member.kind, Description: member.means}
			if member.kind == "" {
				p.Const = []any{schemaVersion, verb}[i]
			}
			s.Properties.Set(member.name, p)
			s.Required = append(s.Required, member.name)
		}
		defs[name] = marshal(t, s)
		alternatives = append(alternatives, map[string]string{"$ref": "#/$defs/" + name})
	}
	for _, v := range verbTable {
		if d, ok := documents[v.name]; ok {
			add(v.name, v.name, d)
		}
		if d, ok := listVerbs[v.name]; ok {
			add(v.name, v.name+"_list", d)
		}
	}
	return marshal(t, map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://vfix.dev/schema.json",
		"title": "What vfix --format json prints", "oneOf": alternatives, "$defs": defs,
	})
}

// nameOf is a type with its package, as two packages may have types of one name.
func nameOf(t reflect.Type) string {
	if t.Name() == "" {
		return ""
	}
	return strings.ReplaceAll(strings.TrimPrefix(t.PkgPath(), module), "/", ".") + "." + t.Name()
}

// marshaled is the schema of a type that writes its JSON itself; nil for others.
func marshaled(t reflect.Type) *generator.Schema {
	switch {
	case t == reflect.TypeFor[time.Time]():
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return &generator.Schema{Type: "string"}
	case t.Implements(reflect.TypeFor[json.Marshaler]()):
		return &generator.Schema{Type: "object"}
	}
	return nil
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSchemaIsOfTheTypes(t *testing.T) {
	got := generate(t)
	if *update {
		if err := os.WriteFile(filepath.Join("..", "..", "docs", "schema.json"), got, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(got) != docs.Schema {
		t.Error("docs/schema.json is not that of the types: go test ./cmd/vfix -run Schema -update")
	}
	for _, cmd := range newRootCommand(newOutput(io.Discard, io.Discard), engine{}, "").Commands() {
		if _, ok := documents[cmd.Name()]; cmd.Flag("format") != nil && !ok && cmd.Name() != "cache" && cmd.Name() != "convert" {
			t.Errorf("%s prints JSON, and its type is not in the table", cmd.Name())
		}
	}
}

// validate checks a document against the part of docs/schema.json about its verb.
func validate(t *testing.T, text string) error {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, text)
	}
	name := fmt.Sprint(v["verb"])
	if _, isList := v["summary"]; isList {
		name += "_list"
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", strings.NewReader(docs.Schema)); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json#/$defs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

// What verbs print about made-up results matches; what is wrong in one member does not.
func TestOutputMatchesSchema(t *testing.T) {
	for _, line := range []string{
		"scan x", "scan x y", "scan --explain x", "scan --from-file x", "patch -i x", "patch --dry-run x", "rebuild x", "rebuild --dry-run x",
		"verify x", "verify x --against y", "layer", "version",
	} {
		for name, e := range map[string]engine{"clean": fake(clean(), nil), "mixed": fake(mixed(), nil), "covered": fake(covered(), nil)} {
			got := runLine(e, append(strings.Fields(line), "--format", "json")...)
			if err := validate(t, got.stdout); err != nil {
				t.Errorf("vfix %s (%s): %#v", line, name, err)
			}
		}
	}
	good := runLine(fake(mixed(), nil), "scan", "--format", "json", "x").stdout
	for _, c := range [][2]string{
		{`"schema": 1`, `"schema": 2`},
		{`"verb": "scan"`, `"verb": "rebuild"`},
		{`"left_over": 0`, `"left_over": "0"`},
		{`"libc":`, `"Libc":`},
		{`"links": []`, `"links": null`},
	} {
		bad := strings.Replace(good, c[0], c[1], 1)
		if bad == good {
			t.Fatalf("%s is not in the output", c[0])
		}
		if validate(t, bad) == nil {
			t.Errorf("the schema takes %s for %s", c[1], c[0])
		}
	}
}
