// The descriptions of containers by engines and Kubernetes, as JSON, YAML or tables: docker and podman inspect, ps
// and events, crictl inspect, and pods. Sources: docker's API reference (ContainerInspect), podman's
// define.InspectContainerData, Kubernetes' API reference (PodStatus, ContainerStateTerminated), the CRI's
// ContainerStatus.

package diagnose

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"go.yaml.in/yaml/v3"

	"vfix.dev/vfix/internal/lazy"
)

// maxDocument is the longest JSON value or YAML document that is read, in bytes: the list of a namespace's pods
// has a few MB, a cluster's more.
const maxDocument = 64 << 20

// document is one description and the containers in it.
type document struct {
	known bool // it is a description of containers
	ended []Exited
	total int // containers, including those that did not crash
}

// add counts a container, and keeps one that has ended.
func (d *document) add(e Exited, ended bool) {
	d.known = true
	d.total++
	if ended {
		d.ended = append(d.ended, e)
	}
}

// documents reads JSON values as long as they describe containers. If the first one does not, known is false, and
// rest reads all of r from the start.
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

// yamlStart matches the start of a pod or a list of pods, as kubectl writes it.
var yamlStart = lazy.Regexp(`(?m)^(?:---|apiVersion:|kind:)`)

// yamlDocuments reads the YAML of kubectl.
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
		describe(v.Get("items"), d)
	default:
		for _, f := range forms {
			if has(f.mark) && has(f.name) {
				e, ended := f.read(v)
				d.add(e, ended)
				describeHealth(v, e, d)
				return
			}
		}
	}
}

// form has the paths of a description's values, for gjson; of several paths the first that exists counts.
type form struct {
	mark, name, id, image, imageID, program, status, to, message, oom, memory, state, words string
}

// forms are docker inspect and podman inspect; crictl inspect; docker's and podman's events; and the lists of
// docker ps, podman ps and docker compose ps, with a status as a number or in words.
var forms = []form{
	{mark: "State.ExitCode", name: "Name", id: "Id", image: "[ImageName,Config.Image].0", imageID: "Image", program: "Path", status: "State.ExitCode", to: "State.FinishedAt",
		message: "State.Error", oom: "State.OOMKilled", memory: "HostConfig.Memory", state: "[State.Status,State.Running].0", words: "[Args,Config.Env].@flatten"},
	{mark: "status.exitCode", name: "status.metadata.name", id: "status.id", image: "status.image.image", imageID: "status.imageRef",
		program: "[info.config.command.0,info.runtimeSpec.process.args.0].0", status: "status.exitCode", to: "status.finishedAt", message: "status.message", oom: "status.reason", state: "status.state"},
	{mark: "Actor.Attributes.exitCode", name: "Actor.Attributes.name", id: "Actor.ID", image: "Actor.Attributes.image", status: "Actor.Attributes.exitCode", to: "timeNano"},
	{mark: "ContainerExitCode", name: "Name", id: "ID", image: "Image", status: "ContainerExitCode", to: "Time"},
	{mark: "ExitCode", name: "[Names.0,Names,Name].0", id: "[ID,Id].0", image: "Image", imageID: "ImageID", status: "ExitCode", to: "ExitedAt", state: "State"},
	{mark: "Status", name: "[Names,Name].0", id: "ID", image: "Image", status: "Status"},
}

// describeHealth adds the last health check, if a signal ended it.
func describeHealth(v gjson.Result, e Exited, d *document) {
	checks := v.Get("State.[Health.Log,Healthcheck.Log].@flatten").Array()
	for _, check := range slices.Backward(checks) {
		one := Exited{Label: "a health check of " + e.Label, Image: e.Image, ImageID: e.ImageID, Status: int(check.Get("ExitCode").Int()), To: at(check.Get("End"))}
		if one.NoTime = one.To.IsZero(); one.Signal() != 0 {
			d.ended = append(d.ended, one)
			return
		}
	}
}

// going are the states of a container that has not ended.
var going = []string{"true", "CONTAINER_RUNNING", "CONTAINER_CREATED", "running", "paused", "restarting", "created", "configured", "initialized"}

// exited are the states of a container whose exit status is its program's; "" is for lists without a state.
var exited = []string{"", "false", "exited", "stopped", "removing", "CONTAINER_EXITED"}

