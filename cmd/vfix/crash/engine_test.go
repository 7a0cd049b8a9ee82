// Crashes that an engine, a cluster or an image here reports.

package crash

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"vfix.dev/vfix/host/diagnose"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/tests/imagetest"
)

// kernel is the kernel's release of this machine.
func kernel(t *testing.T) string {
	return strings.TrimSpace(string(imagetest.Must[[]byte](t)(os.ReadFile("/proc/sys/kernel/osrelease"))))
}

// newEngine starts an engine with the image tiny:1, which has a call site and a JVM, and the containers web, up and
// here, each with the image's ID and a name that the engine no longer has.
func newEngine(t *testing.T) (imageID string) {
	t.Helper()
	jvm := imagetest.ModernELF("\x00 for linux-amd64 JRE (17.0.9+9), built on\x00memory.limit_in_bytes\x00/proc/cgroups\x00")
	img := imagetest.Stack(t, []imagetest.TestMember{imagetest.LegacyM("lib/old.so", "1"), imagetest.FileM("jdk/libjvm.so", jvm)})
	img = imagetest.Must[v1.Image](t)(mutate.Config(img, v1.Config{Entrypoint: []string{"/opt/app"}}))
	d := imagetest.NewDaemon(t, img, "tiny:1")
	imageID = d.ID.String()
	d.Has[imageID] = d.Has["tiny:1"]
	container := func(id, name, state, image string) string {
		return fmt.Sprintf(`{"Id":%q,"Name":%q,"Image":%q,"Path":"java","Args":["-jar"],"State":{%s},"Config":{"Image":%q,"Env":["A=b"]},"HostConfig":{"Memory":7}}`,
			id, "/"+name, imageID, state, image)
	}
	web := container("c1", "web", `"ExitCode":139,"FinishedAt":"2026-01-02T03:04:05Z","Error":"boom","OOMKilled":true`, "gone:1")
	up := container("c2", "up", `"Running":true,"Pid":5000000,"ExitCode":139`, "gone:1")
	containers := map[string]string{"web": web, "c1": web, "up": up, "c2": up}
	sock := filepath.Join(filepath.Dir(d.Sock), "e.sock")
	l := imagetest.Must[net.Listener](t)(net.Listen("unix", sock))
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		part := strings.TrimPrefix(r.URL.Path, "/v1.41/")
		name, isContainer := strings.CutPrefix(strings.TrimSuffix(part, "/json"), "containers/")
		switch {
		case part == "version":
			fmt.Fprintf(w, `{"Version":"29.1","KernelVersion":%q}`, kernel(t))
		case isContainer && containers[name] != "":
			io.WriteString(w, containers[name])
		case isContainer:
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, `{"message":"No such container"}`)
		default:
			d.ServeHTTP(w, r)
		}
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	t.Setenv("DOCKER_HOST", "unix://"+sock)
	return imageID
}

// newReader is a reader without a root, unless one is named.
func newReader(t *testing.T, root string) *reader {
	r := &reader{ctx: t.Context(), o: Options{Root: root, Output: func(string) []string { return []string{"OUT"} }}, images: map[string]*image{}}
	if err := r.openRoot(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, f := range r.done {
			f()
		}
	})
	return r
}

