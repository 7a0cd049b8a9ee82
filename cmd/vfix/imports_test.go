// Packages import only downward.

package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The direction of imports is the architecture: cmd/vfix → images → rewriter → shim, never
// back. images knows no opcodes, rewriter opens no files and knows no network.

const module = "vfix.dev/vfix/"

// forbidden says what the packages of a directory may not import: a path, or one with all
// below it. Tests of a package may read files.
var forbidden = map[string][]string{
	"shim":     {module, "os", "net", "io/fs", "golang.org/x/arch", "github.com"},
	"rewriter": {module + "cmd", module + "images", module + "host", module + "docs", "os", "net", "io/fs", "syscall", "github.com"},
	// It reads, and knows nothing of what is injected.
	"rewriter/find":    {module + "cmd", module + "images", module + "host", module + "docs", module + "internal", module + "shim", module + "rewriter/patch", "os", "net", "io/fs", "syscall", "github.com"},
	"rewriter/elf":     {module, "golang.org/x/arch", "os", "net", "io/fs", "syscall", "github.com"},
	"rewriter/x86":     {module, "os", "net", "io/fs", "syscall", "github.com"},
	"images":           {module + "cmd", module + "host", module + "docs", module + "shim", "golang.org/x/arch", "debug/elf", "github.com/spf13"},
	"images/mountopts": {module + "cmd", module + "host", module + "images", module + "rewriter", "os", "net", "io/fs", "syscall", "github.com"},
	"internal/quote":   {module, "os", "net", "io/fs", "syscall", "github.com"},
	"host":             {module + "cmd", module + "images", module + "docs", module + "shim", "golang.org/x/arch", "debug/elf", "github.com", "net"},
	// It asks engines, and reads images.
	"host/hotfix": {module + "cmd", module + "docs", module + "shim", "golang.org/x/arch", "debug/elf", "github.com"},
	// It judges what engines have.
	"host/doctor": {module + "cmd", module + "docs", module + "shim", "golang.org/x/arch", "debug/elf", "github.com", "net"},
	// It draws what it is given.
	"host/bench/figure": {module, "golang.org/x/arch", "debug/elf", "github.com", "net", "syscall"},
	// It reads compressed cores.
	"host/diagnose": {module + "cmd", module + "images", module + "docs", module + "shim", "golang.org/x/arch", "debug/elf", "net"},
	// Knowledge that several packages share.
	"internal":           {module + "cmd", module + "images", module + "host", module + "docs", module + "shim", "golang.org/x/arch", "debug/elf", "net"},
	"internal/filemarks": {module, "os", "net", "io/fs", "syscall", "github.com"},
	"internal/kernellog": {module, "net", "os", "github.com"},
	"internal/packages":  {module + "cmd", module + "images", module + "host", module + "docs", module + "shim", module + "rewriter", "os", "net", "github.com"},
	"internal/utf8text":  {module, "os", "net", "io/fs", "syscall", "github.com"},
	"internal/sparse":    {module, "net", "golang.org/x/sys", "github.com"},
	"internal/rootpath":  {module, "net", "golang.org/x/sys", "github.com"},
	"docs":               {module},
	"cmd":                {"golang.org/x/arch", "debug/elf"},
	// They know terminals and texts, and nothing of what is printed.
	"cmd/vfix/screen":   {module + "images", module + "host", module + "docs", module + "rewriter", module + "shim", "golang.org/x/arch", "debug/elf", "net", "github.com/spf13"},
	"cmd/vfix/markdown": {module + "images", module + "host", module + "docs", module + "rewriter", module + "shim", "golang.org/x/arch", "debug/elf", "net", "os", "github.com/spf13"},
}