// read reads a description; ended is false for a container that has not ended. A restarted container has the
// status of its previous end.
func (f *form) read(v gjson.Result) (e Exited, ended bool) {
	text := func(path string) string { return v.Get(path).String() }
	name := strings.TrimPrefix(text(f.name), "/")
	e = Exited{
		Label: "container " + name, Name: name, ID: text(f.id), Image: text(f.image), ImageID: text(f.imageID), Program: text(f.program),
		To: at(v.Get(f.to)), NoTime: !v.Get(f.to).Exists(), Error: text(f.message), OutOfMemory: v.Get(f.oom).Bool() || text(f.oom) == oomKilled, Memory: v.Get(f.memory).Int(),
	}
	for _, w := range v.Get(f.words).Array() {
		e.Words = append(e.Words, w.String())
	}
	status := text(f.status)
	if f.mark == "Status" {
		if e.Status, ended = exitedStatus(status); !ended && !alive().MatchString(status) {
			e.Lost = "its status does not say how it ended"
		}
		return e, ended || e.Lost != ""
	}
	e.Status, _ = strconv.Atoi(status)
	ended = e.Status != 0 || !slices.Contains(going, text(f.state))
	if !ended {
		e.lost(v.Get("RestartCount").Int())
	}
	if state := text(f.state); e.Status == 0 && ended && f.state != "" && !slices.Contains(exited, state) {
		e.Lost = "its state, " + state + ", does not say how it ended"
	}
	if slices.Contains(unseen, text(f.state)) || slices.Contains(unseen, text(f.oom)) {
		e.Lost = "the runtime does not know its state"
	}
	return e, ended || e.Lost != ""
}

// lost records that a restarted container's previous end is not known.
func (e *Exited) lost(restarts int64) {
	if restarts > 0 {
		e.Lost = fmt.Sprintf("it was started again (restarts: %d), and the description does not have the exit status", restarts)
	}
}

