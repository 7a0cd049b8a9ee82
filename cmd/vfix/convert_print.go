// What vfix convert prints.

package main

import "vfix.dev/vfix/images"

// converted prints the reference of the result, and what it lacks on stderr.
func (o *output) converted(opts ConvertOptions, done *images.Converted) error {
	for _, text := range done.Warnings {
		o.Warn("%s", text)
	}
	if opts.json() {
		return o.json(struct {
			jsonDocument
			*images.Converted
		}{document("convert"), done})
	}
	o.Result(done.Reference)
	return nil
}
