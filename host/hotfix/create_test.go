package hotfix

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"vfix.dev/vfix/host/store"
	"vfix.dev/vfix/images/engine"
	"vfix.dev/vfix/images/mountopts"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

var key = strings.Repeat("a", 64) // of a patched copy

// The request for a container like another one, by its network mode, its networks, its binds and its mounts.
func TestCreateRequest(t *testing.T) {
	dir := t.TempDir()
	kept := store.At(dir).Path(key)
	for name, c := range map[string]struct {
		config, host, mounts, networks string
		want                           string // the request, without what is always there
		more                           string // further networks
	}{
		"nothing": {want: `{"HostConfig":{"Binds":null,"Mounts":[COPY]}}`},
		"the network of another container": {config: `"Hostname":"h","Domainname":"d","ExposedPorts":{}`, host: `"NetworkMode":"container:x"`, networks: `"front":{"Aliases":["a"]}`,
			want: `{"HostConfig":{"Binds":null,"Mounts":[COPY],"NetworkMode":"container:x"}}`},
		"the network of the host": {config: `"Hostname":"h"`, host: `"NetworkMode":"host"`, networks: `"host":{"Aliases":["a"]}`,
			want: `{"HostConfig":{"Binds":null,"Mounts":[COPY],"NetworkMode":"host"},"Hostname":"h"}`},
		"no network": {host: `"NetworkMode":"none"`, networks: `"none":{"Aliases":["a"]}`, want: `{"HostConfig":{"Binds":null,"Mounts":[COPY],"NetworkMode":"none"}}`},
		"the host's name": {config: `"Hostname":"h","Domainname":"d"`, host: `"UTSMode":"host"`,
			want: `{"Domainname":"d","HostConfig":{"Binds":null,"Mounts":[COPY],"UTSMode":"host"}}`},
		"the default network": {host: `"NetworkMode":"default"`, networks: `"bridge":{"MacAddress":"m"},"x":{}`,
			want: `{"HostConfig":{"Binds":null,"Mounts":[COPY],"NetworkMode":"default"},"NetworkingConfig":{"EndpointsConfig":{"bridge":{"MacAddress":"m"}}}}`, more: "x:map[]"},
		"no network mode": {networks: `"bridge":{"MacAddress":"m"}`,
			want: `{"HostConfig":{"Binds":null,"Mounts":[COPY]},"NetworkingConfig":{"EndpointsConfig":{"bridge":{"MacAddress":"m"}}}}`},
		"a network with nothing of the user's": {host: `"NetworkMode":"bridge"`, networks: `"bridge":{"MacAddress":"","Aliases":["` + stoppedID[:12] + `"],"GwPriority":0,"IPAMConfig":null,"Links":[],"DriverOpts":{},"IPAddress":"10.0.0.1"}`,
			want: `{"HostConfig":{"Binds":null,"Mounts":[COPY],"NetworkMode":"bridge"}}`},
		"a network by its ID, and others": {host: `"NetworkMode":"ffff"`, networks: `"front":{"NetworkID":"ffff","GwPriority":7},"bridge":{"NetworkID":"bbbb"},"back":{"NetworkID":"","Aliases":["db","` + stoppedID[:12] + `","` + stoppedID[:11] + `","111122220000"]}`,
			want: `{"HostConfig":{"Binds":null,"Mounts":[COPY],"NetworkMode":"ffff"},"NetworkingConfig":{"EndpointsConfig":{"front":{"GwPriority":7}}}}`,
			more: "back:map[Aliases:[db 11110000111 111122220000]] bridge:map[]"},
		"binds and volumes": {host: `"Binds":["named:/named","/srv:/srv:ro","/anonymous","/other/"]`,
			mounts: `{"Type":"volume","Name":"named","Destination":"/named"},{"Type":"volume","Name":"n1","Destination":"/anonymous/","RW":true},{"Type":"bind","Source":"/srv","Destination":"/srv"},{"Type":"volume","Destination":"/noname"}`,
			want:   `{"HostConfig":{"Binds":["named:/named","/srv:/srv:ro","/other/"],"Mounts":[{"ReadOnly":false,"Source":"n1","Target":"/anonymous/","Type":"volume","VolumeOptions":{"NoCopy":true}},COPY]}}`},
		"mounts": {host: `"Mounts":[{"Type":"volume","Target":"/data/"},{"Type":"bind","Source":"KEPT","Target":"/old"},{"Type":"bind","Source":"/srv","Target":"/srv"},{"Type":"tmpfs","Target":""},{"Type":"volume","Source":"KEPT","Target":"/x"}]`,
			mounts: `{"Type":"volume","Name":"n1","Destination":"/data"},{"Type":"volume","Name":"n2","Destination":"/"}`,
			want: `{"HostConfig":{"Binds":null,"Mounts":[{"Source":"n1","Target":"/data/","Type":"volume"},{"Source":"/srv","Target":"/srv","Type":"bind"},{"Target":"","Type":"tmpfs"},{"Source":"KEPT","Target":"/x","Type":"volume"},` +
				`{"ReadOnly":true,"Source":"n2","Target":"/","Type":"volume","VolumeOptions":{"NoCopy":true}},COPY]}}`},
	} {
		raw := fmt.Sprintf(`{"Id":%q,"Config":{%s},"HostConfig":{%s},"Mounts":[%s],"NetworkSettings":{"Networks":{%s}}}`, stoppedID, c.config, c.host, c.mounts, c.networks)
		req, err := newCreateRequest(json.RawMessage(strings.ReplaceAll(raw, "KEPT", kept)), "image:1", []mountopts.Mount{{Source: "/copy", Target: "/bin/su"}}, dir)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var body map[string]any
		if err := json.Unmarshal(req.body, &body); err != nil || body["Image"] != "image:1" {
			t.Fatalf("%s: got %s, %v", name, req.body, err)
		}
		delete(body, "Image")
		want := strings.NewReplacer("COPY", `{"ReadOnly":true,"Source":"/copy","Target":"/bin/su","Type":"bind"}`, "KEPT", kept).Replace(c.want)
		if got := imagetest.Must[[]byte](t)(json.Marshal(body)); string(got) != want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, want)
		}
		var more []string
		for _, e := range req.more {
			more = append(more, fmt.Sprint(e.name, ":", e.config))
		}
		if got := strings.Join(more, " "); got != c.more {
			t.Errorf("%s: more networks: got %s, want %s", name, got, c.more)
		}
	}
	for _, bad := range []string{"{", `{"HostConfig":{}}`, `{"Config":{}}`} {
		_, err := newCreateRequest(json.RawMessage(bad), "image:1", nil, dir)
		imagetest.WantErr(t, err, hinterr.ErrDamaged, "the engine's description of the container")
	}
}

