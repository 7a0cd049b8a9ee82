package patch

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
	. "vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/shim"
	"vfix.dev/vfix/tests/recorded"
)

// results are what each test that runs has found and patched.
var (
	results     = make(map[string][]string)
	resultsLock sync.Mutex
)

// recordFindings notes all that a report says of the sites of a file, and of its first site if single bits of the code
// there differ: what is nearly an instruction of a rule tests the rule's conditions, one at a time.
func recordFindings(t testing.TB, r *Report, file []byte) {
	t.Helper()
	const flips, before, after, largest = 12, 16, 32, 64 << 10
	note(t, findings(r))
	if len(r.Sites) == 0 || len(file) > largest {
		return
	}
	from := max(r.Sites[0].Offset, before) - before
	code := file[from:min(from+before+after, uint64(len(file)))]
	flipped := bytes.Clone(file)
	n := crc32.ChecksumIEEE(code)
	for range flips {
		n = n*1664525 + 1013904223
		at, bit := from+uint64(n>>8)%uint64(len(code)), byte(1)<<(n>>4&7)
		flipped[at] ^= bit
		other, err := Scan(elf.Memory(flipped), int64(len(file)))
		flipped[at] ^= bit
		if err != nil {
			t.Fatal(err)
		}
		note(t, findings(other))
	}
}

func findings(r *Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %d bytes, libc %q, Go %v, static %v, signals %v, %q %q\n", r.Skipped, r.ExecBytes, r.Libc, r.Go, r.Static, r.RawSignals, r.Interp, r.Needed)
	for i, s := range r.Sites {
		s.Object = nil
		fmt.Fprintf(&b, "%+v\n", s)
		if after := s.Offset + s.Call - s.Vaddr + uint64(s.CallLen); i == 0 && s.Call != 0 && r.File != nil {
			p, err := Look(r.File.R, int64(r.File.Size), after)
			if err == nil && p.Call != nil {
				fmt.Fprintf(&b, "before %#x: %v of %#x in %q from %#x, %+v\n", p.Vaddr, *p.Call, p.Target, p.Symbol, p.Start, p.Lines)
			}
		}
	}
	if r.Redirect != nil {
		fmt.Fprintf(&b, "%+v\n", *r.Redirect)
	}
	return b.String()
}

// planned has what a plan says.
func planned(p *Plan) string {
	all := fmt.Sprint(p.Warnings, p.Consequences, p.Notes, p.addedCalls())
	for _, e := range p.Edits {
		all += fmt.Sprint(e.Offset, e.Old, e.New, e.Why)
	}
	for _, q := range p.Patches {
		x, err := p.Explain(q)
		all += fmt.Sprint(q.Form, q.Reason, q.Vaddr, show(x.Before), show(x.After), err)
	}
	return all
}

// note adds a result; when the test ends, all of its results are compared with what is recorded.
func note(t testing.TB, result string) {
	t.Helper()
	name := t.Name()
	if strings.HasPrefix(name, "Fuzz") {
		return
	}
	resultsLock.Lock()
	defer resultsLock.Unlock()
	if results[name] == nil {
		t.Cleanup(func() { checkResults(t) })
	}
	results[name] = append(results[name], result)
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
