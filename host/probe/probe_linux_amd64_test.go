package probe

import (
	"os"
	"testing"

	"vfix.dev/vfix/internal/hinterr"
)

func TestOutput(t *testing.T) {
	s := Times([]byte("a 3\na 1.5\nb x\nc -1\nline\n"))
	if len(s) != 1 || s.Quiet("a") != 1.5 || s.Quiet("b") != 0 {
		t.Errorf("got %v", s)
	}
	e := Entered([]byte("a 500/1000\nb absent\nd 0/0\n"))
	if len(e) != 1 || e["a"] != 0.5 {
		t.Errorf("got %v", e)
	}
	const maps = "7fff0-7fff2 r-xp 00000000 00:00 0   [vdso]\nffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0   [vsyscall]\n"
	if got := PagePerms([]byte(maps)); got != "--xp" || PagePerms([]byte(maps[:60])) != "" {
		t.Errorf("got %q", got)
	}
	for want, o := range map[string]Outcome{"ok": {}, "absent": {Status: StatusAbsent}, "SIGSEGV": {Signal: SIGSEGV}, "status 1: no": {Status: 1, Stderr: "no"}} {
		if o.String() != want || o.OK() != (want == "ok") {
			t.Errorf("%+v: got %s", o, o)
		}
	}
}

func TestDir(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	d, err := NewDir(nil)
	if err != nil {
		t.Fatal(err)
	}
	if o, err := d.Run(t.Context(), nil, "time", "2", "100", "syscall:time"); err != nil || Times(o.Stdout).Quiet("syscall:time") == 0 {
		t.Errorf("got %+v, %v", o, err)
	}
	if err := d.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := NewDir(map[string][]byte{Measure: []byte("no program")}); err == nil || hinterr.HintOf(err) == "" {
		t.Errorf("a text file was accepted: %v", err)
	}
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
