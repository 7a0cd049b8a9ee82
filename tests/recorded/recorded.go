// Package recorded compares results of tests with those that are kept in the tree, so that none changes unseen.
// After a change that is meant to alter results, 'go test PACKAGE -record' with all tests writes them.
package recorded

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// file has a line "NAME: DIGEST" for each result, in the directory of the package.
const file = "testdata/results.txt"

var (
	record = flag.Bool("record", false, "write "+file+", with all tests")
	lock   sync.Mutex
	kept   map[string]string
)

// Check fails the test if the result of this name is another one than that which is kept.
func Check(t testing.TB, name string, result ...any) {
	t.Helper()
	lock.Lock()
	defer lock.Unlock()
	if kept == nil {
		kept = make(map[string]string)
		if !*record {
			read(t)
		}
	}
	sum := fmt.Sprintf("%.8x", sha256.Sum256(fmt.Append(nil, result...)))
	if *record {
		kept[name] = sum
		write(t)
	} else if kept[name] != sum {
		t.Errorf("%s: another result than in %s; if it is meant to be, use -record, and say why in the commit", name, file)
	}
}

func read(t testing.TB) {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(b)) {
		name, sum, _ := strings.Cut(strings.TrimSuffix(l, "\n"), ": ")
		kept[name] = sum
	}
}

func write(t testing.TB) {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		fmt.Fprintf(&b, "%s: %s\n", name, kept[name])
	}
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, []byte(b.String()), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
