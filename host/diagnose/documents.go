// The descriptions of containers by engines and Kubernetes, as JSON or YAML: docker inspect and podman inspect, docker and podman
// ps, docker events, crictl inspect, and pods. Sources: docker's API reference (ContainerInspect), podman's
// define.InspectContainerData, Kubernetes' API reference (PodStatus, ContainerStateTerminated), the CRI's
// ContainerStatus.

package diagnose

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"go.yaml.in/yaml/v3"

	"vfix.dev/vfix/internal/lazy"
)

// maxDocument is the longest JSON value or YAML document that is read, in bytes: a cluster's pods have hundreds of MB in
// one list, a namespace's some MB.
const maxDocument = 64 << 20

// document is one description and the containers in it.
type document struct {
	known bool // it is a description of containers
	ended []Exited
	total int // containers, also those that did not crash
}

func (d *document) add(e Exited) {
	d.known = true
	d.total++
	d.ended = append(d.ended, e)
}

// documents reads JSON values, as long as they describe containers. known is false where the first one does not: then
// nothing of r is lost, and rest reads all of it.
func documents(r *bufio.Reader) (d document, rest io.Reader, err error) {
	var read bytes.Buffer
	dec := json.NewDecoder(io.TeeReader(io.LimitReader(r, maxDocument), &read))
	for {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			if !d.known || err == io.EOF {
				return d, io.MultiReader(&read, r), nil
			}
			return d, nil, err
		}
		describe(gjson.ParseBytes(raw), &d)
		if !d.known {
			return d, io.MultiReader(&read, r), nil
		}
	}
}

// yamlStart begins a pod or a list of them, as kubectl writes it.
var yamlStart = lazy.Regexp(`(?m)^(?:---|apiVersion:|kind:)`)

// yamlDocuments reads YAML that kubectl wrote.
func yamlDocuments(r io.Reader) (d document, err error) {
	dec := yaml.NewDecoder(io.LimitReader(r, maxDocument))
	for {
		var v any
		if err := dec.Decode(&v); err == io.EOF {
			return d, nil
		} else if err != nil {
			return d, err
		}
		b, err := json.Marshal(v)
		if err != nil {
			return d, err
		}
		describe(gjson.ParseBytes(b), &d)
	}
}

// describe adds the containers that a JSON value describes.
func describe(v gjson.Result, d *document) {
	if v.IsArray() {
		for _, item := range v.Array() {
			describe(item, d)
		}
		return
	}
	has := func(path string) bool { return v.Get(path).Exists() }
	switch {
	case !v.IsObject():
	case v.Get("kind").String() == "Pod" || has("status.containerStatuses"):
		describePod(v, d)
	case strings.HasSuffix(v.Get("kind").String(), "List") && v.Get("items").IsArray():
		d.known = true
		describe(v.Get("items"), d)
	case has("State.ExitCode"):
		d.add(inspected(v))
	case has("status.exitCode") && has("status.metadata.name"):
		d.add(criInspected(v))
	case has("Actor.Attributes.exitCode"):
		d.add(eventOf(v))
	case has("ExitCode") && (has("Names") || has("Name")), has("Status") && has("Names"):
		if e, ok := listed(v); ok {
			d.add(e)
		} else {
			d.known, d.total = true, d.total+1
		}
	}
}

// at reads a time; zero for one that has not come, which engines write as the year 1.
func at(v gjson.Result) time.Time {
	if t, err := time.Parse(time.RFC3339Nano, v.String()); err == nil {
		if t.Year() == 1 {
			return time.Time{}
		}
		return t
	}
	if n := v.Int(); v.Type == gjson.Number && n > 0 {
		const nanoseconds = 1e15 // later than any second of this age
		if n > nanoseconds {
			return time.Unix(0, n)
		}
		return time.Unix(n, 0)
	}
	if ns, err := strconv.ParseInt(v.String(), 10, 64); err == nil && ns > 0 { // CRI's nanoseconds, as a string
		return time.Unix(0, ns)
	}
	return time.Time{}
}

// inspected is a container of docker inspect or podman inspect.
func inspected(v gjson.Result) Exited {
	name := strings.TrimPrefix(v.Get("Name").String(), "/")
	e := Exited{
		Label: "container " + name, Name: name, ID: v.Get("Id").String(), ImageID: v.Get("Image").String(),
		Image: v.Get("Config.Image").String(), Program: v.Get("Path").String(), Status: int(v.Get("State.ExitCode").Int()),
		To: at(v.Get("State.FinishedAt")), Error: v.Get("State.Error").String(), OutOfMemory: v.Get("State.OOMKilled").Bool(),
		Memory: v.Get("HostConfig.Memory").Int(), Running: v.Get("State.Running").Bool(),
	}
	if named := v.Get("ImageName").String(); named != "" {
		e.Image = named
	}
	for _, key := range []string{"Args", "Config.Env"} {
		for _, w := range v.Get(key).Array() {
			e.Words = append(e.Words, w.String())
		}
	}
	return e
}

