package install

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// The test program called again with this variable is vfix that is killed before its n-th
// change to the disk: no deferred function runs, as with kill -9.
const crashVariable = "VFIX_TEST_CRASH" // VERB ENGINE ROOT PROGRAM N

func TestMain(m *testing.M) {
	args := strings.Fields(os.Getenv(crashVariable))
	if len(args) == 0 {
		os.Exit(m.Run())
	}
	left, _ := strconv.Atoi(args[4])
	testStep = func() {
		if left--; left < 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	o := Options{Engine: Engine(args[1]), Root: args[2], Program: args[3], FailClosed: true}
	do := Install
	if args[0] == "uninstall" {
		do = Uninstall
	}
	if _, err := do(o); err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
	os.Exit(0)
}

// crash runs a verb that is killed at its n-th step, and says whether it was.
func crash(t *testing.T, verb string, e Engine, root, program string, n int) bool {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashVariable+"="+strings.Join([]string{verb, string(e), root, program, strconv.Itoa(n)}, " "))
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("step %d of %s: %v, %s", n, verb, err, out)
	}
	return true
}

// leftovers are unfinished files outside of the state directory.
func leftovers(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), tempPrefix) {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Killed before any of its changes, install can be done again, and uninstall takes all back.
// An engine reads at each moment either the old file or the whole new one.
func TestKilled(t *testing.T) {
	program := testProgram(t)
	for _, e := range []Engine{Docker, CRIO} {
		m := machines[e]
		done := machine(t, m.files)
		r, err := Install(Options{Engine: e, Root: done, Program: program, FailClosed: true})
		must(t, r, err)
		after := get(t, done, m.file)
		for _, verb := range []string{"install", "uninstall"} {
			steps := 0
			for n := 0; ; n++ {
				root := machine(t, m.files)
				put(t, root, filepath.Dir(stateDir)+"/there", "") // on a real machine it is
				before := withoutTimes(snapshot(t, root))
				if verb == "uninstall" {
					r, err := Install(Options{Engine: e, Root: root, Program: program, FailClosed: true})
					must(t, r, err)
				}
				if !crash(t, verb, e, root, program, n) {
					break
				}
				steps++
				if b, err := os.ReadFile(filepath.Join(root, m.file)); err == nil {
					if string(b) != after && string(b) != m.files[m.file] {
						t.Errorf("%s %s, step %d: the configuration is %q", verb, e, n, b)
					}
					if string(b) == after && !exists(root, "usr/local/bin/vfix-runtime") {
						t.Errorf("%s %s, step %d: the configuration names what is not there", verb, e, n)
					}
				}
				for _, again := range []string{"install", "uninstall"} {
					if again == "install" && n%2 == 1 {
						continue // every second time it is uninstalled at once
					}
					if crash(t, again, e, root, program, 1<<30) {
						t.Fatal("killed without a reason")
					}
					if again == "install" && get(t, root, m.file) != after {
						t.Errorf("%s %s, step %d: install again gives %q", verb, e, n, get(t, root, m.file))
					}
				}
				if got := withoutTimes(snapshot(t, root)); got != before {
					t.Errorf("%s %s, step %d: got\n%s\nwant\n%s", verb, e, n, got, before)
				}
				if l := leftovers(t, root); len(l) > 0 {
					t.Errorf("%s %s, step %d: left behind: %v", verb, e, n, l)
				}
			}
			if steps < 15 {
				t.Errorf("%s %s: only %d steps were seen", verb, e, steps)
			}
			t.Logf("%s %s: %d steps", verb, e, steps)
		}
	}
}

func exists(root, name string) bool {
	_, err := os.Stat(filepath.Join(root, name))
	return err == nil
}

// withoutTimes makes snapshots of different directories comparable.
func withoutTimes(s string) string {
	var b bytes.Buffer
	for line := range strings.Lines(s) {
		f := strings.SplitN(line, " ", 4)
		if len(f) == 4 {
			f[2] = "-"
		}
		b.WriteString(strings.Join(f, " "))
	}
	return b.String()
}
