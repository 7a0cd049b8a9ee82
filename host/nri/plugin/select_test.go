package plugin

import (
	"testing"

	"vfix.dev/vfix/host/nri"
	"vfix.dev/vfix/host/ociruntime"
)

func TestMatches(t *testing.T) {
	for _, tc := range []struct {
		pattern, text string
		want          bool
	}{
		{"redis", "redis", true}, {"redis", "redis2", false}, {"*", "", true}, {"redis*", "redis:2.8", true},
		{"*redis*", "docker.io/library/redis:2.8", true}, {"*redis", "redis:2.8", false}, {"a*b*c", "a-b-b-c", true},
		{"a*a", "a", false}, {"ab*ba", "aba", false}, {"a**", "a", true}, {"[a]", "a", false},
	} {
		if got := matches(tc.pattern, tc.text); got != tc.want {
			t.Errorf("%q, %q: got %v, want %v", tc.pattern, tc.text, got, tc.want)
		}
	}
}

func TestDecide(t *testing.T) {
	enable := func(v string) map[string]string { return map[string]string{ociruntime.AnnotationEnable: v} }
	pods := nri.Selection{Namespaces: []string{"team-*", "!team-b"}, Images: []string{"*redis*"}, Labels: []string{"app", "tier=web*"}}
	in := subject{namespace: "team-a", image: "docker.io/library/redis:2", labels: map[string]string{"tier": "web1"}}
	closed := ociruntime.Config{FailClosed: true}
	for name, tc := range map[string]struct {
		s      nri.Selection
		policy ociruntime.Config
		change func(*subject)
		want   decision
	}{
		"all":                           {want: hooked},
		"selected":                      {s: pods, want: hooked},
		"another namespace":             {s: pods, change: func(c *subject) { c.namespace = "team" }, want: pass},
		"excluded namespace":            {s: pods, change: func(c *subject) { c.namespace = "team-b" }, want: pass},
		"another image":                 {s: pods, change: func(c *subject) { c.image = "nginx" }, want: pass},
		"another label":                 {s: pods, change: func(c *subject) { c.labels = map[string]string{"tier": "db"} }, want: pass},
		"one of two labels":             {s: pods, change: func(c *subject) { c.labels = map[string]string{"app": ""} }, want: hooked},
		"annotation":                    {s: nri.Selection{Annotations: []string{"a=b"}}, want: pass},
		"excluded alone":                {s: nri.Selection{Images: []string{"!*nginx*"}}, want: hooked},
		"opts out":                      {change: func(c *subject) { c.annotations = enable("false") }, want: optedOut},
		"may not opt out":               {policy: closed, change: func(c *subject) { c.annotations = enable("false") }, want: hooked},
		"may opt out":                   {policy: ociruntime.Config{FailClosed: true, AllowDisable: true}, change: func(c *subject) { c.annotations = enable("false") }, want: optedOut},
		"opt-in, not asked":             {policy: ociruntime.Config{OptIn: true}, want: pass},
		"opt-in, asked":                 {policy: ociruntime.Config{OptIn: true}, change: func(c *subject) { c.annotations = enable("true") }, want: hooked},
		"no word: the hook says so":     {change: func(c *subject) { c.annotations = enable("yes") }, want: hooked},
		"vfix-runtime":                  {change: func(c *subject) { c.handler = "vfix" }, want: pass},
		"Kata":                          {change: func(c *subject) { c.handler = "kata-qemu" }, want: virtually},
		"Kata, not selected":            {s: pods, change: func(c *subject) { c.handler, c.image = "kata", "nginx" }, want: pass},
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