const stoppedID = "11110000111100001111000011110000111100001111000011110000aaaabbbb"

// Containers that cannot be recreated, and the advice.
func TestMayRecreate(t *testing.T) {
	docker := engine.Traits{Name: "docker"}
	for name, c := range map[string]struct {
		e              engine.Traits
		label          string
		running, auto  bool
		fails, advises string
	}{
		"good":                     {e: docker, label: "k"},
		"removed when it stops":    {e: docker, auto: true},
		"of Kubernetes":            {e: docker, label: "io.kubernetes.pod.name", running: true, fails: "Kubernetes made it", advises: "--for kubernetes"},
		"of a swarm":               {e: docker, label: "com.docker.swarm.task.id", fails: "a swarm made it", advises: "docker service update"},
		"of podman":                {e: engine.Traits{Name: "podman", Remote: "h"}, fails: "it belongs to podman", advises: "--for podman db"},
		"elsewhere":                {e: engine.Traits{Name: "docker", Remote: "h"}, running: true, fails: "its engine is at h", advises: "run vfix hotfix there"},
		"running":                  {e: docker, running: true, fails: "it is running", advises: "docker stop db && vfix hotfix --apply db && docker start db"},
		"running, then it is gone": {e: docker, running: true, auto: true, fails: "is removed when it stops", advises: "'vfix hotfix db' prints"},
	} {
		var old engine.Container
		raw := fmt.Sprintf(`{"Config":{"Labels":{%q:"x"}},"HostConfig":{"AutoRemove":%v}}`, c.label, c.auto)
		if err := json.Unmarshal([]byte(raw), &old); err != nil {
			t.Fatal(err)
		}
		err := mayRecreate(&Hotfixed{Name: "db", Running: c.running}, &old, c.e)
		if c.fails == "" {
			if err != nil {
				t.Errorf("%s: got %v", name, err)
			}
			continue
		}
		imagetest.WantErr(t, err, nil, c.fails)
		if hint := hinterr.HintOf(err); !strings.Contains(hint, c.advises) {
			t.Errorf("%s: hint %q, want %q", name, hint, c.advises)
		}
	}
}

