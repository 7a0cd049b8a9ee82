// The JSON of vfix doctor.

package main

import "vfix.dev/vfix/host/doctor"

type jsonDoctor struct {
	jsonDocument
	Failed []string    `json:"failed"`
	Checks []jsonCheck `json:"checks"`
}

type jsonCheck struct {
	Name    string       `json:"name"`
	Verdict string       `json:"verdict"`
	Found   string       `json:"found"`
	Means   string       `json:"means"`
	Do      string       `json:"do"`
	Figures []jsonFigure `json:"figures"`
	Facts   []jsonFact   `json:"facts"`
	Lines   []string     `json:"lines"`
	Notes   []string     `json:"notes"`
}

type jsonFigure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

type jsonFact struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

func doctorJSON(r *doctor.Report) jsonDoctor {
	doc := jsonDoctor{jsonDocument: document("doctor"), Failed: list(r.Failed()), Checks: []jsonCheck{}}
	for _, c := range r.Checks {
		j := jsonCheck{
			Name: c.Name, Verdict: string(c.Verdict), Found: c.Found, Means: c.Means, Do: c.Do,
			Figures: []jsonFigure{}, Facts: []jsonFact{}, Lines: list(c.Lines), Notes: list(c.Notes),
		}
		for _, f := range c.Figures {
			j.Figures = append(j.Figures, jsonFigure(f))
		}
		for _, f := range c.Facts {
			j.Facts = append(j.Facts, jsonFact{f.Name, f.Value})
		}
		doc.Checks = append(doc.Checks, j)
	}
	return doc
}
