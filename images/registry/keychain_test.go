package registry_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func auths(of ...string) string {
	var all []string
	for i := 0; i+1 < len(of); i += 2 {
		all = append(all, fmt.Sprintf("%q:{\"auth\":%q}", of[i], base64.StdEncoding.EncodeToString([]byte(of[i+1]+":pw"))))
	}
	return `{"auths":{` + strings.Join(all, ",") + `}}`
}

// Each file is searched in order, the most specific key first; REGISTRY_AUTH_FILE and --authfile are the only
// file.
func TestCredentials(t *testing.T) {
	dir := t.TempDir()
	for n, v := range map[string]string{"HOME": dir, "DOCKER_CONFIG": "", "XDG_RUNTIME_DIR": dir + "/run", "XDG_CONFIG_HOME": ""} {
		t.Setenv(n, v)
	}
	write(t, dir+"/.docker/config.json", auths("https://index.docker.io/v1/", "hub", "reg.example", "docker", "https://old.example/v1/", "old"), 0o600)
	write(t, dir+"/run/containers/auth.json", auths("reg.example", "run", "run.example/team", "team", "run.example", "all"), 0o600)
	write(t, dir+"/.config/containers/auth.json", auths("last.example:5000", "last"), 0o600)
	write(t, dir+"/only.json", auths("reg.example", "only"), 0o600)
	for _, c := range []struct{ env, file, xdg, repo, want string }{
		{repo: "redis", want: "hub"},
		{repo: "reg.example/a/b", want: "docker"},
		{repo: "old.example/a", want: "old"},
		{repo: "run.example/team/x/y", want: "team"},
		{repo: "run.example/teams/x", want: "all"},
		{repo: "last.example:5000/x", want: "last"},
		{xdg: dir, repo: "last.example:5000/x", want: ""},
		{repo: "none.example/x", want: ""},
		{env: dir + "/only.json", repo: "reg.example/a", want: "only"},
		{env: dir + "/only.json", repo: "run.example/a", want: ""},
		{env: dir + "/absent.json", file: dir + "/only.json", repo: "reg.example/a", want: "only"},
		{env: dir + "/absent.json", repo: "reg.example/a", want: "error absent.json"},
		{file: dir + "/only.json/x", repo: "reg.example/a", want: "error only.json/x"},
	} {
		t.Setenv(registry.AuthFileVar, c.env)
		t.Setenv("XDG_CONFIG_HOME", c.xdg)
		auth, err := registry.Keychain(c.file, time.Minute).ResolveContext(context.Background(), imagetest.Must[name.Repository](t)(name.NewRepository(c.repo)))
		got := ""
		if err != nil {
			got = "error"
			if _, name, _ := strings.Cut(c.want, " "); name != "" && strings.Contains(err.Error(), name) {
				got = c.want
			}
		} else if auth != authn.Anonymous {
			got = imagetest.Must[*authn.AuthConfig](t)(auth.Authorization()).Username
		}
		if got != c.want {
			t.Errorf("%+v: got %q, %v", c, got, err)
		}
	}
}

// Without a home directory no file in the current directory is used, and a missing file has no credentials. An
// absent or damaged file of credentials is not reported as a registry's error.
func TestCredentialsFileErrors(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("DOCKER_CONFIG", dir)
	write(t, dir+"/bad.json", "{bad", 0o600)
	write(t, dir+"/config.json", "[]", 0o600)
	repo, err := name.NewRepository("reg.example/a")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{dir + "/absent.json", dir + "/bad.json", ""} {
		_, err := registry.Keychain(file, 0).ResolveContext(context.Background(), repo)
		if err == nil || !strings.HasPrefix(hinterr.HintOf(err), "check ") || !strings.Contains(err.Error(), ".json: ") {
			t.Errorf("%q: got %v, hint %q", file, err, hinterr.HintOf(err))
		}
	}
}

func TestCredentialsWithoutHome(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, path := range []string{".docker/config.json", ".config/containers/auth.json", "containers/auth.json", "config.json"} {
		write(t, dir+"/"+path, auths("reg.example", "here"), 0o600)
	}
	for _, docker := range []string{"", dir + "/absent"} {
		for n, v := range map[string]string{"HOME": "", "USERPROFILE": "", "DOCKER_CONFIG": docker, "XDG_RUNTIME_DIR": "", "XDG_CONFIG_HOME": "", registry.AuthFileVar: ""} {
			t.Setenv(n, v)
		}
		auth, err := registry.Keychain("", time.Minute).ResolveContext(context.Background(), imagetest.Must[name.Repository](t)(name.NewRepository("reg.example/a")))
		if err != nil || auth != authn.Anonymous {
			t.Errorf("DOCKER_CONFIG=%q: got %v, %v", docker, auth, err)
		}
	}
}