// A description of a container gets the facts of the engine's container, but only if it is that container, and
// keeps its own about the end.
func TestResolve(t *testing.T) {
	imagetest.CleanTemp(t)
	imageID := newEngine(t)
	at := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	const scanned, gone = "sites 1", "no engine here has it"
	for _, c := range []struct {
		e    diagnose.Exited
		want string
	}{
		{diagnose.Exited{ID: "c1", Status: 139, Line: "line"}, "|web|c1||java|139|2026|false|boom|" + scanned},
		{diagnose.Exited{ID: "c1", Status: 1}, "|web|c1||java|1|1|true||"},
		{diagnose.Exited{ID: "c1", Status: 139, To: at}, "|web|c1||java|139|2025|false|boom|" + scanned},
		{diagnose.Exited{ID: "c1", Status: 1, To: at}, "|web|c1||java|1|2025|false||"},
		{diagnose.Exited{ID: "c2", Status: 139}, "|up|c2||java|139|1|true||" + scanned},
		{diagnose.Exited{ID: "c2", Status: 139, To: at}, "|up|c2||java|139|2025|false||" + scanned},
		{diagnose.Exited{ID: "c1", Status: 139, Label: "pod", Pod: "ns/web", Node: "n"}, "pod|web|c1|ns/web n|java|139|2026|false|boom|" + gone},
		{diagnose.Exited{Name: "web", Status: 139}, "|web|c1||java|139|2026|false|boom|" + scanned},
		{diagnose.Exited{Name: "web", Status: 139, Image: "gone:1"}, "|web|c1||java|139|2026|false|boom|" + scanned},
		{diagnose.Exited{Name: "web", Status: 139, Image: "tiny:1"}, "|web||||139|1|false||" + scanned},
		{diagnose.Exited{Name: "web", Status: 139, Image: "tiny:1", Pod: "ns/web"}, "|web||ns/web ||139|1|false||" + scanned},
		{diagnose.Exited{Name: "web", Status: 139, Image: "gone:1", Pod: "ns/web"}, "|web||ns/web ||139|1|false||" + gone},
		{diagnose.Exited{Name: "web", Status: 138, Image: "gone:1"}, "|web||||138|1|false||" + gone},
		{diagnose.Exited{Name: "up", Status: 139}, "|up||||139|1|false||its name is not known"},
		{diagnose.Exited{Name: "none", Image: "tiny:1", Status: 159}, "|none||||159|1|false||" + scanned},
		{diagnose.Exited{Name: "none", Image: "tiny:1", Status: 137}, "|none||||137|1|false||jvm " + scanned},
		{diagnose.Exited{Name: "none", Image: "tiny:1", Status: 1}, "|none||||1|1|false||"},
		{diagnose.Exited{Name: "none", Image: "tiny:1", ImageID: "docker://tiny@sha256:1", Status: 139}, "|none||||139|1|false||" + scanned},
		{diagnose.Exited{Name: "none", Image: "gone:1", ImageID: imageID, Status: 139}, "|none||||139|1|false||" + scanned},
	} {
		r := newReader(t, "")
		e, d := c.e, r.d
		r.resolve(&e, &d)
		examined := e.NoScan
		if e.Scan != nil {
			examined = fmt.Sprint("sites ", e.Scan.Sites)
		}
		if strings.Contains(e.JVM, "which ") {
			examined = "jvm " + examined
		}
		program := e.Program
		if c.e.Name == "none" || program == "/opt/app" {
			if want := map[bool]string{true: "/opt/app"}[examined != gone]; program != want {
				t.Errorf("%+v: got program %q, want %q", c.e, program, want)
			}
			program = ""
		}
		got := strings.Join([]string{e.Label, e.Name, e.ID, strings.TrimLeft(e.Pod+" "+e.Node, " "), program, fmt.Sprint(e.Status), fmt.Sprint(e.To.Year()),
			fmt.Sprint(e.NoTime), e.Error, examined}, "|")
		if got != c.want {
			t.Errorf("%+v:\n got %s\nwant %s", c.e, got, c.want)
		}
		if inImage := e.Scan != nil || examined == ""; inImage != (d.Callers != nil && d.Root != nil) || e.Line != c.e.Line || e.Elsewhere {
			t.Errorf("%+v: got %+v, options %+v", c.e, e, d)
		}
		if e.ID == "c1" && (e.Image != "gone:1" || e.ImageID != imageID || fmt.Sprint(e.Words) != "[-jar A=b]" || !e.OutOfMemory || e.Memory != 7 || !e.Has("-jar")) {
			t.Errorf("%+v: got %+v", c.e, e)
		}
	}
}

// The user's root is examined in place of the image, once for all containers.
func TestResolveInRoot(t *testing.T) {
	newEngine(t)
	root := filepath.Join(t.TempDir(), "root")
	if err := os.MkdirAll(root+"/bin", 0o755); err != nil {
		t.Fatal(err)
	}
	imagetest.Write(t, root+"/bin/tool", imagetest.ModernELF("1"))
	r := newReader(t, root)
	var first *diagnose.Scanned
	for range 2 {
		e, d := diagnose.Exited{Name: "none", Image: "tiny:1", Status: 139, Words: []string{"-Xmx1g"}}, r.d
		r.resolve(&e, &d)
		if e.Scan == nil || e.Scan.Sites != 0 || d.RootName != root || d.IsImage || !e.Has("tool") || !e.FixedHeap || first != nil && first != e.Scan {
			t.Errorf("got %+v, options %+v", e, d)
		}
		first = e.Scan
	}
}