// The mounts of a container, of which those of an earlier hotfix are not its own, and what they cover.
func TestMountsOfAContainer(t *testing.T) {
	dir := t.TempDir()
	kept, usual := store.At(dir).Path(key), store.At(HotfixDir).Path(key)
	for path, want := range map[string]bool{
		kept: true, usual: true, kept + "a": false, filepath.Dir(kept) + "/x": false, filepath.Join(dir, key): false, "/elsewhere/" + key: false,
	} {
		if got := isKept(path, dir); got != want {
			t.Errorf("%s: got %v", path, got)
		}
	}
	if isKept(kept, dir+"/none") || !isKept(usual, dir+"/none") {
		t.Error("the directory is missing")
	}
	old := &engine.Container{Mounts: []engine.Mount{{Type: "bind", Source: kept, Destination: "/bin/su"}, {Type: "volume", Source: kept, Destination: "/data/"}, {Type: "bind", Source: "/srv", Destination: "/srv"}, {Type: "bind", Source: "/x", Destination: "/srv"}}}
	if err := json.Unmarshal([]byte(`{"HostConfig":{"Tmpfs":{"/run/":""}}}`), old); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(coveredBy(old, dir), " "); got != "/data /run /srv" {
		t.Errorf("covered: got %s", got)
	}
	for _, c := range []struct {
		want []mountopts.Mount
		same bool
	}{
		{nil, true}, {[]mountopts.Mount{{Source: kept, Target: "/bin/su"}}, true}, {[]mountopts.Mount{{Source: kept, Target: "/bin/sh"}}, false},
		{[]mountopts.Mount{{Source: "/other", Target: "/bin/su"}}, false}, {[]mountopts.Mount{{Source: kept, Target: "/data/"}}, false},
		{[]mountopts.Mount{{Source: kept, Target: "/bin/su"}, {Source: kept, Target: "/bin/sh"}}, false},
	} {
		if got := sameMounts(old, c.want); got != c.same {
			t.Errorf("%+v: got %v", c.want, got)
		}
	}
	for covered, want := range map[string]string{"": "/lib/a /libx /usr/lib/b", "/lib": "/libx /usr/lib/b", "/lib/a": "/libx /usr/lib/b", "/": "", "/usr/lib/b/c": "/lib/a /libx /usr/lib/b", "/nothing /usr": "/lib/a /libx"} {
		if got := strings.Join(visibleNames([]string{"lib/a", "libx", "usr/lib/b"}, strings.Fields(covered)), " "); got != want {
			t.Errorf("covered by %q: got %s, want %s", covered, got, want)
		}
	}
	for image, want := range map[string]string{"az09-AZ": "az09-az", "a`b{c/d:e": "d", "@`[{/:": "app", "x_Y@z": "x-y", strings.Repeat("x", 62) + "--y": strings.Repeat("x", 62)} {
		if got := serviceName(image); got != want {
			t.Errorf("%s: got %s, want %s", image, got, want)
		}
	}
}
