// The JSON of --from-file: rows as package report has them.

package main

import (
	"bytes"
	"encoding/json"

	"vfix.dev/vfix/images/batch"
	"vfix.dev/vfix/images/outcome"
)

type jsonBatch struct {
	jsonDocument
	Images  []outcome.Image `json:"images"`
	Summary jsonBatchCounts `json:"summary"`
}

type jsonBatchCounts struct {
	Done       int `json:"done"`
	Affected   int `json:"affected"`
	Unaffected int `json:"unaffected"`
	Incomplete int `json:"incomplete"`
	Failed     int `json:"failed"`
	NotRun     int `json:"not_run"`
	Retries    int `json:"retries"`
}

// batchJSON prints the document: the rows one by one, between what goes before and behind them.
func (o *output) batchJSON(verb string, dry bool, b *batch.Batch, rows func(func(outcome.Image) bool)) error {
	doc := jsonBatch{jsonDocument: document(verb), Images: []outcome.Image{}, Summary: jsonBatchCounts{
		Done: b.Of[outcome.Done], Affected: b.Of[outcome.Affected], Unaffected: b.Of[outcome.Unaffected],
		Incomplete: b.Of[outcome.Incomplete], Failed: b.Of[outcome.Failed], NotRun: b.Of[outcome.NotRun], Retries: b.Retries,
	}}
	doc.DryRun = dry
	raw, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	before, behind, _ := bytes.Cut(raw, []byte("[]"))
	o.Stdout.Write(append(before, '['))
	between := "\n    "
	for row := range rows {
		o.Stdout.WriteString(between)
		between = ",\n    "
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("    ", "  ")
		if err := enc.Encode(row); err != nil {
			return err
		}
		o.Stdout.Write(bytes.TrimSpace(b.Bytes()))
	}
	o.Stdout.WriteString("\n  ]")
	o.Stdout.Write(append(behind, '\n'))
	return nil
}
