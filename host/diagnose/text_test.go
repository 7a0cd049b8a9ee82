package diagnose

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vfix.dev/vfix/internal/hinterr"
)

// summary is the part of a result that the tables compare: kind, confidence and the next command of each crash.
func summary(r *Result) string {
	var all []string
	for _, c := range r.Crashes {
		next := ""
		if c.Next != nil {
			next = c.Next.Command
		}
		all = append(all, string(c.Kind)+" "+string(c.Confidence)+": "+next)
	}
	return strings.Join(all, "\n")
}

func diagnosed(t *testing.T, text string, o Options) *Result {
	t.Helper()
	r, err := Text("x", strings.NewReader(text), o)
	if err != nil {
		t.Fatalf("%.80q: %v", text, err)
	}
	return r
}

// Public reports of such crashes, with other names and numbers.
func TestReports(t *testing.T) {
	for name, want := range map[string]string{
		"02c-kata-logfmt.log":       "call likely: kubectl get pods -A -o json | vfix diagnose -",
		"03b-boinc-readonly.log":    "read uncertain: vfix scan PROGRAM",
		"04-wsl-gdb.txt":            "call likely: vfix patch -o PROGRAM.vfix PROGRAM",
		"05-shelxe-strace.txt":      "call likely: vfix patch -o solve.vfix /opt/tools/solve",
		"09-dockerdesktop.log":      "call likely: docker ps -a --filter exited=139",
		"10-conda.log":              "call likely: vfix patch -o grid_task1_vina.vfix PROGRAM",
		"13-schema1-containerd.txt": "schema1 certain: vfix rebuild docker://IMAGE -o docker-daemon:IMAGE",
		"13b-schema1-docker26.txt":  "schema1 certain: vfix rebuild docker://docker.io/library/app:2.2 -o docker-daemon:docker.io/library/app:2.2",
		"13e-schema1-compose.txt":   "schema1 certain: vfix rebuild docker://old/relay -o docker-daemon:old/relay",
		"17-singularity.txt":        "unknown uncertain: apptainer build --sandbox root IMAGE && vfix scan root",
		"18-docker-ps.txt":          "unknown uncertain: vfix scan centos:6",
		"19-inspect-1.12.json":      "mounts likely: vfix scan docker-registry.example:5000/app:3.6",
		"20-kubectl-describe.txt":   "unknown uncertain: vfix scan gcr.io/samples/redisslave:v1",
		"22-github-actions.txt":     "unknown uncertain: vfix scan example/builder-6",
		"23-dockerfile-build.txt":   "unknown uncertain: vfix layer",
	} {
		began := time.Now()
		r, err := File(filepath.Join("testdata", "reports", name), Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := summary(r); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
		if d := time.Since(began); d > time.Second {
			t.Errorf("%s: %v", name, d)
		}
	}
	left, err := os.ReadDir(filepath.Join("testdata", "reports"))
	if err != nil || len(left) != 15 {
		t.Errorf("%d reports, %v", len(left), err)
	}
	c := diagnosed(t, read(t, "reports/02c-kata-logfmt.log"), Options{}).Crashes[0]
	if c.Program != "entrypoint.sh" || c.PIDs[0] != 185 || !strings.Contains(strings.Join(c.Notes, ""), "journalctl -t kata") {
		t.Errorf("Kata: got %+v", c)
	}
	if c = diagnosed(t, read(t, "reports/03b-boinc-readonly.log"), Options{}).Crashes[0]; c.Count != 1 || !strings.Contains(strings.Join(c.Notes, ""), "callbacks suppressed") {
		t.Errorf("one process that read the page twice: got %+v", c)
	}
	if c = diagnosed(t, read(t, "reports/19-inspect-1.12.json"), Options{}).Crashes[0]; !strings.HasPrefix(c.Verdict, "/lib and /lib64 of the host are mounted") {
		t.Errorf("got %s", c.Verdict)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const attempted = "vsyscall attempted with vsyscall=none ip:ffffffffff600400 cs:33 sp:7ffe12345678 ax:ffffffffff600400 si:7ffe1 di:0"

// The kernel's line behind any prefix: the program and its number.
func TestPrefixes(t *testing.T) {
	for _, prefix := range []string{
		"", "[   12.345678] ", "[   12.345678][  T106] ", "<6>[   12.345678] ", "<4>", "[Sat Nov 21 21:18:04 2026] ", "kern  :info  : [   12.345678] ",
		"Nov 21 21:18:04 host kernel: ", "Nov 21 21:18:04 host kernel: [   12.345678] ", "2026-11-21T21:18:04.123456+00:00 host kernel: [   12.345678] ",
		"/var/log/kern.log:Nov 21 21:18:04 host kernel: ", "nov. 21 21:18:04 host kernel: ", "4,1234,61120441,-;", "MESSAGE=",
		`{"__REALTIME_TIMESTAMP":"1","MESSAGE":"`, "kern:    info: [2026-01-02T03:04:05.6Z]: ", "2026-11-21T21:18:04,123456+00:00 ",
		`Nov 21 21:18:04 host kata[1]: time="2026-11-21T21:18:04Z" level=debug msg="reading guest console" vmconsole="[    2.345678] `,
		`time="2018-04-26T10:11:12-07:00" level=info msg="`, `{"log":"`, "app-1  | ", "host-7: > ", "10.0.0.7\tkern\tinfo\t",
	} {
		line := prefix + "entry point.sh[185] " + attempted
		if strings.HasPrefix(prefix, "{") {
			line += `"}`
		}
		r := diagnosed(t, line+"\n", Options{})
		if len(r.Crashes) != 1 || r.Crashes[0].Kind != Call || r.Crashes[0].Program != "entry point.sh" || r.Crashes[0].PIDs[0] != 185 || r.Crashes[0].Function != "time" {
			t.Errorf("%s: got %+v", line, r.Crashes)
		}
	}
}

// Other texts of the same kinds.
func TestTexts(t *testing.T) {
	for text, want := range map[string]string{
		// Kernels.
		"bash[7]: segfault at ffffffffff600400 ip ffffffffff600400 sp 00007ffe12345678 error 15 likely on CPU 0 (core 0, socket 0)":                              "call likely: vfix patch -o bash.vfix PROGRAM",
		"bash[7]: segfault at ffffffffff600000 rip ffffffffff600000 rsp 00007ffe12345678 error 14":                                                               "call likely: vfix patch -o bash.vfix PROGRAM",
		"traps: bash[7] general protection fault ip:ffffffffff600800 sp:7ffe12345678 error:0":                                                                    "call likely: vfix patch -o bash.vfix PROGRAM",
		`audit: type=1326 audit(1.2:3): auid=0 uid=0 pid=7 comm="bash" exe="/bin/bash" sig=31 arch=c000003e syscall=201 compat=0 ip=0xffffffffff600400 code=0x0`: "filtered likely: vfix patch -o bash.vfix /bin/bash",
		"Linux version 5.15.90.1-microsoft-standard-WSL2\n[ 9.5] model[7] " + attempted:                                                                          "call likely: vfix patch -o model.vfix PROGRAM",
		"Nov 21 21:18:04 h containerd[1]: starting\nNov 21 21:18:05 h kernel: sh[7] " + attempted:                                                                "call likely: docker ps -a --filter exited=139",
		"Nov 21 21:18:05 h kernel: sh[7] " + attempted + "\ncontainer 5f0c exited with code 139":                                                                 "call likely: vfix patch -o sh.vfix PROGRAM",
		"$ docker run --rm -it centos:6 bash\n[ 12.345678] bash[7] " + attempted:                                                                                 "call likely: vfix rebuild centos:6",
		"[n1:7] Signal: Segmentation fault (11)\n[n1:7] Failing at address: 0xffffffffff600400":                                                                  "call likely: vfix patch -o PROGRAM.vfix PROGRAM",
		"# Redis 2.8.22 crashed by signal: 11":                                                                                                                   "unknown uncertain: dmesg | vfix diagnose -",
		"worker process 33 exited on signal 11":                                                                                                                  "unknown uncertain: dmesg | vfix diagnose -",
		"exited: web (terminated by SIGSEGV (core dumped); not expected)":                                                                                        "unknown uncertain: dmesg | vfix diagnose -",
		"returned non-zero exit status -11.":                                                                                                                     "unknown uncertain: dmesg | vfix diagnose -",
		// Debuggers and tracers.
		"Reading symbols from ./model...\n(No debugging symbols found in ./model)\nStarting program: /home/u/model\n\nProgram received signal SIGSEGV, Segmentation fault.\n0xffffffffff600400 in ?? ()":                              "call likely: vfix patch -o model.vfix /home/u/model",
		"Core was generated by `/opt/solve -x 1'.\nProgram terminated with signal SIGSEGV, Segmentation fault.\n#0  0xffffffffff600400 in ?? ()\n(gdb) bt\n#0  0xffffffffff600400 in ?? ()\n#1  0x401 in main ()":                     "call likely: vfix patch -o solve.vfix /opt/solve",
		"[pid  77] execve(\"/bin/old\", [\"old\"], 0x7ffe /* 3 vars */) = 0\n[pid  77] --- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0xffffffffff600400} ---":                                                           "call likely: vfix patch -o old.vfix /bin/old",
		"* thread #1, name = 'old', stop reason = signal SIGSEGV: invalid address (fault address: 0xffffffffff600400)\n    frame #0: 0xffffffffff600400\n  * frame #0: 0xffffffffff600400\n    frame #1: 0x0000000000401126 old`main": "call likely: vfix patch -o PROGRAM.vfix PROGRAM",
		// Engines.
		"CONTAINER ID  IMAGE                       COMMAND     CREATED        STATUS                    PORTS       NAMES\n0123456789ab  docker.io/library/redis:2.8  redis       2 minutes ago  Exited (139) 2 minutes ago              cache\n":                         "unknown uncertain: vfix scan docker.io/library/redis:2.8",
		"NAME          IMAGE          COMMAND   SERVICE   CREATED   STATUS                     PORTS\nproj-web-1    old/web:1      \"httpd\"   web       1s        Exited (139) 1 second ago\nproj-db-1     postgres:16    \"pg\"      db        1s        Up 1 second\n": "unknown uncertain: vfix scan old/web:1",
		"redis-1  | starting\nredis-1 exited with code 139\n":                                     "unknown uncertain: docker compose ps -a | vfix diagnose -",
		"redis-1  | Segmentation fault (core dumped)\nredis-1 exited with code 139\n":             "unknown uncertain: docker compose ps -a | vfix diagnose -",
		"proj_redis_1 exited with code 139":                                                       "unknown uncertain: vfix diagnose proj_redis_1",
		"$ docker run centos:6 date\n$ echo $?\n139\n":                                            "unknown uncertain: vfix scan centos:6",
		"$ podman run -v /a:/b -e X=1 --name n quay.io/pypa/manylinux1_x86_64 true; echo $?\n139": "unknown uncertain: vfix scan quay.io/pypa/manylinux1_x86_64",
		// Clusters.
		"Name:  w\nNamespace:  prod\nContainers:\n  a:\n    Image:  r.example:5000/old:1\n    State:  Terminated\n      Exit Code:  139\n  b:\n    Image:  debian:12\n    State:  Running\n": "unknown uncertain: vfix scan r.example:5000/old:1",
		"command terminated with exit code 139": "unknown uncertain: dmesg | vfix diagnose -",
		// Builds and CI systems.
		"Step 1/2 : FROM centos:6\n ---> 0\nStep 2/2 : RUN yum -y update\nThe command '/bin/sh -c yum -y update' returned a non-zero code: 139\n":                                                                                                                                              "unknown uncertain: vfix scan centos:6",
		"#5 [1/2] FROM docker.io/library/centos:6@sha256:" + strings.Repeat("a", 64) + "\n#6 [2/2] RUN yum -y update\n#6 ERROR: process \"/bin/sh -c yum -y update\" did not complete successfully: exit code: 139\n":                                                                          "unknown uncertain: vfix scan docker.io/library/centos:6@sha256:" + strings.Repeat("a", 64),
		"STEP 1/2: FROM centos:6\nSTEP 2/2: RUN yum -y update\nError: building at STEP \"RUN yum -y update\": while running runtime: exit status 139":                                                                                                                                          "unknown uncertain: vfix scan centos:6",
		" > [2/2] RUN yum -y update:\nERROR: failed to solve: process \"/bin/sh -c yum -y update\" did not complete successfully: exit code: 139":                                                                                                                                              "unknown uncertain: vfix layer",
		"Using Docker executor with image centos:6 ...\n$ yum -y update\nERROR: Job failed: exit code 139\n":                                                                                                                                                                                   "unknown uncertain: vfix scan centos:6",
		"+ docker run --rm quay.io/pypa/manylinux1_x86_64:latest /io/build.sh\n##[error]Bash exited with code '139'.":                                                                                                                                                                          "unknown uncertain: vfix scan quay.io/pypa/manylinux1_x86_64:latest",
		"#5 [1/2] FROM docker.io/library/centos:6\n#6 ERROR: process \"/bin/sh -c yum\" did not complete successfully: exit code: 139\n------\n   1 |     FROM centos:6\n   2 | >>> RUN yum\nERROR: failed to solve: process \"/bin/sh -c yum\" did not complete successfully: exit code: 139": "unknown uncertain: vfix scan docker.io/library/centos:6",
		"+ docker run --rm \\\n    -v /a:/b \\\n    centos:6 true\nrc=139":                                                                                                                                                                                                                     "unknown uncertain: vfix scan centos:6",
		"PID: 7 (old)\nSignal: 11 (SEGV)\nExecutable: /opt/old\nStack trace of thread 7:\n                #0  0xffffffffff600400 n/a (n/a + 0x0)":                                                                                                                                              "call likely: vfix patch -o old.vfix /opt/old",
		"Singularity centos6.img:~> date\nSegmentation fault":          "unknown uncertain: apptainer build --sandbox root centos6.img && vfix scan root",
		"dependency failed to start: container proj_db_1 exited (139)": "unknown uncertain: vfix diagnose proj_db_1",
		"Failed to pull image \"old/app:1\": rpc error: code = Unimplemented desc = failed to pull and unpack image \"docker.io/old/app:1\": not implemented: media type \"application/vnd.docker.distribution.manifest.v1+prettyjws\" is no longer supported": "schema1 certain: vfix rebuild docker://old/app:1 -o docker-daemon:old/app:1",
		" ✘ relay Error not implemented: media type \"application/vnd.docker.dist...\"":                                       "schema1 certain: vfix rebuild docker://IMAGE -o docker-daemon:IMAGE",
		"error building image: error building stage: failed to execute command: waiting for process to exit: exit status 139": "unknown uncertain: dmesg | vfix diagnose -",
		"make: *** [Makefile:12: test] Error 139":                                                                             "unknown uncertain: dmesg | vfix diagnose -",
		"./run.sh: line 3:   812 Segmentation fault      (core dumped) ./model -x":                                            "unknown uncertain: vfix scan ./model",
		"subprocess.CalledProcessError: Command '['signalp']' returned non-zero exit status 139.":                             "unknown uncertain: dmesg | vfix diagnose -",
		// Apptainer, containers of whole systems.
		"$ singularity exec docker://centos:6 date\nSegmentation fault":                                                                 "unknown uncertain: vfix scan docker://centos:6",
		"$ apptainer exec -B /data old.sif signalp\nSegmentation fault (core dumped)":                                                   "unknown uncertain: apptainer build --sandbox root old.sif && vfix scan root",
		"Spawning container old on /var/lib/machines/old.\nContainer old terminated by signal SEGV.\nold: terminated by signal SIGSEGV": "unknown uncertain: vfix scan /var/lib/machines/old",
		"# lxc-attach -n old6 -- date\nSegmentation fault":                                                                              "unknown uncertain: vfix scan /var/lib/lxc/old6/rootfs",
		"# pct enter 101\nbash: line 1:   22 Segmentation fault      date":                                                              "unknown uncertain: vfix scan /var/lib/lxc/101/rootfs",
		// Traces of languages' runtimes name the place.
		"fatal error: fault\n[signal SIGSEGV: segmentation violation code=0x1 addr=0xffffffffff600400 pc=0xffffffffff600400]\n\ngoroutine 1 [running]:": "call likely: vfix patch -o PROGRAM.vfix PROGRAM",
		"# A fatal error has been detected by the Java Runtime Environment:\n#\n#  SIGSEGV (0xb) at pc=0xffffffffff600000, pid=1, tid=14":               "call likely: vfix patch -o PROGRAM.vfix PROGRAM",
		"==7== Process terminating with default action of signal 11 (SIGSEGV)":                                                                          "unknown uncertain: dmesg | vfix diagnose -",
		// Audit writes names with spaces in hex.
		`audit: type=1326 audit(1.2:3): pid=7 comm=6D792070726F67 exe=2F6F70742F6D792070726F67 sig=31 arch=c000003e syscall=201 ip=0xffffffffff600400 code=0x0`: "filtered likely: vfix patch -o 'my prog.vfix' '/opt/my prog'",
		// A container that is started again and again.
		"CONTAINER ID   IMAGE      COMMAND   CREATED   STATUS                         PORTS   NAMES\n0123456789ab   centos:6   \"sh\"      1s        Restarting (139) 1 second ago           x": "unknown uncertain: vfix scan centos:6",
		"NAME         IMAGE      COMMAND   SERVICE   CREATED   STATUS\napp-1        centos:6   \"sh\"      app       1s        Restarting (139) 1 second ago":                                   "unknown uncertain: vfix scan centos:6",
		// Events of engines.
		"2026-11-28 10:00:01 container died 0123 (image=quay.io/centos/centos:6, name=eager, exitcode=139)":                                    "unknown uncertain: vfix scan quay.io/centos/centos:6",
		"2026-11-28T10:00:01.1Z container die 0123 (execDuration=0, exitCode=139, image=centos:6, name=eager)":                                 "unknown uncertain: vfix scan centos:6",
		`time="2026-11-28 10:00:01Z" level=info msg="Created container" container=0123 image=quay.io/old/etcd:v2` + "\nError: exit status 139": "unknown uncertain: vfix scan quay.io/old/etcd:v2",
		// Names that contain the name of a place.
		"katalog[7] " + attempted: "call likely: vfix patch -o katalog.vfix PROGRAM",
		// Builders and engines that name the image in words of their own.
		"INFO[0003] Retrieving image manifest debian:7\nerror building image: error building stage: failed to execute command: waiting for process to exit: exit status 139":     "unknown uncertain: vfix scan debian:7",
		"Trying to pull quay.io/old/etcd:v2...\nError: unsupported image-specific operation on artifact with type \"application/vnd.docker.distribution.manifest.v1+prettyjws\"": "schema1 certain: vfix rebuild docker://quay.io/old/etcd:v2 -o docker-daemon:quay.io/old/etcd:v2",
		// Schema 1.
		`ERRO[0000] failed to pull image "docker.io/old/app:1": unsupported: media type "application/vnd.docker.distribution.manifest.v1+prettyjws"` + "\n" + `failed to resolve reference "docker.io/old/app:1"`: "schema1 certain: vfix rebuild docker://docker.io/old/app:1 -o docker-daemon:docker.io/old/app:1",
		"FATA[0000] Error parsing image name \"docker://old/app:1\": unsupported schema version 1":                                                                                                                "schema1 certain: vfix rebuild docker://old/app:1 -o docker-daemon:old/app:1",
		"Error: initializing source docker://old/app:1: unsupported schema version 1\nError: Docker manifest schema 1 is not supported":                                                                           "schema1 certain: vfix rebuild docker://old/app:1 -o docker-daemon:old/app:1",
		"FATA[0001] unsupported manifest media type and no default available: application/vnd.docker.distribution.manifest.v1+json":                                                                               "schema1 certain: vfix rebuild docker://IMAGE -o docker-daemon:IMAGE",
	} {
		if got := summary(diagnosed(t, text, Options{})); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", text, got, want)
		}
	}
}

// Texts in which the page is not the cause, or that report no crash.
func TestNotThePage(t *testing.T) {
	for _, text := range []string{
		// A null pointer, other pointers, other places.
		"app[7]: segfault at 0 ip 000000000040112c sp 00007ffe12345678 error 4 in app[401000+1000]",
		"app[7]: segfault at (null) ip 000000000040112c sp 00007ffe12345678 error 4 in app[400000+1000]",
		"app[7]: segfault at 8 ip 00007f12345678 sp 00007ffe12345678 error 6 in libc-2.13.so[7f1234500000+180000]",
		"app[7]: segfault at ffffffffff700000 ip 000000000040112c sp 00007ffe12345678 error 5",
		"app[7]: segfault at 10 ip 0000000000000010 sp 00007ffe12345678 error 14",
		"traps: app[7] general protection fault ip:40112c sp:7ffe12345678 error:0 in app[401000+1000]",
		"traps: app[7] trap divide error ip:40112c sp:7ffe12345678 error:0 in app[401000+1000]",
		"traps: app[7] trap invalid opcode ip:40112c sp:7ffe12345678 error:0 in app[401000+1000]",
		"Program received signal SIGSEGV, Segmentation fault.\n0x000000000040112c in main () at a.c:3",
		"[n1:7] Signal: Segmentation fault (11)\n[n1:7] Failing at address: (nil)", "exited on signal 110", "returned non-zero exit status -115.",
		"panic: runtime error: invalid memory address or nil pointer dereference\n[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x47b3a2]",
		"#  SIGSEGV (0xb) at pc=0x00007f1234567890, pid=1, tid=140000000000000\n# Problematic frame:\n# V  [libjvm.so+0x5a2b3c]",
		// A jump beside the functions; a call that the kernel served.
		"app[7] misaligned vsyscall (exploit attempt or buggy program) -- look up the vsyscall kernel parameter if you need a workaround ip:ffffffffff600123 cs:33 sp:7ffe",
		"app[7] vsyscall attempted with vsyscall=none ip:ffffffffff600123 cs:33 sp:7ffe ax:0 si:0 di:0",
		"app[7]: segfault at ffffffffff600c00 ip ffffffffff600c00 sp 00007ffe12345678 error 15",
		"app[7] vsyscall fault (exploit attempt?) ip:ffffffffff600400 cs:33 sp:7ffe12345678 ax:0 si:0 di:10",
		"app[7] vsyscall with bad stack (exploit attempt?) ip:ffffffffff600400 cs:33 sp:10 ax:0 si:0 di:0",
		"--- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0x10} ---\n+++ killed by SIGABRT +++",
		// Abort, kill, memory.
		"Aborted (core dumped)", "app-1 exited with code 134", "terminate called after throwing an instance of 'std::bad_alloc'\nAborted",
		"Memory cgroup out of memory: Killed process 7 (java) total-vm:1kB, anon-rss:1kB", "Out of memory: Kill process 7 (java) score 900 or sacrifice child",
		"app-1 exited with code 137", "Killed", "      Reason:       OOMKilled\n      Exit Code:    137",
		"systemd[1]: app.service: Main process exited, code=killed, status=9/KILL", "systemd[1]: app.service: Main process exited, code=dumped, status=6/ABRT",
		// A full stack.
		"==7==ERROR: AddressSanitizer: stack-overflow on address 0x7ffe", "Exception in thread \"main\" java.lang.StackOverflowError", "fatal error: stack overflow",
		"app[7]: segfault at 7ffe12340ff8 ip 000000000040112c sp 00007ffe12341000 error 6 in app[401000+1000]",
		// A missing libc or program, another format.
		"redis-server: error while loading shared libraries: libc.so.6: cannot open shared object file: No such file or directory",
		"/lib64/libc.so.6: version `GLIBC_2.14' not found (required by ./app)", "exec /app: exec format error", "standard_init_linux.go:228: exec user process caused: exec format error",
		"exec /app: no such file or directory", "bash: ./app: cannot execute binary file: Exec format error",
		`docker: Error response from daemon: OCI runtime create failed: exec: "app": executable file not found in $PATH: unknown.`,
		// Seccomp elsewhere, other signals.
		`audit: type=1326 audit(1.2:3): pid=7 comm="app" exe="/app" sig=31 syscall=435 ip=0x7f1234567890 code=0x0`, "Bad system call (core dumped)", "app-1 exited with code 159",
		`audit: type=1701 audit(1.2:3): pid=7 comm="app" exe="/app" sig=6 res=1`, "Illegal instruction (core dumped)", "Floating point exception", "Bus error (core dumped)",
		"app[7]: unhandled exception: DABT (lower EL), ESR 0x92000006, level 2 translation fault",
		// Containers that are well.
		"CONTAINER ID   IMAGE      COMMAND   CREATED   STATUS                    PORTS   NAMES\n0123456789ab   centos:6   \"sh\"      1s        Exited (1) 1 second ago           x",
		"Nov 21 21:18:04 host kernel: [   12.345678] eth0: link up", "app-1 exited with code 0",
		"NAME      READY   STATUS             RESTARTS   AGE\nweb-0     0/1     CrashLoopBackOff   4          2m\n", // by which status?
		// Prose.
		"Programs of CentOS 6 end with exit status 139 on this kernel, because the page is not mapped there.",
		"I have a container that was built in 2012 and it ends with a segmentation fault\non the new host. The old host ran it well, but this one reports\nexit status 139 and its log is empty. Which of the two is it?",
		"Jobs fail with exit status 139 after the migration to new nodes; please advise.",
		"Our build farm was moved last week. Since then a few jobs fail with exit status 139, and others with exit status 1. Nobody has looked into it yet; the logs are empty.",
		"| 139 | the program ended by exit status 139 | see the kernel's log |",
		"The exit status 139 is that of a program which was ended by SIGSEGV, and it is not specific to this cause.",
	} {
		r := diagnosed(t, text, Options{Scan: func(string) *Scanned { return affected() }})
		for _, c := range r.Crashes {
			if c.Kind.Page() || c.Kind.Open() || c.Next != nil && strings.Contains(c.Next.Command, "rebuild") {
				t.Errorf("%s:\ngot %+v", text, c)
			}
		}
	}
	// A place does not explain an end with another status.
	if got := summary(diagnosed(t, "bash[7] "+attempted+"\napp-1 exited with code 137", Options{})); got != "call likely: docker ps -a --filter exited=139\nother likely: " {
		t.Errorf("got %s", got)
	}
	// The control: a prose text around a line of the kernel.
	if got := diagnosed(t, "I have a container that was built in 2012 and it ends with a crash. The log has this:\nbash[7] "+attempted, Options{}); len(got.Crashes) != 1 || !got.Crashes[0].Kind.Page() {
		t.Errorf("got %+v", got.Crashes)
	}
}

// affected is the scan of an image whose libc calls time().
func affected() *Scanned {
	return &Scanned{Live: map[string][]string{"time": {"lib/libc.so.6"}}, Complete: true}
}

// What the image's scan adds: certainty for a kernel's line, likelihood for a status, and the opposite.
func TestWithImage(t *testing.T) {
	dormant := &Scanned{Dormant: true, Complete: true}
	for _, c := range []struct {
		text string
		scan *Scanned
		want string
	}{
		{"bash[7] " + attempted, affected(), "call certain: vfix rebuild img -o oci:x"},
		{"bash[7] " + strings.ReplaceAll(attempted, "600400", "600000"), affected(), "call likely: vfix rebuild img -o oci:x"},
		{"bash[7] " + attempted, dormant, "call likely: vfix patch -o bash.vfix PROGRAM"},
		{"web exited with code 139", affected(), "call likely: vfix rebuild img -o oci:x"},
		{"web exited with code 139", dormant, "other likely: "}, // CentOS 7, Debian 8
		{"web exited with code 139", &Scanned{}, "unknown uncertain: vfix scan img"},
		{"web exited with code 134", affected(), "other likely: "},
	} {
		o := Options{RootName: "img", IsImage: true, Scan: func(string) *Scanned { return c.scan }, Output: func(string) []string { return []string{"-o", "oci:x"} }}
		got := summary(diagnosed(t, c.text, o))
		if got != c.want {
			t.Errorf("%s: got %s, want %s", c.text, got, c.want)
		}
	}
	o := Options{RootName: "root", Scan: func(string) *Scanned { return affected() }}
	if got := summary(diagnosed(t, "bash[7] "+attempted, o)); got != "call certain: vfix patch -i root" {
		t.Errorf("a directory: got %s", got)
	}
	for scan, want := range map[*Scanned]string{affected(): "affected certain: vfix rebuild i", dormant: "none certain: ", {}: "unknown uncertain: vfix scan i"} {
		if got := summary(Image("i", scan, Options{})); got != want {
			t.Errorf("image: got %s, want %s", got, want)
		}
	}
}

func TestDescriptions(t *testing.T) {
	inspect := func(status string) string {
		return `[{"Id":"0123","Name":"/cache","Path":"redis-server","State":{"Running":false,` + status + `},"Config":{"Image":"redis:2.8"},"Mounts":[{"Type":"bind","Source":"/data","Destination":"/data"}]}]`
	}
	pod := func(statuses string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"cache","namespace":"prod"},"status":{"containerStatuses":[` + statuses + `]}}`
	}
	ended := `{"name":"redis","image":"redis:2.8","state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{"terminated":{"exitCode":139,"reason":"Error"}}}`
	for text, want := range map[string]string{
		inspect(`"ExitCode":139`): "unknown uncertain: vfix scan redis:2.8",
		inspect(`"ExitCode":0`):   "none certain: ",
		strings.Replace(inspect(`"Restarting":true,"ExitCode":139`), "false", "true", 1):                                "unknown uncertain: vfix scan redis:2.8",
		inspect(`"ExitCode":137,"OOMKilled":true`):                                                                      "other likely: ",
		inspect(`"ExitCode":127,"Error":"exec: \"redis\": executable file not found in $PATH"`):                         "other likely: ",
		`[{"Id":"1","Name":"n","ImageName":"docker.io/library/old:1","State":{"ExitCode":139},"Config":{"Cmd":["x"]}}]`: "unknown uncertain: vfix scan docker.io/library/old:1",
		`[{"Id":"1","Name":"n","Path":"x","State":{"Running":true,"ExitCode":0},"Config":{"Image":"i"}}]`:               "none certain: ",
		pod(ended): "unknown uncertain: vfix scan redis:2.8",
		`{"info":{"pid":0},"status":{"exitCode":139,"id":"0123","image":{"image":"docker.io/library/redis:2.8"},"metadata":{"name":"redis"},"state":"CONTAINER_EXITED"}}`: "unknown uncertain: vfix scan docker.io/library/redis:2.8",
		`{"status":{"exitCode":0,"image":{"image":"i"},"metadata":{"name":"n"},"state":"CONTAINER_RUNNING"}}`:                                                             "none certain: ",
		pod(`{"name":"redis","image":"redis:2.8","state":{"running":{}}}`):                                                                                                "none certain: ",
		`{"kind":"List","items":[` + pod(ended) + `,` + pod(`{"name":"x","image":"y","state":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}}`) + `]}`:               "unknown uncertain: vfix scan redis:2.8\nother likely: ",
		`{"MESSAGE":"bash[7] ` + attempted + `","_TRANSPORT":"kernel"}` + "\n" + `{"MESSAGE":"eth0: up"}`:                                                                 "call likely: vfix patch -o bash.vfix PROGRAM",
		`{"MESSAGE":[102,195,32],"_TRANSPORT":"kernel"}` + "\n" + `{"MESSAGE" : [` + journal("f\xc3[7] "+attempted) + `]}`:                                                `call likely: vfix patch -o $'f\303.vfix' PROGRAM`,
	} {
		if got := summary(diagnosed(t, text, Options{})); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", text, got, want)
		}
	}
}

// journal is a message as journalctl -o json writes one that is not UTF-8.
func journal(message string) string {
	return strings.Join(strings.Fields(strings.Trim(fmt.Sprint([]byte(message)), "[]")), ",")
}

// A container of this machine: the kernel and its messages of that time decide.
func TestContainer(t *testing.T) {
	const description = `{"Id":"0123","Name":"/cache","Path":"/usr/bin/redis-server","State":{"ExitCode":139},"Config":{"Image":"redis:2.8"}}`
	o := Options{Scan: func(string) *Scanned { return affected() }}
	for _, c := range []struct {
		served   bool
		messages []string
		want     string
	}{
		{false, nil, "call likely: vfix rebuild redis:2.8"},
		{false, []string{"redis-server[7] " + attempted}, "call certain: vfix rebuild redis:2.8"},
		{false, []string{"redis-server[7]: segfault at 0 ip 000000000040112c sp 00007ffe12345678 error 4"}, "other likely: "},
		{false, []string{"other[7]: segfault at 0 ip 000000000040112c sp 00007ffe12345678 error 4"}, "call likely: vfix rebuild redis:2.8"},
		{false, []string{"sh[7] " + attempted}, "call likely: vfix rebuild redis:2.8"},
		{false, []string{"sh[7] " + attempted, "redis-server[8] " + attempted}, "call certain: vfix rebuild redis:2.8"},
		{true, []string{`audit: type=1326 audit(1.2:3): pid=7 comm="sh" sig=31 ip=0xffffffffff600400 code=0x0`}, "unknown uncertain: docker run --ulimit core=-1 redis:2.8"},
		{true, nil, "unknown uncertain: docker run --ulimit core=-1 redis:2.8"},
		// A filter that refuses the call ends the container with status 159.
		{true, []string{`audit: type=1326 audit(1.2:3): pid=7 comm="redis-server" exe="/usr/bin/redis-server" sig=31 ip=0xffffffffff600400 code=0x0`}, "filtered certain: vfix rebuild redis:2.8"},
		{true, []string{`audit: type=1326 audit(1.2:3): pid=7 comm="redis-server" sig=31 ip=0x7f1234567890 code=0x0`}, "other likely: "},
	} {
		description := description
		if strings.Contains(c.want, "filtered") || strings.Contains(c.want, "other") && c.served {
			description = strings.Replace(description, "139", "159", 1)
		}
		o.Here = func(string) (bool, []string) { return c.served, c.messages }
		if r := diagnosed(t, description, o); summary(r) != c.want {
			t.Errorf("%+v: got %s", c, summary(r))
		}
	}
}

func TestInput(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for path, want := range map[string]string{
		write("empty", ""): "empty", write("x.xz", "\xfd7zXZ\x00\x01\x02"): "unpack a compressed file",
		write("binary", "\x01\x02\x03\x04\x05\x06"): "neither a core file nor text", dir: "a directory", filepath.Join(dir, "none"): "no such file",
		write("elf", string(elfHeader(2, 0))): "not the core of", write("short", elf.ELFMAG): "its ELF headers",
	} {
		if _, err := File(path, Options{}); err == nil || !strings.Contains(errorText(err), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
	if _, err := Text("stdin", strings.NewReader("\x01\x02\x03"), Options{}); err == nil || !strings.Contains(errorText(err), "vfix scan FILE; ") {
		t.Errorf("stdin: got %v", err)
	}
	// PowerShell writes UTF-16.
	utf16 := "\xff\xfe"
	for _, b := range []byte("[ 9.5] bash[7] " + attempted) {
		utf16 += string([]byte{b, 0})
	}
	if r, err := File(write("utf16", utf16), Options{}); err != nil || len(r.Crashes) != 1 {
		t.Errorf("UTF-16: got %+v, %v", r, err)
	}
	long := strings.Repeat("x", 3*maxLine) + "\nbash[7] " + attempted + "\n"
	if r := diagnosed(t, long, Options{}); len(r.Crashes) != 1 || r.Lines != 2 {
		t.Errorf("a long line: got %+v", r)
	}
	for line, want := range map[string]bool{
		"bash[7] " + attempted: true, "web-1 exited with code 139": true, "core.1 core.2 core.3": false, "web-1": false, "a b": false,
	} {
		if IsLine(strings.Fields(line)) != want {
			t.Errorf("%s: unquoted is not %v", line, want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("bash[7] " + attempted)
	f.Add(`[{"Name":"/c","State":{"ExitCode":139},"Config":{"Image":"i"}}]`)
	f.Add("CONTAINER ID   IMAGE   STATUS   NAMES\n0   i   Exited (139)   n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Text("x", strings.NewReader(text), Options{})
		if err == nil && r.Lines > len(text)+1 {
			t.Errorf("%d lines in %d bytes", r.Lines, len(text))
		}
	})
}

// errorText is an error with its hint.
func errorText(err error) string { return err.Error() + ": " + hinterr.HintOf(err) }
