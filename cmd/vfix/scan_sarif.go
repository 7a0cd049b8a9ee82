// What vfix scan --format sarif prints: SARIF 2.1.0, which code hosts show as findings of a CI
// run (https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html; § is a section of it).
// Each SOURCE is a run. A result is a live or unknown call site. Those that the fallback in
// SOURCE catches are suppressed. A path that could not be read is a notification.

package main

import (
	"fmt"
	"net/url"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/rewriter"
)

const (
	sarifVersion = "2.1.0"
	sarifSchema  = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
	homepage     = "https://vfix.dev/vfix"
)

type sarifLog struct {
	Version string     `json:"version"`
	Schema  string     `json:"$schema"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool        sarifTool         `json:"tool"`
	Automation  sarifAutomation   `json:"automationDetails"`
	Invocations []sarifInvocation `json:"invocations"`
	Results     []sarifResult     `json:"results"`
	Properties  map[string]string `json:"properties"`
}

type sarifTool struct {
	Driver sarifDriver `json:"driver"`
}

type sarifDriver struct {
	Name    string      `json:"name"`
	Version string      `json:"version"`
	URI     string      `json:"informationUri"`
	Rules   []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID            string            `json:"id"`
	Short         sarifText         `json:"shortDescription"`
	Full          sarifText         `json:"fullDescription"`
	Help          sarifText         `json:"help"`
	Configuration map[string]string `json:"defaultConfiguration"`
}

type sarifText struct {
	Text string `json:"text"`
}

// sarifAutomation names the run, so that runs over different SOURCEs stay apart (§3.17).
type sarifAutomation struct {
	ID string `json:"id"`
}

type sarifInvocation struct {
	Successful    bool                `json:"executionSuccessful"`
	Notifications []sarifNotification `json:"toolExecutionNotifications"`
}

type sarifNotification struct {
	Level     string          `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations"`
}

type sarifResult struct {
	Rule         string             `json:"ruleId"`
	Level        string             `json:"level"`
	Message      sarifText          `json:"message"`
	Locations    []sarifLocation    `json:"locations"`
	Fingerprints map[string]string  `json:"partialFingerprints"`
	Suppressions []sarifSuppression `json:"suppressions,omitempty"`
}

type sarifSuppression struct {
	Kind          string `json:"kind"`
	Justification string `json:"justification"`
}

type sarifLocation struct {
	Physical sarifPhysical `json:"physicalLocation"`
}

type sarifPhysical struct {
	Artifact sarifArtifact `json:"artifactLocation"`
	Region   *sarifRegion  `json:"region,omitempty"`
}

type sarifArtifact struct {
	URI string `json:"uri"`
}

// sarifRegion is the bytes of a call site in its file. Nobody may infer its line from them, nor
// them from the line (§3.30.4), which is there because GitHub wants one.
type sarifRegion struct {
	StartLine  int    `json:"startLine"`
	ByteOffset uint64 `json:"byteOffset"`
	ByteLength uint8  `json:"byteLength"`
}

// sarifLevels has the verdicts that are findings, and how grave each is.
var sarifLevels = map[rewriter.Verdict]string{rewriter.Live: "error", rewriter.DormantCall: "error", rewriter.Unknown: "warning"}

// sarifRules explains the findings, one rule for each verdict.
var sarifRules = []sarifRule{
	sarifRuleOf(rewriter.Live, "A call of the vsyscall page", "This code calls the vsyscall page. Where the kernel does not map the page, the program ends with SIGSEGV (exit status 139)."),
	sarifRuleOf(rewriter.DormantCall, "A call of the vsyscall page where there is no vDSO", "This code calls the vsyscall page where the kernel provides no vDSO."),
	sarifRuleOf(rewriter.Unknown, "Possibly a call of the vsyscall page", "This code or data has an address of the vsyscall page, and vfix cannot prove what it is used for."),
}

func sarifRuleOf(v rewriter.Verdict, short, full string) sarifRule {
	return sarifRule{
		ID: sarifRuleID(v), Short: sarifText{short}, Full: sarifText{full},
		Help:          sarifText{"'vfix rebuild' derives an image without such calls, 'vfix patch' patches files. 'vfix scan --explain' shows the machine code."},
		Configuration: map[string]string{"level": sarifLevels[v]},
	}
}

func sarifRuleID(v rewriter.Verdict) string { return "vsyscall-" + v.String() }

// findingsSARIF is one run for each source.
func findingsSARIF(all []*contents.Findings) sarifLog {
	log := sarifLog{Version: sarifVersion, Schema: sarifSchema, Runs: []sarifRun{}}
	for _, f := range all {
		log.Runs = append(log.Runs, sarifRunOf(f))
	}
	return log
}

func sarifRunOf(f *contents.Findings) sarifRun {
	run := sarifRun{
		Tool:       sarifTool{sarifDriver{Name: "vfix", Version: buildVersion().Version, URI: homepage, Rules: sarifRules}},
		Automation: sarifAutomation{"vfix/" + f.Source + "/"},
		Results:    []sarifResult{},
		Properties: map[string]string{"source": f.Source, "digest": f.Digest},
	}
	for i := range f.Files {
		for _, p := range f.Files[i].Plan.Patches {
			if v := p.Site.Verdict; v == rewriter.Unknown || v.Patchable() {
				run.Results = append(run.Results, sarifResultOf(f, &f.Files[i], &p))
			}
		}
	}
	invocation := sarifInvocation{Successful: incomplete(f) == nil, Notifications: []sarifNotification{}}
	for _, p := range f.Passed {
		level := "note"
		if p.Unread {
			level = "error"
		}
		invocation.Notifications = append(invocation.Notifications, sarifNotification{
			Level: level, Message: sarifText{"not examined: " + p.Reason}, Locations: []sarifLocation{sarifAt(p.Path, nil)},
		})
	}
	run.Invocations = []sarifInvocation{invocation}
	return run
}

func sarifResultOf(f *contents.Findings, file *contents.File, p *rewriter.Patch) sarifResult {
	s := &p.Site
	text := fmt.Sprintf("%s: %s call site of %s at vaddr %#x: %s", file.Path, s.Verdict, s.Function, s.Vaddr, s.Reason)
	switch {
	case p.Form != rewriter.Left:
		text += fmt.Sprintf("; '%s' patches it", fixes(f)[0])
	case p.Reason != "":
		text += "; vfix cannot patch it: " + p.Reason
	}
	r := sarifResult{
		Rule: sarifRuleID(s.Verdict), Level: sarifLevels[s.Verdict], Message: sarifText{text},
		Locations:    []sarifLocation{sarifAt(file.Path, &sarifRegion{StartLine: 1, ByteOffset: s.Offset, ByteLength: s.Len})},
		Fingerprints: map[string]string{"callSite/v1": file.Path + memberName(s) + "@" + hex(s.Vaddr)},
	}
	if file.Covered != "" {
		r.Suppressions = []sarifSuppression{{Kind: "external", Justification: file.Covered + " catches it at run time"}}
	}
	return r
}

// sarifAt is a path as a URI reference (RFC 3986), relative to the root of the source.
func sarifAt(path string, region *sarifRegion) sarifLocation {
	return sarifLocation{sarifPhysical{Artifact: sarifArtifact{(&url.URL{Path: path}).String()}, Region: region}}
}

// memberName is the member of an archive that a site is in, as ld writes it: lib.a(x.o).
func memberName(s *rewriter.Site) string {
	if s.Member == "" {
		return ""
	}
	return "(" + s.Member + ")"
}