// criInspected is a container of crictl inspect.
func criInspected(v gjson.Result) Exited {
	name := v.Get("status.metadata.name").String()
	e := Exited{
		Label: "container " + name, Name: name, ID: v.Get("status.id").String(), Image: v.Get("status.image.image").String(), ImageID: v.Get("status.imageRef").String(),
		Program: v.Get("info.config.command.0").String(), Status: int(v.Get("status.exitCode").Int()), To: at(v.Get("status.finishedAt")),
		Error: v.Get("status.message").String(), OutOfMemory: v.Get("status.reason").String() == oomKilled,
		Running: v.Get("status.state").String() == "CONTAINER_RUNNING",
	}
	if e.Program == "" {
		e.Program = v.Get("info.runtimeSpec.process.args.0").String()
	}
	return e
}

// eventOf is a line of docker events --format json.
func eventOf(v gjson.Result) Exited {
	a := v.Get("Actor.Attributes")
	status, _ := strconv.Atoi(a.Get("exitCode").String())
	return Exited{Label: "container " + a.Get("name").String(), Name: a.Get("name").String(), ID: v.Get("Actor.ID").String(), Image: a.Get("image").String(), Status: status, To: at(v.Get("timeNano"))}
}

// listed is a line of docker ps, podman ps or docker compose ps with --format json; false for one that has not ended.
func listed(v gjson.Result) (e Exited, ok bool) {
	name := v.Get("Names").String()
	if all := v.Get("Names").Array(); v.Get("Names").IsArray() && len(all) > 0 {
		name = all[0].String()
	}
	if name == "" {
		name = v.Get("Name").String()
	}
	e = Exited{Label: "container " + name, Name: name, ID: v.Get("ID").String(), Image: v.Get("Image").String(), ImageID: v.Get("ImageID").String(), NoTime: true}
	if e.ID == "" {
		e.ID = v.Get("Id").String()
	}
	if code := v.Get("ExitCode"); code.Exists() {
		e.Status = int(code.Int())
		if t := at(v.Get("ExitedAt")); !t.IsZero() {
			e.To, e.NoTime = t, false
		}
		state := v.Get("State").String()
		return e, state == "exited" || state == "dead" || v.Get("Exited").Bool()
	}
	e.Status, ok = exitedStatus(v.Get("Status").String())
	return e, ok
}

// exitedWords is how docker and podman list a container that ended: "Exited (139) 3 minutes ago".
var exitedWords = lazy.Regexp(`\bExited \((-?\d+)\)`)

func exitedStatus(text string) (int, bool) {
	m := exitedWords().FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	return n, err == nil
}

// The kubelet's words for a container that was killed for its memory, and for one that was not started.
const oomKilled = "OOMKilled"

// describePod adds the containers of a pod that ended or could not be started: how they are, else how they ended last.
func describePod(v gjson.Result, d *document) {
	d.known = true
	pod := v.Get("metadata.name").String()
	if ns := v.Get("metadata.namespace").String(); ns != "" {
		pod = ns + "/" + pod
	}
	programs := map[string]gjson.Result{}
	for _, list := range []string{"spec.initContainers", "spec.containers", "spec.ephemeralContainers"} {
		for _, c := range v.Get(list).Array() {
			programs[c.Get("name").String()] = c
		}
	}
	for _, list := range []string{"initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"} {
		for _, c := range v.Get("status." + list).Array() {
			d.total++
			name := c.Get("name").String()
			spec := programs[name]
			e := Exited{
				Label: fmt.Sprintf("pod %s, container %s", pod, name), Name: name, Pod: pod, Node: v.Get("spec.nodeName").String(),
				Image: spec.Get("image").String(), ImageID: c.Get("imageID").String(), Program: spec.Get("command.0").String(),
			}
			if e.Image == "" {
				e.Image = c.Get("image").String()
			}
			if waits := c.Get("state.waiting.message").String(); waits != "" {
				e.Error = waits
			}
			end := c.Get("state.terminated")
			if !end.Exists() || end.Get("exitCode").Int() == 0 {
				if last := c.Get("lastState.terminated"); last.Exists() {
					end = last
				}
			}
			if !end.Exists() {
				if e.Error != "" && startFailure(e.Error, Options{}) != nil {
					d.ended = append(d.ended, e)
				}
				continue
			}
			e.terminated(end)
			d.ended = append(d.ended, e)
		}
	}
}

// terminated takes a ContainerStateTerminated.
func (e *Exited) terminated(v gjson.Result) {
	e.Status, e.To, e.OutOfMemory = int(v.Get("exitCode").Int()), at(v.Get("finishedAt")), v.Get("reason").String() == oomKilled
	if s := int(v.Get("signal").Int()); e.Status == 0 && s > 0 {
		e.Status = died + s
	}
	_, e.ID, _ = strings.Cut(v.Get("containerID").String(), "://")
	e.Error = v.Get("message").String()
	e.NoTime = e.To.IsZero()
}

