// Descriptions of containers in JSON: docker and podman inspect, docker ps --format json, crictl inspect, pods of
// Kubernetes.

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
	HostConfig struct{ Binds []string }
	Mounts     []struct{ Type, Source, Destination string }
	// docker ps and docker compose ps.
	Image, Names, Status json.RawMessage
	ExitCode             *int
	// Kubernetes: a pod, or a list of them. crictl inspect has a status of its own.
	Kind     string
	Metadata struct{ Name, Namespace string }
	Items    []json.RawMessage
	// MESSAGE is an entry of a systemd journal.
	Message json.RawMessage `json:"MESSAGE"`
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
	// crictl inspect.
	Image    struct{ Image, UserSpecifiedImage string }
	ExitCode *int
	Reason   string
	State    string
	Metadata struct{ Name string }
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
	case d.Message != nil:
		t.kernelLog = true
		t.line(text(d.Message))
		return true
	case len(d.Items) > 0:
		known := false
		for _, each := range d.Items {
			known = t.value(each, depth+1) || known
		}
		return known
	case isContainer:
		t.container(&d, &s)
		return true
	case d.Kind == "Pod" || d.Kind == "" && len(d.Status) > 0 && d.Status[0] == '{':
		return t.podOf(&d)
	case d.Image != nil && (d.Status != nil || d.ExitCode != nil): // docker ps, docker compose ps
		t.listed(&d)
		return true
	}
	return false
}

// text returns a JSON string's text, and any other value as it is.
func text(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil {
		return s
	}
	return string(v)
}

// libraries are the directories that an image's programs need from the image itself.
var libraries = []string{"/lib", "/lib64", "/usr", "/usr/lib", "/usr/lib64"}

func (t *textFacts) container(d *described, s *state) {
	t.place = max(t.place, engine)
	e := end{
		container: strings.TrimPrefix(d.Name, "/"), id: d.ID, image: cmp.Or(d.ImageName, d.Config.Image), path: d.Path,
		status: s.ExitCode, running: s.Running, failed: s.Error,
	}
	if name := text(d.Image); e.image == "" && !strings.HasPrefix(name, "sha256:") { // nerdctl
		e.image = name
	}
	for _, b := range d.HostConfig.Binds {
		if from, to, ok := strings.Cut(b, ":"); ok {
			to, _, _ = strings.Cut(to, ":")
			e.mount(from, to)
		}
	}
	for _, m := range d.Mounts {
		e.mount(m.Source, m.Destination)
	}
	e.cause = causeOf(s.OOMKilled, s.Error)
	t.ends = append(t.ends, e)
}

// mount records a mount of the host's libraries.
func (e *end) mount(from, to string) {
	to = path.Clean(to)
	if path.Clean(from) == to && slices.Contains(libraries, to) && !slices.Contains(e.mounts, to) {
		e.mounts = append(e.mounts, to)
		slices.Sort(e.mounts)
	}
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

// podOf reads a pod, or the status of a container in crictl inspect.
func (t *textFacts) podOf(d *described) bool {
	var s podStatus
	_ = json.Unmarshal(d.Status, &s) // of members of unexpected types, the others count
	t.place = max(t.place, cluster)
	pod := strings.TrimPrefix(d.Metadata.Namespace+"/"+d.Metadata.Name, "/")
	if s.ExitCode != nil && s.State != "" {
		image := cmp.Or(s.Image.UserSpecifiedImage, s.Image.Image)
		t.ends = append(t.ends, end{container: s.Metadata.Name, image: image, status: *s.ExitCode, running: s.State == "CONTAINER_RUNNING", cause: causeOf(s.Reason == oomKilled, "")})
		return true
	}
	all := append(s.InitContainerStatuses, s.ContainerStatuses...)
	for _, c := range all {
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
	return len(all) > 0 || d.Kind == "Pod"
}

// listed reads an object of docker ps --format json, podman ps or docker compose ps.
func (t *textFacts) listed(d *described) {
	t.place = max(t.place, engine)
	t.kernelLog = true
	e := end{image: text(d.Image), container: text(d.Names), id: d.ID}
	var names []string
	if json.Unmarshal(d.Names, &names) == nil && len(names) > 0 { // podman
		e.container = strings.TrimPrefix(names[0], "/")
	}
	e.container = cmp.Or(e.container, d.Name)
	if d.ExitCode != nil {
		e.status = *d.ExitCode
	}
	if strings.Contains(text(d.Status), "Exited (139)") {
		e.status = segvStatus
	}
	if e.status == segvStatus {
		t.ends = append(t.ends, e)
	}
}
