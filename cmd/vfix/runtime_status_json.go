// The JSON of vfix runtime status.

package main

import (
	"time"

	"vfix.dev/vfix/host/ociruntime"
	"vfix.dev/vfix/host/starts"
)

type jsonStatus struct {
	jsonDocument
	Record  string          `json:"record"`
	Policy  jsonPolicy      `json:"policy"`
	Starts  []starts.Record `json:"starts"`
	Summary jsonStartSums   `json:"summary"`
	Cache   jsonCacheState  `json:"cache"`
}

type jsonPolicy struct {
	Source     string `json:"source"`
	File       string `json:"file"`
	Reason     string `json:"reason"`
	FailClosed bool   `json:"fail_closed"`
}

type jsonStartSums struct {
	Starts    int            `json:"starts"`
	Since     string         `json:"since"`
	Results   map[string]int `json:"results"`
	CacheHits int            `json:"cache_hits"`
	Looked    int            `json:"looked"`
	Files     int            `json:"files"`
	SitesLeft int            `json:"sites_left"`
	Median    float64        `json:"median_seconds"`
	Longest   float64        `json:"longest_seconds"`
	Damaged   int            `json:"damaged_lines"`
}

type jsonCacheState struct {
	Dir     string `json:"dir"`
	Bytes   int64  `json:"bytes"`
	Entries int    `json:"entries"`
	Limit   int64  `json:"limit"`
}

func statusJSON(s *ociruntime.Status) jsonStatus {
	sum := s.Summary
	doc := jsonStatus{
		jsonDocument: document(runtimeVerb), Record: s.From, Starts: s.Last,
		Policy: jsonPolicy{string(s.Policy.Source), s.Policy.Path, s.Policy.Why(), s.Policy.FailClosed},
		Summary: jsonStartSums{
			Starts: sum.Starts, Results: map[string]int{}, CacheHits: sum.CacheHits, Looked: sum.Looked, Files: sum.Files,
			SitesLeft: sum.SitesLeft, Median: sum.Median, Longest: sum.Longest, Damaged: sum.Damaged,
		},
		Cache: jsonCacheState{s.Cache.Dir, s.Cache.Bytes, s.Cache.Entries, s.Cache.Limit},
	}
	if doc.Starts == nil {
		doc.Starts = []starts.Record{}
	}
	if !sum.Since.IsZero() {
		doc.Summary.Since = sum.Since.Format(time.RFC3339)
	}
	for _, o := range starts.Outcomes {
		doc.Summary.Results[string(o)] = sum.Outcomes[o]
	}
	return doc
}