// helperDir is docker's configuration directory, with credential helpers.
func helperDir(t *testing.T) string {
	if runtime.GOOS == "windows" {
		t.Skip("the helpers are shell scripts")
	}
	dir := t.TempDir()
	t.Setenv("DOCKER_CONFIG", dir)
	t.Setenv(registry.AuthFileVar, "")
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return dir
}

// A helper is run once, for the registry, with the name that docker login gives it.
func TestCredentialHelperIsRun(t *testing.T) {
	dir := helperDir(t)
	write(t, dir+"/config.json", `{"credsStore":"notes"}`, 0o600)
	write(t, dir+"/docker-credential-notes", "#!/bin/sh\nread host; echo \"$1 $host\" >>'"+dir+"/notes'; echo credentials not found in native keychain; exit 1\n", 0o755)
	for repo, want := range map[string]string{"reg.example/a/b": "get reg.example\n", "redis": "get https://index.docker.io/v1/\n"} {
		write(t, dir+"/notes", "", 0o600)
		auth, err := registry.Keychain("", time.Minute).ResolveContext(context.Background(), imagetest.Must[name.Repository](t)(name.NewRepository(repo)))
		if got := string(imagetest.Must[[]byte](t)(os.ReadFile(dir + "/notes"))); got != want || auth != authn.Anonymous || err != nil {
			t.Errorf("%s: asked %q, want %q; got %v, %v", repo, got, want, auth, err)
		}
	}
}

// A helper that hangs, prints endlessly or fails ends in an error without any of its output.
func TestCredentialHelpers(t *testing.T) {
	dir := helperDir(t)
	for _, c := range []struct{ name, script, user, says, hint string }{
		{name: "good", script: `read host; echo "{\"Username\":\"$host\",\"Secret\":\"pw\"}"`, user: "reg.example"},
		{name: "token", script: `echo '{"Username":"<token>","Secret":"tok"}'`},
		{name: "none", script: `echo credentials not found in native keychain; exit 1`},
		{name: "hangs", script: `exec sleep 60`, says: "did not answer within 300ms", hint: "echo reg.example | docker-credential-hangs get"},
		{name: "child", script: `sleep 60 & echo '{'`, says: "did not answer|WaitDelay"},
		{name: "endless", script: `exec yes secret`, says: "printed more than 1048576 bytes|did not answer"},
		{name: "fails", script: `echo secret; echo secret >&2; exit 3`, says: "exit status 3", hint: "docker-credential-fails get"},
		{name: "words", script: `echo secret words`, says: "no credentials as JSON"},
		{name: "absent", says: "executable file not found", hint: "remove it from " + dir},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.script != "" {
				write(t, dir+"/docker-credential-"+c.name, "#!/bin/sh\n"+c.script+"\n", 0o755)
			}
			for _, config := range []string{`{"credsStore":"` + c.name + `"}`, `{"credHelpers":{"reg.example":"` + c.name + `"}}`} {
				write(t, dir+"/config.json", config, 0o600)
				limit := time.Minute
				if c.script == "exec sleep 60" || c.name == "child" {
					limit = 300 * time.Millisecond
				}
				auth, err := registry.Keychain("", limit).ResolveContext(context.Background(), imagetest.Must[name.Repository](t)(name.NewRepository("reg.example/a/b")))
				if c.says != "" {
					if err == nil || !strings.Contains(err.Error(), "credential helper docker-credential-"+c.name) || strings.Contains(err.Error(), "secret") {
						t.Fatalf("got %v", err)
					}
					matched := false
					for _, say := range strings.Split(c.says, "|") {
						matched = matched || strings.Contains(err.Error(), say)
					}
					if !matched || !strings.Contains(hinterr.HintOf(err), c.hint) {
						t.Errorf("got %v, hint %s", err, hinterr.HintOf(err))
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				got := imagetest.Must[*authn.AuthConfig](t)(auth.Authorization())
				if got.Username != c.user || (got.IdentityToken == "tok") != (c.name == "token") {
					t.Errorf("got %+v", got)
				}
			}
		})
	}
}
