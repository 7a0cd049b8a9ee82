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
	*diagnose.Result
	Crashes []jsonCrash `json:"crashes"`
}

type jsonCrash struct {
	*diagnose.Crash
	Vsyscall   bool                `json:"vsyscall"`
	Confidence diagnose.Confidence `json:"confidence"`
	Address    string              `json:"address"`
	IP         string              `json:"ip"`
	SP         string              `json:"sp"`
	Caller     *jsonCaller         `json:"caller"`
}

type jsonCaller struct {
	*diagnose.Caller
	Return string            `json:"return"`
	Vaddr  string            `json:"vaddr"`
	Site   *jsonSite         `json:"site"`
	Code   []jsonInstruction `json:"code"`
}

func diagnosisJSON(all []*diagnose.Result) jsonDiagnosis {
	doc := jsonDiagnosis{jsonDocument: document("diagnose")}
	for _, r := range all {
		out := jsonCrashes{Result: r}
		for _, c := range r.Crashes {
			out.Crashes = append(out.Crashes, crashJSON(c))
		}
		doc.Results = append(doc.Results, out)
	}
	return doc
}

func crashJSON(c *diagnose.Crash) jsonCrash {
	j := jsonCrash{
		Crash: c, Vsyscall: c.Kind.Vsyscall(), Confidence: cmp.Or(c.Confidence, diagnose.Certain),
		Address: hexIf(c.Fault, c.Known.Fault), IP: hexIf(c.IP, c.Known.IP), SP: hexIf(c.SP, c.Known.SP),
	}
	if k := c.Caller; k != nil {
		j.Caller = &jsonCaller{Caller: k, Return: hex(k.Return), Vaddr: hexIf(k.Vaddr, k.Vaddr != 0), Code: instructionsJSON(k.Lines)}
		if k.Site != nil {
			site := siteJSON(k.Site)
			j.Caller.Site = &site
		}
	}
	return j
}
