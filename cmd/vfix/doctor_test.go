// The output of vfix doctor, and what it refuses.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vfix.dev/vfix/host/doctor"
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/inventory"
)

// healthy and ill are reports as the engine might return them.
func healthy() *doctor.Report {
	return &doctor.Report{Checks: []doctor.Check{{
		Name: doctor.Clock, Verdict: doctor.OK, Found: "tsc, a read costs 22 ns", Means: "programs read it without entering the kernel",
		Figures: []doctor.Figure{{Name: "vdso_monotonic", Value: 22.25, Unit: "ns"}},
		Facts:   []doctor.Fact{{Name: "current", Value: "tsc"}},
	}}}
}

func ill() *doctor.Report {
	r := healthy()
	r.Checks = append([]doctor.Check{{
		Name: doctor.Vsyscall, Verdict: doctor.Fail, Found: "none: a call ends in SIGSEGV",
		Means: strings.Repeat("containers crash ", 10), Do: "vfix rebuild IMAGE", Notes: []string{"no configuration"},
	}}, r.Checks...)
	r.Checks = append(r.Checks,
		doctor.Check{Name: doctor.KernelLog, Verdict: doctor.Warn, Found: "2 crashes", Lines: []string{"bash\x1b[31m[1]", "sh[2]"}},
		doctor.Check{Name: doctor.Containers, Verdict: doctor.Skipped, Found: "no engine"})
	return r
}

func doctorEngine(r *doctor.Report, err error) engine {
	return engine{doctor: func(context.Context, doctor.Options) (*doctor.Report, error) { return r, err }}
}

func TestDoctorOutput(t *testing.T) {
	if got := runLine(doctorEngine(healthy(), nil), "doctor"); got.status != 0 || got.stderr != "" {
		t.Errorf("healthy: got %+v", got)
	}
	got := runLine(doctorEngine(ill(), nil), "doctor")
	if got.status != statusFindings || !strings.Contains(got.stderr, "1 check failed: vsyscall") {
		t.Errorf("ill: got %+v", got)
	}
	golden(t, "doctor.txt", got.stdout)
	got = runLine(doctorEngine(nil, errors.New("no")), "doctor")
	if got.status != statusError || got.stdout != "" || !strings.Contains(got.stderr, "vfix: hint: ") {
		t.Errorf("error: got %+v", got)
	}
	got = runLine(doctorEngine(nil, fmt.Errorf("%w: elsewhere", doctor.ErrUnsupported)), "doctor")
	if got.status != statusError || !strings.Contains(got.stderr, "virtual machine") {
		t.Errorf("another system: got %+v", got)
	}
}

func TestDoctorUsage(t *testing.T) {
	for _, line := range []string{"doctor x", "doctor --check nothing", "doctor --limit 0s", "doctor --format xml", "doctor --progress loud"} {
		if got := runLine(doctorEngine(healthy(), nil), strings.Fields(line)...); got.status != statusUsage || got.stdout != "" {
			t.Errorf("vfix %s: got %+v", line, got)
		}
	}
}

// Options reach the engine, and the engines' findings reach the check.
func TestDoctorOptions(t *testing.T) {
	profile := filepath.Join(t.TempDir(), "profile.json")
	if err := os.WriteFile(profile, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	var got doctor.Options
	e := engine{
		doctor: func(_ context.Context, o doctor.Options) (*doctor.Report, error) {
			got = o
			return healthy(), nil
		},
		inventory: func(_, enough context.Context, _ images.ScanOptions) (*inventory.Inventory, error) {
			if _, ok := enough.Deadline(); !ok {
				t.Error("the look into images has no end")
			}
			return &inventory.Inventory{Engines: []string{"unix:///s"}, LeftOut: []string{"big"}, Held: []inventory.Held{
				{Name: "redis:2.8.22", Sites: 3, Files: 2}, {Container: "web", Name: "debian:12"}, {Name: "odd", Err: errors.New("damaged")},
			}}, nil
		},
	}
	line := "doctor --check vdso,clock --check dentry --quick --limit 9s --flood-dir /d --seccomp-profile " + profile
	if r := runLine(e, strings.Fields(line)...); r.status != 0 {
		t.Fatalf("got %+v", r)
	}
	if strings.Join(got.Checks, " ") != "vdso clock dentry" || !got.Quick || got.Limit != 9*time.Second || got.FloodDir != "/d" ||
		string(got.Profile) != "{}" || len(got.Program) == 0 {
		t.Errorf("options: got %+v", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	inv, err := got.Containers(ctx)
	if err != nil || len(inv.LeftOut) != 1 || len(inv.Held) != 3 {
		t.Fatalf("inventory: got %+v, %v", inv, err)
	}
}
