package plugin

import (
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"vfix.dev/vfix/host/nri"
	"vfix.dev/vfix/host/policy"
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
		id     string
	}{
		"containerd": {"containerd", &api.Container{Name: "redis", Annotations: map[string]string{
			"io.kubernetes.cri.image-name": name, "io.kubernetes.cri-o.ImageName": "a-pods-own:1",
		}}, name, ""},
		"containerd, NRI 0.12":   {"containerd", &api.Container{Name: "redis", Image: &api.Image{Name: name, Digest: "sha256:1"}}, name, "sha256:1"},
		"CRI-O, asked by name":   {"cri-o", &api.Container{Annotations: crioSays(name, name)}, name, id},
		"CRI-O, asked by digest": {"cri-o", &api.Container{Annotations: crioSays(name, digest)}, name + " " + digest, id},
		"CRI-O, asked by ID":     {"cri-o", &api.Container{Annotations: crioSays("", id)}, id, id},
		"another engine":         {"other", &api.Container{Name: "redis", Annotations: crioSays(name, name)}, "", ""},
	} {
		pod := &api.PodSandbox{Namespace: "shop", Name: "cart", Annotations: map[string]string{
			"io.kubernetes.cri.image-name": "a-pods-own:2", "io.kubernetes.cri-o.ImageName": "a-pods-own:3", "team": "a",
		}}
		s := subjectOf(tc.engine, pod, tc.c)
		if got := strings.Join(s.images, " "); got != tc.images || s.imageID != tc.id || s.container != "redis" || s.annotations["team"] != "a" {
			t.Errorf("%s: got images %q, ID %q, container %q", label, got, s.imageID, s.container)
		}
	}
}

func TestDecide(t *testing.T) {
	enable := func(v string) map[string]string { return map[string]string{policy.AnnotationEnable: v} }
	pods := nri.Selection{Namespaces: []string{"team-*", "!team-b"}, Images: []string{"*redis*"}, Labels: []string{"app", "tier=web*"}}
	in := subject{namespace: "team-a", images: []string{"docker.io/library/redis:2", "docker.io/library/redis@sha256:1ddb"}, labels: map[string]string{"tier": "web1"}}
	closed := policy.Config{FailClosed: true}
	for name, tc := range map[string]struct {
		s      nri.Selection
		policy policy.Config
		change func(*subject)
		want   decision
	}{
		"all":                           {want: hooked},
		"selected":                      {s: pods, want: hooked},
		"another namespace":             {s: pods, change: func(c *subject) { c.namespace = "team" }, want: pass},
		"excluded namespace":            {s: pods, change: func(c *subject) { c.namespace = "team-b" }, want: pass},
		"another image":                 {s: pods, change: func(c *subject) { c.images = []string{"nginx"} }, want: pass},
		"another label":                 {s: pods, change: func(c *subject) { c.labels = map[string]string{"tier": "db"} }, want: pass},
		"one of two labels":             {s: pods, change: func(c *subject) { c.labels = map[string]string{"app": ""} }, want: hooked},
		"annotation":                    {s: nri.Selection{Annotations: []string{"a=b"}}, want: pass},
		"excluded alone":                {s: nri.Selection{Images: []string{"!*nginx*"}}, want: hooked},
		"image without its registry":    {s: nri.Selection{Images: []string{"library/redis:?"}}, want: hooked},
		"another name of the image":     {s: nri.Selection{Images: []string{"*@sha256:1ddb"}}, want: hooked},
		"excluded by another name":      {s: nri.Selection{Images: []string{"*redis:*", "!*@sha256:1ddb"}}, want: pass},
		"namespace, one character":      {s: nri.Selection{Namespaces: []string{"team-?"}}, want: hooked},
		"a namespace is not an image":   {s: nri.Selection{Namespaces: []string{"a"}}, change: func(c *subject) { c.namespace = "b/a" }, want: pass},
		"opts out":                      {change: func(c *subject) { c.annotations = enable("false") }, want: optedOut},
		"may not opt out":               {policy: closed, change: func(c *subject) { c.annotations = enable("false") }, want: hooked},
		"may opt out":                   {policy: policy.Config{FailClosed: true, AllowDisable: true}, change: func(c *subject) { c.annotations = enable("false") }, want: optedOut},
		"opt-in, not asked":             {policy: policy.Config{OptIn: true}, want: pass},
		"opt-in, asked":                 {policy: policy.Config{OptIn: true}, change: func(c *subject) { c.annotations = enable("true") }, want: hooked},
		"no word: the hook says so":     {change: func(c *subject) { c.annotations = enable("yes") }, want: hooked},
		"vfix-runtime":                  {change: func(c *subject) { c.handler = "vfix" }, want: pass},
		"Kata":                          {change: func(c *subject) { c.handler = "kata-qemu" }, want: virtually},
		"Kata, by its plain name":       {change: func(c *subject) { c.handler = "kata" }, want: virtually},
		"Kata, not selected":            {s: pods, change: func(c *subject) { c.handler, c.images = "kata", []string{"nginx"} }, want: pass},
		"a handler that only sounds so": {change: func(c *subject) { c.handler = "katalog" }, want: hooked},
	} {
		c := in
		if tc.change != nil {
			tc.change(&c)
		}
		if got := decide(tc.s, tc.policy, c); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

func TestCheck(t *testing.T) {
	good := nri.Options{Socket: "/s", Dir: "/d", Config: "/c"}
	if err := good.Check(); err != nil {
		t.Errorf("got %v", err)
	}
	for name, change := range map[string]func(*nri.Options){
		"empty pattern":   func(o *nri.Options) { o.Images = []string{""} },
		"empty not":       func(o *nri.Options) { o.Namespaces = []string{"!"} },
		"label, no key":   func(o *nri.Options) { o.Labels = []string{"=x"} },
		"relative path":   func(o *nri.Options) { o.Dir = "d" },
		"no socket":       func(o *nri.Options) { o.Socket = "" },
		"annotation":      func(o *nri.Options) { o.Annotations = []string{"!=x"} },
		"relative policy": func(o *nri.Options) { o.Config = "c" },
	} {
		o := good
		change(&o)
		if o.Check() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
