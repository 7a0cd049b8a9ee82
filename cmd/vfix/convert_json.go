// The JSON of vfix convert.

package main

import "vfix.dev/vfix/images"

type jsonConverted struct {
	jsonDocument
	Source       string `json:"source"`
	SourceDigest string `json:"source_digest"`
	Reference    string `json:"reference"`
	Digest       string `json:"digest"`
	Layers       int    `json:"layers"`
}

func convertJSON(c *images.Converted) jsonConverted {
	return jsonConverted{
		jsonDocument: document("convert"), Source: c.Source, SourceDigest: c.SourceDigest,
		Reference: c.Reference, Digest: c.Digest, Layers: c.Layers,
	}
}
