package mountopts

import (
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/docker/cli/opts"
	"go.yaml.in/yaml/v3"
)

// names are targets that each break one kind of quoting.
var names = []string{
	"/lib/x86_64-linux-gnu/libc-2.13.so",
	"/opt/with space/lib c.so",
	"/opt/a,b/c,d.so",
	"/opt/a:b.so",
	`/opt/"quoted".so`,
	"/opt/it's.so",
	"/opt/$HOME/`id`/$(id).so",
	`/opt/back\slash.so`,
	"/opt/#hash.so", "/opt/a: b", "/opt/a #b", "/opt/*?[x]!{y}",
	"/opt/new\nline.so", "/opt/tab\there", "/opt/esc\x1b[31m.so", "/opt/del\x7f1",
	"/opt/ümläut/日本.so", "/opt/\u0085\u2028\ufeff.so",
	"/opt/a=b;c&d|e<f>g.so", "/opt/-dash", "/opt/100%.so", "/opt/'\n\\x",
}

// shellWords has a real shell take a command line apart.
func shellWords(t *testing.T, text string) []string {
	t.Helper()
	const echo = `() { shift; printf '%s\0' "$@"; }; `
	cmd := exec.Command("bash", "-c", "docker"+echo+"podman"+echo+text)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

func TestDocker(t *testing.T) {
	for _, name := range names {
		m := Mount{Source: "/var/lib/vfix/a b", Target: name}
		words := shellWords(t, Say(Docker, "redis:2.8.22", "", []Mount{m}))
		if len(words) != 3 || words[0] != "--mount" || words[2] != "redis:2.8.22" {
			t.Errorf("%q: got the words %q", name, words)
			continue
		}
		var o opts.MountOpt // docker's own parser
		if err := o.Set(words[1]); err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		got := o.Value()[0]
		if got.Target != name || got.Source != m.Source || !got.ReadOnly || got.Type != "bind" {
			t.Errorf("%q: docker reads %+v", name, got)
		}
	}
}

// podman 4.3 splits --mount at each comma and --volume at each colon.
func TestPodman(t *testing.T) {
	said := 0
	for _, name := range names {
		m := Mount{Source: "/var/lib/vfix/x", Target: name}
		if Unsayable(Podman, m) != "" {
			continue
		}
		said++
		words := shellWords(t, Say(Podman, "i", "", []Mount{m}))
		target := ""
		switch words[0] {
		case "--mount":
			parts := strings.Split(words[1], ",")
			if len(parts) == 4 {
				target = strings.TrimPrefix(parts[2], "target=")
			}
		case "--volume":
			if parts := strings.Split(words[1], ":"); len(parts) == 3 && parts[2] == "ro" {
				target = parts[1]
			}
		}
		if target != name {
			t.Errorf("%q: podman reads %q of %q", name, target, words)
		}
	}
	if said < len(names)-1 {
		t.Errorf("only %d of %d names can be said", said, len(names))
	}
	if Unsayable(Podman, Mount{Target: "/a,b:c"}) == "" {
		t.Error("a comma and a colon: no reason given")
	}
}

func TestCompose(t *testing.T) {
	for _, service := range []string{"redis", "on", "1", "a b", "null"} {
		for _, name := range names {
			var doc struct {
				Services map[string]struct {
					Volumes []struct {
						Type, Source, Target string
						ReadOnly             bool `yaml:"read_only"`
					}
				}
			}
			text := Say(Compose, "", service, []Mount{{Source: "/s $x", Target: name}, {Source: "/t", Target: "/u"}})
			if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
				t.Fatalf("%q: %v\n%s", name, err, text)
			}
			v := doc.Services[service].Volumes
			if len(v) != 2 || undollar(v[0].Target) != name || undollar(v[0].Source) != "/s $x" || !v[0].ReadOnly || v[0].Type != "bind" {
				t.Errorf("%q: compose reads %+v", name, v)
			}
		}
	}
}

// undollar is what compose's interpolation makes of a text without variables.
func undollar(s string) string {
	if strings.Count(s, "$")%2 != 0 {
		return "a variable: " + s
	}
	return strings.ReplaceAll(s, "$$", "$")
}

func TestKubernetes(t *testing.T) {
	for _, name := range names {
		m := Mount{Source: "/s", Target: name}
		if Unsayable(Kubernetes, m) != "" {
			if !strings.Contains(name, ":") {
				t.Errorf("%q: %s", name, Unsayable(Kubernetes, m))
			}
			continue
		}
		var pod struct {
			Spec struct {
				Containers []struct {
					Name         string
					VolumeMounts []struct {
						Name     string
						Path     string `yaml:"mountPath"`
						ReadOnly bool   `yaml:"readOnly"`
					} `yaml:"volumeMounts"`
				}
				Volumes []struct {
					Name     string
					HostPath struct{ Path, Type string } `yaml:"hostPath"`
				}
			}
		}
		text := Say(Kubernetes, "", "app", []Mount{m, {Source: "/s", Target: "/link"}, {Source: "/other", Target: "/o"}})
		if err := yaml.Unmarshal([]byte(text), &pod); err != nil {
			t.Fatalf("%q: %v\n%s", name, err, text)
		}
		v := pod.Spec.Containers[0].VolumeMounts
		if len(v) != 3 || v[0].Path != name || !v[0].ReadOnly || v[0].Name != v[1].Name || v[2].Name == v[1].Name {
			t.Errorf("%q: got %+v", name, v)
		}
		if h := pod.Spec.Volumes; len(h) != 2 || h[0].Name != v[0].Name || h[0].HostPath.Path != "/s" || h[0].HostPath.Type != "File" {
			t.Errorf("%q: got volumes %+v", name, h)
		}
	}
}

// No engine can get a name that is not UTF-8; nothing printed writes to a terminal.
func TestUnsayable(t *testing.T) {
	for _, e := range Engines {
		bad := Mount{Source: "/s", Target: "/lib/\xff.so"}
		if Unsayable(e, bad) == "" || Unsayable(e, Mount{Source: "/s", Target: "/lib/ok.so"}) != "" {
			t.Errorf("%s: wrong about names that are not UTF-8", e)
		}
		if text := Say(e, "i", "n", []Mount{bad}); !utf8.ValidString(text) {
			t.Errorf("%s: got %q", e, text)
		}
		for _, name := range names {
			if text := Say(e, "i", "n", []Mount{{Source: "/s", Target: name}}); strings.ContainsAny(text, "\x1b\x7f\t") {
				t.Errorf("%s: control characters in %q", e, text)
			}
		}
	}
}
