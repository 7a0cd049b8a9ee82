package diagnose

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A container is identified by its exit status, and by the kernel's lines around its end.
func TestContainerLog(t *testing.T) {
	end := time.Date(2026, 11, 21, 21, 18, 4, 0, time.UTC)
	line := func(after time.Duration, text string) logEntry { return logEntry{end.Add(after), text} }
	const call = " vsyscall attempted with vsyscall=none ip:ffffffffff600400 cs:33 sp:7ff0 ax:0 si:0 di:0"
	for name, c := range map[string]struct {
		entries []logEntry
		want    string // programs and kinds
	}{
		"nothing":            {nil, ""},
		"its program":        {[]logEntry{line(0, "docker-entrypoi[7]"+call)}, "docker-entrypoi call"},
		"its child":          {[]logEntry{line(-time.Second, "redis-server[8]"+call)}, "redis-server call"},
		"another time":       {[]logEntry{line(-time.Minute, "docker-entrypoi[7]"+call), line(time.Minute, "docker-entrypoi[7]"+call)}, ""},
		"its program first":  {[]logEntry{line(0, "other[9]"+call), line(0, "docker-entrypoi[7]"+call)}, "docker-entrypoi call"},
		"its own other":      {[]logEntry{line(0, "other[9]"+call), line(0, "docker-entrypoi[7]: segfault at 10 ip 7f0 sp 7ff error 6")}, "docker-entrypoi other"},
		"somebody's other":   {[]logEntry{line(0, "other[9]: segfault at 10 ip 7f0 sp 7ff error 6")}, ""},
		"another signal":     {[]logEntry{line(0, `audit: type=1326 audit(1.2:3): pid=7 comm="x" exe="/x" sig=31 ip=0xffffffffff600400`)}, ""},
		"two lines together": {[]logEntry{line(0, "redis-server[7]"+call), line(0, "redis-server[7]: segfault at ffffffffff600400 ip ffffffffff600400 sp 00007ff0 error 15")}, "redis-server call"},
		"somebody's call":    {[]logEntry{line(0, "other[9]"+call)}, ""},
		"its child's own":    {[]logEntry{line(0, "other[9]"+call), line(0, "redis-server[8]: segfault at 10 ip 7f0 sp 7ff error 6")}, "redis-server other"},
	} {
		for _, status := range []int{139, 1} { // its own, and that of a script whose command crashed
			e := Exited{Name: "web", Image: "redis:2.8.22", Program: "/usr/local/bin/docker-entrypoint.sh", Status: status, To: end,
				Has: func(comm string) bool { return comm == "redis-server" }}
			ours, others := e.inLog(c.entries, Options{RootName: "redis:2.8.22", IsImage: true, Callers: libcCalls})
			keep(t, fmt.Sprintf("%s, status %d", name, status), &Result{Crashes: append(slices.Clip(ours), others...)}, nil)
			var got []string
			for _, c := range ours {
				got = append(got, c.Program+" "+string(c.Kind))
				if c.Kind.Fixable() && fixes(c) != "vfix rebuild redis:2.8.22" || !strings.HasPrefix(c.When, "2026-11-21T21:18:0") {
					t.Errorf("%s: got fixes %s at %s", name, fixes(c), c.When)
				}
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("%s, status %d: got %q, want %q", name, status, got, c.want)
			}
		}
	}
}

// A crash at the same time, of a program that may not be in the container, is shown but not attributed.
func TestContainerOthers(t *testing.T) {
	end := time.Date(2026, 11, 21, 21, 18, 4, 0, time.UTC)
	const call = "other[9] vsyscall attempted with vsyscall=none ip:ffffffffff600400 cs:33 sp:7ff0 ax:0 si:0 di:0"
	e := Exited{Name: "web", Program: "/bin/web", Status: 139, To: end}
	if ours, others := e.inLog([]logEntry{{end, call}, {end.Add(time.Hour), call}}, Options{}); len(ours) != 0 || len(others) != 1 || others[0].Lines[0] != call {
		t.Errorf("got %+v, %+v", ours, others)
	}
	if e.has("other") || !e.has("web") || e.has("") {
		t.Error("what it has")
	}
}

