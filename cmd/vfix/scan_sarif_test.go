// The output of vfix scan --format sarif, against the schema of SARIF 2.1.0.

package main

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"github.com/santhosh-tekuri/jsonschema/v5"

	own "vfix.dev/vfix/cmd/vfix/sarif"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/hazards"
)

// sarifOf reads what a scan printed, and fails where the schema refuses it.
func sarifOf(t *testing.T, f *contents.Findings, status int) *sarif.Run {
	t.Helper()
	got := runLine(fake(f, nil), "scan", "--format", "sarif", "x")
	if got.status != status {
		t.Fatalf("%s: got status %d, want %d: %s", f.Source, got.status, status, got.stderr)
	}
	report, err := validSARIF(t, got.stdout)
	if err != nil || len(report.Runs) != 1 {
		t.Fatalf("%s: %#v, want one run\n%s", f.Source, err, got.stdout)
	}
	return report.Runs[0]
}

// sarifSchemaOf is the schema, which the library keeps in a constant of its own.
var sarifSchemaOf = sync.OnceValues(func() (*jsonschema.Schema, error) {
	dir, err := exec.Command(cmp.Or(os.Getenv("GO"), "go"), "list", "-f", "{{.Dir}}", "github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif").Output()
	if err != nil {
		return nil, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "schema.go"), nil, 0)
	if err != nil {
		return nil, err
	}
	value := file.Scope.Lookup("schema").Decl.(*ast.ValueSpec).Values[0].(*ast.BasicLit).Value
	text, err := strconv.Unquote(value)
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat = true
	if err := c.AddResource(own.Schema, strings.NewReader(text)); err != nil {
		return nil, err
	}
	return c.Compile(own.Schema)
})

// validSARIF validates the text itself: the library would not see a field that it does not know.
func validSARIF(t *testing.T, text string) (*sarif.Report, error) {
	t.Helper()
	s, err := sarifSchemaOf()
	if err != nil {
		t.Fatal(err)
	}
	if err := validate(t, s, text); err != nil {
		return nil, err
	}
	return sarif.FromString(text)
}

func TestSARIF(t *testing.T) {
	old := clean()
	old.Hazards = []contents.Hazard{{Hazard: hazards.Hazard{Kind: hazards.Schema1, Version: "1"}}}
	for name, c := range map[string]struct {
		f                          *contents.Findings
		status                     int
		errors, warnings, silenced int
		complete                   bool
	}{
		"clean":     {clean(), 0, 0, 0, 0, true},
		"harmless":  {harmless(), 0, 0, 0, 0, true},
		"patchable": {patchable(), 3, 5, 0, 0, true},
		"mixed":     {mixed(), 3, 6, 2, 0, true},
		"covered":   {covered(), 3, 6, 2, 2, true},
		"caught":    {caught(), 0, 5, 0, 5, true},
		"unread":    {unread(), 4, 0, 0, 0, false},
		"schema 1":  {old, 0, 0, 1, 0, true},
	} {
		run := sarifOf(t, c.f, c.status)
		levels := map[string]int{}
		silenced, marks := 0, []string{}
		for _, r := range run.Results {
			levels[r.Level]++
			if len(r.Suppressions) > 0 {
				silenced++
			}
			if !slices.ContainsFunc(run.Tool.Driver.Rules, func(rule *sarif.ReportingDescriptor) bool { return *rule.ID == *r.RuleID }) {
				t.Errorf("%s: rule %s is not explained", name, *r.RuleID)
			}
			at := r.Locations[0].PhysicalLocation
			hazard := strings.HasPrefix(*r.RuleID, "hazard-")
			if *at.ArtifactLocation.URI == "" || *at.Region.StartLine != 1 || !hazard && *at.Region.ByteLength != 7 {
				t.Errorf("%s: a result without its place: %+v", name, at)
			}
			marks = append(marks, cmp.Or(r.PartialFingerprints["callSite/v1"], r.PartialFingerprints["hazard/v1"]))
		}
		if levels["error"] != c.errors || levels["warning"] != c.warnings || silenced != c.silenced {
			t.Errorf("%s: got %v, %d suppressed; want %d errors, %d warnings, %d suppressed", name, levels, silenced, c.errors, c.warnings, c.silenced)
		}
		if slices.Sort(marks); len(slices.Compact(marks)) != len(run.Results) {
			t.Errorf("%s: two results with one fingerprint: %v", name, marks)
		}
		if got := run.Invocations[0]; *got.ExecutionSuccessful != c.complete || len(got.ToolExecutionNotifications) != len(c.f.Passed) {
			t.Errorf("%s: complete %v with %d notifications, want %v with %d", name, *got.ExecutionSuccessful, len(got.ToolExecutionNotifications), c.complete, len(c.f.Passed))
		}
	}
}

// The control: the schema refuses what is wrong in one field.
func TestSARIFSchemaRefuses(t *testing.T) {
	good := runLine(fake(mixed(), nil), "scan", "--format", "sarif", "x").stdout
	for _, c := range [][2]string{
		{`"version": "2.1.0"`, `"version": "2.2.0"`},
		{`"level": "warning"`, `"level": "grave"`},
		{`"startLine": 1`, `"startLine": 0`},
		{`"artifactLocation"`, `"artefactLocation"`},
		{`"uri": "usr/local/bin/odd"`, `"uri": "usr/%local/bin/odd"`},
	} {
		bad := strings.Replace(good, c[0], c[1], 1)
		if bad == good {
			t.Fatalf("%s is not in the output", c[0])
		}
		if _, err := validSARIF(t, bad); err == nil {
			t.Errorf("the schema takes %s for %s", c[1], c[0])
		}
	}
	// Only a scan has it.
	if got := runLine(fake(mixed(), nil), "patch", "--dry-run", "--format", "sarif", "x"); got.status != statusUsage {
		t.Errorf("patch --format sarif: got status %d, want %d", got.status, statusUsage)
	}
}