// Each kind of CRASH is recognized.
func TestRead(t *testing.T) {
	imagetest.CleanTemp(t)
	newEngine(t)
	dir := t.TempDir()
	t.Chdir(dir)
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	script := imagetest.Write(t, filepath.Join(bin, "kubectl"), []byte("#!/bin/sh\ncase \"$*\" in *gone) echo ' not found ' >&2; exit 1;; *silent) exit 3;; esac\necho \"$*: exited with code 139\"\n"))
	if err := os.Chmod(script, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	const line = "a[7]: segfault at ffffffffff600400 ip ffffffffff600400 sp 00007ff0 error 15"
	imagetest.Write(t, "log", []byte(line+"\n"))
	imagetest.Write(t, "7", []byte(line+"\n"))
	img := imagetest.Stack(t, []imagetest.TestMember{imagetest.LegacyM("lib/old.so", "1")})
	imagetest.Put(t, "docker-archive:"+filepath.Join(dir, "a.tar")+":x:1", media.Result{Image: img})
	stdin := imagetest.Must[*os.File](t)(os.Open("log"))
	before := os.Stdin
	os.Stdin = stdin
	t.Cleanup(func() { os.Stdin = before; stdin.Close() })
	for _, c := range []struct{ arg, want string }{
		{"-", "stdin: 1 [a]"},
		{"log", "log: 1 [a]"},
		{"7", "7: 1 [a]"},
		{"pid:5000001", "error: pid 5000001: "},
		{"5000001", "error: pid 5000001: "},
		{line, "1 [a]"},
		{"container:web", "container web: 1 []"},
		{"web", "container web: 1 []"},
		{"container:tiny:1", "error: no container tiny:1"},
		{"container:log", "error: no container log"},
		{"up", "error: pid 5000000: "},
		{"tiny:1", "tiny:1: 1 [] vfix rebuild tiny:1\n"},
		{"docker-archive:a.tar", "docker-archive:a.tar: 1 [] vfix rebuild docker-archive:a.tar OUT\n"},
		{"docker-archive:none.tar", "error: docker archive: none.tar: "},
		{"none:1", "error: none:1: neither a file nor a container or image of an engine here: no container none:1"},
		{"dir:none", "error: dir:none: neither a file"},
		{"pod/a", "pod/a: 1 [] get pod -o json -- a"},
		{"pods/b", "pods/b: 1 [] get pod -o json -- b"},
		{"pod:ns/c", "pod:ns/c: 1 [] get pod -o json --namespace=ns -- c"},
		{"pod/gone", "error: pod/gone: kubectl: not found\n"},
		{"pod/silent", "error: pod/silent: kubectl: exit status 3\n"},
	} {
		r := newReader(t, "")
		found, err := r.read(c.arg)
		got := fmt.Sprintf("error: %v\n", err)
		if err == nil {
			got = fmt.Sprintf("%s: %d [", found.Input, len(found.Crashes))
			for _, of := range found.Crashes {
				got += of.Program + "] "
				for _, f := range of.Fixes {
					if strings.HasPrefix(f.Command, "vfix rebuild") {
						got += f.Command
					}
				}
				if strings.HasPrefix(c.arg, "pod") {
					got += strings.Join(of.Lines, "")
				}
			}
			got += "\n"
		}
		if !strings.Contains(got, c.want) || strings.HasPrefix(c.want, "error:") != (err != nil) {
			t.Errorf("%s: got %q, want %q", c.arg, got, c.want)
		}
		if strings.HasPrefix(c.want, "error: pod") && !strings.Contains(hinterr.HintOf(err), "kubectl get pod "+strings.TrimPrefix(c.arg, "pod/")+" -o json") {
			t.Errorf("%s: got hint %q", c.arg, hinterr.HintOf(err))
		}
	}
}

// An error of one CRASH does not hide the results of the others.
func TestErrorsAndResults(t *testing.T) {
	imagetest.NoDaemon(t)
	const line = "a[7]: segfault at ffffffffff600400 ip ffffffffff600400 sp 00007ff0 error 15"
	found, err := Diagnose(t.Context(), []string{"none1", line, "none2"}, Options{})
	if err == nil || len(found) != 1 || !strings.Contains(err.Error(), "none1: neither") || !strings.Contains(err.Error(), "none2: neither") {
		t.Errorf("got %+v, %v", found, err)
	}
	if _, err := Diagnose(t.Context(), []string{line}, Options{Root: "oci:" + t.TempDir()}); err == nil {
		t.Error("a root that cannot be read is accepted")
	}
	newEngine(t)
	found, err = Diagnose(t.Context(), []string{"container web exited with code 139"}, Options{})
	if err != nil || len(found) != 1 || len(found[0].Crashes) != 1 || found[0].Crashes[0].Executable != "java" {
		t.Errorf("got %+v, %v", found, err)
	}
}

// The programs of a container: words of its command, and files in its directories of programs. The kernel keeps 15
// bytes of a name.
func TestPrograms(t *testing.T) {
	root := fstest.MapFS{"usr/bin/tool": {}, "usr/bin/averylongprogram": {}, "opt/app/own": {}, "srv/other": {}, "etc/hosts": {}}
	e := &diagnose.Exited{Program: "/opt/app/start", Words: []string{"/srv/run", "bin/averylongcommand1", "A=/x/value", "rel/short"}}
	for comm, want := range map[string]bool{
		"tool": true, "own": true, "other": true, "hosts": false, "run": true, "short": true, "start": false, "value": false, "none": false,
		"averylongprogra": true, "averylongprogr": false, "averylongcomman": true, "averylongcomma": false, "averylongcommaX": false, "../etc/hosts": false,
	} {
		if got := programs(root, e)(comm); got != want {
			t.Errorf("%s: got %v, want %v", comm, got, want)
		}
	}
	if has := programs(nil, e); has("tool") || !has("run") {
		t.Error("without a root: its words alone are programs")
	}
}

func TestLimitsHeap(t *testing.T) {
	for word, want := range map[string]bool{"-Xmx1g": true, "JAVA_OPTS=-XX:MaxRAMPercentage=50": true, "-XX:MaxHeapSize=1g": true, "-Xms1g": false, "": false} {
		if got := limitsHeap(word); got != want {
			t.Errorf("%q: got %v, want %v", word, got, want)
		}
	}
}

// All levels of an image count, and in each the files that no fallback covers.
func TestScanned(t *testing.T) {
	file := func(path, covered string, v find.Verdict) contents.File {
		return contents.File{Path: path, Covered: covered, Report: &find.Report{Sites: []find.Site{{Verdict: v, Function: 1}}}}
	}
	none := &contents.Findings{ELFFiles: 1}
	open := &contents.Findings{ELFFiles: 1, Files: []contents.File{file("a", "", find.Live), file("b", "libvfix.so", find.Live), file("c", "", find.Dormant)}}
	unread := &contents.Findings{ELFFiles: 1, Passed: []contents.Passed{{Path: "x", Unread: true}}}
	levels := func(first, second *contents.Findings) *contents.Findings {
		f := *first
		f.Levels = []*contents.Findings{second}
		return &f
	}
	for name, c := range map[string]struct {
		f    *contents.Findings
		want diagnose.Scanned
	}{
		"none":         {levels(none, none), diagnose.Scanned{Complete: true}},
		"first":        {levels(open, none), diagnose.Scanned{Affected: true, Complete: true, Sites: 1, Files: []string{"a"}}},
		"second":       {levels(none, open), diagnose.Scanned{Affected: true, Complete: true, Sites: 1, Files: []string{"a"}}},
		"both":         {levels(open, open), diagnose.Scanned{Affected: true, Complete: true, Sites: 2, Files: []string{"a", "a"}}},
		"first unread": {levels(unread, none), diagnose.Scanned{}},
		"last unread":  {levels(none, unread), diagnose.Scanned{}},
	} {
		got := scanned(c.f)
		if got.Affected != c.want.Affected || got.Complete != c.want.Complete || got.Sites != c.want.Sites || !slices.Equal(got.Files, c.want.Files) {
			t.Errorf("%s: got %+v, want %+v", name, *got, c.want)
		}
	}
}

// Files with unknown call sites are callers as well; an empty list needs a whole root that was examined.
func TestCallers(t *testing.T) {
	imagetest.CleanTemp(t)
	dir := t.TempDir()
	damaged := imagetest.FileM("lib/damaged.so", imagetest.LegacyELF("1")[:100])
	for _, c := range []struct {
		member     imagetest.TestMember
		name, want string
		more       []imagetest.TestMember
	}{
		{imagetest.FindingM("lib/stays.so", true), "time", "[lib/stays.so] <nil>", nil},
		{imagetest.FindingM("lib/stays.so", true), "getcpu", "[] <nil>", nil},
		{imagetest.LegacyM("lib/old.so", "1"), "time", "[lib/old.so] <nil>", nil},
		{damaged, "time", "[] not all of them were examined", nil},
		{imagetest.LegacyM("lib/both.so", "1"), "time", "[lib/both.so] <nil>", []imagetest.TestMember{damaged}},
	} {
		oci := "oci:" + filepath.Join(dir, c.name+filepath.Base(c.member.Name)) + ":x"
		imagetest.Put(t, oci, media.Result{Image: imagetest.Stack(t, append(c.more, c.member))})
		root := imagetest.Must[*sources.Root](t)(sources.OpenRoot(t.Context(), oci, media.Options{}))
		got, err := (&reader{ctx: t.Context()}).callers(root)(c.name)
		if text := fmt.Sprint(got, " ", err); text != c.want {
			t.Errorf("%s of %s: got %s, want %s", c.name, c.member.Name, text, c.want)
		}
		if err := root.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestThisKernel(t *testing.T) {
	if here := kernel(t); !thisKernel(here) || thisKernel(here+"-of-a-machine") || thisKernel("") {
		t.Errorf("%s alone is this kernel", here)
	}
}
