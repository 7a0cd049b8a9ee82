package registry_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/tests/imagetest"
)

// The memory of a network does not grow with the number of images.
func TestNetworkForgets(t *testing.T) {
	net := registry.NewNetwork(registry.Options{})
	hash := func(n int) v1.Hash { return v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%064x", n)} }
	repo := func(n int) name.Repository {
		r, err := name.NewRepository(fmt.Sprintf("127.0.0.1:5000/team/app%d", n))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	const many = 200_000
	for n := range many {
		net.Learn(repo(n), hash(n))
		net.Learn(repo(n), hash(-1))
	}
	net.Answer(imagetest.RoundTrip(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
	}))
	for n := range 1500 {
		if err := net.Login(repo(n)); err != nil {
			t.Fatal(err)
		}
	}
	logins, homes, same := net.Remembered()
	if logins < 10 || logins > 1000 || homes > 50_000 || same > 64 {
		t.Errorf("%d logins, %d blobs, %d repositories with one blob", logins, homes, same)
	}
	for _, h := range []v1.Hash{hash(many - 1), hash(-1)} {
		if at, ok := net.Home(repo(many-1), h); !ok || at != repo(many-1) {
			t.Errorf("the last blob: got %v, %v", at, ok)
		}
	}
}
