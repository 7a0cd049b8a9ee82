// Package sarif makes the output of vfix scan --format sarif: SARIF 2.1.0, which code hosts show as findings
// of a CI run (https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html; § is a section of it). Each
// SOURCE is a run. A result is a live or unknown call site, or a hazard. Call sites that the fallback in
// SOURCE catches are suppressed. A path that could not be read is a notification.
package sarif

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/hazards"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

const (
	specVersion = "2.1.0"
	Schema      = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
	homepage    = "https://vfix.dev/vfix"
)

type Log struct {
	Version string `json:"version"`
	Schema  string `json:"$schema"`
	Runs    []Run  `json:"runs"`
}

type Run struct {
	Tool struct {
		Driver Driver `json:"driver"`
	} `json:"tool"`
	// Automation names the run, so that runs over different SOURCEs stay apart (§3.17).
	Automation struct {
		ID string `json:"id"`
	} `json:"automationDetails"`
	Invocations []Invocation      `json:"invocations"`
	Results     []Result          `json:"results"`
	Properties  map[string]string `json:"properties"`
}

type Driver struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	URI     string `json:"informationUri"`
	Rules   []Rule `json:"rules"`
}

type Rule struct {
	ID            string            `json:"id"`
	Short         Text              `json:"shortDescription"`
	Full          Text              `json:"fullDescription"`
	Help          Text              `json:"help"`
	Configuration map[string]string `json:"defaultConfiguration"`
}

// Text is a text for people. Names in it may contain anything.
type Text struct{ text string }

// MarshalJSON writes a text in which no name is a control character or part of a link (§3.11.6).
func (t Text) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"text": strings.ReplaceAll(screen.Printable(t.text), "](", "] (")})
}

type Invocation struct {
	Successful    bool           `json:"executionSuccessful"`
	Notifications []Notification `json:"toolExecutionNotifications"`
}

type Notification struct {
	Level     string     `json:"level"`
	Message   Text       `json:"message"`
	Locations []Location `json:"locations"`
}

type Result struct {
	Rule         string            `json:"ruleId"`
	Level        string            `json:"level"`
	Message      Text              `json:"message"`
	Locations    []Location        `json:"locations"`
	Fingerprints map[string]string `json:"partialFingerprints"`
	Suppressions []Suppression     `json:"suppressions,omitempty"`
}

type Suppression struct {
	Kind          string `json:"kind"`
	Justification string `json:"justification"`
}

type Location struct {
	Physical struct {
		Artifact struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region *Region `json:"region,omitempty"`
	} `json:"physicalLocation"`
}

// Region is the bytes of a call site in its file, or, without bytes, the file. The line and the bytes must
// not be inferred from each other (§3.30.4); the line is there because GitHub requires one.
type Region struct {
	StartLine  int    `json:"startLine"`
	ByteOffset uint64 `json:"byteOffset,omitempty"`
	ByteLength uint8  `json:"byteLength,omitempty"`
}

// levels has the verdicts that are findings, and the severity of each.
var levels = map[find.Verdict]string{find.Live: "error", find.DormantCall: "error", find.Unknown: "warning"}

// hazardLevel is the level of every hazard: not all hosts trigger it.
const hazardLevel = "warning"

// rules explains the findings, one rule for each verdict and each kind of hazard.
var rules = append([]Rule{
	ruleOf(find.Live, "A call of the vsyscall page", "This code calls the vsyscall page. Where the kernel does not map the page, the program ends with SIGSEGV (exit status 139)."),
	ruleOf(find.DormantCall, "A call of the vsyscall page, made only without a vDSO", "This code calls the vsyscall page where the kernel provides no vDSO."),
	ruleOf(find.Unknown, "Possibly a call of the vsyscall page", "This code or data has an address of the vsyscall page, and vfix cannot prove what it is used for."),
}, hazardRules()...)

func hazardRules() (all []Rule) {
	for _, kind := range hazards.Kinds {
		h := hazards.Hazard{Kind: kind}
		all = append(all, Rule{
			ID: hazardID(kind), Short: Text{"A hazard on some hosts: " + string(kind)}, Full: Text{upper(h.Means()) + "."},
			Help:          Text{upper(h.Do()) + ". 'vfix help other-causes' explains it."},
			Configuration: map[string]string{"level": hazardLevel},
		})
	}
	return all
}

func hazardID(k hazards.Kind) string { return "hazard-" + string(k) }

// upper capitalizes the first letter.
func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

