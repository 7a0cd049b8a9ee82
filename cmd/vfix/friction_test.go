// Mistakes in what a user types, and vfix's answers.

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"vfix.dev/vfix/cmd/vfix/crash"
	"vfix.dev/vfix/cmd/vfix/hints"
	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/diagnose"
	"vfix.dev/vfix/host/hotfix"
	"vfix.dev/vfix/host/store"
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/images/media"
)

func TestMistypedOptions(t *testing.T) {
	for line, want := range map[string][2]string{
		"scan --formt json x":      {"unknown option --formt", "--format?"},
		"patch --inplace x":        {"unknown option --inplace", "did you mean --in-place?"},
		"--verson":                 {"unknown option --verson", "did you mean --version?"},
		"scan --zzzzzzz x":         {"unknown option --zzzzzzz", "run 'vfix scan --help'"},
		"scan -Z x":                {"unknown option -Z", "run 'vfix scan --help'"},
		"scan -j x y":              {`-j, --jobs: invalid value "x": want a whole number`, "help"},
		"scan --stall-timeout 5 x": {`--stall-timeout: invalid value "5": want a time such as 30s or 5m`, "help"},
		"cache prune --size":       {"option --size has no value", "run 'vfix cache --help'"},
		"convert x -o":             {"option -o has no value", "run 'vfix convert --help'"},
		"bench --redis=maybe x":    {`--redis: invalid value "maybe": want true or false`, "help"},
	} {
		got := runLine(fake(clean(), nil), strings.Fields(line)...)
		if got.status != 2 || !strings.Contains(got.stderr, "vfix: error: "+want[0]+"\n") || !strings.Contains(got.stderr, want[1]) {
			t.Errorf("vfix %s: got %+v, want %q", line, got, want)
		}
	}
}

func TestVersionOption(t *testing.T) {
	want := runLine(engine{}, "version")
	for _, option := range []string{"--version", "-v"} {
		if got := runLine(engine{}, option); got != want {
			t.Errorf("vfix %s: got %+v, want %+v", option, got, want)
		}
	}
}

func TestQuiet(t *testing.T) {
	want := runLine(fake(patchable(), nil), "rebuild", "--progress", "quiet", "x")
	for _, option := range []string{"-q", "--quiet"} {
		if got := runLine(fake(patchable(), nil), "rebuild", option, "x"); got != want || got.stderr != "" {
			t.Errorf("%s: got %+v, want %+v", option, got, want)
		}
	}
}

func TestPlatformWords(t *testing.T) {
	for platform, status := range map[string]int{"linux/amd64": 0, "amd64": 0, "x86_64": 0, "linux/x86_64": 0, "arm64": 2, "linux": 2, "": 2} {
		if got := runLine(fake(clean(), nil), "scan", "--platform", platform, "x"); got.status != status {
			t.Errorf("--platform %s: got %+v, want status %d", platform, got, status)
		}
	}
}

// An invalid DEST is an error before anything is read.
func TestMistypedDest(t *testing.T) {
	e := fake(patchable(), nil)
	e.rebuild = func(context.Context, string, images.RebuildOptions) (*images.Rebuilt, error) {
		return nil, errors.New("the image was read")
	}
	e.convert = func(context.Context, string, images.ConvertOptions) (*images.Converted, error) {
		return nil, errors.New("the image was read")
	}
	dir := t.TempDir()
	for dest, want := range map[string]string{
		"ocl:fixed":                        "did you mean oci:fixed?",
		"oci-archve:x.tar":                 "did you mean oci-archive:x.tar?",
		"docker-deamon:app:1":              "did you mean docker-daemon:app:1?",
		"oci-archive:" + dir + "/no/x.tar": "mkdir -p " + dir + "/no",
		"oci:" + dir + "/no/x:1":           "mkdir -p " + dir + "/no",
		"oci:" + dir + "/x:1":              "",
		"redis:fixed":                      "",
		"docker-daemon:ocl:fixed":          "",
		"registry.example/ocl:1":           "",
	} {
		for _, verb := range []string{"rebuild", "convert"} {
			got := runLine(e, verb, "x", "-o", dest)
			switch {
			case want == "" && got.status != 1:
				t.Errorf("%s -o %s: got %+v, want it accepted", verb, dest, got)
			case want != "" && (got.status != 2 || !strings.Contains(got.stderr, want)):
				t.Errorf("%s -o %s: got %+v, want status 2 and %q", verb, dest, got, want)
			}
		}
	}
}

// A hint is right or absent.
func TestHintOfTMPDIR(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	_, err := os.CreateTemp("", "vfix-")
	if got := hints.Of(fmt.Errorf("layer 1: %w", err), issues); !strings.Contains(got, "set TMPDIR") {
		t.Errorf("got hint %q", got)
	}
	if got := hints.Of(&fs.PathError{Op: "open", Path: "/x", Err: fs.ErrNotExist}, issues); strings.Contains(got, "TMPDIR") {
		t.Errorf("another path: got hint %q", got)
	}
	if got := hints.Of(errors.New("x"), issues); !strings.Contains(got, issues) || issues == "" {
		t.Errorf("got hint %q, want the address %s", got, issues)
	}
}

// An error of the file system is not a bug of vfix, and the advice to be root is not for root.
func TestHintOfFileSystem(t *testing.T) {
	for err, want := range map[error]string{
		syscall.EISDIR: "a directory", syscall.ENOTDIR: "a directory", syscall.ENAMETOOLONG: "shorter", fs.ErrPermission: "run vfix as",
	} {
		if got := hints.Of(&fs.PathError{Op: "open", Path: "/x", Err: err}, issues); !strings.Contains(got, want) {
			t.Errorf("%v: got hint %q, want %q in it", err, got, want)
		}
	}
	if got := hints.Of(&fs.PathError{Op: "rename", Path: "/x", Err: syscall.EPERM}, issues); strings.Contains(got, "as root") == (os.Geteuid() == 0) {
		t.Errorf("user %d: got hint %q", os.Geteuid(), got)
	}
}

