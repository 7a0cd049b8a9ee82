package diagnose

import (
	"encoding/binary"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// elfFile is the start of a program for a machine, with an interpreter or none.
func elfFile(class byte, machine uint16, interpreter string) *fstest.MapFile {
	b := make([]byte, 512)
	copy(b, "\x7fELF")
	b[4], b[5] = class, 1
	le := binary.LittleEndian
	le.PutUint16(b[18:], machine)
	const at = 256
	copy(b[at:], interpreter+"\x00")
	length := len(interpreter) + 1
	if interpreter == "" || class == class32 {
		return &fstest.MapFile{Data: b}
	}
	le.PutUint16(b[16:], etExec)
	le.PutUint16(b[54:], phdrSize)
	le.PutUint64(b[32:], 64)
	le.PutUint16(b[56:], 1)
	le.PutUint32(b[64:], 3)
	le.PutUint64(b[72:], at)
	le.PutUint64(b[96:], uint64(length))
	return &fstest.MapFile{Data: b}
}

// deaths are the files of an image whose programs do not start.
var deaths = fstest.MapFS{
	"app/i386":                    elfFile(class32, em386, "/lib/ld-linux.so.2"),
	"app/arm":                     elfFile(class64, 183, "/lib/ld-linux-aarch64.so.1"),
	"app/amd64":                   elfFile(class64, emX8664, "/lib64/ld-linux-x86-64.so.2"),
	"app/musl":                    elfFile(class64, emX8664, "/lib/ld-musl-x86_64.so.1"),
	"app/text":                    {Data: []byte("echo hello\n")},
	"app/script":                  {Data: []byte("#! /usr/bin/python2 -u\nprint 1\n")},
	"app/empty":                   {},
	"lib64/ld-linux-x86-64.so.2":  {Data: []byte("here")},
	"usr/share/doc/not-a-program": {Data: []byte("text")},
}

// TestStartFailures: errors of engines and shells, with and without the files of the image.
func TestStartFailures(t *testing.T) {
	for _, c := range []struct {
		line string
		root bool
		kind Kind // "" for a line without one
		says string
	}{
		{"exec /app/i386: exec format error", true, ExecFormat, "/app/i386 is a 32-bit program"},
		{"exec /app/arm: exec format error", true, ExecFormat, "another architecture (e_machine 183)"},
		{"exec /app/text: exec format error", true, ExecFormat, "neither an ELF file nor a script"},
		{"exec /app/empty: exec format error", true, ExecFormat, "neither an ELF file nor a script"},
		{"standard_init_linux.go:228: exec user process caused: exec format error", true, ExecFormat, "a 32-bit one"},
		{"bash: /app/i386: cannot execute binary file: Exec format error", false, ExecFormat, "a 32-bit one"},
		{"exec /app/i386: no such file or directory", true, MissingLoader, "/app/i386 exists, and /lib/ld-linux.so.2, which loads it, does not"},
		{"exec /app/musl: no such file or directory", true, MissingLoader, "/lib/ld-musl-x86_64.so.1"},
		{"exec /app/script: no such file or directory", true, MissingLoader, "/usr/bin/python2"},
		{"sh: 1: /app/i386: no such file or directory", true, MissingLoader, "/lib/ld-linux.so.2"},
		{"bash: /app/i386: cannot execute: required file not found", false, MissingLoader, "32-bit loader"},
		{`OCI runtime create failed: runc create failed: unable to start container process: exec: "/app/none": stat /app/none: no such file or directory: unknown`, true, Unknown, "does not exist, or its loader"},
		{"exec /app/amd64: no such file or directory", true, "", ""},
		{"bash: /app/amd64: cannot execute: required file not found", true, "", ""},
		{"cat: /usr/share/doc/none: No such file or directory", true, "", ""},
		{"cat: /usr/share/doc/none: No such file or directory", false, "", ""},
		{`Error response from daemon: not implemented: media type "application/vnd.docker.distribution.manifest.v1+prettyjws" is no longer supported since containerd v2.1, please rebuild the image`, false, Schema1, "schema 1"},
		{"Docker Image Format v1 and Docker Image manifest version 2, schema 1 support is disabled by default and will be removed", false, Schema1, "schema 1"},
		{"the schema 1 of the database", false, "", ""},
	} {
		o := Options{}
		if c.root {
			o.Root, o.RootName = deaths, "old:1"
		}
		got := startFailure(c.line, o)
		if got != nil {
			keep(t, c.line, &Result{Crashes: []*Crash{got}}, nil)
		}
		switch {
		case c.kind == "" && got != nil:
			t.Errorf("%s: got %s (%s), want nothing", c.line, got.Kind, got.Meaning)
		case c.kind != "" && (got == nil || got.Kind != c.kind || !strings.Contains(got.Meaning, c.says)):
			t.Errorf("%s: got %+v, want %s with %q", c.line, got, c.kind, c.says)
		}
		r, err := Line(c.line, o)
		if c.kind == "" != (err != nil) || err == nil && (len(r.Crashes) != 1 || r.Crashes[0].Source != Message || r.Crashes[0].Kind.Vsyscall()) {
			t.Errorf("%s: got %+v, %v", c.line, r, err)
		}
	}
}

// TestFailedStart: the same for a container that was not started.
func TestFailedStart(t *testing.T) {
	r := Container(Exited{Name: "web", Image: "old:1", Status: 127, Error: "failed to create task: exec: \"/app/i386\": no such file or directory"}, Options{Root: deaths})
	if c := r.Crashes[0]; c.Kind != MissingLoader || c.Source != ContainerEnd || c.Input != "container web" || len(c.Notes) != 1 {
		t.Errorf("got %+v", c)
	}
}

// TestOutOfMemory: the kernel's messages, and a container's end.
func TestOutOfMemory(t *testing.T) {
	for _, line := range []string{
		"[  812.1] Memory cgroup out of memory: Killed process 4711 (java) total-vm:9021092kB, anon-rss:261120kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1036kB oom_score_adj:0",
		"kernel: Memory cgroup out of memory: Kill process 4711 (java) score 1950 or sacrifice child",
	} {
		r, err := Line(line, Options{})
		if err != nil || len(r.Crashes) != 1 || r.Crashes[0].Kind != OutOfMemory || r.Crashes[0].Program != "java" || r.Crashes[0].PIDs[0] != 4711 {
			t.Errorf("%s: got %+v, %v", line, r, err)
		}
	}
	e := Exited{Name: "web", Image: "old:1", Status: 137, To: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), OutOfMemory: true, Memory: 256 << 20}
	c := Container(e, Options{}).Crashes[0]
	if c.Kind != OutOfMemory || !strings.Contains(c.Meaning, "268435456 bytes") || len(c.Fixes) != 0 {
		t.Errorf("got %+v", c)
	}
	e.JVM = "It has JDK 17."
	c = Container(e, Options{}).Crashes[0]
	if len(c.Fixes) != 1 || c.Fixes[0].Command != "docker run --env JAVA_TOOL_OPTIONS=-XX:MaxRAM=268435456 old:1" || !strings.Contains(c.Meaning, "JDK 17") {
		t.Errorf("got %+v", c)
	}
	e.FixedHeap = true
	if c = Container(e, Options{}).Crashes[0]; len(c.Fixes) != 0 || len(c.Notes) != 1 {
		t.Errorf("with a limit of the heap: got %+v", c)
	}
}

