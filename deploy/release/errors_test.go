// Input that cannot be read, and what the documents say in detail.

package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"vfix.dev/vfix/tests/imagetest"
)

// fullDisk takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space") }

// bare builds a program without modules.
func bare(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source := imagetest.Write(t, filepath.Join(dir, "main.go"), []byte("package main\n\nfunc main() {}\n"))
	imagetest.Must[[]byte](t)(goCommand("build", "-o", filepath.Join(dir, "bare"), source))
	return filepath.Join(dir, "bare")
}

// Each command needs all of its arguments, and names the file that it cannot read.
func TestArguments(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	none := filepath.Join(t.TempDir(), "none")
	p := bare(t)
	for args, want := range map[string]string{
		"":                             usage,
		"other":                        usage,
		"other P V C FILE":             usage,
		"licences P":                   usage,
		"licences P DIR MORE":          usage,
		"list-licences":                usage,
		"sbom P V":                     usage,
		"provenance P V C":             usage,
		"licences NONE DIR":            none,
		"list-licences NONE":           none,
		"sbom NONE V FILE":             none,
		"provenance NONE V C FILE":     none,
		"licences P DIR":               p + ": no modules in its build info",
		"list-licences P":              p + ": no modules in its build info",
		"sbom P V FILE":                p + ": no modules in its build info",
		"provenance P V C FILE":        p + ": no modules in its build info",
		"provenance P,NONE V C FILE":   p + ": no modules in its build info",
		"provenance NONE,P V C F F2 G": none,
	} {
		words := strings.Fields(strings.NewReplacer("NONE", none, "P", p).Replace(args))
		if err := run(words, io.Discard); err == nil || !strings.HasPrefix(strings.TrimPrefix(err.Error(), "could not read Go build info: open "), want) {
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
}

// Errors in the middle of each document.
func TestUnreadable(t *testing.T) {
	p := program(t)
	none := filepath.Join(t.TempDir(), "none")
	t.Setenv("TOOLS", "")
	for _, args := range [][]string{{"sbom", p, "1", none}, {"provenance", p, "1", "c", none}, {"sbom", p, "1", "."}, {"provenance", p, "1", "c", "."}} {
		if err := run(args, io.Discard); err == nil || !strings.Contains(err.Error(), args[len(args)-1]) {
			t.Errorf("%v: got %v", args, err)
		}
	}
	for _, args := range [][]string{{"sbom", p, "1", "main.go"}, {"provenance", p, "1", "c", "main.go"}, {"list-licences", p}} {
		if err := run(args, fullDisk{}); err == nil {
			t.Errorf("%s: a full disk is not noticed", args[0])
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if err := run([]string{"sbom", p, "1", "main.go"}, io.Discard); err == nil || !strings.HasPrefix(err.Error(), "SOURCE_DATE_EPOCH: ") {
		t.Errorf("a date that is not a number: got %v", err)
	}
}

// The component of the bill of materials that is the program itself.
func TestSBOMOfProgram(t *testing.T) {
	p := program(t)
	bom := new(cdx.BOM)
	if err := cdx.NewBOMDecoder(bytes.NewReader(output(t, "sbom", p, "1.2.3", "main.go")), cdx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	sum := imagetest.Must[string](t)(sha256Of(p))
	self := bom.Metadata.Component
	if bom.Metadata.Timestamp != "2023-11-14T22:13:20Z" || !strings.HasPrefix(bom.SerialNumber, "urn:uuid:") || self.BOMRef != "vfix" ||
		self.Type != cdx.ComponentTypeApplication || self.Name != "vfix" || self.Version != "1.2.3" || self.PackageURL != "pkg:golang/vfix.dev/vfix@1.2.3" ||
		(*self.Hashes)[0] != (cdx.Hash{Algorithm: cdx.HashAlgoSHA256, Value: sum}) {
		t.Errorf("got %+v, component %+v", bom.Metadata, self)
	}
	needs := *(*bom.Dependencies)[0].Dependencies
	for i, c := range *bom.Components {
		if len(needs) != len(*bom.Components) || needs[i] != c.BOMRef || c.BOMRef == "" {
			t.Fatalf("needs %v, component %d is %s", needs, i, c.BOMRef)
		}
		if p := c.Properties; strings.HasPrefix(c.BOMRef, "pkg:") && (p == nil || !strings.HasPrefix((*p)[0].Value, "h1:") || c.PackageURL != c.BOMRef) {
			t.Errorf("%s: properties %v", c.BOMRef, p)
		}
		if c.Name == "vfix-shim" {
			file := (*c.Components)[0]
			if sum := imagetest.Must[string](t)(sha256Of("main.go")); file.Name != "main.go" || file.BOMRef != "shim/main.go" || (*file.Hashes)[0].Value != sum {
				t.Errorf("got %+v", file)
			}
		}
	}
}

// The hash of a module in go.sum, in hex.
func TestModuleResource(t *testing.T) {
	for sum, want := range map[string]string{"h1:AA==": "00", "h1:AQID": "010203", "h1:": "", "": "", "h1:!": ""} {
		r, err := moduleResource(&debug.Module{Path: "m", Version: "v1", Sum: sum})
		if (err == nil) != (want != "") || r.Digest["dirHash"] != want || err == nil && r.URI != "pkg:golang/m@v1" {
			t.Errorf("%q: got %+v, %v; want %q", sum, r, err, want)
		}
	}
}

// The go command is the one that make names, or else the one in PATH.
func TestGoCommand(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"go", "mine"} {
		path := imagetest.Write(t, filepath.Join(dir, name), []byte("#!/bin/sh\n[ \"$1\" = version ] && echo "+name+" $*\n"))
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	for name, want := range map[string]string{"": "go version x\n", filepath.Join(dir, "mine"): "mine version x\n"} {
		t.Setenv("GO", name)
		if got, err := goCommand("version", "x"); err != nil || string(got) != want {
			t.Errorf("GO=%s: got %q, %v; want %q", name, got, err, want)
		}
		if _, err := goCommand("env", "x"); err == nil || !strings.HasPrefix(err.Error(), "go env: ") {
			t.Errorf("GO=%s: got %v", name, err)
		}
	}
}

func TestWriteJSON(t *testing.T) {
	var b bytes.Buffer
	if err := writeJSON(&b, map[string]string{"a": "<&>"}); err != nil || b.String() != "{\n  \"a\": \"<&>\"\n}\n" {
		t.Errorf("got %q, %v", b.String(), err)
	}
}