// A path that cannot be what it is given for is not a bug of vfix.
func TestHintOfWrongPath(t *testing.T) {
	dir := t.TempDir()
	_, notFile := atomicfile.Create(dir)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	_, notDir := os.Open(file + "/x")
	for _, err := range []error{notFile, notDir} {
		if got := hints.Of(err, issues); err == nil || !strings.Contains(got, "name ") {
			t.Errorf("%v: got hint %q", err, got)
		}
	}
}

// A build without an address for reports asks for a report and invents none.
func TestHintWithoutAddress(t *testing.T) {
	was := issues
	defer func() { issues = was }()
	issues = ""
	if got := hints.Of(errors.New("x"), issues); got != "if this is a bug in vfix, report it with the output of 'vfix version'" {
		t.Errorf("got hint %q", got)
	}
}

func TestNoSystemCallNames(t *testing.T) {
	for in, want := range map[string]string{
		"lib/x: statat lib/x: permission denied": "lib/x: stat lib/x: permission denied",
		"openat: permission denied":              "open: permission denied",
		"linkat a b: no":                         "linkat a b: no",
		"the seat is taken: no":                  "the seat is taken: no",
	} {
		if got := screen.Safe(in); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

// Many crashes are a summary and examples; JSON has them all.
func TestManyCrashes(t *testing.T) {
	var all []*diagnose.Crash
	for i := range 20 {
		c := elsewhere()
		if i%2 == 1 {
			c = logged()
			c.Program = []string{"redis-server", "bash"}[i/2%2]
		}
		all = append(all, c)
	}
	r := []*diagnose.Result{{Input: "kern.log", Crashes: all, Lines: 900}}
	e := engine{diagnose: func(context.Context, []string, crash.Options) ([]*diagnose.Result, error) { return r, nil }}
	got := runLine(e, "diagnose", "-q", "kern.log")
	if !strings.HasPrefix(got.stdout, "kern.log: 40 crashes in 900 lines: 30 vsyscall crashes (bash 15, redis-server 15), 10 of other causes. Examples:\n\nkern.log: redis-server, 3 times") ||
		!strings.HasSuffix(got.stdout, "\n17 more are not shown: --format json lists them all\n") || strings.Count(got.stdout, "sh[7] vsyscall attempted") != 3 {
		t.Errorf("got\n%s", got.stdout)
	}
	if got := runLine(e, "diagnose", "--format", "json", "kern.log"); strings.Count(got.stdout, `"kind"`) != 20 {
		t.Errorf("JSON: got %d crashes, want 20", strings.Count(got.stdout, `"kind"`))
	}
}

func TestCacheList(t *testing.T) {
	got := runLine(fake(clean(), nil), "cache", "list")
	lines := strings.Split(got.stdout, "\n")
	if len(lines) != 4 || strings.Join(strings.Fields(lines[0]), " ") != "SIZE LAST USED KIND NAME USED BY" ||
		!strings.HasPrefix(strings.TrimSpace(lines[1]), "4.0 KiB  2023-11-14") || !strings.HasSuffix(lines[1], "  docker.io/library/redis:2.8 and 1 other") || !strings.HasSuffix(lines[2], "  -") {
		t.Errorf("got\n%s", got.stdout)
	}
}

func TestHotfixCopies(t *testing.T) {
	copies := []hotfix.Copy{
		{Path: "/var/lib/vfix/hotfix/aa", Entry: store.Entry{Size: 2 << 20, Used: time.Unix(1700000000, 0)}, By: []string{"db", "process 7"}},
		{Path: "/var/lib/vfix/hotfix/bb", Entry: store.Entry{Size: 1 << 20, Used: time.Unix(1700000000, 0)}},
	}
	e := fake(clean(), nil)
	e.hotfixCopies = func(context.Context, string, media.Options) ([]hotfix.Copy, bool, error) {
		return copies, false, nil
	}
	e.pruneHotfixCopies = func(context.Context, string, media.Options) ([]hotfix.Copy, bool, error) {
		return copies[1:], true, nil
	}
	got := runLine(e, "hotfix", "--list")
	if got.status != 0 || !strings.Contains(got.stdout, "/var/lib/vfix/hotfix/aa  db, process 7\n") || !strings.Contains(got.stdout, "hotfix/bb  -\n") ||
		!strings.Contains(got.stderr, "warning: no docker or podman daemon") || !strings.Contains(got.stderr, "2 files, 3.0 MiB, in /var/lib/vfix/hotfix\n") {
		t.Errorf("--list: got %+v", got)
	}
	got = runLine(e, "hotfix", "--prune")
	if got.status != 0 || strings.Contains(got.stdout, "hotfix/aa") || !strings.Contains(got.stderr, "removed 1 file, 1.0 MiB, from /var/lib/vfix/hotfix\n") {
		t.Errorf("--prune: got %+v", got)
	}
	for line, want := range map[string]string{
		"hotfix --list --prune": "use one of them", "hotfix --list x": "takes no argument", "hotfix --prune --apply": "--apply does not work",
		"hotfix --list --format json": "a table only", "hotfix": "no IMAGE or CONTAINER given",
	} {
		if got := runLine(e, strings.Fields(line)...); got.status != 2 || !strings.Contains(got.stderr, want) {
			t.Errorf("vfix %s: got %+v, want status 2 and %q", line, got, want)
		}
	}
}