// TestLibcrypto: the kernel prints the code behind the crash since Linux 4.20.
func TestLibcrypto(t *testing.T) {
	const crash = "nginx[81]: segfault at 7f8050000000 ip 00007f8048c1ae13 sp 00007f80555a1b50 error 4 in libcrypto.so.1.0.0[7f8048bae000+21a000]\n"
	const sha = "Code: 66 0f 38 00 e3 0f 3a cc c1 03 0f 38 c8 d7 <f3> 0f 6f 26 66 0f 38 00\n"
	for log, want := range map[string]Kind{
		crash + sha: OpenSSLSHA,
		crash + "Code: 48 89 c7 e8 <f3> 0f 6f 26 66 0f\n": Other,
		crash: Other,
		strings.Replace(crash, "libcrypto.so.1.0.0", "libother.so", 1) + sha: Other,
	} {
		crashes, _, err := logged(t, log, Options{})
		if err != nil || len(crashes) != 1 || crashes[0].Kind != want {
			t.Fatalf("%s: got %+v, %v", log, crashes, err)
		}
		if c := crashes[0]; want == OpenSSLSHA && !strings.Contains(c.Meaning, "1.0.2k") {
			t.Errorf("got %s", c.Meaning)
		}
	}
}

func FuzzStartFailure(f *testing.F) {
	f.Add("exec /app/i386: exec format error", deaths["app/i386"].Data)
	f.Add("exec /app/x: no such file or directory", deaths["app/musl"].Data)
	f.Fuzz(func(_ *testing.T, line string, file []byte) {
		root := fstest.MapFS{"app/i386": {Data: file}, "app/x": {Data: file}}
		more(line, Options{Root: root})
		startFailure("exec /app/x: no such file or directory", Options{Root: root})
	})
}
