package diagnose

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

// One kind of evidence, as a function of an exit status and the reason and message of the engine or kubelet.
type kindOfEvidence func(status int, reason, message string) string

const ended = "2026-11-21T21:18:04Z"

func inspectJSON(podman bool) kindOfEvidence {
	return func(status int, reason, message string) string {
		v := map[string]any{
			"Id": strings.Repeat("ab", 32), "Name": "/web", "Path": "/app/old", "Args": []string{"-x"}, "Image": "sha256:" + strings.Repeat("cd", 32),
			"State":      map[string]any{"Status": "exited", "Running": false, "OOMKilled": reason == oomKilled, "ExitCode": status, "Error": message, "FinishedAt": ended},
			"HostConfig": map[string]any{"Memory": 1 << 20}, "Config": map[string]any{"Image": "old:1", "Env": []string{"A=b"}},
		}
		if podman {
			v["Name"], v["ImageName"] = "web", "old:1"
		}
		b, _ := json.MarshalIndent([]any{v}, "", "    ")
		return string(b) + "\n"
	}
}

func terminated(status int, reason, message string) map[string]any {
	t := map[string]any{"exitCode": status, "reason": "Error", "finishedAt": ended, "containerID": "containerd://" + strings.Repeat("ab", 32)}
	if reason != "" {
		t["reason"] = reason
	}
	if message != "" {
		t["message"] = message
	}
	return t
}

func podJSON(status int, reason, message string) string {
	b, _ := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "web", "namespace": "prod"},
		"spec": map[string]any{"nodeName": "node-1", "containers": []any{map[string]any{"name": "app", "image": "old:1", "command": []string{"/app/old"}}}},
		"status": map[string]any{"containerStatuses": []any{map[string]any{
			"name": "app", "image": "docker.io/library/old:1", "state": map[string]any{"waiting": map[string]any{"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container=app"}},
			"lastState": map[string]any{"terminated": terminated(status, reason, message)},
		}}},
	})
	return string(b)
}

func podYAML(status int, reason, message string) string {
	text := fmt.Sprintf(`apiVersion: v1
items:
- apiVersion: v1
  kind: Pod
  metadata:
    name: web
    namespace: prod
  spec:
    nodeName: node-1
    containers:
    - name: app
      image: old:1
      command:
      - /app/old
  status:
    containerStatuses:
    - name: app
      image: docker.io/library/old:1
      state:
        terminated:
          exitCode: %d
          reason: %q
          message: %q
          finishedAt: "%s"
kind: List
`, status, reason, message, ended)
	return text
}

func describedPod(status int, reason, message string) string {
	if reason == "" {
		reason = "Error"
	}
	more := ""
	if message != "" {
		more = "      Message:      " + message + "\n"
	}
	return fmt.Sprintf(`Name:             web
Namespace:        prod
Priority:         0
Node:             node-1/10.0.0.7
Labels:           app=web
Status:           Running
Containers:
  app:
    Container ID:  containerd://%s
    Image:         old:1
    Image ID:      docker.io/library/old@sha256:%s
    Port:          80/TCP
    State:          Waiting
      Reason:       CrashLoopBackOff
    Last State:     Terminated
      Reason:       %s
%s      Exit Code:    %d
      Started:      Sat, 21 Nov 2026 21:18:03 +0000
      Finished:     Sat, 21 Nov 2026 21:18:04 +0000
    Ready:          False
    Restart Count:  5
Conditions:
  Type              Status
  Ready             False
Events:
  Type     Reason   Age   From     Message
  ----     ------   ----  ----     -------
  Warning  BackOff  2m    kubelet  Back-off restarting failed container app in pod web
`, strings.Repeat("ab", 32), strings.Repeat("cd", 32), reason, more, status)
}

func psTable(status int, _, _ string) string {
	return fmt.Sprintf(`CONTAINER ID   IMAGE     COMMAND        CREATED         STATUS                       PORTS     NAMES
abababababab   old:1     "/app/old -x"  2 minutes ago   %-28s           web
cdcdcdcdcdcd   nginx     "nginx"        3 hours ago     Up 3 hours                   80/tcp    front
efefefefefef   busybox   "true"         4 hours ago     Exited (0) 4 hours ago                 done
`, fmt.Sprintf("Exited (%d) 2 minutes ago", status))
}

