// The JSON of vfix rebuild --from-file.

package main

import "vfix.dev/vfix/images/batch"

type jsonBatch struct {
	jsonDocument
	Images  []jsonOutcome   `json:"images"`
	Summary jsonBatchCounts `json:"summary"`
}

type jsonOutcome struct {
	Line       int      `json:"line"`
	Source     string   `json:"source"`
	Dest       string   `json:"dest"`
	Status     string   `json:"status"`
	Before     bool     `json:"before"`
	Reference  string   `json:"reference"`
	Digest     string   `json:"digest"`
	BaseDigest string   `json:"base_digest"`
	Files      int      `json:"files"`
	Patched    int      `json:"patched"`
	LeftOver   int      `json:"left_over"`
	LayerSize  int64    `json:"layer_size"`
	Warnings   []string `json:"warnings"`
	Error      string   `json:"error"`
	Hint       string   `json:"hint"`
}

type jsonBatchCounts struct {
	Done       int `json:"done"`
	Unaffected int `json:"unaffected"`
	Failed     int `json:"failed"`
	NotRun     int `json:"not_run"`
}

func batchJSON(opts RebuildOptions, b *batch.Batch) jsonBatch {
	doc := jsonBatch{jsonDocument: document("rebuild"), Images: []jsonOutcome{}, Summary: jsonBatchCounts{
		Done: b.Count(batch.StatusDone), Unaffected: b.Count(batch.StatusUnaffected),
		Failed: b.Count(batch.StatusFailed), NotRun: b.Count(batch.StatusNotRun),
	}}
	doc.DryRun = opts.dryRun
	for _, o := range b.Outcomes {
		why, hint := whyFailed(o)
		doc.Images = append(doc.Images, jsonOutcome{
			Line: o.Line, Source: o.Source, Dest: o.Dest, Status: string(o.Status), Before: o.Before,
			Reference: o.Reference, Digest: o.Digest, BaseDigest: o.BaseDigest,
			Files: o.Files, Patched: o.Patched, LeftOver: o.LeftOver, LayerSize: o.LayerSize,
			Warnings: list(o.Warnings), Error: why, Hint: hint,
		})
	}
	return doc
}
