package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// writeSBOM writes a CycloneDX 1.6 document about a program: the Go modules and the standard
// library that are linked in, the files of C and assembly that it embeds, and musl, parts of which are in
// those files.
func writeSBOM(w io.Writer, program, version string, embedded []string) error {
	info, modules, err := linked(program)
	if err != nil {
		return err
	}
	date, err := epoch()
	if err != nil {
		return err
	}
	sum, err := sha256Of(program)
	if err != nil {
		return err
	}
	self := cdx.Component{
		BOMRef: "vfix", Type: cdx.ComponentTypeApplication, Name: "vfix", Version: version,
		PackageURL: "pkg:golang/" + info.Main.Path + "@" + version, Hashes: hashes(sum),
	}
	components := []cdx.Component{{
		BOMRef: "std", Type: cdx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion,
		PackageURL: "pkg:golang/std@" + info.GoVersion, Description: "the Go standard library",
	}}
	for _, m := range modules {
		components = append(components, moduleComponent(m))
	}
	native, err := nativeComponents(version, embedded)
	if err != nil {
		return err
	}
	components = append(components, native...)
	needs := []string{}
	for i := range components {
		needs = append(needs, components[i].BOMRef)
	}
	bom := cdx.NewBOM()
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, []byte(info.Main.Path+"@"+sum)).URN()
	bom.Metadata = &cdx.Metadata{Timestamp: date.Format(time.RFC3339), Component: &self}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: self.BOMRef, Dependencies: &needs}}
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).EncodeVersion(bom, cdx.SpecVersion1_6)
}

func moduleComponent(m *debug.Module) cdx.Component {
	purl := "pkg:golang/" + m.Path + "@" + m.Version
	return cdx.Component{
		BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: purl,
		Properties: &[]cdx.Property{{Name: "go.sum", Value: m.Sum}},
	}
}

// nativeComponents are the components that are not Go: one for vfix's own C and assembly code with the files
// built from it, and musl.
func nativeComponents(version string, embedded []string) ([]cdx.Component, error) {
	files := []cdx.Component{}
	for _, path := range embedded {
		sum, err := sha256Of(path)
		if err != nil {
			return nil, err
		}
		name := filepath.Base(path)
		files = append(files, cdx.Component{BOMRef: "shim/" + name, Type: cdx.ComponentTypeFile, Name: name, Hashes: hashes(sum)})
	}
	musl := os.Getenv("MUSL_VERSION")
	if musl == "" {
		return nil, fmt.Errorf("MUSL_VERSION is not set")
	}
	return []cdx.Component{
		{
			BOMRef: "shim", Type: cdx.ComponentTypeLibrary, Name: "vfix-shim", Version: version, Components: &files,
			Description: "C and assembly of vfix (shim/src), embedded in the program and injected into or started with legacy programs",
		},
		{
			BOMRef: "musl", Type: cdx.ComponentTypeLibrary, Name: "musl", Version: musl, PackageURL: "pkg:generic/musl@" + musl,
			Description: "linked into vfix-trace and vfix-measure",
		},
	}, nil
}

func hashes(sum string) *[]cdx.Hash {
	return &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}}
}

// sha256Of is the SHA-256 of a file in hex.
func sha256Of(path string) (string, error) {
	text, err := os.ReadFile(path)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}
