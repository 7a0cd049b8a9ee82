package source_test

import (
	"archive/tar"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/cli/cli/config"

	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/hinterr"
)

// engine is a daemon that has one image and one container.
type engine struct {
	api     string // the newest version that it knows
	name    string
	archive []byte
	loadErr string // its answer to a load
	seen    []string
}

// start makes the engine listen, as DOCKER_HOST.
func (e *engine) start(t *testing.T) {
	t.Helper()
	sock := filepath.Join(t.TempDir(), "s")
	l := must(net.Listen("unix", sock))(t)
	s := &http.Server{Handler: e}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	t.Setenv("DOCKER_HOST", "unix://"+sock)
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Api-Version", e.api)
	e.seen = append(e.seen, r.URL.RequestURI())
	_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case r.URL.Path == "/_ping":
	case path == "images/"+e.name+"/json":
		json.NewEncoder(w).Encode(map[string]any{"Id": "sha256:" + hex64, "Size": len(e.archive)})
	case path == "images/get":
		w.Write(e.archive)
	case path == "images/load":
		e.archive, _ = io.ReadAll(r.Body)
		tr := tar.NewReader(bytes.NewReader(e.archive))
		for h, err := tr.Next(); err == nil; h, err = tr.Next() {
			if h.Name == "manifest.json" {
				var m []struct{ RepoTags []string }
				json.NewDecoder(tr).Decode(&m)
				e.name = m[0].RepoTags[0]
			}
		}
		fmt.Fprintf(w, `{"stream":"x"}{"error":%q}`, e.loadErr)
	case path == "containers/web/json":
		fmt.Fprint(w, `{"Id":"c1","Name":"/web","Image":"sha256:aa","State":{"ExitCode":139,"FinishedAt":"2024-01-01T00:00:00Z"},"Config":{"Image":"redis"},"HostConfig":{"Memory":5}}`)
	case path == "info":
		fmt.Fprint(w, `{"KernelVersion":"6.1"}`)
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"message":"no such thing"}`)
	}
}

// An image is loaded and saved, in engines of different ages; what a load reports of an error counts.
func TestEngine(t *testing.T) {
	for _, api := range []string{"1.41", "1.55"} {
		noEngine(t)
		e := &engine{api: api}
		e.start(t)
		img := imageOf(t, "linux/amd64", tarOf(t, "a", "a"))
		if st := put(t, "x:1", source.Result{Image: img}, fast); st.Reference != "x:1" || st.Digest != "sha256:"+hex64 {
			t.Errorf("%s: got %+v", api, st)
		}
		src := open(t, "x:1", fast)
		if diffIDs(t, src.Image) != diffIDs(t, img) || src.Ref.Host == "" || src.Ref.Transport != source.Daemon {
			t.Errorf("%s: got %+v", api, src.Ref)
		}
		if all := strings.Join(e.seen, " "); strings.Contains(all, "platform=") != (api == "1.55") || !strings.Contains(all, "/v"+api+"/images") {
			t.Errorf("%s: got %s", api, all)
		}
		_, err := source.Open(t.Context(), "docker-daemon:none", fast)
		if !errors.Is(err, hinterr.ErrNotFound) || !strings.Contains(hinterr.HintOf(err), "docker://none") {
			t.Errorf("%s: no image: got %v", api, err)
		}
		e.loadErr = "disk is full"
		if _, err := source.Put(t.Context(), source.Ref{Name: "x:1"}, source.Result{Image: img}, fast); err == nil || !strings.HasSuffix(err.Error(), "x:1: disk is full") {
			t.Errorf("%s: a load that fails: got %v", api, err)
		}
	}
	noEngine(t)
	if source.Answers(t.Context(), fast) {
		t.Error("an engine that is not there answers")
	}
	if _, err := source.Open(t.Context(), "docker-daemon:x", fast); !errors.Is(err, hinterr.ErrNoDaemon) {
		t.Errorf("no engine: got %v", err)
	}
}

// The engine of a docker context is used, and no other.
func TestDockerContext(t *testing.T) {
	noEngine(t)
	(&engine{api: "1.55"}).start(t)
	dir := t.TempDir()
	config.SetDir(dir)
	meta := fmt.Sprintf(`{"Name":"away","Endpoints":{"docker":{"Host":%q}}}`, os.Getenv("DOCKER_HOST"))
	t.Setenv("DOCKER_HOST", "")
	at := filepath.Join(dir, "contexts/meta", fmt.Sprintf("%x", sha256.Sum256([]byte("away"))), "meta.json")
	if err := cmp.Or(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(meta), 0o600), os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"currentContext":"away"}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	if !source.Answers(t.Context(), fast) {
		t.Error("the engine of the current context does not answer")
	}
	t.Setenv("DOCKER_CONTEXT", "other")
	if _, err := source.Open(t.Context(), "docker-daemon:x", fast); !errors.Is(err, hinterr.ErrNoDaemon) || !strings.Contains(err.Error(), "no such context") {
		t.Errorf("another context: got %v", err)
	}
}

func TestContainer(t *testing.T) {
	noEngine(t)
	(&engine{api: "1.41"}).start(t)
	c, err := source.FindContainer(t.Context(), "web", fast)
	if err != nil || c.State.ExitCode != 139 || c.Finished.Year() != 2024 || c.Kernel != "6.1" || c.HostConfig.Memory != 5 || c.Config.Image != "redis" {
		t.Fatalf("got %+v, %v", c, err)
	}
	if _, err = source.FindContainer(t.Context(), "none", fast); !errors.Is(err, hinterr.ErrNotFound) {
		t.Errorf("no container: got %v", err)
	}
}