// podLine is a line of kubectl describe: its depth, key and value.
var podLine = lazy.Regexp(`^( *)([A-Za-z][^:]*):(?:\s+(.*))?$`)

// describedPods reads the text of kubectl describe pod.
func describedPods(r io.Reader) (d document, lines int, err error) {
	var pod, namespace, node string
	var e *Exited
	var last bool                        // what follows is of the last state
	var current, previous map[string]any // the two states
	flush := func() {
		if e == nil {
			return
		}
		d.total++
		state := current
		if state["exitCode"] == nil || state["exitCode"] == 0 {
			if previous["exitCode"] != nil {
				state = previous
			}
		}
		if m, ok := current["message"].(string); ok && state["exitCode"] == nil {
			e.Error = m
		}
		if state["exitCode"] != nil {
			b, _ := json.Marshal(state)
			id := e.ID
			e.terminated(gjson.ParseBytes(b))
			e.ID = id
			d.ended = append(d.ended, *e)
		} else if e.Error != "" && startFailure(e.Error, Options{}) != nil {
			d.ended = append(d.ended, *e)
		}
		e = nil
	}
	s := bufio.NewScanner(io.LimitReader(r, maxDocument))
	s.Buffer(nil, maxLogLine*4)
	containers := false
	for s.Scan() {
		lines++
		m := podLine().FindStringSubmatch(strings.TrimRight(s.Text(), "\r"))
		if m == nil {
			continue
		}
		depth, key, value := len(m[1]), m[2], strings.TrimSpace(m[3])
		state := func() map[string]any {
			if last {
				return previous
			}
			return current
		}
		switch {
		case depth == 0:
			flush()
			containers = key == "Containers" || key == "Init Containers" || key == "Ephemeral Containers"
			d.known = d.known || containers
			switch key {
			case "Name":
				pod, namespace, node = value, "", ""
			case "Namespace":
				namespace = value
			case "Node":
				node, _, _ = strings.Cut(value, "/")
			}
		case !containers:
		case depth == 2:
			flush()
			name := pod
			if namespace != "" {
				name = namespace + "/" + pod
			}
			e = &Exited{Label: fmt.Sprintf("pod %s, container %s", name, key), Name: key, Pod: name, Node: node}
			last, current, previous = false, map[string]any{}, map[string]any{}
		case e == nil:
		case depth == 4:
			last = key == "Last State"
			switch key {
			case "Container ID":
				_, e.ID, _ = strings.Cut(value, "://")
			case "Image":
				e.Image = value
			case "Image ID":
				e.ImageID = value
			}
		case depth == 6:
			switch key {
			case "Exit Code":
				if n, err := strconv.Atoi(value); err == nil {
					state()["exitCode"] = n
				}
			case "Signal":
				if n, err := strconv.Atoi(value); err == nil {
					state()["signal"] = n
				}
			case "Reason":
				state()["reason"] = value
			case "Message":
				state()["message"] = value
			case "Finished":
				if t, err := time.Parse(time.RFC1123Z, value); err == nil {
					state()["finishedAt"] = t.Format(time.RFC3339)
				}
			}
		}
	}
	flush()
	return d, lines, s.Err()
}

// tableHead are the headings of docker ps, podman ps and docker compose ps.
var tableHead = lazy.Regexp(`^(?:CONTAINER ID|NAME)\s+IMAGE\s+COMMAND\s.*\bSTATUS\b`)

// table reads docker ps -a, podman ps -a or docker compose ps -a: columns are where their headings are.
func table(r io.Reader) (d document, lines int, err error) {
	s := bufio.NewScanner(io.LimitReader(r, maxDocument))
	s.Buffer(nil, maxLogLine)
	var head string
	column := func(line, name string) string {
		i := strings.Index(head, name)
		if i < 0 || i >= len(line) {
			return ""
		}
		end := len(line)
		for j := i + len(name); j < len(head); j++ {
			if head[j] != ' ' {
				end = min(j, end)
				break
			}
		}
		return strings.TrimSpace(line[i:end])
	}
	for s.Scan() {
		line := strings.TrimRight(s.Text(), "\r")
		if lines++; tableHead().MatchString(line) {
			head, d.known = line, true
			continue
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		d.total++
		status, ok := exitedStatus(line)
		if !ok || status < notStarted[0] { // who ended by himself
			continue
		}
		name := column(line, "NAMES")
		if name == "" {
			name = column(line, "NAME")
		}
		d.ended = append(d.ended, Exited{Label: "container " + name, Name: name, ID: column(line, "CONTAINER ID"), Image: column(line, "IMAGE"), Status: status, NoTime: true})
	}
	return d, lines, s.Err()
}
