// Package recorded compares results of tests with those that are kept in the tree, as digests or as texts, so that none
// changes unseen. After a change that is meant to alter results, 'go test PACKAGE -record' with all tests writes them.
package recorded

import (
	"crypto/sha256"
	"errors"
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
	record = flag.Bool("record", false, "write "+file)
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
		if !*record || flag.Lookup("test.run").Value.String() != "" {
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

// Changed records what becomes of data with one of its bytes changed, for each of them, and of each beginning of it. A
// result is named after the place of its bytes, in hex. The first one that differs ends the comparison.
func Changed(t testing.TB, name string, data []byte, result func(b []byte) string) {
	t.Helper()
	const part = 64 // bytes to one result
	for from := 0; from < len(data) && !t.Failed(); from += part {
		var all strings.Builder
		for at := from; at < min(from+part, len(data)); at++ {
			for _, v := range []byte{data[at] ^ 1, data[at] ^ 0x80} {
				b := slices.Clone(data)
				b[at] = v
				fmt.Fprintf(&all, "%d %d: %s\n", at, v, result(b))
			}
			fmt.Fprintf(&all, "%d: %s\n", at, result(slices.Clone(data[:at])))
		}
		Check(t, fmt.Sprintf("%s %#04x", name, from), all.String())
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

// Text fails the test if a text is another one than that of the file testdata/NAME.txt.
func Text(t testing.TB, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *record {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, want := strings.Split(text, "\n"), strings.Split(string(b), "\n")
	for n := range max(len(got), len(want)) {
		if n >= len(got) || n >= len(want) || got[n] != want[n] {
			t.Errorf("%s, line %d: got %q, want %q; if that is meant to be, use -record, and say why in the commit",
				path, n+1, got[n:min(n+1, len(got))], want[n:min(n+1, len(want))])
			return
		}
	}
}
