// Command release writes the documents about a vfix program in a release: the licences of linked code, a
// software bill of materials, and the provenance of the files. deploy/release/dist and deploy/release/share
// call it. The same input gives the same bytes.
package main

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

const usage = `usage: release licences PROGRAM DIR
       release list-licences PROGRAM...
       release sbom PROGRAM VERSION EMBEDDED-FILE...
       release provenance PROGRAM,... VERSION COMMIT SUBJECT-FILE...
the others write to stdout; SOURCE_DATE_EPOCH is the date`

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	switch {
	case len(args) == 3 && args[0] == "licences":
		return writeLicences(args[1], args[2])
	case len(args) > 1 && args[0] == "list-licences":
		return writeLicenceList(stdout, args[1:])
	case len(args) > 3 && args[0] == "sbom":
		return writeSBOM(stdout, args[1], args[2], args[3:])
	case len(args) > 4 && args[0] == "provenance":
		return writeProvenance(stdout, strings.Split(args[1], ","), args[2], args[3], args[4:])
	}
	return errors.New(usage)
}

// linked returns the modules that Go programs and those that they carry are built from, as `go version -m` lists them,
// with replacements in place of what they replace; and how the first program was built.
func linked(programs ...string) (*buildinfo.BuildInfo, []*debug.Module, error) {
	var infos []*buildinfo.BuildInfo
	for _, program := range programs {
		text, err := os.ReadFile(program)
		if err != nil {
			return nil, nil, err
		}
		info, err := buildinfo.Read(bytes.NewReader(text))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", program, err)
		}
		infos = append(infos, info)
		for _, p := range carriedIn(text) {
			other, err := p.unpack()
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", program, err)
			}
			info, err := buildinfo.Read(bytes.NewReader(other))
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %s: %w", program, p.name, err)
			}
			infos = append(infos, info)
		}
		if len(info.Deps) == 0 {
			return nil, nil, fmt.Errorf("%s: no modules in its build info", program)
		}
	}
	var all []*debug.Module
	seen := map[string]bool{}
	for _, info := range infos {
		for _, m := range info.Deps {
			m = cmp.Or(m.Replace, m)
			if !seen[m.Path+"@"+m.Version] {
				seen[m.Path+"@"+m.Version] = true
				all = append(all, m)
			}
		}
	}
	return infos[0], all, nil
}

// epoch is SOURCE_DATE_EPOCH (https://reproducible-builds.org/specs/source-date-epoch/).
func epoch() (time.Time, error) {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// goCommand runs the go command that make names and returns its stdout.
func goCommand(args ...string) ([]byte, error) {
	cmd := exec.Command(cmp.Or(os.Getenv("GO"), "go"), args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w", args[0], err)
	}
	return out, nil
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
