// Credentials of registries, from the files of docker, podman and skopeo, and from docker's credential helpers.
// go-containerregistry has a keychain that reads most of these files, but it does not limit a helper's time and
// output, and shows the output of a failing one.

package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/docker/cli/cli/config"
	"github.com/docker/cli/cli/config/configfile"
	"github.com/docker/cli/cli/config/types"
	"github.com/docker/docker-credential-helpers/client"
	"github.com/docker/docker-credential-helpers/credentials"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
)

// AuthFileVar is the variable that names a file of credentials, as for podman and skopeo
// (containers-auth.json(5)).
const AuthFileVar = "REGISTRY_AUTH_FILE"

// keychain finds credentials; it is an authn.ContextKeychain.
type keychain struct {
	file string        // the only file to read; "" for the usual ones
	time time.Duration // time limit for a helper
}

// Resolve is ResolveContext without a context.
func (k keychain) Resolve(target authn.Resource) (authn.Authenticator, error) {
	return k.ResolveContext(context.Background(), target)
}

// ResolveContext returns the credentials for a repository or registry, or authn.Anonymous.
func (k keychain) ResolveContext(ctx context.Context, target authn.Resource) (authn.Authenticator, error) {
	files := []string{k.file}
	if k.file == "" {
		files = authFiles()
	}
	for _, path := range files {
		c, err := readAuthFile(path)
		if errors.Is(err, fs.ErrNotExist) && len(files) > 1 {
			continue
		}
		if err != nil {
			return nil, err
		}
		found, err := k.lookUp(ctx, path, c, target)
		if err != nil {
			return nil, err
		}
		if found != (types.AuthConfig{}) {
			return authn.FromConfig(authn.AuthConfig{
				Username: found.Username, Password: found.Password, Auth: found.Auth,
				IdentityToken: found.IdentityToken, RegistryToken: found.RegistryToken,
			}), nil
		}
	}
	return authn.Anonymous, nil
}

// authFiles returns the files that may have credentials: that of REGISTRY_AUTH_FILE, or docker's, then podman's.
func authFiles() []string {
	if only := os.Getenv(AuthFileVar); only != "" {
		return []string{only}
	}
	var all []string
	add := func(dir string, below ...string) {
		if dir != "" {
			all = append(all, filepath.Join(append([]string{dir}, below...)...))
		}
	}
	xdg := os.Getenv("XDG_CONFIG_HOME")
	if home, err := os.UserHomeDir(); err == nil && xdg == "" {
		xdg = filepath.Join(home, ".config")
	}
	add(DockerDir(), config.ConfigFileName)
	add(os.Getenv("XDG_RUNTIME_DIR"), "containers", "auth.json")
	add(xdg, "containers", "auth.json")
	return append(all, "") // not a file: the environment may have credentials (DOCKER_AUTH_CONFIG)
}

// DockerDir returns the directory of docker's configuration and contexts, "" for a user without a home.
func DockerDir() string {
	if dir := os.Getenv("DOCKER_CONFIG"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".docker")
}

// authFileHint is the hint for an unreadable file.
const authFileHint = "check %s, which 'docker login' and 'podman login' write; --authfile and " + AuthFileVar + " name another file"

func readAuthFile(path string) (*configfile.ConfigFile, error) {
	raw := []byte("{}")
	if path != "" {
		var err error
		if raw, err = blob.ReadSmall(path, blob.MaxManifest); err != nil {
			return nil, hinterr.With(err, authFileHint, path)
		}
	}
	c, err := config.LoadFromReader(bytes.NewReader(raw))
	if err != nil {
		return nil, hinterr.With(hinterr.Damaged("%s: %w", path, err), authFileHint, path)
	}
	return c, nil
}

// lookUp searches one file for a target: for the repository, then for its parents, up to the registry. If the file
// names a helper, lookUp runs it for the registry.
func (k keychain) lookUp(ctx context.Context, path string, c *configfile.ConfigFile, target authn.Resource) (types.AuthConfig, error) {
	host := target.RegistryStr()
	keys := []string{target.String()}
	for key := target.String(); key != host; {
		key = key[:strings.LastIndexByte(key, '/')] // a target begins with its host and a slash
		keys = append(keys, key)
	}
	for n, key := range keys {
		if key == name.DefaultRegistry {
			keys[n] = authn.DefaultAuthKey
		}
	}
	for _, key := range keys {
		helper := c.CredentialHelpers[key]
		if helper == "" && key == keys[len(keys)-1] {
			helper = c.CredentialsStore
		}
		if helper != "" {
			found, err := k.ask(ctx, helper, path, key)
			if err != nil || found != (types.AuthConfig{}) {
				return found, err
			}
		}
	}
	plain := *c
	plain.CredentialsStore, plain.CredentialHelpers = "", nil
	for _, key := range keys {
		found, err := plain.GetAuthConfig(key) // with key as its address
		if found.ServerAddress = ""; err != nil || found != (types.AuthConfig{}) {
			return found, err
		}
	}
	return types.AuthConfig{}, nil
}

// ask runs a credential helper (docker's "Credential helper protocol"). No error has its output, which is a
// secret.
func (k keychain) ask(ctx context.Context, helper, file, key string) (types.AuthConfig, error) {
	p := &helperProgram{name: "docker-credential-" + helper, time: k.time}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	defer p.cancel(nil)
	found, err := client.Get(func(args ...string) client.Program { p.args = args; return p }, key)
	switch {
	case credentials.IsErrCredentialsNotFound(err):
		return types.AuthConfig{}, nil
	case err != nil && p.err == nil:
		p.err = errors.New("printed no credentials as JSON")
	}
	if p.err != nil {
		if ctx.Err() != nil {
			return types.AuthConfig{}, context.Cause(ctx)
		}
		hint := fmt.Sprintf("see what it prints: echo %s | %s get", key, p.name)
		if errors.Is(p.err, exec.ErrNotFound) {
			hint = fmt.Sprintf("install it, or remove it from %s", file)
		}
		return types.AuthConfig{}, hinterr.With(fmt.Errorf("credential helper %s: %w", p.name, p.err), "%s", hint)
	}
	if found.Username == "<token>" {
		return types.AuthConfig{IdentityToken: found.Secret}, nil
	}
	return types.AuthConfig{Username: found.Username, Password: found.Secret}, nil
}

// helperProgram is one run of a credential helper: a client.Program with limits.
type helperProgram struct {
	name   string
	args   []string
	in     io.Reader
	time   time.Duration
	ctx    context.Context
	cancel context.CancelCauseFunc
	out    bytes.Buffer
	err    error
}

// maxSecret is the maximum output of a helper, in bytes; tokens have a few kB.
const maxSecret = 1 << 20

func (p *helperProgram) Input(in io.Reader) { p.in = in }

// Write collects the output of the helper.
func (p *helperProgram) Write(b []byte) (int, error) {
	if p.out.Len()+len(b) > maxSecret {
		err := fmt.Errorf("printed more than %d bytes", maxSecret)
		p.cancel(err)
		return 0, err
	}
	return p.out.Write(b)
}

func (p *helperProgram) Output() ([]byte, error) {
	late := time.AfterFunc(p.time, func() { p.cancel(fmt.Errorf("did not answer within %v", p.time)) })
	defer late.Stop()
	cmd := exec.CommandContext(p.ctx, p.name, p.args...)
	cmd.Stdin, cmd.Stdout = p.in, p
	cmd.WaitDelay = time.Second // for its own children, which may keep stdout open
	p.err = cmd.Run()
	if cause := context.Cause(p.ctx); cause != nil {
		p.err = cause
	}
	return p.out.Bytes(), p.err
}
