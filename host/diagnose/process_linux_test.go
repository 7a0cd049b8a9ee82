package diagnose

import (
	"os"
	"strings"
	"testing"
)

func TestParseMaps(t *testing.T) {
	co, f, err := parseMaps(strings.NewReader(`00400000-00402000 r-xp 00001000 fe:00 12 /opt/my prog (deleted)
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]
nonsense
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]
`))
	if err != nil || len(co.loads) != 3 || len(f.mappings) != 1 || f.mappings[0] != (mapping{0x400000, 0x402000, 0x1000, "/opt/my prog (deleted)"}) {
		t.Errorf("got %+v, %+v, %v", co.loads, f.mappings, err)
	}
	if co.segmentAt(0xffffffffff600000) == nil || co.segmentAt(0x402000) != nil {
		t.Error("the page is not found, or something else is")
	}
}

// This process is reported as running.
func TestLiveProcess(t *testing.T) {
	r, err := PID(os.Getpid(), Options{})
	if err != nil || len(r.Crashes) != 1 || r.Crashes[0].Kind != None || r.Crashes[0].Executable == "" || !strings.Contains(r.Crashes[0].Meaning, "Still running") {
		t.Errorf("got %+v, %v", r, err)
	}
	// The highest number that there can be, and never is one: pid_max is below it.
	if r, err := PID(1<<31-1, Options{}); err == nil {
		t.Errorf("a process that does not exist: got %+v", r)
	}
}

// A file of a container's process is not suggested by its path in the container.
func TestScannedPath(t *testing.T) {
	other := t.TempDir()
	if err := os.Mkdir(other+"/root", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir  string
		o    Options
		want string
	}{
		{"/proc/self", Options{}, "/lib/libc.so"},
		{other, Options{}, other + "/root/lib/libc.so"},
		{other, Options{RootName: "redis:2.8.22", IsImage: true}, "redis:2.8.22"},
	} {
		if got := scanned(c.dir, "/lib/libc.so", c.o); got != c.want {
			t.Errorf("%s: got %s, want %s", c.dir, got, c.want)
		}
	}
}
