// A fake docker daemon.

package imagetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// fakeDaemon answers as docker 20.10 does (API 1.41) to what vfix asks. The real one takes
// part in tests/; here are the answers that it never gives.
type fakeDaemon struct {
	Sock string
	Mu   sync.Mutex
	Has  map[string][]byte // archives by name
	ID   v1.Hash
	Rest []string // diff IDs
	// CutSave ends the answer to a save early; loadSays is the answer to a load; loadReads
	// is how much of it is read first, < 0 all.
	CutSave   bool
	LoadSays  string
	LoadReads int64
	Loaded    []byte
}

func NewDaemon(t *testing.T, img v1.Image, names ...string) *fakeDaemon {
	t.Helper()
	dir := Must[string](t)(os.MkdirTemp("", "d")) // short: a socket's path has 108 bytes at most
	t.Cleanup(func() { os.RemoveAll(dir) })
	d := &fakeDaemon{Sock: filepath.Join(dir, "d.sock"), Has: map[string][]byte{}, LoadReads: -1}
	for _, n := range names {
		d.Has[n] = DockerSave(t, img)
	}
	d.ID = Must[v1.Hash](t)(img.ConfigName())
	for _, h := range Must[*v1.ConfigFile](t)(img.ConfigFile()).RootFS.DiffIDs {
		d.Rest = append(d.Rest, h.String())
	}
	l := Must[net.Listener](t)(net.Listen("unix", d.Sock))
	s := &http.Server{Handler: d}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return d
}

// Set changes how the daemon answers.
func (d *fakeDaemon) Set(change func()) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	change()
}

func (d *fakeDaemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("API-Version", "1.41")
	_, path, _ := strings.Cut(r.URL.Path, "/v1.41")
	d.Mu.Lock()
	defer d.Mu.Unlock()
	switch {
	case r.URL.Path == "/_ping":
	case path == "/images/get":
		data := d.Has["tiny:1"]
		if d.CutSave {
			w.Header().Set("Content-Length", fmt.Sprint(len(data)))
			data = data[:len(data)/2]
		}
		w.Write(data)
	case path == "/images/load":
		if d.LoadReads >= 0 {
			r.Body = io.NopCloser(io.LimitReader(r.Body, d.LoadReads))
		}
		d.Loaded, _ = io.ReadAll(r.Body)
		if d.LoadSays == "" {
			d.Has["tiny:1-vfix"] = d.Loaded
			d.LoadSays = `{"stream":"Loaded image: tiny:1-vfix\n"}`
		}
		io.WriteString(w, d.LoadSays)
	case strings.HasPrefix(path, "/images/") && strings.HasSuffix(path, "/json"):
		name := strings.TrimSuffix(strings.TrimPrefix(path, "/images/"), "/json")
		if d.Has[name] == nil {
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, `{"message":"No such image"}`)
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"Id": d.ID.String(), "RootFS": map[string]any{"Type": "layers", "Layers": d.Rest},
			"RepoDigests": []string{"other@sha256:" + strings.Repeat("1", 64), "docker.io/library/tiny@sha256:" + strings.Repeat("2", 64)}})
	default:
		w.WriteHeader(http.StatusTeapot)
	}
}
