// The output of vfix doctor, and what it refuses.

package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"vfix.dev/vfix/host/doctor"
)

// healthy and ill are reports as the engine might return them.
func healthy() *doctor.Report {
	return &doctor.Report{Checks: []doctor.Check{{
		Name: "clock", Verdict: doctor.OK, Found: "tsc: a read takes 22 ns",
		Figures: []doctor.Figure{{Name: "vdso_monotonic", Value: 22.25, Unit: "ns"}}, Details: []string{"available: tsc"},
	}}}
}

func ill() *doctor.Report {
	r := healthy()
	r.Answer, r.Mode = "Old images crash here.", doctor.None
	r.Checks = append([]doctor.Check{{
		Name: "vsyscall", Verdict: doctor.Fail, Found: "none: this kernel does not serve the page", Do: "vfix rebuild IMAGE",
		Details: []string{strings.Repeat("a long detail ", 10)},
	}}, r.Checks...)
	r.Checks = append(r.Checks, doctor.Check{Name: "kernel-log", Verdict: doctor.Warn, Found: "2 crashes", Do: "dmesg", Details: []string{"bash\x1b[31m[1]", "sh[2]"}},
		doctor.Check{Name: "dentry", Verdict: doctor.Skipped, Found: "no directory"})
	return r
}

func doctorEngine(r *doctor.Report, err error) engine {
	return engine{doctor: func(context.Context, doctor.Options) (*doctor.Report, error) { return r, err }}
}

func TestDoctorOutput(t *testing.T) {
	if got := runLine(doctorEngine(healthy(), nil), "doctor"); got.status != 0 || got.stderr != "" || strings.Contains(got.stdout, "available") {
		t.Errorf("healthy: got %+v", got)
	}
	got := runLine(doctorEngine(ill(), nil), "doctor")
	if got.status != statusFindings || !strings.Contains(got.stderr, "1 check failed: vsyscall") {
		t.Errorf("ill: got %+v", got)
	}
	const want = "Old images crash here.\nfail     vsyscall    none: this kernel does not serve the page\nok       clock       tsc: a read takes 22 ns\n" +
		"warn     kernel-log  2 crashes\nskipped  dentry      no directory\n\ndo: vfix rebuild IMAGE\n"
	if got.stdout != want {
		t.Errorf("ill: got\n%s", got.stdout)
	}
	all := runLine(doctorEngine(ill(), nil), "doctor", "--all").stdout
	if !strings.Contains(all, "\n         do: vfix rebuild IMAGE\n") || !strings.Contains(all, "\n         bash\\x1b[31m[1]\n") {
		t.Errorf("ill, all: got\n%s", all)
	}
	if err := validate(t, runLine(doctorEngine(ill(), nil), "doctor", "--format", "json").stdout); err != nil {
		t.Errorf("%#v", err)
	}
	got = runLine(doctorEngine(nil, errors.New("no")), "doctor")
	if got.status != statusError || got.stdout != "" || !strings.Contains(got.stderr, "vfix: hint: ") {
		t.Errorf("error: got %+v", got)
	}
}

func TestDoctorOptions(t *testing.T) {
	for _, line := range []string{"doctor x", "doctor --check nothing", "doctor --format xml"} {
		if got := runLine(doctorEngine(healthy(), nil), strings.Fields(line)...); got.status != statusUsage || got.stdout != "" {
			t.Errorf("vfix %s: got %+v", line, got)
		}
	}
	var got doctor.Options
	e := engine{doctor: func(_ context.Context, o doctor.Options) (*doctor.Report, error) {
		got = o
		return healthy(), nil
	}}
	if r := runLine(e, "doctor", "--check", "vdso,clock", "--check", "dentry", "--quick"); r.status != 0 {
		t.Fatalf("got %+v", r)
	}
	if strings.Join(got.Checks, " ") != "vdso clock dentry" || !got.Quick {
		t.Errorf("got %+v", got)
	}
}