func psJSON(status int, _, _ string) string {
	return fmt.Sprintf(`{"Command":"\"/app/old\"","ID":"abababababab","Image":"old:1","Names":"web","State":"exited","Status":"Exited (%d) 2 minutes ago"}
{"Command":"\"nginx\"","ID":"cdcdcdcdcdcd","Image":"nginx","Names":"front","State":"running","Status":"Up 3 hours"}
`, status)
}

func podmanPS(status int, _, _ string) string {
	return fmt.Sprintf(`[{"Id":"%s","Image":"old:1","ImageID":"cd","Names":["web"],"State":"exited","Exited":true,"ExitCode":%d,"ExitedAt":1795295884}]`, strings.Repeat("ab", 32), status)
}

func crictlInspect(status int, reason, message string) string {
	b, _ := json.Marshal(map[string]any{
		"status": map[string]any{"id": strings.Repeat("ab", 32), "metadata": map[string]any{"name": "web"}, "state": "CONTAINER_EXITED", "exitCode": status, "reason": reason, "message": message,
			"finishedAt": ended, "image": map[string]any{"image": "old:1"}},
		"info": map[string]any{"runtimeSpec": map[string]any{"process": map[string]any{"args": []string{"/app/old"}}}},
	})
	return string(b)
}

func composeLine(status int, _, _ string) string {
	return fmt.Sprintf("web exited with code %d\n", status)
}

func eventJSON(status int, _, _ string) string {
	return fmt.Sprintf(`{"status":"die","Type":"container","Action":"die","Actor":{"ID":"%s","Attributes":{"exitCode":"%d","image":"old:1","name":"web"}},"time":1795295884,"timeNano":1795295884000000000}`+"\n", strings.Repeat("ab", 32), status)
}

// descriptions are the kinds of evidence that have only an exit status and the engine's words.
var descriptions = map[string]struct {
	make kindOfEvidence
	// words says that it has the engine's words about the end.
	words bool
}{
	"docker inspect": {inspectJSON(false), true}, "podman inspect": {inspectJSON(true), true}, "pod JSON": {podJSON, true}, "pod YAML": {podYAML, true},
	"kubectl describe pod": {describedPod, true}, "crictl inspect": {crictlInspect, true},
	"docker ps -a": {psTable, false}, "docker ps, JSON": {psJSON, false}, "podman ps, JSON": {podmanPS, false}, "docker events": {eventJSON, false}, "compose": {composeLine, false},
}

// oldProgram is a static program that calls the page.
func oldProgram() *fstest.MapFile {
	b := library()
	le.PutUint16(b[16:], etExec)
	return &fstest.MapFile{Data: b, Mode: 0o755}
}

// resolver returns the scan of the image old:1, which has a program that calls the page, or none.
func resolver(affected, complete bool) func(*Exited, *Options) {
	return func(e *Exited, o *Options) {
		if e.Image == "" && e.Name == "web" { // as an engine knows it by its name
			e.Image = "old:1"
		}
		if e.Image != "old:1" {
			return
		}
		e.Scan = &Scanned{Affected: affected, Complete: complete}
		if e.Program == "" {
			e.Program = "/app/old"
		}
		o.RootName, o.IsImage = "old:1", true
		if affected {
			e.Scan.Sites, e.Scan.Files, o.Callers = 1, []string{"app/old"}, libcCalls
			o.Root = fstest.MapFS{"app/old": oldProgram()}
		}
	}
}

// noCommand has no engine.
func noCommand(string) bool { return false }

