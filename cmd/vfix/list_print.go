// What list prints: a line for each image, or JSON.

package main

import (
	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images/inventory"
)

// imageList prints the images of vfix list as they are found, or keeps them for the JSON.
type imageList struct {
	out *output
	doc *listJSON // nil: lines
	n   int
}

type listJSON struct {
	jsonDocument
	Images []listedJSON `json:"images"`
}

type listedJSON struct {
	Source  string `json:"source"`
	Created string `json:"created"`
}

func (o *output) startList(opts ListOptions) *imageList {
	l := &imageList{out: o}
	if opts.json() {
		l.doc = &listJSON{jsonDocument: document("list")}
	}
	return l
}

func (l *imageList) add(i inventory.Listed) error {
	l.n++
	if l.doc != nil {
		l.doc.Images = append(l.doc.Images, listedJSON{i.Source, timeIf(i.Created)})
		return nil
	}
	l.out.Result(i.Source)
	return nil
}

func (l *imageList) end() error {
	l.out.Note("%s", screen.Count(l.n, "image"))
	if l.doc != nil {
		return l.out.json(*l.doc)
	}
	return nil
}
