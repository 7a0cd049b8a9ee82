package nri

import (
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
)

// The engines' reports about a container: CRI-O's annotations are from version 1.36.
func TestSubject(t *testing.T) {
	const name, digest, id = "docker.io/library/redis:2.8.22", "docker.io/library/redis@sha256:1ddb", "ba3e17161e49"
	crioSays := func(imageName, image string) map[string]string {
		return map[string]string{
			"io.kubernetes.cri-o.ImageName": imageName, "io.kubernetes.cri-o.Image": image, "io.kubernetes.cri-o.ImageRef": id,
			"io.kubernetes.cri-o.Metadata": `{"name":"redis"}`, "io.kubernetes.cri.image-name": "a-pods-own:1",
		}
	}
	for label, tc := range map[string]struct {
		engine string
		c      *api.Container
		images string
	}{
		"containerd": {"containerd", &api.Container{Name: "redis", Annotations: map[string]string{
			"io.kubernetes.cri.image-name": name, "io.kubernetes.cri-o.ImageName": "a-pods-own:1",
		}}, name},
		"containerd, NRI 0.12":   {"containerd", &api.Container{Name: "redis", Image: &api.Image{Name: name, Digest: "sha256:1"}}, name},
		"CRI-O, asked by name":   {"cri-o", &api.Container{Annotations: crioSays(name, name)}, name},
		"CRI-O, asked by digest": {"cri-o", &api.Container{Annotations: crioSays(name, digest)}, name + " " + digest},
		"CRI-O, asked by ID":     {"cri-o", &api.Container{Annotations: crioSays("", id)}, id},
		"another engine":         {"other", &api.Container{Name: "redis", Annotations: crioSays(name, name)}, ""},
	} {
		pod := &api.PodSandbox{Namespace: "shop", Name: "cart", Annotations: map[string]string{
			"io.kubernetes.cri.image-name": "a-pods-own:2", "io.kubernetes.cri-o.ImageName": "a-pods-own:3", "team": "a",
		}}
		s := subjectOf(tc.engine, pod, tc.c)
		if got := strings.Join(s.images, " "); got != tc.images || s.container != "redis" || s.annotations["team"] != "a" {
			t.Errorf("%s: got images %q, container %q", label, got, s.container)
		}
	}
}

func TestSelects(t *testing.T) {
	pods := Selection{Namespaces: []string{"team-*", "!team-b"}, Images: []string{"*redis*"}, Labels: []string{"app", "tier=web*"}}
	in := subject{namespace: "team-a", images: []string{"docker.io/library/redis:2", "docker.io/library/redis@sha256:1ddb"}, labels: map[string]string{"tier": "web1"}}
	for name, tc := range map[string]struct {
		s      Selection
		change func(*subject)
		want   bool
	}{
		"all":                         {want: true},
		"selected":                    {s: pods, want: true},
		"another namespace":           {s: pods, change: func(c *subject) { c.namespace = "team" }},
		"excluded namespace":          {s: pods, change: func(c *subject) { c.namespace = "team-b" }},
		"another image":               {s: pods, change: func(c *subject) { c.images = []string{"nginx"} }},
		"another label":               {s: pods, change: func(c *subject) { c.labels = map[string]string{"tier": "db"} }},
		"one of two labels":           {s: pods, change: func(c *subject) { c.labels = map[string]string{"app": ""} }, want: true},
		"annotation":                  {s: Selection{Annotations: []string{"a=b"}}},
		"excluded alone":              {s: Selection{Images: []string{"!*nginx*"}}, want: true},
		"image without its registry":  {s: Selection{Images: []string{"library/redis:?"}}, want: true},
		"another name of the image":   {s: Selection{Images: []string{"*@sha256:1ddb"}}, want: true},
		"excluded by another name":    {s: Selection{Images: []string{"*redis:*", "!*@sha256:1ddb"}}},
		"namespace, one character":    {s: Selection{Namespaces: []string{"team-?"}}, want: true},
		"a namespace is not an image": {s: Selection{Namespaces: []string{"a"}}, change: func(c *subject) { c.namespace = "b/a" }},
	} {
		c := in
		if tc.change != nil {
			tc.change(&c)
		}
		if got := selects(tc.s, c); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

func TestIsKata(t *testing.T) {
	for handler, want := range map[string]bool{"kata": true, "kata-qemu": true, "katalog": false, "": false, "runc": false} {
		if got := isKata(handler); got != want {
			t.Errorf("%q: got %v, want %v", handler, got, want)
		}
	}
}
