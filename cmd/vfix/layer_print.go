// What vfix layer prints.

package main

import (
	"strings"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images"
)

// layered prints what is in the layer to stderr, its name to stdout.
func (o *output) layered(opts LayerOptions, done *images.Layered) error {
	o.Note("%s with %s", screen.Size(done.Size), strings.Join(done.Files, ", "))
	if opts.json() {
		return o.json(struct {
			jsonDocument
			*images.Layered
		}{document("layer"), done})
	}
	o.Result(done.Reference)
	return nil
}
