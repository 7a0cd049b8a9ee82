// The JSON of vfix hotfix.

package main

import (
	"vfix.dev/vfix/images/hotfix"
	"vfix.dev/vfix/images/mountopts"
)

type jsonHotfixed struct {
	jsonDocument
	Container bool              `json:"container"`
	Name      string            `json:"name"`
	Image     string            `json:"image"`
	Service   string            `json:"service"`
	Running   bool              `json:"running"`
	Mounts    []jsonMount       `json:"mounts"`
	Covered   []string          `json:"covered_by"`
	Options   map[string]string `json:"options"`
	LeftOut   []string          `json:"left_out"`
	Recreated *jsonRecreated    `json:"recreated"`
	Result    jsonSource        `json:"result"`
}

type jsonMount struct {
	Source string `json:"source"`
	Target string `json:"target"`
	Size   int64  `json:"size"`
}

type jsonRecreated struct {
	ID    string   `json:"id"`
	Old   string   `json:"old"`
	OldID string   `json:"old_id"`
	Image string   `json:"image"`
	Back  []string `json:"back"`
	Clean []string `json:"clean"`
}

func hotfixedJSON(opts HotfixOptions, h *hotfix.Hotfixed) jsonHotfixed {
	out := jsonHotfixed{
		jsonDocument: document("hotfix"),
		Container:    h.Container, Name: h.Name, Image: h.Image, Service: h.Service, Running: h.Running,
		Mounts: []jsonMount{}, Covered: list(h.Covered), Options: map[string]string{}, LeftOut: list(unsayable(opts, h)),
		Result: sourceJSON(h.Findings, h.Findings.Remaining(), false),
	}
	for _, m := range h.Mounts {
		out.Mounts = append(out.Mounts, jsonMount(m))
	}
	if !opts.apply && len(h.Mounts) > 0 {
		for _, e := range opts.engines() {
			out.Options[string(e)] = mountopts.Say(e, h.Image, h.Service, mountsOf(h))
		}
	}
	if r := h.Recreated; r != nil {
		out.Recreated = &jsonRecreated{r.ID, r.Old, r.OldID, r.Image, list(r.Back), list(r.Clean)}
	}
	return out
}
