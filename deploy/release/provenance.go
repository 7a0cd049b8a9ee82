package main

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// The provenance of a release: an in-toto Statement v1 with the predicate SLSA Provenance v1
// (https://slsa.dev/spec/v1.0/provenance). in-toto's own Go types promise no stable bytes; a test uses them to read the output.
// It has no times and no id of an invocation: they would differ from build to build.
const (
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://slsa.dev/provenance/v1"
	// README.md describes both; each is below the address of the module.
	buildType      = "/make-dist/v1"
	defaultBuilder = "/builder/by-hand"
)

// settings are the variables of a build that change its files: names of external parameters.
var settings = map[string]string{"platforms": "PLATFORMS", "maintainer": "MAINTAINER", "image": "IMAGE", "issues": "ISSUES", "downloads": "DOWNLOADS"}

// resource is in-toto's ResourceDescriptor, as far as it is used. The digests are in hex.
type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

type object = map[string]any

// writeProvenance states which files were built, from which commit and modules, by which tools:
// those of TOOLS, lines of "name: version". BUILDER_ID names the builder.
func writeProvenance(w io.Writer, programs []string, version, commit string, subjects []string) error {
	info, modules, err := linked(programs...)
	if err != nil {
		return err
	}
	home := "https://" + info.Main.Path
	tools := map[string]string{"go": info.GoVersion}
	dependencies := []resource{{URI: "git+" + home, Digest: map[string]string{"gitCommit": commit}}}
	for _, m := range modules {
		d, err := moduleResource(m)
		if err != nil {
			return err
		}
		dependencies = append(dependencies, d)
	}
	var files []resource
	for _, path := range subjects {
		sum, err := sha256Of(path)
		if err != nil {
			return err
		}
		files = append(files, resource{Name: filepath.Base(path), Digest: map[string]string{"sha256": sum}})
	}
	slices.SortFunc(files, func(a, b resource) int { return strings.Compare(a.Name, b.Name) })
	for line := range strings.Lines(os.Getenv("TOOLS")) {
		name, version, found := strings.Cut(strings.TrimSpace(line), ": ")
		if !found {
			return fmt.Errorf("TOOLS: %q: want name: version", line)
		}
		tools[name] = version
	}
	external := map[string]string{"repository": "git+" + home, "version": version}
	for name, variable := range settings {
		if value := os.Getenv(variable); value != "" {
			external[name] = value
		}
	}
	builder := cmp.Or(os.Getenv("BUILDER_ID"), home+defaultBuilder)
	return writeJSON(w, object{
		"_type": statementType, "subject": files, "predicateType": predicateType,
		"predicate": object{
			"buildDefinition": object{
				"buildType": home + buildType, "externalParameters": external, "internalParameters": tools, "resolvedDependencies": dependencies,
			},
			"runDetails": object{"builder": object{"id": builder}},
		},
	})
}

// moduleResource is a Go module with its hash from go.sum, which in-toto calls dirHash
// (spec/v1/digest_set.md).
func moduleResource(m *debug.Module) (resource, error) {
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
	if err != nil || len(sum) == 0 {
		return resource{}, fmt.Errorf("module %s: sum %q: not a hash of go.sum", m.Path, m.Sum)
	}
	return resource{URI: "pkg:golang/" + m.Path + "@" + m.Version, Digest: map[string]string{"dirHash": hex.EncodeToString(sum)}}, nil
}
