// Command release writes the documents about a vfix program in a release: the licences of linked code, a
// software bill of materials, and the provenance of the files. deploy/release/dist and deploy/release/share
// call it. The same input gives the same bytes.
package main

import (
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

// linked returns the modules that Go programs are built from, as `go version -m` lists them, with replacements in place of
// what they replace; and how the first program was built. vfix-runtime, which vfix has in it, is built from some of vfix's.
func linked(programs ...string) (first *buildinfo.BuildInfo, all []*debug.Module, err error) {
	seen := map[string]bool{}
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return nil, nil, err
		}
		if len(info.Deps) == 0 {
			return nil, nil, fmt.Errorf("%s: no modules in its build info", program)
		}
		first = cmp.Or(first, info)
		for _, m := range info.Deps {
			m = cmp.Or(m.Replace, m)
			if !seen[m.Path+"@"+m.Version] {
				seen[m.Path+"@"+m.Version] = true
				all = append(all, m)
			}
		}
	}
	return first, all, nil
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
