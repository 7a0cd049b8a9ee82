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
	State          *state
	ImageName      string // podman
	Config         struct{ Image string }
	Mounts         []struct{ Source, Destination string }
	// Kubernetes: a pod, or a list of them.
	Kind     string
	Metadata struct{ Name, Namespace string }
	Status   struct {
		ContainerStatuses, InitContainerStatuses []containerStatus
	}
	Items []json.RawMessage
}

// state is the state of a container in docker or podman inspect.
type state struct {
	Running, Restarting, OOMKilled bool // one that waits to be started again is Running, too
	ExitCode                       int
	Error                          string
}

// containerStatus is the status of a container of a pod.
type containerStatus struct {
	Name, Image      string
	State, LastState struct {
		Running    *struct{}
		Terminated *struct {
			ExitCode        int
			Reason, Message string
		}
	}
}

// oomKilled is the reason that Kubernetes gives for a container that used more memory than its limit.
const oomKilled = "OOMKilled"

// describe reads the JSON values of a text; it reports whether it has a description.
func (t *textFacts) describe(text []byte) (known bool) {
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var v json.RawMessage
		if err := d.Decode(&v); err != nil { // the end, or a text that is not JSON
			return known
		}
		known = t.value(v) || known
	}
}

// value reads a description, or a list of them.
func (t *textFacts) value(v json.RawMessage) (known bool) {
	var d described
	if json.Unmarshal(v, &d.Items) != nil {
		_ = json.Unmarshal(v, &d) // of members of unexpected types, the others count
	}
	switch {
	case d.State != nil && d.Path+d.Config.Image+d.ImageName != "":
		t.container(&d)
		return true
	case d.Kind == "Pod":
		t.podOf(&d)
		return true
	}
	for _, each := range d.Items {
		known = t.value(each) || known
	}
	return known
}

// libraries are the directories that an image's programs need from the image itself.
var libraries = []string{"/lib", "/lib64", "/usr", "/usr/lib", "/usr/lib64"}

func (t *textFacts) container(d *described) {
	s := d.State
	t.place = max(t.place, engine)
	e := end{
		container: strings.TrimPrefix(d.Name, "/"), id: d.ID, image: cmp.Or(d.ImageName, d.Config.Image), path: d.Path,
		status: s.ExitCode, running: s.Running && !s.Restarting,
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
	t.place = max(t.place, cluster)
	pod := strings.TrimPrefix(d.Metadata.Namespace+"/"+d.Metadata.Name, "/")
	for _, c := range append(d.Status.InitContainerStatuses, d.Status.ContainerStatuses...) {
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
