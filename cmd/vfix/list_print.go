// What list prints: a line for each image, or JSON.

package main

import (
	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images/inventory"
)

// imageList prints the images of vfix list as they are found, or keeps them for the JSON.
type imageList struct {
	out *output
	doc *jsonList // nil: lines
	n   int
}

func (o *output) startList(opts ListOptions) *imageList {
	l := &imageList{out: o}
	if opts.json() {
		l.doc = &jsonList{jsonDocument: document("list"), Images: []jsonListed{}}
	}
	return l
}

func (l *imageList) add(i inventory.Listed) error {
	l.n++
	if l.doc != nil {
		l.doc.add(i)
		return nil
	}
	l.out.Result(i.Source)
	return nil
}

func (l *imageList) end() error {
	l.out.Note("%s", screen.Count(l.n, "image"))
	if l.doc != nil {
		return l.out.json(l.doc)
	}
	return nil
}
