package patch

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"vfix.dev/vfix/shim"
	"vfix.dev/vfix/tests/recorded"
)

// results are what each test that runs has patched.
var (
	results     = make(map[string][]string)
	resultsLock sync.Mutex
)

// recordResult notes a patched file, and what the plan says of it; when the test ends, all that it patched is compared
// with what is recorded.
func recordResult(t testing.TB, p *Plan, out []byte) {
	t.Helper()
	name := t.Name()
	if strings.HasPrefix(name, "Fuzz") {
		return
	}
	// Words may change.
	all := fmt.Sprint(string(out), len(p.Warnings), len(p.Consequences), len(p.Notes), len(p.addedCalls()))
	for _, q := range p.Patches {
		x, err := p.Explain(q)
		all += fmt.Sprint(q.Form, show(x.Before), show(x.After), err)
	}
	resultsLock.Lock()
	defer resultsLock.Unlock()
	if results[name] == nil {
		t.Cleanup(func() { checkResults(t) })
	}
	results[name] = append(results[name], all)
}

func checkResults(t testing.TB) {
	resultsLock.Lock()
	defer resultsLock.Unlock()
	all := results[t.Name()]
	delete(results, t.Name()) // for -count
	slices.Sort(all)
	recorded.Check(t, "injected code", shim.Code(), shim.JavaCode()) // whose places are in the results
	recorded.Check(t, t.Name(), all)
}
