// The output of rebuild and verify, which options reach the engine, and which are refused.

package main

import (
	"context"
	"strings"
	"testing"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/patch"
)

// The content of stdout is the contract of each verb.
func TestRebuildOutput(t *testing.T) {
	e := fake(patchable(), nil)
	got := runLine(e, "rebuild", "redis:2.8.22")
	if got.stdout != "redis:2.8.22-vfix@"+layer3+"\n" {
		t.Errorf("stdout: got %q, want the reference alone", got.stdout)
	}
	if !strings.Contains(got.stderr, "5 call sites patched") || !strings.Contains(got.stderr, "plus one layer of 1.2 MiB") {
		t.Errorf("stderr: got %s", got.stderr)
	}

	if got := runLine(e, "rebuild", "-q", "redis:2.8.22"); got.stderr != "" || got.stdout == "" {
		t.Errorf("quiet: got %+v", got)
	}
	if got := runLine(e, "rebuild", "--dry-run", "redis:2.8.22"); got.stdout != "redis:2.8.22\n" || !strings.Contains(got.stderr, "would be patched") {
		t.Errorf("dry run: got %+v", got)
	}
	if got := runLine(fake(covered(), nil), "rebuild", "--dry-run", "redis:2.8.22"); !strings.Contains(got.stderr, "the fallback would be added") {
		t.Errorf("dry run: got %+v", got)
	}
	got = runLine(fake(clean(), nil), "rebuild", "debian:12")
	if got.stdout != "debian:12\n" || !strings.Contains(got.stderr, "nothing to do") || got.status != 0 {
		t.Errorf("nothing to do: got %+v", got)
	}
	e.rebuild = func(context.Context, string, images.RebuildOptions) (*images.Rebuilt, error) {
		return &images.Rebuilt{Findings: patchable(), Reference: "dir:out", LayerSize: 100}, nil
	}
	if got = runLine(e, "rebuild", "app", "-o", "dir:out"); !strings.Contains(got.stderr, "wrote dir:out: app with the changed files\n") {
		t.Errorf("a directory: got %+v", got)
	}
}

func TestVerifyOutput(t *testing.T) {
	e := fake(harmless(), nil)
	got := runLine(e, "verify", "x-vfix", "--against", "x")
	if got.status != 0 || !strings.Contains(got.stdout, "x-vfix: VERIFIED: 3 files changed from x, only at call sites and for vfix's own code") {
		t.Errorf("got %+v", got)
	}
	e.verify = func(context.Context, string, images.VerifyOptions) (*images.Verified, error) {
		return &images.Verified{Findings: clean(), Compared: 1, Problems: []string{"etc/passwd: differs\x07"}}, nil
	}
	got = runLine(e, "verify", "x-vfix", "--against", "x")
	if got.status != 3 || !strings.HasPrefix(got.stdout, "x-vfix: 1 difference from x that vfix does not make\n  etc/passwd: differs\\a\n") {
		t.Errorf("problems: got %+v", got)
	}
}

// Options reach the engine.
func TestOptionsReachEngine(t *testing.T) {
	var scan images.ScanOptions
	var patched patch.Options
	var rebuild images.RebuildOptions
	var verify images.VerifyOptions
	e := engine{
		scan: func(_ context.Context, _ string, o images.ScanOptions) (*contents.Findings, error) {
			scan = o
			return clean(), nil
		},
		patch: func(_ context.Context, _ []string, o patch.Options) (*contents.Findings, error) {
			patched = o
			return clean(), nil
		},
		rebuild: func(_ context.Context, _ string, o images.RebuildOptions) (*images.Rebuilt, error) {
			rebuild = o
			return rebuiltOf(patchable(), o), nil
		},
		verify: func(_ context.Context, _ string, o images.VerifyOptions) (*images.Verified, error) {
			verify = o
			return &images.Verified{Findings: clean()}, nil
		},
	}
	for _, line := range []string{
		"scan --platform linux/amd64/v2 --insecure -j 3 x",
		"patch -o dest -j 2 x", "patch -i --dry-run x",
		"rebuild -t a:b -o oci:x --insecure --fallback always x",
		"verify --against base --insecure x",
	} {
		if got := runLine(e, strings.Fields(line)...); got.status != 0 {
			t.Errorf("vfix %s: got %+v", line, got)
		}
		if strings.HasPrefix(line, "patch -o") && (patched.Output != "dest" || patched.Jobs != 2 || patched.InPlace || patched.DryRun) {
			t.Errorf("vfix %s: the engine got %+v", line, patched)
		}
	}
	if scan.Media.Platform.String() != "linux/amd64/v2" || !scan.Media.Insecure || scan.Jobs != 3 || scan.Media.Progress == nil {
		t.Errorf("scan: the engine got %+v", scan)
	}
	if !patched.DryRun {
		t.Errorf("patch: the engine got %+v", patched)
	}
	if rebuild.Tag != "a:b" || rebuild.Dest != "oci:x" || rebuild.Suffix != "-vfix" ||
		rebuild.Fallback != fallback.FallbackAlways || len(rebuild.Shim.Library) == 0 || len(verify.Shim.Trace) == 0 || rebuild.Version == "" ||
		rebuild.Media.UserAgent == "" || rebuild.Media.Platform.String() != "linux/amd64" {
		t.Errorf("rebuild: the engine got %+v", rebuild)
	}
	if verify.Against != "base" || !verify.Media.Insecure {
		t.Errorf("verify: the engine got %+v", verify)
	}
}

