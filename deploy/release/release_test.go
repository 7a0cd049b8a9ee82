// The bill of materials against the schema of CycloneDX, the provenance against in-toto's types,
// and that no module that is linked in is left out.

package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"github.com/santhosh-tekuri/jsonschema/v5"
	"google.golang.org/protobuf/encoding/protojson"
)

// program builds this command, a program with modules, as the releases are.
func program(t *testing.T) string {
	t.Helper()
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	t.Setenv("MUSL_VERSION", "1.2.3")
	path := filepath.Join(t.TempDir(), "release")
	if _, err := goCommand("build", "-trimpath", "-buildvcs=false", "-o", path, "."); err != nil {
		t.Fatal(err)
	}
	return path
}

func output(t *testing.T, args ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := run(args, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSBOM(t *testing.T) {
	p := program(t)
	text := output(t, "sbom", p, "1.2.3", "main.go", "sbom.go")
	if again := output(t, "sbom", p, "1.2.3", "main.go", "sbom.go"); !bytes.Equal(text, again) {
		t.Error("a second run gives other bytes")
	}
	if err := cycloneDX(t).Validate(decode(t, text)); err != nil {
		t.Errorf("%#v", err)
	}
	if bad := bytes.Replace(text, []byte(`"type": "library"`), []byte(`"type": "librarie"`), 1); cycloneDX(t).Validate(decode(t, bad)) == nil {
		t.Error("the schema takes a type that there is not")
	}
	var bom cdx.BOM
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, c := range *bom.Components {
		named[c.Name+"@"+c.Version] = true
		if c.Name == "vfix-shim" && len(*c.Components) != 2 {
			t.Errorf("the shim has %d files, want 2", len(*c.Components))
		}
	}
	info, err := buildinfo.ReadFile(p)
	if err != nil || len(info.Deps) < 2 {
		t.Fatalf("%v, %d modules", err, len(info.Deps))
	}
	want := []string{"vfix-shim@1.2.3", "musl@1.2.3", "std@" + info.GoVersion}
	for _, m := range info.Deps {
		want = append(want, m.Path+"@"+m.Version)
	}
	for _, name := range want {
		if !named[name] {
			t.Errorf("%s is not in the bill of materials", name)
		}
	}
	if len(named) != len(want) {
		t.Errorf("got %d components, want %d", len(named), len(want))
	}
	t.Setenv("MUSL_VERSION", "")
	if err := run([]string{"sbom", p, "1.2.3", "main.go"}, &bytes.Buffer{}); err == nil {
		t.Error("a bill of materials without the version of musl")
	}
}

// cycloneDX compiles the schema that the library is tested with.
func cycloneDX(t *testing.T) *jsonschema.Schema {
	t.Helper()
	dir, err := goCommand("list", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go")
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	for url, name := range map[string]string{
		"http://cyclonedx.org/schema/bom-1.6.schema.json":  "bom-1.6.schema.json",
		"http://cyclonedx.org/schema/spdx.schema.json":     "spdx.schema.json",
		"http://cyclonedx.org/schema/jsf-0.82.schema.json": "jsf-0.82.schemax.json",
	} {
		f, err := os.Open(filepath.Join(strings.TrimSpace(string(dir)), "schema", name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := c.AddResource(url, f); err != nil {
			t.Fatal(err)
		}
	}
	s, err := c.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func decode(t *testing.T, text []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestProvenance(t *testing.T) {
	p := program(t)
	t.Setenv("TOOLS", "gcc: gcc (Debian) 12.2.0\nmusl: 1.2.3")
	for _, variable := range slices.Concat(slices.Collect(maps.Values(settings)), []string{"BUILDER_ID"}) {
		t.Setenv(variable, "")
	}
	t.Setenv("PLATFORMS", "linux/amd64")
	commit := strings.Repeat("0123456789", 4)
	text := output(t, "provenance", p+","+p, "1.2.3", commit, "sbom.go", "main.go")
	var s intoto.Statement
	if err := protojson.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	raw, err := protojson.Marshal(s.Predicate)
	if err != nil {
		t.Fatal(err)
	}
	var pred provenance.Provenance
	if err := protojson.Unmarshal(raw, &pred); err != nil {
		t.Fatal(err)
	}
	if err := pred.Validate(); err != nil {
		t.Error(err)
	}
	if s.PredicateType != predicateType || len(s.Subject) != 2 || s.Subject[0].Name != "main.go" {
		t.Errorf("got %s about %v", s.PredicateType, s.Subject)
	}
	if sum, _ := sha256Of("main.go"); s.Subject[0].Digest["sha256"] != sum {
		t.Errorf("main.go: got %s, want %s", s.Subject[0].Digest["sha256"], sum)
	}
	info, err := buildinfo.ReadFile(p)
	if err != nil {
		t.Fatal(err)
	}
	const home = "https://vfix.dev/vfix"
	if d := pred.BuildDefinition; d.BuildType != home+buildType || pred.RunDetails.Builder.Id != home+defaultBuilder ||
		!maps.EqualFunc(d.ExternalParameters.AsMap(), map[string]string{"repository": "git+" + home, "version": "1.2.3", "platforms": "linux/amd64"}, equal) ||
		!maps.EqualFunc(d.InternalParameters.AsMap(), map[string]string{"go": info.GoVersion, "gcc": "gcc (Debian) 12.2.0", "musl": "1.2.3"}, equal) ||
		d.ResolvedDependencies[0].Uri != "git+"+home {
		t.Errorf("got %+v by %v", d, pred.RunDetails)
	}
	deps := pred.BuildDefinition.ResolvedDependencies
	if len(deps) != 1+len(info.Deps) || deps[0].Digest["gitCommit"] != commit {
		t.Errorf("got %d dependencies, the first %v; want the commit and %d modules", len(deps), deps[0], len(info.Deps))
	}
	t.Setenv("BUILDER_ID", "https://builder.example/1")
	if text := output(t, "provenance", p, "1.2.3", commit, "main.go"); !bytes.Contains(text, []byte(`"id": "https://builder.example/1"`)) {
		t.Errorf("the builder is not in %s", text)
	}
	t.Setenv("TOOLS", "gcc")
	if err := run([]string{"provenance", p, "1.2.3", commit, "main.go"}, &bytes.Buffer{}); err == nil {
		t.Error("a tool without a version")
	}
}

func equal(got any, want string) bool { return got == want }

// A module without a license file is an error; licenses of copied packages in it count.
func TestLicences(t *testing.T) {
	from := t.TempDir()
	write := func(name string) {
		t.Helper()
		path := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("main.go")
	write("license.go")
	write("testdata/LICENSE")
	if _, err := licenceFiles(from); err == nil {
		t.Fatal("a module without a license is taken")
	}
	if _, err := licenceFiles(filepath.Join(from, "none")); err == nil {
		t.Error("a module that is not here is taken")
	}
	for _, name := range []string{"UNLICENSE", "LICENSE-MIT", "third/party/COPYING.txt", "third/party/a/testdata", "third/party/a/unlicence.md", "NOTICE"} {
		write(name)
	}
	if err := os.Symlink("NOTICE", filepath.Join(from, "PATENTS")); err != nil {
		t.Fatal(err)
	}
	files, err := licenceFiles(from)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Keys(files)), []string{"LICENSE-MIT", "NOTICE", "UNLICENSE", "third/party/COPYING.txt", "third/party/a/unlicence.md"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestLicenceList(t *testing.T) {
	p := program(t)
	text := string(output(t, "list-licences", p))
	if again := string(output(t, "list-licences", p, p)); again != text {
		t.Error("the same program twice gives another list")
	}
	info, err := buildinfo.ReadFile(p)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"go," + info.GoVersion + ",BSD-3-Clause,LICENSE", "musl,1.2.3,"}
	for _, m := range info.Deps {
		want = append(want, m.Path+","+m.Version+",")
	}
	for _, row := range want {
		if !strings.Contains(text, "\n"+row) {
			t.Errorf("no row %s in\n%s", row, text)
		}
	}
	const copyleft = "GNU GENERAL PUBLIC LICENSE\nVersion 2, June 1991\nSPDX-License-Identifier: GPL-2.0-only\n"
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	root, err := goCommand("env", "GOROOT")
	if err != nil {
		t.Fatal(err)
	}
	ofGo, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	permissive := write("LICENSE", string(ofGo)+"\nSee http://www.apache.org/licenses/LICENSE-2.0\n")
	if ids, err := (part{"mixed", "v1", map[string]string{"LICENSE": permissive, "LICENSE.docs": write("LICENSE.docs", copyleft)}}).licences(); err != nil || !slices.Equal(ids, []string{"BSD-3-Clause"}) {
		t.Errorf("a link and a license of documentation: got %v, %v", ids, err)
	}
	if ids, err := (part{"gone", "v1", map[string]string{"LICENSE": permissive, "NOTICE": filepath.Join(dir, "gone")}}).licences(); err == nil || !strings.HasPrefix(err.Error(), "gone: ") {
		t.Errorf("a file that is gone: got %v, %v", ids, err)
	}
	for name, license := range map[string]string{
		"copyleft": copyleft,
		"unknown":  "All rights reserved.\n",
	} {
		if ids, err := (part{name, "v1", map[string]string{"LICENSE": write("LICENSE", license)}}).licences(); err == nil {
			t.Errorf("%s: got %v, want an error", name, ids)
		}
	}
}

// The texts of all parts are copied.
func TestCopiedLicences(t *testing.T) {
	p, dir := program(t), t.TempDir()
	output(t, "licences", p, dir)
	all, err := parts(p)
	if err != nil || len(all) < 3 {
		t.Fatalf("got %v, %v", all, err)
	}
	for _, part := range all {
		for name, path := range part.files {
			want, err := os.ReadFile(path)
			got, missing := os.ReadFile(filepath.Join(dir, part.name, name))
			if err != nil || missing != nil || !bytes.Equal(got, want) {
				t.Errorf("%s of %s: %v, %v, %d bytes, want %d", name, part.name, err, missing, len(got), len(want))
			}
		}
	}
	if err := run([]string{"licences", p, "main.go"}, &bytes.Buffer{}); err == nil {
		t.Error("a file as the directory is taken")
	}
}

// Workflows, and those that the pages show, run only actions of this repository, or actions pinned to a commit.
func TestActionsArePinned(t *testing.T) {
	pinned := regexp.MustCompile(`^(\./\S+|[\w./-]+@[0-9a-f]{40} # v[0-9.]+)$`)
	count := 0
	for _, pattern := range []string{".github/workflows/*.yml", "contrib/*/*.yml", "docs/*.md", "README.md"} {
		files, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %d files", pattern, err, len(files))
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				if _, used, found := strings.Cut(line, "uses: "); found {
					if count++; !pinned.MatchString(strings.TrimSpace(used)) {
						t.Errorf("%s: %s: not pinned by a commit, with its version in a comment", file, strings.TrimSpace(line))
					}
				}
			}
		}
	}
	if count < 10 {
		t.Errorf("%d lines with uses", count)
	}
}
