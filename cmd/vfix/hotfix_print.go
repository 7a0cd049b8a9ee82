// The output of hotfix.

package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/hotfix"
	"vfix.dev/vfix/images/mountopts"
)

// engineComments go above the options if they are for several engines; a # begins a
// comment in a shell and in YAML.
var engineComments = map[mountopts.Engine]string{
	mountopts.Docker:     "docker: add your own options before the image",
	mountopts.Podman:     "podman: add your own options before the image",
	mountopts.Compose:    "compose: docker compose -f compose.yaml -f THIS up -d",
	mountopts.Kubernetes: "Kubernetes: a fragment of the pod specification; run this command on each node, which needs the files",
}

// hotfixed prints what hotfix did: the table on stderr, the options or the name of the
// container that was recreated on stdout.
func (o *output) hotfixed(opts HotfixOptions, source string, h *hotfix.Hotfixed) error {
	o.warnings(h.Findings)
	if !o.Quiet && !opts.json() && (h.Findings.Affected() || len(h.Findings.Passed) > 0 || h.Findings.OpenSites() > 0) {
		writePatched(o.Stderr, o.Err, source, didPatch, h.Findings)
	}
	for _, line := range unsayable(opts, h) {
		o.Warn("%s", line)
	}
	if len(h.Covered) > 0 {
		o.Note("not examined, because they are mounted into the container: %s", strings.Join(h.Covered, ", "))
	}
	o.hotfixNotes(opts, h)
	switch {
	case opts.json():
		return o.document("hotfix", false, hotfixedJSON(opts, h))
	case h.Recreated != nil:
		o.Result(h.Name)
	case opts.apply || len(h.Mounts) == 0:
	default:
		o.mountOptions(opts, h)
	}
	return nil
}

// hotfixNotes prints the result, and the next command.
func (o *output) hotfixNotes(opts HotfixOptions, h *hotfix.Hotfixed) {
	switch r := h.Recreated; {
	case r != nil:
		o.Note("recreated; start it with 'docker start %s'", h.Name)
		if r.Image != "" {
			o.Note("the changes of the old container are in the image %s", r.Image)
		}
		o.Note("to restore the old container: %s", strings.Join(r.Back, " && "))
		o.Note("when it works, remove the old container: %s", strings.Join(r.Clean, " && "))
	case len(h.Mounts) == 0:
		o.Note("%s: %s", h.Findings.Source, nothingToPatch(h.Findings, opts.read.Rewriter.Fixes))
	case opts.apply:
		o.Note("%s: nothing to do: it already has these mounts", h.Findings.Source)
	case h.Container && h.Running:
		o.Note("it is running: stop it, then run 'vfix hotfix --apply %s' to recreate it", h.Name)
	case h.Container:
		o.Note("to recreate it with these mounts (docker only): vfix hotfix --apply %s", h.Name)
	}
}

// mountOptions prints the options for each engine. They are quoted so that no name in them
// can write to the terminal.
func (o *output) mountOptions(opts HotfixOptions, h *hotfix.Hotfixed) {
	image := cmp.Or(h.Image, "IMAGE")
	for i, e := range opts.engines() {
		if len(opts.engines()) > 1 {
			if i > 0 {
				fmt.Fprintln(o.Stdout)
			}
			fmt.Fprintln(o.Stdout, "# "+engineComments[e])
		}
		fmt.Fprint(o.Stdout, mountopts.Say(e, image, h.Service, h.Mounts))
	}
}

// hotfixCopies prints the copies that exist, or that were removed.
func (o *output) hotfixCopies(opts HotfixOptions, all []hotfix.Copy) {
	t := &screen.Table{Head: []string{"SIZE", "DATE", "FILE", "USED BY"}}
	var sum int64
	for _, c := range all {
		sum += c.Size
		t.Add([]string{screen.Size(c.Size), c.Used.Format(time.DateTime), c.Path, screen.OrDash(strings.Join(c.By, ", "))})
	}
	if len(all) > 0 {
		t.Write(o.Stdout, o.Out)
	}
	what := "%s, %s, in %s"
	if opts.prune {
		what = "removed %s, %s, from %s"
	}
	o.Note(what, screen.Count(len(all), "file"), screen.Size(sum), opts.dir)
}

type jsonHotfixed struct {
	*hotfix.Hotfixed
	Options map[string]string `json:"options"`
	LeftOut []string          `json:"left_out"`
	Result  jsonSource        `json:"result"`
}

func hotfixedJSON(opts HotfixOptions, h *hotfix.Hotfixed) jsonHotfixed {
	out := jsonHotfixed{
		Hotfixed: h, Result: sourceJSON(h.Findings, h.Findings.Remaining()),
		Options: map[string]string{}, LeftOut: unsayable(opts, h),
	}
	if !opts.apply && len(h.Mounts) > 0 {
		for _, e := range opts.engines() {
			out.Options[string(e)] = mountopts.Say(e, h.Image, h.Service, h.Mounts)
		}
	}
	return out
}
