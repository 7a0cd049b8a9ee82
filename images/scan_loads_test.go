package images_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/tests/imagetest"
)

// The libraries that are examined with a program, or with the programs of a directory, and their root.
func TestScanLoads(t *testing.T) {
	const calls = `long f(void) { return ((long (*)(void *))0xffffffffff600400)(0); }`
	library := func(name string, more ...string) []byte {
		return imagetest.Compiled(t, calls, append([]string{"-shared", "-fPIC", "-nostdlib", "-Wl,-soname," + name}, more...)...)
	}
	mine, other := library("libmine.so"), library("libother.so")
	at := t.TempDir()
	for name, b := range map[string][]byte{"libmine.so": mine, "libother.so": other} {
		imagetest.Write(t, at+"/"+name, b)
	}
	program := func(args ...string) []byte {
		return imagetest.Compiled(t, `long f(void); void _start(void) { f(); }`, append([]string{"-nostdlib", "-nostartfiles", "-Wl,--no-as-needed", "-L" + at, "-lmine"}, args...)...)
	}
	app := program("-lother", "-Wl,-rpath,$ORIGIN")
	static := imagetest.Compiled(t, calls+` void _start(void) { f(); }`, "-static", "-nostdlib", "-nostartfiles")
	pie := imagetest.Compiled(t, calls+` void _start(void) { f(); }`, "-static-pie", "-nostdlib", "-nostartfiles")
	odd := program("-Wl,-rpath,$ORIGIN", "-Wl,--dynamic-linker=/none.so") // its loader is nowhere
	loader := imagetest.Compiled(t, "", "-shared", "-nostdlib", "-Wl,-soname,ld-linux-x86-64.so.2")
	root, bare, lone, merged, nested := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	for dir, files := range map[string]map[string][]byte{
		root: {
			"usr/lib64/ld-linux-x86-64.so.2": loader, "usr/lib64/libother.so": other, "lib64/ld-linux-x86-64.so.2": loader,
			"opt/app/app": app, "opt/app/libmine.so": mine, "opt/lone/app": program(), "opt/static": static, "pie/pie": pie, "fs/x": []byte("hsqs" + strings.Repeat("\x00", 100)), "zz/odd": odd, "opt/text": []byte("a text, in which vfix looks for nothing\n"), "usr/bin/app": app,
			"opt/empty/text": []byte("text"),
		},
		bare:   {"app": app, "libmine.so": mine},
		lone:   {"odd": odd, "libmine.so": mine},
		nested: {"chroot/lib64/ld-linux-x86-64.so.2": loader, "chroot/lib64/libmine.so": mine, "chroot/tool": program(), "tool": program()},
		merged: {"usr/lib64/ld-linux-x86-64.so.2": loader, "usr/lib64/libmine.so": mine, "usr/lib64/tool": program()},
	} {
		for name, b := range files {
			if err := os.MkdirAll(filepath.Dir(dir+"/"+name), 0o755); err != nil {
				t.Fatal(err)
			}
			imagetest.Write(t, dir+"/"+name, b)
		}
	}
	if err := syscall.Mkfifo(root+"/opt/app/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("usr/lib64", merged+"/lib64"); err != nil {
		t.Fatal(err)
	}
	const ld = "ROOT/lib64/ld-linux-x86-64.so.2"
	for _, c := range []struct{ source, root, want string }{
		{"ROOT/opt/app/app", "", "root ROOT: " + ld + " ROOT/opt/app/libmine.so ROOT/usr/lib64/libother.so; missing ; found ROOT/opt/app/libmine.so ROOT/usr/lib64/libother.so"},
		{"ROOT/usr/bin/app", "", "root ROOT: " + ld + " ROOT/usr/lib64/libother.so; missing libmine.so; found ROOT/usr/lib64/libother.so"},
		{"ROOT/opt/lone/app", "", "root ROOT: " + ld + "; missing libmine.so; found "},
		{"ROOT/opt/app/libmine.so", "", "a library; found ROOT/opt/app/libmine.so"},
		{"ROOT/opt/static", "", "found ROOT/opt/static"},
		{"ROOT/pie/pie", "", "found ROOT/pie/pie"},
		{"LONE/odd", "", "root /: LONE/libmine.so; missing /none.so; found LONE/libmine.so"},
		{"/proc/self/rootLONE/odd", "", "root /proc/self/root: /proc/self/rootLONE/libmine.so; missing /none.so; found /proc/self/rootLONE/libmine.so"},
		{"ROOT/opt/text", "", "found ; passed ROOT/opt/text"},
		{"dir:ROOT/opt/app", "", "root ROOT: " + ld + " ROOT/usr/lib64/libother.so; missing ; found libmine.so ROOT/usr/lib64/libother.so"},
		{"dir:ROOT/opt", "", "root ROOT: " + ld + " ROOT/usr/lib64/libother.so; missing libmine.so; found app/libmine.so static ROOT/usr/lib64/libother.so"},
		{"dir:ROOT/opt/empty", "", "found "},
		{"dir:ROOT/fs", "", "found ; passed x"},
		{"dir:ROOT", "", "found opt/app/libmine.so opt/static pie/pie usr/lib64/libother.so; passed fs/x"},
		{"BARE/app", "", "root /: BARE/libmine.so; missing /lib64/ld-linux-x86-64.so.2 libother.so; found BARE/libmine.so"},
		{"BARE/app", "ROOT", "root ROOT: " + ld + " ROOT/usr/lib64/libother.so; missing libmine.so; found ROOT/usr/lib64/libother.so"},
		{"dir:MERGED/usr/lib64", "", "root MERGED: ; missing ; found libmine.so"},                                     // by way of /lib64
		{"dir:NESTED", "", "root /: ; missing /lib64/ld-linux-x86-64.so.2 libmine.so; found chroot/lib64/libmine.so"}, // of tool, not of chroot/tool
		{"dir:BARE", "ROOT", "root ROOT: " + ld + " ROOT/usr/lib64/libother.so; missing libmine.so; found libmine.so ROOT/usr/lib64/libother.so"},
	} {
		here := func(s string) string {
			return strings.NewReplacer("ROOT", root, "BARE", bare, "LONE", lone, "MERGED", merged, "NESTED", nested).Replace(s)
		}
		f, err := images.Scan(t.Context(), here(c.source), images.ScanOptions{Root: here(c.root)})
		if err != nil {
			t.Errorf("%s: %v", c.source, err)
			continue
		}
		got := ""
		if f.Library {
			got = "a library; "
		}
		if l := f.Loads; l != nil {
			got = fmt.Sprintf("root %s: %s; missing %s; ", l.Root, strings.Join(l.Examined, " "), strings.Join(l.Missing, " "))
		}
		got += "found " + imagetest.Paths(f)
		for _, p := range f.Passed {
			got += "; passed " + p.Path
		}
		if got != here(c.want) {
			t.Errorf("%s, root %q: got\n%s, want\n%s", c.source, c.root, got, here(c.want))
		}
	}
	if _, err := images.Scan(t.Context(), root+"/opt/app/app", images.ScanOptions{Root: root + "/none"}); err == nil {
		t.Error("a root that is missing: no error")
	}
}

// This machine's root is whole, wherever its programs lie: nothing that they load is missing or examined again.
func TestScanLoadsOfMachine(t *testing.T) {
	program := imagetest.Compiled(t, `void _start(void) {}`, "-nostdlib", "-nostartfiles", "-Wl,--no-as-needed", "-lc")
	at := imagetest.Write(t, t.TempDir()+"/program", program)
	f := &contents.Findings{Programs: []contents.Program{{Path: strings.TrimPrefix(at, "/"), Interp: "/lib64/ld-linux-x86-64.so.2"}}}
	if err := images.ScanLoads(t.Context(), imagetest.TestSession(t), "/", "", f); err != nil || f.Loads != nil {
		t.Errorf("got %+v, %v", f.Loads, err)
	}
}
