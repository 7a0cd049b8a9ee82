package hotfix_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"vfix.dev/vfix/tests/imagetest"
)

// fakeEngine is a docker engine (API 1.41) with containers: those requests that hotfix
// makes change it as they change a real one. It can refuse the n-th request, or do as it was
// queried and lose the answer. The tests in tests/ show real engines.
type fakeEngine struct {
	mu         sync.Mutex
	sock       string
	names      map[string]string         // container IDs by name
	containers map[string]map[string]any // what inspect says, by ID
	images     map[string]string         // IDs by name
	tar        []byte                    // the file system of every container
	made       map[string]string         // images of containers that were created, by ID
	changes    string                    // the answer to changes
	info       string
	components string

	requests []string
	created  []byte
	connects []string
	failAt   int  // this request goes wrong, the first being 1; 0: none
	lost     bool // it is carried out, and the answer gets lost
	killed   bool // vfix is killed then: nothing that it does afterwards gets here
}

// now is which containers the engine has, by name.
func (e *fakeEngine) now() map[string]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.names)
}

const stoppedID = "11110000111100001111000011110000111100001111000011110000aaaabbbb"

func newEngine(t *testing.T, members ...imagetest.TestMember) *fakeEngine {
	t.Helper()
	dir := imagetest.Must[string](t)(os.MkdirTemp("", "e")) // short, as in newDaemon
	t.Cleanup(func() { os.RemoveAll(dir) })
	e := &fakeEngine{
		sock: filepath.Join(dir, "e.sock"), names: map[string]string{"db": stoppedID},
		containers: map[string]map[string]any{}, made: map[string]string{}, images: map[string]string{"redis:2.8": "sha256:" + strings.Repeat("5", 64)},
		changes: "null", info: `{"DockerRootDir": "/var/lib/docker", "SecurityOptions": ["name=seccomp,profile=default"]}`,
		components: `[{"Name": "Engine"}]`, tar: imagetest.TarMembers(t, members...),
	}
	var c map[string]any
	dec := json.NewDecoder(strings.NewReader(oldContainer))
	dec.UseNumber()
	if err := dec.Decode(&c); err != nil {
		t.Fatal(err)
	}
	e.containers[stoppedID] = c
	l := imagetest.Must[net.Listener](t)(net.Listen("unix", e.sock))
	s := &http.Server{Handler: e}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	t.Setenv("DOCKER_HOST", "unix://"+e.sock)
	return e
}

// oldContainer is what docker 20.10 says of a stopped container, cut down; the members
// named Unheard are not this client's.
const oldContainer = `{
 "Id": "` + stoppedID + `", "Name": "/db", "Image": "sha256:5555555555555555555555555555555555555555555555555555555555555555",
 "State": {"Status": "exited", "Running": false},
 "Mounts": [
  {"Type": "volume", "Name": "named", "Source": "/v/named", "Destination": "/named", "RW": true},
  {"Type": "volume", "Name": "0123abcd", "Source": "/v/0123abcd", "Destination": "/data", "RW": true},
  {"Type": "volume", "Name": "89abcdef", "Source": "/v/89abcdef", "Destination": "/more", "RW": false},
  {"Type": "bind", "Source": "/srv", "Destination": "/usr/lib/plugins", "RW": true}],
 "Config": {"Image": "redis:2.8", "Hostname": "111100001111", "Env": ["A=<b>&c"], "Labels": {"k": "v"}, "Unheard": {"of": [1, 2.50]},
  "Volumes": {"/data": {}}, "ExposedPorts": {"6379/tcp": {}}, "Cmd": ["redis-server"], "Entrypoint": null, "StopTimeout": 7},
 "HostConfig": {"NetworkMode": "front", "Binds": ["named:/named:rw", "/srv:/usr/lib/plugins"], "Links": ["/other:/db/alias"],
  "Mounts": [{"Type": "volume", "Target": "/more", "ReadOnly": true, "VolumeOptions": {"Labels": {"x": "y"}}}],
  "UnheardOf": 18446744073709551615, "Tmpfs": {"/run": ""}, "RestartPolicy": {"Name": "always", "MaximumRetryCount": 0}},
 "NetworkSettings": {"Networks": {
  "back": {"NetworkID": "bbbb", "Aliases": ["db1", "111100001111"], "IPAMConfig": null, "IPAddress": "", "MacAddress": ""},
  "front": {"NetworkID": "ffff", "Aliases": ["111100001111"], "IPAMConfig": {"IPv4Address": "10.0.0.7"}, "EndpointID": "", "Gateway": "", "DriverOpts": null, "Links": ["other:alias"]}}}
}`

