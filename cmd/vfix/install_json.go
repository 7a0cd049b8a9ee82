// The JSON of vfix install and vfix uninstall.

package main

import "vfix.dev/vfix/host/install"

type jsonInstall struct {
	jsonDocument
	Engines      []string     `json:"engines"`
	Changes      []jsonModify `json:"changes"`
	Commands     []string     `json:"commands"`
	Notes        []string     `json:"notes"`
	Warnings     []string     `json:"warnings"`
	RuntimeClass string       `json:"runtime_class"`
}

type jsonModify struct {
	Path   string `json:"path"`
	Action string `json:"action"`
	Size   int    `json:"size"`
	Link   string `json:"link"`
	Diff   string `json:"diff"`
}

func installJSON(verb string, dryRun bool, r *install.Result) jsonInstall {
	doc := jsonInstall{
		jsonDocument: document(verb), Engines: []string{}, Changes: []jsonModify{},
		Commands: list(r.Commands), Notes: list(r.Notes), Warnings: list(r.Warnings), RuntimeClass: r.RuntimeClass,
	}
	doc.DryRun = dryRun
	for _, e := range r.Engines {
		doc.Engines = append(doc.Engines, string(e))
	}
	for _, c := range r.Changes {
		doc.Changes = append(doc.Changes, jsonModify{c.Path, string(c.Action), c.Size, c.Link, c.Diff})
	}
	return doc
}
