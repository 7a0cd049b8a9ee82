// Descriptions of containers in JSON: docker and podman inspect, pods of Kubernetes.

package diagnose

import (
	"bytes"
	"cmp"
	"encoding/json"
	"path"
	"slices"
	"strings"
)

// described is the part of a description that is read; engines write other parts of it.
type described struct {
	// docker and podman inspect.
	ID, Name, Path string
	State          json.RawMessage
	ImageName      string // podman
	Config         struct {
		Image string
		Cmd   json.RawMessage
	}
	Mounts []struct{ Source, Destination string }
	// Kubernetes: a pod, or a list of them.
	Kind     string
	Metadata struct{ Name, Namespace string }
	Status   json.RawMessage
	Items    []json.RawMessage
}

// state is the state of a container in docker or podman inspect.
type state struct {
	Running, OOMKilled bool
	ExitCode           int
	Error              string
}

// podStatus is the status of a pod.
type podStatus struct {
	ContainerStatuses, InitContainerStatuses []struct {
		Name, Image      string
		State, LastState struct {
			Running    *struct{}
			Terminated *struct {
				ExitCode int
				Reason   string
				Message  string
			}
		}
	}
}

// oomKilled is the reason that Kubernetes gives for a container that used more memory than its limit.
const oomKilled = "OOMKilled"

// describe reads JSON values of a text; it reports whether it has a description.
func (t *textFacts) describe(text []byte) bool {
	known := false
	d := json.NewDecoder(bytes.NewReader(text))
	for {
		var v json.RawMessage
		if err := d.Decode(&v); err != nil { // the end, or a text that is not JSON
			return known
		}
		known = t.value(v, 0) || known
	}
}

// maxNested bounds how deep lists may be nested.
const maxNested = 4

// value reads one JSON value.
func (t *textFacts) value(v json.RawMessage, depth int) bool {
	if depth > maxNested {
		return false
	}
	if list := []json.RawMessage(nil); json.Unmarshal(v, &list) == nil {
		known := false
		for _, each := range list {
			known = t.value(each, depth+1) || known
		}
		return known
	}
	var d described
	if _, bad := json.Unmarshal(v, &d).(*json.SyntaxError); bad || !strings.HasPrefix(strings.TrimSpace(string(v)), "{") {
		return false
	}
	var s state
	isContainer := json.Unmarshal(d.State, &s) == nil && d.Path+d.Config.Image+d.ImageName != ""
	switch {
	case len(d.Items) > 0:
		known := false
		for _, each := range d.Items {
			known = t.value(each, depth+1) || known
		}
		return known
	case isContainer:
		t.container(&d, &s)
		return true
	case d.Kind == "Pod":
		t.podOf(&d)
		return true
	}
	return false
}

// libraries are the directories that an image's programs need from the image itself.
var libraries = []string{"/lib", "/lib64", "/usr", "/usr/lib", "/usr/lib64"}

func (t *textFacts) container(d *described, s *state) {
	t.place = max(t.place, engine)
	e := end{
		container: strings.TrimPrefix(d.Name, "/"), id: d.ID, image: cmp.Or(d.ImageName, d.Config.Image), path: d.Path,
		status: s.ExitCode, running: s.Running,
	}
	for _, m := range d.Mounts {
		if to := path.Clean(m.Destination); path.Clean(m.Source) == to && slices.Contains(libraries, to) {
			e.mounts = append(e.mounts, to)
		}
	}
	slices.Sort(e.mounts)
	e.cause = causeOf(s.OOMKilled, s.Error)
	t.ends = append(t.ends, e)
}

// causeOf returns another cause that an engine reports, "" for none.
func causeOf(outOfMemory bool, message string) string {
	if outOfMemory {
		return "the kernel killed it because it used more memory than its limit"
	}
	if message == "" {
		return ""
	}
	var t textFacts
	t.line(message)
	return t.cause
}

func (t *textFacts) podOf(d *described) {
	var s podStatus
	_ = json.Unmarshal(d.Status, &s) // of members of unexpected types, the others count
	t.place = max(t.place, cluster)
	pod := strings.TrimPrefix(d.Metadata.Namespace+"/"+d.Metadata.Name, "/")
	for _, c := range append(s.InitContainerStatuses, s.ContainerStatuses...) {
		e := end{container: c.Name, pod: pod, image: c.Image, running: c.State.Running != nil}
		ended := c.State.Terminated
		if ended == nil || ended.ExitCode == 0 && c.LastState.Terminated != nil {
			ended = c.LastState.Terminated
		}
		if ended != nil {
			e.status, e.running, e.cause = ended.ExitCode, false, causeOf(ended.Reason == oomKilled, ended.Message)
		} else if !e.running {
			continue
		}
		t.ends = append(t.ends, e)
	}
}
