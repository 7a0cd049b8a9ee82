package install

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"vfix.dev/vfix/internal/hinterr"
)

// With Hook, an engine's directory of hooks gets one file, beside what others have there, and no runtime is configured.
func TestHook(t *testing.T) {
	for _, e := range HookEngines {
		root := machine(t, map[string]string{"usr/bin/" + string(e): "", filepath.Join(filepath.Dir(hookFile), "other.json"): "{}"})
		before := snapshot(t, root)
		for _, optIn := range []bool{false, true} {
			o := options(t, e, root)
			o.Hook, o.OptIn = true, optIn
			r, err := Install(o)
			if must(t, r, err); r.RuntimeClass != "" {
				t.Errorf("%s: got the RuntimeClass %s", e, r.RuntimeClass)
			}
			text, err := os.ReadFile(filepath.Join(root, hookFile))
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Version string
				Hook    struct {
					Path    string
					Args    []string
					Timeout int
				}
				When struct {
					Always      bool
					Annotations map[string]string
				}
				Stages []string
			}
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatalf("%s: %s: %v", e, text, err)
			}
			if got.Version != "1.0.0" || got.Hook.Path != "/usr/local/bin/vfix-runtime" || len(got.Hook.Args) != 2 || got.Hook.Args[1] != "hook" ||
				got.Hook.Timeout < 60 || len(got.Stages) != 1 || got.Stages[0] != "createRuntime" || got.When.Always == optIn || len(got.When.Annotations) == 0 == optIn {
				t.Errorf("%s, opt-in %v: got %s", e, optIn, text)
			}
			if _, err := os.Stat(filepath.Join(root, engines[e].config)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: a runtime is also configured: %v", e, err)
			}
		}
		r, err := Uninstall(Options{Root: root})
		must(t, r, err)
		if got := snapshot(t, root); got != before {
			t.Errorf("%s: after uninstall: got\n%s\nwant\n%s", e, got, before)
		}
	}
	o := options(t, Docker, machine(t, machines[Docker].files))
	o.Hook = true
	if _, err := Install(o); !errors.Is(err, hinterr.ErrUnsupported) {
		t.Errorf("docker: got %v", err)
	}
}