// Each pair of options that cannot be meant has a sentence of its own, and nothing runs.
func TestUsageErrors(t *testing.T) {
	seen := map[string]string{}
	for line, want := range map[string]string{
		"":                                  "no verb given",
		"scna":                              "no verb scna",
		"--format json":                     "unknown option",
		"scan":                              "no SOURCE given",
		"scan a  b":                         "", // fine: the positive control
		"scan --dry-run x":                  "unknown option",
		"scan --format yaml x":              "--format yaml",
		"scan --jobs -1 x":                  "--jobs -1",
		"scan --jobs many x":                `invalid argument "many"`,
		"scan --platform linux x":           "want OS/ARCH",
		"scan --platform a/b/c/d x":         "--platform a/b/c/d",
		"scan --platform linux/arm64 x":     "only linux/amd64",
		"patch x":                           "no destination",
		"patch -i":                          "no PATH given",
		"patch -i -o y x":                   "--in-place and --output",
		"patch -o y x z":                    "-o DEST takes one PATH",
		"patch -o - x":                      "-o -: cannot write the patched copy",
		"patch --since s -o y x":            "--since works only",
		"patch --insecure -i x":             "unknown option",
		"rebuild x y":                       "2 SOURCEs given",
		"rebuild --push -o docker://y x":    "use one of them",
		"rebuild -t a -o docker://b x":      "already names the result",
		"rebuild -t a -o oci:b:c x":         "already names the result",
		"rebuild --tag-suffix a -o oci:b x": "--output and --tag-suffix",
		"rebuild -o docker://y x":           "",
		"rebuild --push -o oci:b x":         "use one of them",
		"rebuild -t a -o oci:b x":           "",
		"rebuild --push --dry-run x":        "--push and --dry-run",
		"rebuild -t a --tag-suffix b x":     "--tag and --tag-suffix",
		"rebuild -o - x":                    "-o -: cannot write the image",
		"rebuild --tag-suffix= x":           "--tag-suffix is empty",
		"rebuild --output= x":               "--output is empty",
		"rebuild --platform= x":             "--platform is empty",
		"rebuild -o oci: x":                 "-o: oci:: no name after the prefix",
		"list --match= docker://h":          "--match is empty",
		"rebuild --explain x":               "unknown option",
		"rebuild --fallback maybe x":        "--fallback maybe",
		"verify --against= x":               "--against is empty",
		"verify a b":                        "2 SOURCEs given",
		"run":                               "no CMD given",
		"run --way any x":                   "--way any",
		"run --nothing x":                   "unknown option",
		"layer x":                           "layer takes no argument",
		"layer -o -":                        "-o -: cannot write the layer",
		"layer --format xml":                "--format xml",
		"version now":                       "takes no argument",
		"version --format xml":              "--format xml",
		"completion":                        "no SHELL given",
		"completion csh":                    "SHELL csh: want one of bash",
		"help nothing":                      "no verb or topic nothing",
		"help scan patch":                   "help explains one",
	} {
		got := runLine(fake(clean(), nil), strings.Fields(line)...)
		if want == "" {
			if got.status != 0 {
				t.Errorf("vfix %s: got %+v, want status 0", line, got)
			}
			continue
		}
		last := got.stderr[max(strings.LastIndex(got.stderr, "vfix: error: "), 0):]
		if got.status != 2 || got.stdout != "" || !strings.Contains(last, want) || !strings.Contains(last, "\nvfix: hint: ") {
			t.Errorf("vfix %s: got %+v, want status 2 and %q", line, got, want)
		}
		if strings.HasPrefix(want, "-") || strings.HasPrefix(want, "no destination") {
			if other, twice := seen[last]; twice {
				t.Errorf("vfix %s and vfix %s: the same sentence", line, other)
			}
			seen[last] = line
		}
	}
	if got := runLine(engine{}, "patch", "--psh", "x"); !strings.HasSuffix(got.stderr, "vfix: hint: run 'vfix patch --help'\n") {
		t.Errorf("the hint does not name the verb's help: %s", got.stderr)
	}
	if got := runLine(fake(clean(), nil), "scan", ""); got.status != 2 {
		t.Errorf("an empty SOURCE: got %+v", got)
	}
}
