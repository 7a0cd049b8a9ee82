package patch

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"vfix.dev/vfix/shim"
)

// recordFile has a digest of what each test patched and of what the plans said, so that no byte of a result
// changes unseen. Its first line is that of the injected code, whose places are in the results.
const recordFile = "testdata/results.txt"

var record = flag.Bool("record", false, "write "+recordFile+", after a change that is meant to alter results; with all tests")

// results are the digests of each test that has patched something, in this run; ended are those of the tests that
// have ended, one for each.
var (
	results = make(map[string][]string)
	ended   = map[string]string{"injected code": digest(append(shim.Code(), shim.JavaCode()...))}
	lock    sync.Mutex
)

var recorded = sync.OnceValues(func() (map[string]string, error) {
	m := make(map[string]string)
	b, err := os.ReadFile(recordFile)
	for l := range strings.Lines(string(b)) {
		name, sum, _ := strings.Cut(strings.TrimSuffix(l, "\n"), ": ")
		m[name] = sum
	}
	return m, err
})

func digest(b []byte) string { return fmt.Sprintf("%.8x", sha256.Sum256(b)) }

// recordResult notes a patched file; when the test ends, all that it patched is compared with what is recorded.
func recordResult(t testing.TB, p *Plan, out []byte) {
	t.Helper()
	name := t.Name()
	if strings.HasPrefix(name, "Fuzz") {
		return
	}
	all := fmt.Append(slices.Clip(out), p.Warnings, p.Consequences, p.Notes, p.addedCalls())
	for _, q := range p.Patches {
		x, err := p.Explain(q)
		all = fmt.Append(all, q.Form, q.Reason, show(x.Before), show(x.After), err)
	}
	lock.Lock()
	defer lock.Unlock()
	if results[name] == nil {
		t.Cleanup(func() { compareResults(t) })
	}
	results[name] = append(results[name], digest(all))
}

func compareResults(t testing.TB) {
	lock.Lock()
	defer lock.Unlock()
	name := t.Name()
	slices.Sort(results[name])
	ended[name] = digest(fmt.Append(nil, results[name]))
	delete(results, name) // for -count
	m, err := recorded()
	if err == nil && (m[name] != ended[name] || m["injected code"] != ended["injected code"]) {
		err = fmt.Errorf("another result, or another injected code")
	}
	if err != nil && !*record {
		t.Errorf("%s: %v; if it is meant to be, 'go test ./rewriter/patch -record', and say why in the commit", recordFile, err)
	}
}

func TestMain(m *testing.M) {
	flag.Parse()
	status := m.Run()
	if *record && status == 0 {
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(ended)) {
			fmt.Fprintf(&b, "%s: %s\n", name, ended[name])
		}
		if err := os.WriteFile(recordFile, []byte(b.String()), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	os.Exit(status)
}
