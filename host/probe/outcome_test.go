//go:build linux && amd64

package probe

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/net/bpf"

	"vfix.dev/vfix/tests/recorded"
)

// The output of vfix-measure, and its end in words.
func TestOutput(t *testing.T) {
	for text, want := range map[string]Samples{
		"":           {},
		"a 1\na 2.5": {"a": {1, 2.5}},
		"a 1\nb:c 0\na\na x\na -1\na NaN\na 1e18\n a 3 \nb 999999999999999872\n": {"a": {1, 3}, "b:c": {0}, "b": {999999999999999872}},
	} {
		if got := Times([]byte(text)); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	if got := Times([]byte(strings.Repeat("a 1\n", maxSamples+1))); len(got["a"]) != maxSamples {
		t.Errorf("got %d samples", len(got["a"]))
	}
	for text, want := range map[string]map[string]Entry{
		"":               {},
		"a 0/1\nb 3/3":   {"a": {0, 1}, "b": {3, 3}},
		"a 0/0\nb 2/1\n": {}, "a -1/2\nb x/2\nc 1/x\nd 1\n": {},
	} {
		if got := Entries([]byte(text)); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	s := Samples{"one": {7}, "ten": {9, 8, 7, 6, 5, 4, 3, 2, 1, 0}}
	for q, want := range map[float64]float64{0: 0, 0.1: 1, 0.5: 5, 0.99: 9, 1: 9} {
		if got, ok := s.Quantile("ten", q); !ok || got != want {
			t.Errorf("%v of ten: got %v, %v, want %v", q, got, ok, want)
		}
		if got, ok := s.Quantile("one", q); !ok || got != 7 {
			t.Errorf("%v of one: got %v, %v", q, got, ok)
		}
		if _, ok := s.Quantile("none", q); ok {
			t.Errorf("%v of none: got one", q)
		}
	}
	for want, o := range map[string]Outcome{
		"ok": {}, "SIGSEGV": {Signal: 11, Status: 3}, "SIGSYS (a seccomp filter)": {Signal: 31}, "signal 9": {Signal: 9}, "absent": {Status: 4, Stderr: "x"},
		"status 1": {Status: 1}, "status 2: usage": {Status: 2, Stderr: "usage"},
	} {
		if got := o.String(); got != want || o.OK() != (want == "ok") {
			t.Errorf("%+v: got %s, %v", o, got, o.OK())
		}
	}
	const page = "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n"
	for maps, want := range map[string]string{"": "", page: "--xp", "00400000-00401000 r-xp 00000000 00:00 0 [vdso]\n" + page: "--xp", "r-xp [vsyscall]\n": "", strings.TrimSpace(page) + "x": ""} {
		if got := PagePerms([]byte(maps)); got != want {
			t.Errorf("%q: got %q, want %q", maps, got, want)
		}
	}
}

// The instructions for a profile: groups of system calls, then those whose arguments are compared.
func TestFilterInstructions(t *testing.T) {
	var names []string
	for name, number := range syscallNumbers() {
		if number < 130 { // more than one group
			names = append(names, `"`+name+`"`)
		}
	}
	profile := `{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [
		{"names": ["clone", "nothing"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 2114060288, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}, {"index": 5, "value": 4294967301, "op": "SCMP_CMP_EQ"}]},
		{"names": ["personality"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 1, "value": 8, "op": "SCMP_CMP_EQ"}]},
		{"names": [` + strings.Join(names, ",") + `], "action": "SCMP_ACT_ALLOW"}]}`
	filter, _, err := Filter([]byte(profile))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for at := 0; at < len(filter); at += InstructionSize {
		f := filter[at : at+InstructionSize]
		i := bpf.RawInstruction{Op: uint16(f[0]) | uint16(f[1])<<8, Jt: f[2], Jf: f[3], K: uint32(f[4]) | uint32(f[5])<<8 | uint32(f[6])<<16 | uint32(f[7])<<24}
		fmt.Fprintf(&b, "%3d  %v\n", at/InstructionSize, i.Disassemble())
	}
	recorded.Text(t, "filter", b.String())
	for bad, want := range map[string]string{
		`{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 6, "value": 8}]}]}`: "argument 6 of read",
	} {
		if _, _, err := Filter([]byte(bad)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", bad, err, want)
		}
	}
	many := make([]bpf.Instruction, maxLength)
	for n := range many {
		many[n] = bpf.RetConstant{Val: math.MaxUint32}
	}
	if b, err := assemble(many); err != nil || len(b) != maxLength*InstructionSize {
		t.Errorf("the longest filter: got %d bytes, %v", len(b), err)
	}
	if _, err := assemble(append(many, many[0])); err == nil || !strings.Contains(err.Error(), "4097 instructions") {
		t.Errorf("a longer one: got %v", err)
	}
}
