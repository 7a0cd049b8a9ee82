// A registry on loopback whose answers a test may spoil.

package imagetest

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/registry"

	"vfix.dev/vfix/images/source"
)

// FakeRegistry is a registry on loopback whose answers a test may spoil.
type FakeRegistry struct {
	Host string
	// spoil, if not nil, sees each request first and says whether it answered.
	spoil func(http.ResponseWriter, *http.Request) bool
	Mu    sync.Mutex
	Seen  []string // METHOD PATH?QUERY
}

func NewRegistry(t *testing.T) *FakeRegistry {
	t.Helper()
	return NewRegistryWith(t, false)
}

// NewRegistryWith makes one that has the referrers API, or has it not.
func NewRegistryWith(t *testing.T, referrers bool) *FakeRegistry {
	t.Helper()
	f := &FakeRegistry{}
	h := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)), ggcr.WithReferrersSupport(referrers))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.Mu.Lock()
		f.Seen = append(f.Seen, r.Method+" "+r.URL.RequestURI())
		spoil := f.spoil
		f.Mu.Unlock()
		if spoil == nil || !spoil(w, r) {
			h.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	f.Host = strings.TrimPrefix(s.URL, "http://")
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	for _, dir := range []string{"XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"} {
		t.Setenv(dir, t.TempDir())
	}
	return f
}

// Fast is the usual number of tries without the usual pauses.
var Fast = source.Options{Pause: time.Millisecond}

func (f *FakeRegistry) Count(has string) int {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	n := 0
	for _, s := range f.Seen {
		if strings.Contains(s, has) {
			n++
		}
	}
	return n
}

func (f *FakeRegistry) Reset(spoil func(http.ResponseWriter, *http.Request) bool) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.Seen, f.spoil = nil, spoil
}
