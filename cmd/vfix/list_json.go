// The JSON of vfix list.

package main

import (
	"time"

	"vfix.dev/vfix/images/inventory"
)

type jsonList struct {
	jsonDocument
	Images []jsonListed `json:"images"`
}

type jsonListed struct {
	Source  string `json:"source"`
	Created string `json:"created"`
}

func (d *jsonList) add(i inventory.Listed) {
	j := jsonListed{Source: i.Source}
	if !i.Created.IsZero() {
		j.Created = i.Created.Format(time.RFC3339)
	}
	d.Images = append(d.Images, j)
}
