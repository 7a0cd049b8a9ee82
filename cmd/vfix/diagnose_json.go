// The JSON of vfix diagnose; see json.go for the rules.

package main

import (
	"cmp"

	"vfix.dev/vfix/host/diagnose"
)

type jsonDiagnosis struct {
	jsonDocument
	Results []jsonCrashes `json:"results"`
}

type jsonCrashes struct {
	Input      string      `json:"input"`
	Lines      int         `json:"lines"`
	Containers int         `json:"containers"`
	Crashes    []jsonCrash `json:"crashes"`
}

type jsonCrash struct {
	Source     string      `json:"source"`
	Kind       string      `json:"kind"`
	Vsyscall   bool        `json:"vsyscall"`
	Function   string      `json:"function"`
	Meaning    string      `json:"meaning"`
	Verdict    string      `json:"verdict"`
	Confidence string      `json:"confidence"`
	Next       *jsonFix    `json:"next"`
	Program    string      `json:"program"`
	Executable string      `json:"executable"`
	Command    string      `json:"command"`
	PIDs       []int       `json:"pids"`
	Count      int         `json:"count"`
	TID        int         `json:"tid"`
	Signal     int         `json:"signal"`
	When       string      `json:"when"`
	Address    string      `json:"address"`
	IP         string      `json:"ip"`
	SP         string      `json:"sp"`
	Page       string      `json:"page"`
	Caller     *jsonCaller `json:"caller"`
	Fixes      []jsonFix   `json:"fixes"`
	Notes      []string    `json:"notes"`
	Log        []string    `json:"log"`
}

type jsonCaller struct {
	Return  string            `json:"return"`
	Module  string            `json:"module"`
	Offset  uint64            `json:"offset"`
	Vaddr   string            `json:"vaddr"`
	Symbol  string            `json:"symbol"`
	Into    uint64            `json:"into"`
	BuildID string            `json:"build_id"`
	Package string            `json:"package"`
	Libc    string            `json:"libc"`
	Tail    bool              `json:"tail"`
	Site    *jsonSite         `json:"site"`
	Code    []jsonInstruction `json:"code"`
}

type jsonFix struct {
	Command string `json:"command"`
	Why     string `json:"why"`
}

func diagnosisJSON(all []*diagnose.Result) jsonDiagnosis {
	doc := jsonDiagnosis{jsonDocument: document("diagnose"), Results: []jsonCrashes{}}
	for _, r := range all {
		out := jsonCrashes{Input: r.Input, Lines: r.Lines, Containers: r.Containers, Crashes: []jsonCrash{}}
		for _, c := range r.Crashes {
			out.Crashes = append(out.Crashes, crashJSON(c))
		}
		doc.Results = append(doc.Results, out)
	}
	return doc
}

func crashJSON(c *diagnose.Crash) jsonCrash {
	j := jsonCrash{
		Source: string(c.Source), Kind: string(c.Kind), Vsyscall: c.Kind.Vsyscall(), Function: c.Function, Meaning: c.Meaning,
		Program: c.Program, Executable: c.Executable, Command: c.Command, PIDs: append([]int{}, c.PIDs...),
		Count: c.Count, TID: c.TID, Signal: c.Signal, When: c.When,
		Address: hexIf(c.Fault, c.Known.Fault), IP: hexIf(c.IP, c.Known.IP), SP: hexIf(c.SP, c.Known.SP),
		Page: c.Page, Fixes: []jsonFix{}, Notes: list(c.Notes), Log: list(c.Lines),
	}
	j.Verdict, j.Confidence = c.Verdict, string(cmp.Or(c.Confidence, diagnose.Certain))
	if c.Next != nil {
		next := jsonFix(*c.Next)
		j.Next = &next
	}
	for _, f := range c.Fixes {
		j.Fixes = append(j.Fixes, jsonFix(f))
	}
	if k := c.Caller; k != nil {
		j.Caller = &jsonCaller{
			Return: hex(k.Return), Module: k.Module, Offset: k.Offset, Vaddr: hexIf(k.Vaddr, k.Vaddr != 0),
			Symbol: k.Symbol, Into: k.Into, BuildID: k.BuildID, Package: k.Package, Libc: k.Libc, Tail: k.Tail,
			Code: instructionsJSON(k.Lines),
		}
		if k.Site != nil {
			site := siteJSON(k.Site)
			site.Listing = listingJSON(k.Site.Listing)
			j.Caller.Site = &site
		}
	}
	return j
}