// excepted are libraries that one package may use in spite of the table: docker's seccomp
// rules are the library's, and it knows no images.
var excepted = map[string][]string{
	// The packages that edit and compare the engines' configuration files.
	"host/install": {"github.com/pelletier/go-toml/v2", "github.com/tailscale/hujson", "github.com/aymanbagabas/go-udiff"},
	// Where things are in config.json.
	"host/ociruntime": {"github.com/moby/sys/mountinfo", "github.com/tidwall/gjson"},
	"host/nri/plugin": {"github.com/containerd/nri/pkg/api", "github.com/containerd/nri/pkg/stub"},
	// The vDSO is the kernel's, not a stranger's file.
	"host/probe": {"debug/elf", "github.com/moby/profiles/seccomp", "github.com/opencontainers/runtime-spec/specs-go"},
}

func TestImports(t *testing.T) {
	root := filepath.Join("..", "..")
	for dir, banned := range forbidden {
		seen := 0
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			seen++
			if ruledBelow(root, dir, path) {
				return nil
			}
			imports, err := importsOf(path, nil)
			for _, i := range imports {
				at, _ := filepath.Rel(root, filepath.Dir(path))
				if b := match(i, banned); b != "" && !slices.Contains(excepted[filepath.ToSlash(at)], i) {
					t.Errorf("%s imports %s: %s may not import %s", path, i, dir, b)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if seen == 0 {
			t.Errorf("%s: no Go files: the table names a directory that is not there", dir)
		}
	}
}

// The program that engines execute at each start of a container stays small: no package that it does not need, nor one
// whose variables take long to make.
func TestRuntimeIsSmall(t *testing.T) {
	deps := func(program string) []string {
		cmd := exec.Command("go", "list", "-deps", "./cmd/"+program)
		cmd.Dir, cmd.Env = filepath.Join("..", ".."), append(os.Environ(), "GOOS=linux", "GOARCH=amd64")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(out))
	}
	banned := []string{"net", "net/http", "crypto/tls", "github.com/spf13",
		"github.com/klauspost", "github.com/google", module + "images", module + "docs"}
	for _, i := range deps("vfix-runtime") {
		if b := match(i, banned); b != "" {
			t.Errorf("vfix-runtime needs %s", i)
		}
	}
	// Nor has vfix what makes its start longer for one verb.
	all := deps("vfix")
	for _, i := range all {
		if b := match(i, []string{"github.com/containerd/nri", "google.golang.org/protobuf/proto", "github.com/moby/moby", "github.com/distribution", "go.opentelemetry.io"}); b != "" {
			t.Errorf("vfix needs %s", i)
		}
	}
	// The control: vfix needs them all.
	for _, b := range banned {
		if !slices.ContainsFunc(all, func(i string) bool { return match(i, []string{b}) != "" }) {
			t.Errorf("%s: vfix does not need it either", b)
		}
	}
}

// ruledBelow reports whether a directory below this one has a row of its own that holds for path.
func ruledBelow(root, dir, path string) bool {
	for other := range forbidden {
		if strings.HasPrefix(other, dir+"/") && strings.HasPrefix(path, filepath.Join(root, other)+string(filepath.Separator)) {
			return true
		}
	}
	return false
}

// The control: each ban is seen in a file that breaks it, and a neighbour's name is not.
func TestImportsAreSeen(t *testing.T) {
	for dir, banned := range forbidden {
		for _, b := range banned {
			path := strings.TrimSuffix(b, "/")
			imports, err := importsOf("x.go", "package x\nimport _ "+strconv.Quote(path+"/below"))
			if err != nil || len(imports) != 1 || match(imports[0], banned) == "" {
				t.Errorf("%s: import of %s/below is not seen: %v, %v", dir, path, imports, err)
			}
		}
	}
	if got := match("osmosis", []string{"os"}); got != "" {
		t.Errorf("osmosis is taken for %s", got)
	}
}

// importsOf returns what a Go file imports; src as for parser.ParseFile.
func importsOf(path string, src any) ([]string, error) {
	f, err := parser.ParseFile(token.NewFileSet(), path, src, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, i := range f.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// match returns the entry of banned that covers path, "" for none.
func match(path string, banned []string) string {
	for _, b := range banned {
		if path == b || strings.HasPrefix(path, strings.TrimSuffix(b, "/")+"/") {
			return b
		}
	}
	return ""
}