func ruleOf(v find.Verdict, short, full string) Rule {
	return Rule{
		ID: ruleID(v), Short: Text{short}, Full: Text{full},
		Help:          Text{"'vfix rebuild' derives an image without such calls, 'vfix patch' patches files. 'vfix scan --explain' shows the machine code."},
		Configuration: map[string]string{"level": levels[v]},
	}
}

func ruleID(v find.Verdict) string { return "vsyscall-" + v.String() }

// Source is what a scan of one source found.
type Source struct {
	*contents.Findings
	Whole bool   // all of it was examined
	Fix   string // the command that patches it
}

// Of is one run for each source; version is vfix's own.
func Of(version string, all []Source) Log {
	log := Log{Version: specVersion, Schema: Schema, Runs: []Run{}}
	for _, f := range all {
		log.Runs = append(log.Runs, runOf(version, f))
	}
	return log
}

func runOf(version string, f Source) Run {
	run := Run{Results: []Result{}, Properties: map[string]string{"source": f.Source, "digest": f.Digest}}
	run.Tool.Driver = Driver{Name: "vfix", Version: version, URI: homepage, Rules: rules}
	run.Automation.ID = "vfix/" + f.Source + "/"
	for i := range f.Files {
		for _, p := range f.Files[i].Plan.Patches {
			if v := p.Site.Verdict; v == find.Unknown || v.Patchable() {
				run.Results = append(run.Results, resultOf(f.Fix, &f.Files[i], &p))
			}
		}
	}
	for _, h := range f.Hazards {
		run.Results = append(run.Results, resultOfHazard(f.Name(), &h))
	}
	invocation := Invocation{Successful: f.Whole, Notifications: []Notification{}}
	for _, p := range f.Passed {
		level := "note"
		if p.Unread {
			level = "error"
		}
		invocation.Notifications = append(invocation.Notifications, Notification{
			Level: level, Message: Text{"not examined: " + p.Name() + ": " + p.Reason}, Locations: []Location{at(cmp.Or(p.Path, "."), nil)},
		})
	}
	run.Invocations = []Invocation{invocation}
	return run
}

func resultOf(fix string, file *contents.File, p *patch.Patch) Result {
	s := &p.Site
	text := fmt.Sprintf("%s: %s call site of %s at vaddr %#x: %s", file.Path, s.Verdict, s.Function, s.Vaddr, s.Reason)
	switch {
	case p.Form != patch.Left:
		text += fmt.Sprintf("; '%s' patches it", fix)
	case p.Reason != "":
		text += "; vfix cannot patch it: " + p.Reason
	}
	r := Result{
		Rule: ruleID(s.Verdict), Level: levels[s.Verdict], Message: Text{text},
		Locations:    []Location{at(file.Path, &Region{StartLine: 1, ByteOffset: s.Offset, ByteLength: s.Len})},
		Fingerprints: map[string]string{"callSite/v1": file.Path + memberName(s) + fmt.Sprintf("@%#x", s.Vaddr)},
	}
	if file.Covered != "" {
		r.Suppressions = append(r.Suppressions, Suppression{Kind: "external", Justification: file.Covered + " catches it at run time"})
	}
	if why, ok := file.Ignored[s.Offset]; ok {
		text := why.Reason + " (" + why.By
		if why.Expires != "" {
			text += ", until " + why.Expires
		}
		r.Suppressions = append(r.Suppressions, Suppression{Kind: "external", Justification: text + ")"})
	}
	return r
}

// resultOfHazard is a hazard in the file that has it; one of the whole source named so has its root.
func resultOfHazard(source string, h *contents.Hazard) Result {
	return Result{
		Rule: hazardID(h.Kind), Level: hazardLevel,
		Message:      Text{fmt.Sprintf("%s: %s %s. To do: %s", cmp.Or(h.Path, source), h.Title(), h.Means(), h.Do())},
		Locations:    []Location{at(cmp.Or(h.Path, "."), &Region{StartLine: 1})},
		Fingerprints: map[string]string{"hazard/v1": h.Path + "@" + string(h.Kind)},
	}
}

// at is a path as a URI reference (RFC 3986), relative to the root of the source.
func at(path string, region *Region) (l Location) {
	l.Physical.Artifact.URI, l.Physical.Region = (&url.URL{Path: path}).String(), region
	return l
}

// memberName is the member of an archive that a site is in, as ld writes it: lib.a(x.o).
func memberName(s *find.Site) string {
	if s.Member == "" {
		return ""
	}
	return "(" + s.Member + ")"
}