func (e *fakeEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w.Header().Set("API-Version", "1.41")
	_, path, _ := strings.Cut(r.URL.Path, "/v1.41")
	if r.URL.Path == "/_ping" {
		return
	}
	body, _ := io.ReadAll(r.Body)
	e.requests = append(e.requests, r.Method+" "+path)
	if e.killed && e.failAt != 0 && len(e.requests) > e.failAt {
		panic(http.ErrAbortHandler)
	}
	if e.failAt == len(e.requests) {
		if e.lost {
			e.answer(&nowhere{h: http.Header{}}, r, path, body)
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusInternalServerError)
		io.WriteString(w, `{"message": "refused"}`)
		return
	}
	e.answer(w, r, path, body)
}

// nowhere is a connection that breaks before the answer.
type nowhere struct {
	bytes.Buffer
	h http.Header
}

func (n *nowhere) Header() http.Header { return n.h }
func (n *nowhere) WriteHeader(int)     {}

func (e *fakeEngine) answer(w http.ResponseWriter, r *http.Request, path string, body []byte) {
	q := r.URL.Query()
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	missing := func() {
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"message": "no such thing"}`)
	}
	id := ""
	if len(parts) > 1 {
		id = parts[1]
		if known, ok := e.names[id]; ok {
			id = known
		}
	}
	switch c := e.containers[id]; {
	case path == "/version":
		fmt.Fprintf(w, `{"ApiVersion": "1.41", "Components": %s}`, e.components)
	case path == "/info":
		io.WriteString(w, e.info)
	case path == "/containers/json":
		var all []map[string]any
		for name, id := range e.names {
			one := map[string]any{"Id": id, "Names": []string{"/" + name}, "State": "exited", "Image": e.made[id]}
			if s, ok := e.containers[id]["State"].(map[string]any); ok {
				one["State"] = s["Status"]
			}
			all = append(all, one)
		}
		json.NewEncoder(w).Encode(all)
	case path == "/containers/create":
		e.created = body
		var of struct{ Image string }
		_ = json.Unmarshal(body, &of)
		id := strings.Repeat(fmt.Sprint(1+len(e.containers)), 64)
		e.made[id] = of.Image
		e.names[q.Get("name")] = id
		e.containers[id] = map[string]any{"Id": id, "Name": "/" + q.Get("name"), "State": map[string]any{"Status": "created"}}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"Id": %q, "Warnings": []}`, id)
	case path == "/commit":
		e.images[q.Get("repo")+":"+q.Get("tag")] = "sha256:" + strings.Repeat("c", 64)
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, `{"Id": "sha256:cccc"}`)
	case parts[0] == "networks":
		e.connects = append(e.connects, path+" "+string(body))
	case parts[0] == "images" && r.Method == http.MethodDelete:
		name := strings.TrimPrefix(path, "/images/")
		if e.images["docker.io/library/"+name] == "" {
			missing()
			return
		}
		delete(e.images, "docker.io/library/"+name)
		io.WriteString(w, "[]")
	case parts[0] == "images":
		name := strings.TrimSuffix(strings.TrimPrefix(path, "/images/"), "/json")
		if e.images[name] == "" {
			missing()
			return
		}
		fmt.Fprintf(w, `{"Id": %q}`, e.images[name])
	case c == nil:
		missing()
	case r.Method == http.MethodDelete:
		delete(e.names, strings.TrimPrefix(c["Name"].(string), "/"))
		delete(e.containers, id)
		w.WriteHeader(http.StatusNoContent)
	case parts[2] == "json":
		json.NewEncoder(w).Encode(c)
	case parts[2] == "export":
		w.Write(e.tar)
	case parts[2] == "changes":
		io.WriteString(w, e.changes)
	case parts[2] == "rename":
		if _, taken := e.names[q.Get("name")]; taken {
			w.WriteHeader(http.StatusConflict)
			io.WriteString(w, `{"message": "the name is in use"}`)
			return
		}
		delete(e.names, strings.TrimPrefix(c["Name"].(string), "/"))
		e.names[q.Get("name")] = id
		c["Name"] = "/" + q.Get("name")
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusTeapot)
	}
}

// state is what a user would see: containers by name, and images.
func (e *fakeEngine) state() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return fmt.Sprint(e.names, e.images, len(e.containers))
}

// typed does what a command of docker does.
func (e *fakeEngine) typed(t *testing.T, command string) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	switch f := strings.Fields(command); {
	case len(f) == 3 && f[1] == "rm" && e.names[f[2]] != "":
		delete(e.containers, e.names[f[2]])
		delete(e.names, f[2])
	case len(f) == 3 && f[1] == "rmi" && e.images["docker.io/library/"+f[2]] != "":
		delete(e.images, "docker.io/library/"+f[2])
	case len(f) == 4 && f[1] == "rename" && e.names[f[2]] != "" && e.names[f[3]] == "":
		e.names[f[3]] = e.names[f[2]]
		delete(e.names, f[2])
	default:
		t.Errorf("cannot be done: %q", command)
	}
}