// From each kind of evidence: for a program that calls the page and ends by SIGSEGV, the page is the likely cause;
// for other ends it is not, and no rebuild is proposed.
func TestDescriptions(t *testing.T) {
	for name, kind := range descriptions {
		for cause, c := range map[string]struct {
			status          int
			reason, message string
			affected        bool
			words           bool // the evidence needs the engine's words
			kind            Kind
			says            string
		}{
			"vsyscall":                {139, "", "", true, false, Call, "probably crashed"},
			"null pointer":            {139, "", "", false, false, Unknown, "probably not the cause"},
			"abort":                   {134, "", "", true, false, Other, "not the cause"},
			"SIGKILL":                 {137, "", "", true, false, Other, "not the cause"},
			"OOM":                     {137, oomKilled, "", true, true, OutOfMemory, "more memory"},
			"jump beside: SIGBUS":     {135, "", "", true, false, Other, "not the cause"},
			"seccomp":                 {159, "", "", true, false, Unknown, "seccomp filter refused a system call"},
			"missing libc":            {127, "", `/app/old: error while loading shared libraries: libc.so.6: cannot open shared object file: No such file or directory`, true, true, MissingLibrary, "could not be started"},
			"missing loader or file":  {128, "StartError", `failed to create containerd task: exec: "/app/none": stat /app/none: no such file or directory: unknown`, true, true, Unknown, "unknown"},
			"its own exit status":     {1, "", "", true, false, Unknown, "exit status 1 may follow a crash"},
			"its own, and no call":    {1, "", "", false, false, None, "there was no crash"},
			"a fault that it caught":  {2, "", "panic: invalid memory address\n[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x45]", true, true, Unknown, "own report"},
			"a call that it caught":   {2, "", "unexpected fault address 0xffffffffff600400\n[signal 0xb code=0x1 addr=0xffffffffff600400 pc=0xffffffffff600400]", true, true, Call, "probably crashed"},
			"a fault, then an abort":  {134, "", "SIGSEGV (0xb) at pc=0x00007f3c1c00", true, true, Unknown, "own report"},
			"an exit status above it": {255, "", "", true, false, Other, "not the cause"},
		} {
			if c.words && !kind.words {
				continue
			}
			r, err := diagnosedText(t, kind.make(c.status, c.reason, c.message), Options{Resolve: resolver(c.affected, true), HasCommand: noCommand})
			if err != nil {
				t.Errorf("%s, %s: %v", name, cause, err)
				continue
			}
			if len(r.Crashes) != 1 {
				// A list omits containers that exited by themselves, and a line of compose has nothing of interest then.
				if (c.status == 1 || c.status == 255) && len(r.Crashes) == 0 {
					continue
				}
				t.Errorf("%s, %s: got %d crashes", name, cause, len(r.Crashes))
				continue
			}
			got := r.Crashes[0]
			if got.Kind != c.kind || !strings.Contains(got.Verdict, c.says) {
				t.Errorf("%s, %s: got %s (%s): %s", name, cause, got.Kind, got.Verdict, got.Meaning)
			}
			rebuild := got.Next != nil && strings.Contains(got.Next.Command, "rebuild") || strings.Contains(fixes(got), "rebuild")
			if rebuild != (c.kind == Call) || c.kind == Call && (got.Confidence != Likely || got.Next.Command != "vfix rebuild old:1") {
				t.Errorf("%s, %s: got %s, next %+v, fixes %s", name, cause, got.Confidence, got.Next, fixes(got))
			}
			if (got.Kind == Unknown) != (got.Confidence == NotKnown) || got.Kind == Unknown && got.Next == nil {
				t.Errorf("%s, %s: got confidence %s, next %+v", name, cause, got.Confidence, got.Next)
			}
		}
	}
}

// Parts that were not examined attribute, suggest and rule out nothing.
func TestDescriptionsNotExamined(t *testing.T) {
	for name, kind := range descriptions {
		for why, resolve := range map[string]func(*Exited, *Options){
			"no image": nil, "in part": resolver(false, false),
		} {
			r, err := diagnosedText(t, kind.make(139, "", ""), Options{Resolve: resolve, HasCommand: noCommand})
			if err != nil || len(r.Crashes) != 1 {
				t.Errorf("%s: got %+v, %v", name, r, err)
				continue
			}
			if c := r.Crashes[0]; c.Kind != Unknown || c.Confidence != NotKnown || len(c.Fixes) > 0 || strings.Contains(c.Verdict, "probably not") {
				t.Errorf("%s, %s: got %s: %s, %s", name, why, c.Kind, c.Verdict, fixes(c))
			}
		}
	}
}