func TestContainerStatus(t *testing.T) {
	for status, want := range map[int]struct {
		kind Kind
		says string
	}{
		0: {None, "not stand for a signal"}, 3: {None, "exit status 3"}, 255: {Other, ""}, 137: {Other, "SIGKILL"}, 134: {Other, "SIGABRT"},
		139: {Unknown, "SIGSEGV"},
	} {
		// No kernel's log has lines of the year 2000.
		r := Container(Exited{Name: "web", Image: "redis:2.8.22", Status: status, To: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)}, Options{})
		if c := r.Crashes[0]; c.Kind != want.kind || !strings.Contains(c.Meaning, want.says) || len(c.Fixes) > 0 {
			t.Errorf("status %d: got %+v", status, c)
		}
	}
}

// A root is proposed for a fix only if one of its files calls the function: a log has no caller, and a core's may
// be missing.
func TestPossibleCallers(t *testing.T) {
	many := strings.Fields("a b c d e f g h i j")
	line := "a[7]: segfault at ffffffffff600400 ip ffffffffff600400 sp 00007ff0 error 15"
	for want, c := range map[string]struct {
		files []string
		err   error
		image bool
		fix   string
	}{
		"these files of x call time(): lib/libc.so": {[]string{"lib/libc.so"}, nil, true, "vfix rebuild x"},
		"h and 2 more":                     {many, nil, true, "vfix rebuild x"},
		"call time(): bin/a":               {[]string{"bin/a"}, nil, false, "vfix patch -i x"},
		"no file of x calls time()":        {nil, nil, true, ""},
		"no file of x calls time(): ":      {nil, nil, false, ""},
		"the files of x: not all examined": {nil, errors.New("not all examined"), true, ""},
	} {
		queried := ""
		o := Options{RootName: "x", IsImage: c.image, HasCommand: noCommand, Callers: func(f string) ([]string, error) { queried = f; return c.files, c.err }}
		crashes, _, _ := logged(t, line, o)
		if len(crashes) != 1 || queried != "time" || !strings.Contains(crashes[0].Notes[0], want) || fixes(crashes[0]) != c.fix {
			t.Errorf("got %q, %s, want %q, %s", crashes[0].Notes, fixes(crashes[0]), want, c.fix)
		}
		core := diagnosed(t, crashedCore().bytes(), o)
		if fixes(core) != c.fix {
			t.Errorf("%s: a core: got %s", want, fixes(core))
		}
	}
	// Nobody looked.
	crashes, _, _ := logged(t, line, Options{RootName: "x", IsImage: true})
	if c := crashes[0]; len(c.Fixes) > 0 || c.Next == nil || c.Next.Command != "vfix scan x" {
		t.Errorf("got %+v, next %+v", c.Fixes, c.Next)
	}
}

// A container that was never started has no exit status and no time.
func TestContainerNotStarted(t *testing.T) {
	for engine, want := range map[string]string{"": "has not been started", "exec: no such file": "The engine's error: exec: no such file"} {
		r := Container(Exited{Name: "web", Image: "x", Error: engine}, Options{})
		if c := r.Crashes[0]; c.Kind != None || c.When != "" || !strings.Contains(c.Meaning, want) || strings.Contains(c.Meaning, "exit status") {
			t.Errorf("got %+v", c)
		}
	}
}

// An empty input is not a log without a crash.
func TestEmptyInput(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "core")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func() (*Result, error){
		"a file": func() (*Result, error) { return File(empty, Options{}) },
		"a pipe": func() (*Result, error) { return Text("stdin", strings.NewReader(""), Options{}) },
		"no dmesg": func() (*Result, error) {
			return Text("stdin", strings.NewReader("dmesg: read kernel buffer failed: Operation not permitted\n"), Options{})
		},
	} {
		if r, err := f(); err == nil {
			t.Errorf("%s: no error, and %+v", name, r)
		}
	}
	if _, err := Text("stdin", strings.NewReader("a line of a quiet machine\n"), Options{}); err != nil {
		t.Errorf("a log without a crash: %v", err)
	}
}

// 139 is more likely an exit status than a process.
func TestPIDIsExitStatus(t *testing.T) {
	if IsFile("/proc/139") {
		t.Skip("there is a process 139")
	}
	_, err := PID(139, Options{})
	if err == nil || !strings.Contains(err.Error(), "exit status") {
		t.Errorf("got %v", err)
	}
}
