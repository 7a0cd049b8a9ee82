// Descriptions of containers in JSON: docker, podman and crictl inspect, pods of Kubernetes.

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
		// crictl inspect.
		ExitCode *int
		Image    struct{ Image string }
		Metadata struct{ Name string }
		State    string
	}
	Items []json.RawMessage
}

// state is the state of a container in docker or podman inspect.
type state struct {
	Running, Restarting, OOMKilled bool // one that waits to be started again is Running, too
	ExitCode                       int
}

// containerStatus is the status of a container of a pod.
type containerStatus struct {
	Name, Image      string
	State, LastState struct {
		Running    *struct{}
		Terminated *struct {
			ExitCode int
			Reason   string
		}
	}
}

// outOfMemory is another cause that engines and Kubernetes report.
const outOfMemory = "the kernel killed it because it used more memory than its limit"

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
	case d.Status.ExitCode != nil:
		s := &d.Status
		t.add(&Crash{Container: s.Metadata.Name, Image: s.Image.Image, Status: *s.ExitCode, running: s.State == "CONTAINER_RUNNING"})
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
	c := &Crash{
		Container: strings.TrimPrefix(d.Name, "/"), id: d.ID, Image: cmp.Or(d.ImageName, d.Config.Image), Path: d.Path,
		Status: s.ExitCode, running: s.Running && !s.Restarting,
	}
	if s.OOMKilled {
		c.cause = outOfMemory
	}
	for _, m := range d.Mounts {
		if to := path.Clean(m.Destination); path.Clean(m.Source) == to && slices.Contains(libraries, to) {
			c.mounts = append(c.mounts, to)
		}
	}
	slices.Sort(c.mounts)
	t.add(c)
}

func (t *textFacts) podOf(d *described) {
	t.place = max(t.place, cluster)
	pod := strings.TrimPrefix(d.Metadata.Namespace+"/"+d.Metadata.Name, "/")
	for _, s := range append(d.Status.InitContainerStatuses, d.Status.ContainerStatuses...) {
		c := &Crash{Container: s.Name, Pod: pod, Image: s.Image, running: s.State.Running != nil}
		ended := s.State.Terminated
		if ended == nil || ended.ExitCode == 0 && s.LastState.Terminated != nil {
			ended = s.LastState.Terminated
		}
		if ended != nil {
			c.Status, c.running = ended.ExitCode, false
			if ended.Reason == "OOMKilled" {
				c.cause = outOfMemory
			}
		} else if !c.running {
			continue
		}
		t.add(c)
	}
}