// at reads a time; zero if it is not set, which engines write as the year 1.
func at(v gjson.Result) time.Time {
	for _, layout := range []string{time.RFC3339Nano, time.RFC1123Z} { // the second is kubectl describe's
		if t, err := time.Parse(layout, v.String()); err == nil {
			if t.Year() == 1 {
				return time.Time{}
			}
			return t
		}
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

// exitedWords is how docker and podman list a container that ended: "Exited (139) 3 minutes ago". In a table, the
// words of its command precede it.
var exitedWords = lazy.Regexp(`.*\b(?:Exited|Restarting) \((-?\d+)\)`)

func exitedStatus(text string) (int, bool) {
	m := exitedWords().FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	return n, err == nil
}

// alive is how docker and podman list a container that has not ended: in a table after another column.
var alive = lazy.Regexp(`(?:^|  )(?i:Up|Created|Initialized|Configured|Paused|Running|Starting)\b`)

// The kubelet's reasons for a container that exceeded its memory limit, and for one that crashes again and again.
const oomKilled, crashLoop = "OOMKilled", "CrashLoopBackOff"

// unseen are the states and reasons of a container whose end the engine did not see, so its exit status is not its
// program's: the CRI's, podman's, containerd's (cri/store/container, unknownExitReason) and the kubelet's.
var unseen = []string{"CONTAINER_UNKNOWN", "unknown", "stopping", "Unknown", "ContainerStatusUnknown"}

// describePod adds the containers of a pod that ended or could not be started: by their current state, else by
// their last one. A signal takes precedence over an exit.
func describePod(v gjson.Result, d *document) {
	d.known = true
	pod := v.Get("metadata.name").String()
	if ns := v.Get("metadata.namespace").String(); ns != "" {
		pod = ns + "/" + pod
	}
	programs := map[string]gjson.Result{}
	for _, c := range v.Get("spec.[initContainers,containers,ephemeralContainers].@flatten").Array() {
		programs[c.Get("name").String()] = c
	}
	for _, c := range v.Get("status.[initContainerStatuses,containerStatuses,ephemeralContainerStatuses].@flatten").Array() {
		name := c.Get("name").String()
		spec := programs[name]
		e := Exited{
			Label: fmt.Sprintf("pod %s, container %s", pod, name), Name: name, Pod: pod, Node: v.Get("spec.nodeName").String(),
			Image: spec.Get("image").String(), ImageID: c.Get("imageID").String(), Program: spec.Get("command.0").String(), Error: c.Get("state.waiting.message").String(),
		}
		e.Image = cmp.Or(e.Image, c.Get("image").String())
		end := c.Get("state.terminated")
		if last := c.Get("lastState.terminated"); last.Exists() && (end.Get("exitCode").Int() == 0 || bySignal(last) && !bySignal(end)) {
			end = last
		}
		if end.Exists() && !end.Get("exitCode").Exists() {
			e.Lost = "the description has no exit status"
		} else if !end.Exists() {
			restarts := c.Get("restartCount").Int()
			if c.Get("state.waiting.reason").String() == crashLoop {
				restarts = max(restarts, 1)
			}
			e.lost(restarts)
			if slices.Contains(unseen, v.Get("status.phase").String()) {
				e.Lost = "Kubernetes does not know its state"
			}
		}
		if end.Exists() {
			id := end.Get("containerID")
			if !id.Exists() && !c.Get("state.running").Exists() {
				id = c.Get("containerID")
			}
			_, e.ID, _ = strings.Cut(id.String(), "://")
			e.terminated(end)
		}
		d.add(e, end.Exists() || e.Lost != "" || e.Error != "" && startFailure(e.Error, Options{}) != nil)
	}
}

// bySignal reports whether a ContainerStateTerminated has a signal.
func bySignal(v gjson.Result) bool {
	e := Exited{}
	e.terminated(v)
	return e.Signal() != 0
}

func (e *Exited) terminated(v gjson.Result) {
	e.Status, e.To, e.OutOfMemory = int(v.Get("exitCode").Int()), at(v.Get("finishedAt")), v.Get("reason").String() == oomKilled
	if s := int(v.Get("signal").Int()); e.Status == 0 && s > 0 {
		e.Status = died + s
	}
	e.Error = v.Get("message").String()
	if slices.Contains(unseen, v.Get("reason").String()) {
		e.Lost = "the kubelet or the runtime did not see the end, and the exit status is its own"
	}
	e.NoTime = e.To.IsZero()
}

// podLine is a line of kubectl describe: its depth, key and value.
var podLine = lazy.Regexp(`^( *)([A-Za-z][^:]*):(?:\s+(.*))?$`)

// podMessageEnd matches the line after the message of a state, which a program wrote and which may have several
// lines.
var podMessageEnd = lazy.Regexp(`^(?:      Exit Code|    Last State|    Ready):`)

// podKeys maps the keys of kubectl describe to the members of a pod's status.
var podKeys = map[string]string{
	"Image": "image", "Image ID": "imageID", "Container ID": "containerID", "State": "state", "Last State": "lastState",
	"Restart Count": "restartCount", "Exit Code": "exitCode", "Signal": "signal", "Reason": "reason", "Message": "message", "Finished": "finishedAt",
}

// describedPods reads the text of kubectl describe pod, which it converts to the JSON of each pod.
func describedPods(r io.Reader) (d document, lines int, err error) {
	type object = map[string]any
	meta, at := object{}, object(nil) // the pod's metadata; the object that the current lines belong to: a container, or one of its states
	var node string
	var all []object // the containers
	var container object
	flush := func() {
		b, _ := json.Marshal(object{"metadata": meta, "spec": object{"nodeName": node}, "status": object{"containerStatuses": all}})
		if all != nil {
			describePod(gjson.ParseBytes(b), &d)
		}
		all, meta, node = nil, object{}, ""
	}
	s := bufio.NewScanner(io.LimitReader(r, maxDocument))
	s.Buffer(nil, maxLogLine*4)
	containers, message := false, false
	for s.Scan() {
		lines++
		if message = message && !podMessageEnd().MatchString(s.Text()); message {
			if was := fmt.Sprint(at["message"]); len(was) < maxLogLine {
				at["message"] = was + "\n" + s.Text()
			}
			continue
		}
		m := podLine().FindStringSubmatch(strings.TrimRight(s.Text(), "\r"))
		if m == nil {
			continue
		}
		depth, key, value := len(m[1]), m[2], strings.TrimSpace(m[3])
		switch {
		case depth == 0:
			containers = strings.HasSuffix(key, "Containers") // also Init and Ephemeral containers
			d.known = d.known || containers
			switch key {
			case "Name":
				flush()
				meta["name"] = value
			case "Namespace":
				meta["namespace"] = value
			case "Node":
				node, _, _ = strings.Cut(value, "/")
			}
		case !containers:
		case depth == 2:
			container = object{"name": key}
			all, at = append(all, container), nil
		case container == nil:
		case depth == 4:
			if at = nil; podKeys[key] == "state" || podKeys[key] == "lastState" {
				at = object{}
				container[podKeys[key]] = object{strings.ToLower(value): at}
			} else if podKeys[key] != "" {
				container[podKeys[key]] = value
			}
		case depth == 6 && at != nil && podKeys[key] != "":
			at[podKeys[key]], message = value, key == "Message"
		case depth == 6 && key == "Exit Code": // the supposed state was a part of a message
			container["state"], container["lastState"] = object{"terminated": object{}}, nil
		}
	}
	flush()
	return d, lines, s.Err()
}

// tableHead are the headings of docker ps, podman ps and docker compose ps.
var tableHead = lazy.Regexp(`^(?:CONTAINER ID|NAME)\s+IMAGE\s+COMMAND\s.*\bSTATUS\b`)

// table reads the output of docker ps -a, podman ps -a or docker compose ps -a, by the columns of their headings.
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
		row := map[string]string{"Status": line, "Name": "?"}
		for key, heading := range map[string]string{"Names": "NAMES", "Name": "NAME", "ID": "CONTAINER ID", "Image": "IMAGE"} {
			if text := column(line, heading); text != "" {
				row[key] = text
			}
		}
		b, _ := json.Marshal(row)
		describe(gjson.ParseBytes(b), &d)
	}
	return d, lines, s.Err()
}
