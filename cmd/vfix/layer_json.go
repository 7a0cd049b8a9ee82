// The JSON of vfix layer.

package main

import "vfix.dev/vfix/images"

type jsonLayered struct {
	jsonDocument
	Reference string   `json:"reference"`
	Digest    string   `json:"digest"`
	Contents  []string `json:"contents"`
	Size      int64    `json:"size"`
}

func layerJSON(l *images.Layered) jsonLayered {
	return jsonLayered{
		jsonDocument: document("layer"),
		Reference:    l.Reference, Digest: l.Digest, Contents: list(l.Files), Size: l.Size,
	}
}
