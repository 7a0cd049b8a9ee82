// What vfix convert prints.

package main

import "vfix.dev/vfix/images"

// converted prints the reference of the result.
func (o *output) converted(opts ConvertOptions, done *images.Converted) error {
	if opts.json() {
		return o.json(convertJSON(done))
	}
	o.result(done.Reference)
	return nil
}