// The contents of the descriptions of a container.
func TestDescribed(t *testing.T) {
	for name, want := range map[string]Exited{
		"docker inspect":       {Label: "container web", Name: "web", Image: "old:1", Program: "/app/old", ID: strings.Repeat("ab", 32)},
		"podman inspect":       {Label: "container web", Name: "web", Image: "old:1", Program: "/app/old", ID: strings.Repeat("ab", 32)},
		"pod JSON":             {Label: "pod prod/web, container app", Name: "app", Image: "old:1", Program: "/app/old", Pod: "prod/web", Node: "node-1", ID: strings.Repeat("ab", 32)},
		"kubectl describe pod": {Label: "pod prod/web, container app", Name: "app", Image: "old:1", Pod: "prod/web", Node: "node-1", ID: strings.Repeat("ab", 32)},
		"crictl inspect":       {Label: "container web", Name: "web", Image: "old:1", Program: "/app/old", ID: strings.Repeat("ab", 32)},
		"docker ps -a":         {Label: "container web", Name: "web", Image: "old:1", ID: "abababababab", NoTime: true},
		"docker events":        {Label: "container web", Name: "web", Image: "old:1", ID: strings.Repeat("ab", 32)},
		"compose":              {Label: "container web", Name: "web", NoTime: true},
	} {
		var got Exited
		o := Options{Resolve: func(e *Exited, _ *Options) { got = *e }}
		if _, err := diagnosedText(t, descriptions[name].make(139, "", ""), o); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.Label != want.Label || got.Name != want.Name || got.Image != want.Image || got.Program != want.Program || got.ID != want.ID || got.Pod != want.Pod ||
			got.Node != want.Node || got.NoTime != want.NoTime || got.To.IsZero() != want.NoTime || got.Status != 139 || !got.Elsewhere {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}

// A description without the end of a container rules nothing out, and no command is proposed for an image without
// a registry.
func TestDescriptionsThatLackTheEnd(t *testing.T) {
	pod := func(status string) string {
		return `{"kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"app","image":"old:1"}]},"status":{"containerStatuses":[{"name":"app",` + status + `}]}}`
	}
	inspect := func(state, more string) string {
		return `[{"Id":"ab","Name":"/web","Path":"/app/old","Image":"sha256:cd","State":{` + state + `,"Error":"","FinishedAt":"2026-11-21T21:18:04Z"},"Config":{"Image":"old:1"}` + more + `}]`
	}
	crictl := func(state string, status int, reason string) string {
		return fmt.Sprintf(`{"status":{"id":"ab","metadata":{"name":"web"},"state":%q,"exitCode":%d,"reason":%q,"finishedAt":"2026-11-21T21:18:04Z","image":{"image":"old:1"}}}`, state, status, reason)
	}
	segv := `{"terminated":{"exitCode":139,"reason":"Error","finishedAt":"2026-11-21T21:18:04Z"}}`
	for name, c := range map[string]struct{ text, says string }{
		"a pod that was started again":             {pod(`"restartCount":3,"state":{"running":{}}`), "restarts: 3"},
		"a pod that waits":                         {pod(`"restartCount":3,"state":{"waiting":{"reason":"CrashLoopBackOff"}}`), "restarts: 3"},
		"a pod that waits, without a count":        {pod(`"state":{"waiting":{"reason":"CrashLoopBackOff"}}`), "restarts: 1"},
		"kubectl describe":                         {"Name: web\nContainers:\n  app:\n    Image:  old:1\n    State:  Running\n    Restart Count:  5\n", "restarts: 5"},
		"a signal, then an exit":                   {pod(`"state":{"terminated":{"exitCode":1}},"lastState":` + segv), "SIGSEGV"},
		"the kubelet's own status":                 {pod(`"state":{"terminated":{"exitCode":137,"reason":"ContainerStatusUnknown"}}`), "did not see the end"},
		"a container that was started again":       {inspect(`"Running":true,"ExitCode":0`, `,"RestartCount":17`), "restarts: 17"},
		"a container that is being started":        {inspect(`"Running":true,"Restarting":true,"ExitCode":139`, ""), "SIGSEGV"},
		"a container that is listed as such":       {"CONTAINER ID   IMAGE     COMMAND   CREATED      STATUS                         PORTS     NAMES\nabababababab   old:1     \"x\"       2 days ago   Restarting (139) 3 seconds ago           web\n", "SIGSEGV"},
		"a list whose columns are not aligned":     {"CONTAINER ID    IMAGE    COMMAND    CREATED    STATUS    PORTS    NAMES\nab  old:1  \"x\"  2 hours ago  Exited (139) 2 hours ago      web\n", "SIGSEGV"},
		"a health check":                           {inspect(`"Running":true,"ExitCode":0,"Health":{"Status":"unhealthy","Log":[{"ExitCode":139},{"ExitCode":0}]}`, ""), "SIGSEGV"},
		"a message of several lines":               {describedPod(139, "", "starting\n    config: x\n      level: 1\nName: y\n  z:"), "SIGSEGV"},
		"a message that has an end of its own":     {describedPod(139, "", "starting\n      Exit Code:    0\n    config: x"), "no exit status"},
		"an end without a status":                  {pod(`"state":{"terminated":{"reason":"Error"}}`), "no exit status"},
		"a command that looks like an end":         {"CONTAINER ID   IMAGE   COMMAND   CREATED   STATUS   PORTS   NAMES\nab  old:1  \"echo Exited (0) x\"  2 hours ago  Exited (139) 2 hours ago      web\n", "SIGSEGV"},
		"a state that CRI does not know":           {crictl("CONTAINER_UNKNOWN", 0, ""), "does not know"},
		"such a state and a status":                {crictl("CONTAINER_UNKNOWN", 255, "Unknown"), "does not know"},
		"an end that CRI did not see":              {crictl("CONTAINER_EXITED", 255, "Unknown"), "does not know"},
		"a pod's end that CRI did not see":         {pod(`"state":{"terminated":{"exitCode":255,"reason":"Unknown"}}`), "its own"},
		"a pod of a node that is lost":             {`{"kind":"Pod","metadata":{"name":"web"},"status":{"phase":"Unknown","containerStatuses":[{"name":"app","state":{"running":{}}}]}}`, "does not know"},
		"a state that podman does not know":        {`[{"Id":"ab","Image":"old:1","Names":["web"],"State":"unknown","ExitCode":0,"ExitedAt":1795295884}]`, "does not know"},
		"a container that docker could not remove": {"CONTAINER ID   IMAGE   COMMAND   CREATED       STATUS    PORTS     NAMES\n0123456789ab   old:1   \"x\"       2 hours ago   Dead                web\n", "does not say"},
		"one that it is removing":                  {`{"ID":"ab","Names":"web","Image":"old:1","Status":"Removal In Progress"}`, "does not say"},
		"a container that podman stops":            {`[{"Id":"ab","Name":"web","ImageName":"old:1","State":{"Status":"stopping","Running":false,"ExitCode":0}}]`, "does not know"},
		"an event of podman":                       {`{"ContainerExitCode":139,"ID":"ab","Image":"old:1","Name":"web","Status":"died","Time":"2026-11-21T21:18:04Z","Type":"container"}`, "SIGSEGV"},
		"a returncode of Python":                   {inspect(`"Running":false,"ExitCode":245`, ""), "SIGSEGV"},
		"an event in YAML":                         {"apiVersion: v1\nkind: Event\nmessage: container exited with code 139\n", "SIGSEGV"},
		"an event that is described":               {"Name:  web.1\nMessage:  container exited with code 139\n", "SIGSEGV"},
		"an event in a list of others":             {`{"kind":"List","items":[{"kind":"Event","message":"container exited with code 139"}]}`, "SIGSEGV"},
		"a status of a batch system":               {"Job terminated with exit status 267\n", "SIGSEGV"},
	} {
		r, err := diagnosedText(t, c.text, Options{HasCommand: noCommand})
		if err != nil || len(r.Crashes) != 1 || r.Crashes[0].Kind != Unknown || !strings.Contains(r.Crashes[0].Verdict+r.Crashes[0].Meaning, c.says) {
			t.Errorf("%s: got %+v, %v", name, r, err)
			for _, c := range r.Crashes {
				t.Logf("%+v", c)
			}
		}
	}
	// A container that has not ended did not exit by itself.
	if r, err := diagnosedText(t, crictl("CONTAINER_CREATED", 0, ""), Options{}); err != nil || len(r.Crashes) > 0 || r.Containers != 1 {
		t.Errorf("created: got %+v, %v", r, err)
	}
	for _, none := range []string{
		`{"kind":"List","items":[{"kind":"Deployment"}]}`, `{"kind":"List","items":[]}`, "[]", "{}", "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n",
		"apiVersion: v1\nkind: [\n", "Name:   web\nNamespace: x\nReplicas: 3\n", "---\na: b\n", "x: 1\n", "kind: List\napiVersion: v1\nitems: []\n",
	} {
		if r, err := diagnosedText(t, none, Options{}); err != nil || r.Understood || len(r.Crashes) > 0 {
			t.Errorf("%s: got %+v, %v", none, r, err)
		}
	}
	for _, none := range []string{`{"kind":"Pod","metadata":{"name":"web"},"status":{"phase":"Pending"}}`, "CONTAINER ID   IMAGE   COMMAND   CREATED   STATUS   PORTS   NAMES\n"} {
		if _, err := diagnosedText(t, none, Options{}); err == nil {
			t.Errorf("%s: no error", none)
		}
	}
	for image, want := range map[string]string{"old:1": "docker://old:1", "localhost/old:1": "dmesg", "sha256:" + strings.Repeat("ab", 32): "dmesg", "0123456789ab": "dmesg"} {
		r, err := diagnosedText(t, strings.ReplaceAll(inspect(`"Running":false,"ExitCode":139`, ""), "old:1", image), Options{HasCommand: noCommand})
		if err != nil || len(r.Crashes) != 1 || r.Crashes[0].Next == nil || !strings.Contains(r.Crashes[0].Next.Command, want) {
			t.Errorf("%s: got %+v, %v", image, r.Crashes[0].Next, err)
		}
	}
}

// For lists without an exit status, the hint is a command with one.
func TestNoDescription(t *testing.T) {
	for text, says := range map[string]string{
		"NAME   READY   STATUS             RESTARTS   AGE\nweb    0/1     CrashLoopBackOff   5          3m\n": "kubectl get pods -o json",
		"CONTAINER           IMAGE      CREATED      STATE     NAME\nab   old   2 m   Exited   web\n":         "crictl inspect",
	} {
		_, err := diagnosedText(t, text, Options{})
		hint, _ := err.(interface{ Hint() string })
		if err == nil || hint == nil || !strings.Contains(hint.Hint(), says) {
			t.Errorf("%s: got %v", text, err)
		}
	}
	// A log that begins like JSON is a log.
	for _, log := range []string{"[  12.345678] " + attempted + "\n", "{\"msg\":\"x\"}\n" + `{"MESSAGE":"` + attempted + `"}` + "\n", "[1.5] " + attempted} {
		r, err := diagnosedText(t, log, Options{})
		if err != nil || len(r.Crashes) != 1 || r.Crashes[0].Kind != Call {
			t.Errorf("%s: got %+v, %v", log, r, err)
		}
	}
}

const (
	pageFrame  = "#0  0xffffffffff600400 n/a (n/a + 0x0)"
	otherFrame = "#0  0x000055d0c0de1139 crash (prog + 0x1139)"
)

func coredumpInfo(signal, frame string) string {
	return `           PID: 106 (redis-server)
           UID: 0 (root)
        Signal: ` + signal + `
     Timestamp: Sat 2026-11-21 21:18:04 UTC (2min ago)
  Command Line: redis-server /etc/redis.conf
    Executable: /usr/local/bin/redis-server
       Boot ID: 0123456789abcdef0123456789abcdef
       Storage: none
       Message: Process 106 (redis-server) of user 0 dumped core.

                Stack trace of thread 106:
                ` + frame + `
                #1  0x00007f22da81919d time (libc-2.13.so + 0x9f19d)
                #2  0x0000000000401000 main (redis-server + 0x1000)
`
}

func journal(kernel, signal, frame string) string {
	text := ""
	if kernel != "" {
		text += "Nov 21 21:18:04 host kernel: " + kernel + "\n"
	}
	if frame != "" {
		text += "Nov 21 21:18:04 host systemd-coredump[108]: [🡕] Process 106 (redis-server) of user 0 dumped core.\n\n                                            Stack trace of thread 106:\n" +
			"                                            " + frame + "\n"
	}
	return text + "Nov 21 21:18:04 host systemd[1]: redis.service: Main process exited, " + signal + "\nNov 21 21:18:04 host systemd[1]: redis.service: Failed with result 'core-dump'.\n"
}

// Journals, backtraces and words about an end.
func TestReports(t *testing.T) {
	const none = "redis-server[106] vsyscall attempted with vsyscall=none ip:ffffffffff600400 cs:33 sp:7ffeaaaa0000 ax:0 si:0 di:0"
	for name, c := range map[string]struct {
		text       string
		kind       Kind
		confidence Confidence
		rebuild    bool
	}{
		"coredumpctl, the page":                {coredumpInfo("11 (SEGV)", pageFrame), Call, Likely, true},
		"coredumpctl, a null pointer":          {coredumpInfo("11 (SEGV)", otherFrame), Other, Certain, false},
		"coredumpctl, abort":                   {coredumpInfo("6 (ABRT)", "#0  0x00007f5 raise (libc.so.6 + 0x1)"), Other, Certain, false},
		"coredumpctl, beside the functions":    {coredumpInfo("11 (SEGV)", "#0  0xffffffffff600123 n/a (n/a + 0x0)"), Misaligned, Certain, false},
		"coredumpctl, seccomp in the page":     {coredumpInfo("31 (SYS)", pageFrame), Filtered, Certain, true},
		"coredumpctl, seccomp":                 {coredumpInfo("31 (SYS)", otherFrame), Other, Certain, false},
		"coredumpctl, no trace":                {coredumpInfo("11 (SEGV)", ""), Unknown, NotKnown, false},
		"gdb, the page":                        {"Program terminated with signal SIGSEGV, Segmentation fault.\n#0  0xffffffffff600400 in ?? ()\n#1  0x00007f22da81919d in time () from /lib/libc.so.6\n", Call, Likely, true},
		"gdb, another":                         {"Program terminated with signal SIGSEGV, Segmentation fault.\n#0  0x0000000000401136 in main () at x.c:3\n", Other, Certain, false},
		"journal, kernel":                      {journal(none, "code=dumped, status=11/SEGV", ""), Call, Certain, true},
		"journal, kernel and coredump":         {journal(none, "code=dumped, status=11/SEGV", pageFrame), Call, Certain, true},
		"journal, coredump":                    {journal("", "code=dumped, status=11/SEGV", pageFrame), Call, Likely, true},
		"journal, null pointer":                {journal("redis-server[106]: segfault at 0 ip 000055d0c0de1139 sp 00007ffe12340000 error 4 in prog[55d0c0de1000+1000]", "code=dumped, status=11/SEGV", ""), Other, Certain, false},
		"journal, stack overflow":              {journal("redis-server[106]: segfault at 7ffe1233fff8 ip 000055d0c0de1139 sp 00007ffe12340000 error 6 in prog[55d0c0de1000+1000]", "code=dumped, status=11/SEGV", ""), Other, Certain, false},
		"journal, beside the functions":        {journal("redis-server[106] misaligned vsyscall (exploit attempt or buggy program) -- look up the vsyscall kernel parameter if you need a workaround ip:ffffffffff600123 cs:33 sp:7ff0 ax:0 si:0 di:0", "code=dumped, status=11/SEGV", ""), Misaligned, Certain, false},
		"journal, seccomp":                     {journal(`audit: type=1326 audit(1.2:3): pid=106 comm="redis-server" exe="/x" sig=31 arch=c000003e syscall=59 compat=0 ip=0x7f1200 code=0x80000000`, "code=dumped, status=31/SYS", ""), Other, Certain, false},
		"journal, abort":                       {journal("", "code=dumped, status=6/ABRT", ""), Other, Certain, false},
		"journal, killed":                      {journal("", "code=killed, status=9/KILL", ""), Other, Certain, false},
		"journal, OOM of the machine":          {"Nov 21 21:18:04 host kernel: Out of memory: Killed process 106 (redis-server) total-vm:1kB\n", Other, Certain, false},
		"dmesg, arm64":                         {"[ 1.0] old[5]: unhandled exception: DABT (lower EL), ESR 0x92000006, level 2 translation fault, in old[aaaa0000+1000]\n", Other, Certain, false},
		"journal, OOM":                         {"Nov 21 21:18:04 host kernel: Memory cgroup out of memory: Killed process 106 (redis-server) total-vm:1kB\nNov 21 21:18:04 host systemd[1]: redis.service: Main process exited, code=killed, status=9/KILL\n", OutOfMemory, Certain, false},
		"journal, the end alone":               {journal("", "code=dumped, status=11/SEGV", ""), Unknown, NotKnown, false},
		"journal, JSON":                        {`{"MESSAGE":"redis.service: Main process exited, code=dumped, status=11/SEGV","_COMM":"systemd"}` + "\n" + `{"MESSAGE":"` + none + `","_TRANSPORT":"kernel"}` + "\n", Call, Certain, true},
		"journal, JSON, coredump":              {`{"MESSAGE":"Process 106 (redis-server) of user 0 dumped core.\n\nStack trace of thread 106:\n` + pageFrame + `\n","COREDUMP_SIGNAL":"11"}` + "\n", Call, Likely, true},
		"exited with code 139":                 {"exited with code 139", Unknown, NotKnown, false},
		"Exited (139)":                         {"Exited (139) 3 minutes ago", Unknown, NotKnown, false},
		"a shell":                              {"./run.sh: line 3:  1234 Segmentation fault      (core dumped) redis-server --port 0", Unknown, NotKnown, false},
		"a shell, aborted":                     {"./run.sh: line 3:  1234 Aborted                 (core dumped) redis-server --port 0", Other, Certain, false},
		"a build":                              {"The command '/bin/sh -c yum install' returned a non-zero code: 139", Unknown, NotKnown, false},
		"buildkit":                             {`ERROR: process "/bin/sh -c yum install" did not complete successfully: exit code: 139`, Unknown, NotKnown, false},
		"Go":                                   {"run: signal: segmentation fault (core dumped)", Unknown, NotKnown, false},
		"Python":                               {"subprocess.CalledProcessError: Command '['x']' died with <Signals.SIGSEGV: 11>.", Unknown, NotKnown, false},
		"an exit status, in words":             {"job failed: exit status 139", Unknown, NotKnown, false},
		"bad system call, in words":            {"sh: line 1: 77 Bad system call         redis-server", Unknown, NotKnown, false},
		"missing libc":                         {"/app/old: error while loading shared libraries: libc.so.6: cannot open shared object file: No such file or directory", MissingLibrary, Certain, false},
		"a libc that is too old":               {"/app/new: /lib64/libc.so.6: version `GLIBC_2.14' not found (required by /app/new)", MissingLibrary, Certain, false},
		"musl":                                 {"Error loading shared library libc.so.6: No such file or directory (needed by /app/old)", MissingLibrary, Certain, false},
		"container die":                        {"2026-11-21T21:18:04.5Z container die abab (exitCode=139, image=old:1, name=web)", Unknown, NotKnown, false},
		"audit, an end of which no more is":    {`type=ANOM_ABEND msg=audit(1.2:3): pid=7 comm="x" exe="/x" sig=11 res=1`, Unknown, NotKnown, false},
		"audit, an end that is not the page's": {`type=ANOM_ABEND msg=audit(1.2:3): pid=7 comm="x" exe="/x" sig=6 res=1`, Other, Certain, false},
	} {
		r, err := diagnosedText(t, c.text, Options{HasCommand: noCommand, RootName: "old:1", IsImage: true, Callers: libcCalls})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(r.Crashes) != 1 {
			t.Errorf("%s: got %d crashes", name, len(r.Crashes))
			for _, c := range r.Crashes {
				t.Logf("%s %s: %q", c.Kind, c.Meaning, c.Lines)
			}
			continue
		}
		got := r.Crashes[0]
		if got.Kind != c.kind || got.Confidence != c.confidence {
			t.Errorf("%s: got %s, %s (%s)", name, got.Kind, got.Confidence, got.Meaning)
		}
		if rebuild := strings.Contains(fixes(got), "rebuild"); rebuild != c.rebuild || c.rebuild && got.Next == nil || got.Kind == Unknown && got.Next == nil {
			t.Errorf("%s: got fixes %q, next %+v", name, fixes(got), got.Next)
		}
	}
	// Reports that are not crashes.
	for _, calm := range []string{"web exited with code 0", "web exited with code 1", "job failed: exit status 2", "#0  0x000055d0c0de1139 crash (prog + 0x1139)", "systemd[1]: x.service: Main process exited, code=exited, status=1/FAILURE"} {
		if r, err := diagnosedText(t, calm, Options{}); err != nil || len(r.Crashes) > 0 {
			t.Errorf("%s: got %+v, %v", calm, r, err)
		}
	}
}

func FuzzDescribed(f *testing.F) {
	for _, kind := range descriptions {
		f.Add(kind.make(139, "", "exec /x: exec format error"))
	}
	f.Add(coredumpInfo("11 (SEGV)", pageFrame))
	f.Fuzz(func(_ *testing.T, text string) {
		_, _ = Text("x", strings.NewReader(text), Options{Resolve: resolver(true, true), HasCommand: noCommand})
	})
}
