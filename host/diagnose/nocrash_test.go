package diagnose

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

const user = "Nov 21 21:18:04 host myapp[99]: "

// A text with unknown words does not count as "no crash", and a program's words do not count as the kernel's.
func TestNothingIsClearedUnread(t *testing.T) {
	const (
		nothing = ""   // no crash, and lines of unknown kinds: the text rules nothing out
		calm    = None // without a confidence: no crash
	)
	for name, c := range map[string]struct {
		text string
		want Kind
		how  Confidence
	}{
		"a report of redis":          {"1:M # Redis 2.8.22 crashed by signal: 11\n1:M # Crashed running the instuction at: 0xffffffffff600400\n", Call, Likely},
		"a report of a JVM":          {"# A fatal error has been detected by the Java Runtime Environment:\n#\n#  SIGSEGV (0xb) at pc=0xffffffffff600400, pid=1, tid=139\n", Call, Likely},
		"a report of a JVM, another": {"#  SIGSEGV (0xb) at pc=0x00007f3c1c00, pid=1, tid=139\n", Unknown, NotKnown},
		"a Go program":               {"unexpected fault address 0xffffffffff600400\nfatal error: fault\n[signal 0xb code=0x1 addr=0xffffffffff600400 pc=0xffffffffff600400]\n", Call, Likely},
		"a Go program, its end":      {"unexpected fault address 0x7f0012345000\nfatal error: fault\n\ngoroutine 1 [running]:\nmain.main()\nexit status 2\n", Unknown, NotKnown},
		"a Go program in a log":      {"[ 1.0] eth0: up\nunexpected fault address 0x7f0012345000\nfatal error: fault\n", Unknown, NotKnown},
		"a Go program, another":      {"panic: runtime error: invalid memory address or nil pointer dereference\n[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x45]\n", Unknown, NotKnown},
		"AddressSanitizer":           {"==1==ERROR: AddressSanitizer: SEGV on unknown address 0xffffffffff600400 (pc 0xffffffffff600400 bp 0x7 sp 0x7 T0)\n", Call, Likely},
		"valgrind":                   {"==1== Process terminating with default action of signal 11 (SIGSEGV)\n==1==  Jump to the invalid address stated on the next line\n==1==    at 0xFFFFFFFFFF600400: ???\n", Call, Likely},
		"lldb":                       {"* thread #1, stop reason = signal SIGSEGV: invalid address (fault address: 0xffffffffff600400)\n", Call, Likely},
		"a register has the address": {"1:M # RAX:ffffffffff600400 RBX:0\n", Unknown, NotKnown},
		"a map has the page":         {"[ 1.0] x\nffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n", nothing, ""},
		"gunicorn":                   {"[ERROR] Worker (pid:7) was sent SIGSEGV!", Unknown, NotKnown},
		"mysqld":                     {"21:18:04 UTC - mysqld got signal 11 ;", Unknown, NotKnown},
		"supervisord":                {"WARN exited: web (terminated by SIGSEGV; not expected)", Unknown, NotKnown},
		"subprocess":                 {"Command '['x']' returned non-zero exit status -11.", Unknown, NotKnown},
		"zsh":                        {"zsh: segmentation fault (core dumped)  ./x", Unknown, NotKnown},
		"ctest":                      {"1/1 Test #1: a ...***Exception: SegFault  0.1 sec", Unknown, NotKnown},
		"swarm":                      {`web.1 redis:2.8 Failed 3 minutes ago "task: non-zero exit (139)"`, Unknown, NotKnown},
		"sacct":                      {"12 FAILED 0:11", Unknown, NotKnown},
		"make":                       {"make: *** [all] Error 139", Unknown, NotKnown},
		"a shell's trace":            {"+ rc=139", Unknown, NotKnown},
		"podman":                     {"Error: container exited with 139", Unknown, NotKnown},
		"batch systems":              {"exit_status  139\nExit_status=139", Unknown, NotKnown},
		"two words about one crash":  {"[ 1.0] x[7]: segfault at 0 ip 0000000000401000 sp 00007ffe error 4 in x[400000+1000]\nworker got SIGSEGV\n", Other, Certain},
		"any text":                   {"Processed 139 items\n", nothing, ""},
		"a number":                   {"139\n", nothing, ""},
		"an application's log":       {user + "image segmentation done, code 0\n", nothing, ""},
		"a log of the kernel":        {"[    0.000000] Linux version 6.1\n[    1.2] eth0: up\n", calm, ""},
		"a journal of the kernel":    {"2026-11-21T21:18:04+0000 host kernel: eth0: up\n", calm, ""},
		"a journal in JSON":          {`{"MESSAGE":"eth0: up","_TRANSPORT":"kernel"}` + "\n", calm, ""},
		"a trace without a signal":   {`7 execve("/bin/x", ["x"], 0x7ffd /* 5 vars */) = 0` + "\n", calm, ""},
		"a container that ended":     {"web-1 exited with code 11\n", calm, ""},
		"a program says it, syslog":  {user + attempted + "\n", Unknown, NotKnown},
		"a program says it, ISO":     {"2026-11-21T21:18:04.123456+02:00 host my-app: " + attempted + "\n", Unknown, NotKnown},
		"a program says it, JSON":    {`{"_TRANSPORT":"stdout","MESSAGE":"` + attempted + `"}` + "\n", Unknown, NotKnown},
		"the kernel, by syslog":      {"Nov 21 21:18:04 host kernel[0]: " + attempted + "\n", Call, Certain},
		"the kernel, by grep":        {"/var/log/kern.log:12:Nov 21 21:18:04 host kernel: [ 1.2] " + attempted + "\n", Call, Certain},
		"auditd, by syslog":          {`Nov 21 21:18:04 host audit[7]: type=1326 audit(1.2:3): pid=106 comm="a" exe="/x" sig=31 arch=c000003e syscall=201 compat=0 ip=0xffffffffff600400 code=0x0` + "\n", Filtered, Certain},
		// The text around the kernel's words says whose they are, also if an entry has many lines.
		"a program, export":          {"__CURSOR=s=1\nMESSAGE=" + attempted + "\n_TRANSPORT=stdout\nSYSLOG_IDENTIFIER=app\n\n", Unknown, NotKnown},
		"the kernel, export":         {"MESSAGE=" + attempted + "\n_TRANSPORT=kernel\n", Call, Certain},
		"a program, verbose":         {"Sat 2026-11-21 21:18:04.000000 UTC [s=a;i=1]\n    _TRANSPORT=stdout\n    MESSAGE=" + attempted + "\n", Unknown, NotKnown},
		"the kernel, verbose":        {"Sat 2026-11-21 21:18:04.000000 UTC [s=a;i=1]\n    MESSAGE=" + attempted + "\n    _TRANSPORT=kernel\n", Call, Certain},
		"a program, JSON of lines":   {"{\n  \"MESSAGE\" : \"" + attempted + "\",\n  \"_TRANSPORT\" : \"stdout\"\n}\n", Unknown, NotKnown},
		"the kernel, JSON of lines":  {"{\n  \"MESSAGE\" : \"" + attempted + "\",\n  \"_TRANSPORT\" : \"kernel\"\n}\n", Call, Certain},
		"a program, dmesg -J -x":     {"{\n \"dmesg\": [\n {\n \"fac\": \"user\",\n \"pri\": \"info\",\n \"msg\": \"" + attempted + "\"\n }\n ]\n}\n", Unknown, NotKnown},
		"the kernel, dmesg -J -x":    {"{\n \"dmesg\": [\n {\n \"fac\": \"kern\",\n \"pri\": \"info\",\n \"msg\": \"" + attempted + "\"\n }\n ]\n}\n", Call, Certain},
		"dmesg -J on one long line":  {`{"dmesg":[` + strings.Repeat(`{"pri":6,"time":1.5,"msg":"eth0: up"},`, 4000) + `{"pri":6,"msg":"` + attempted + "\"}]}\n", Call, Certain},
		"a program, French":          {"d\u00e9c. 21 21:18:04 host myapp[7]: " + attempted + "\n", Unknown, NotKnown},
		"the kernel, French":         {"d\u00e9c. 21 21:18:04 host kernel: " + attempted + "\n", Call, Certain},
		"a program, journal in full": {"Sat 2026-11-21 21:18:04 UTC host myapp[7]: " + attempted + "\n", Unknown, NotKnown},
		"a program, short-monotonic": {"[   61.120441] host myapp[7]: " + attempted + "\n", Call, Likely},
		"dmesg --time-format iso":    {"2026-11-21T21:18:04,120441+00:00 " + attempted + "\n", Call, Certain},
		"two words, dmesg in ISO":    {"2026-11-21T21:18:04,120441+00:00 Web Content[7]: segfault at ffffffffff600400 ip ffffffffff600400 sp 00007ffe error 15\n", Call, Certain},
		"a container's log":          {"2026-11-21T21:18:04.123456789Z stdout F " + attempted + "\n", Call, Likely},
		"docker logs --timestamps":   {"2026-11-21T21:18:04.123456789Z " + attempted + "\n", Call, Likely},
		"docker compose logs":        {"web-1  | " + attempted + "\n", Call, Likely},
		"docker's json-file":         {`{"log":"` + attempted + `\n","stream":"stdout"}` + "\n", Call, Likely},
		"a collector of logs":        {`{"events":[{"message":"` + attempted + `"}]}` + "\n", Call, Likely},
		// Ends that were taken for none.
		"the first process":         {"[ 1.0] Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b\n", Unknown, NotKnown},
		"the first process exits":   {"[ 1.0] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100\n", calm, ""},
		"Python's returncode":       {"process exited with exit code 245\n", Unknown, NotKnown},
		"gdb, its place":            {"Program received signal SIGSEGV, Segmentation fault.\n0xffffffffff600400 in ?? ()\n", Call, Likely},
		"gdb, of threads":           {"Thread 2 \"x\" received signal SIGSEGV, Segmentation fault.\n[Switching to Thread 0x7ffff (LWP 7)]\n0x0000000000401136 in main ()\n", Other, Certain},
		"a shell in German":         {"[ 1.0] eth0: up\n./x.sh: Zeile 1:  1234 Speicherzugriffsfehler  ./old\n", Unknown, NotKnown},
		"a shell in Russian":        {"[ 1.0] eth0: up\n\u041e\u0448\u0438\u0431\u043a\u0430 \u0441\u0435\u0433\u043c\u0435\u043d\u0442\u0438\u0440\u043e\u0432\u0430\u043d\u0438\u044f\n", Unknown, NotKnown},
		"a shell in Chinese":        {"[ 1.0] eth0: up\n\u6bb5\u9519\u8bef (\u6838\u5fc3\u5df2\u8f6c\u50a8)\n", Unknown, NotKnown},
		"ksh":                       {"[ 1.0] eth0: up\nx: 12: Memory fault(coredump)\n", Unknown, NotKnown},
		"systemctl show":            {"[ 1.0] eth0: up\nResult=core-dump\nExecMainCode=3\nExecMainStatus=11\n", Unknown, NotKnown},
		"systemd's result":          {"[ 1.0] eth0: up\nNov 21 21:18:04 host systemd[1]: redis.service: Failed with result 'core-dump'.\n", Unknown, NotKnown},
		"systemd's, without a core": {"[ 1.0] eth0: up\nNov 21 21:18:04 host systemd[1]: redis.service: Failed with result 'signal'.\n", Unknown, NotKnown},
		"systemd's result of a unit whose end is known": {"Nov 21 21:18:04 host systemd[1]: a.service: Main process exited, code=dumped, status=6/ABRT\nNov 21 21:18:04 host systemd[1]: a.service: Failed with result 'core-dump'.\n", Other, Certain},
		"systemd's status of a known end":               {"     Active: failed (Result: core-dump) since Sat 2026-11-21 21:18:04 UTC; 2min ago\n   Main PID: 7 (code=dumped, signal=ABRT)\n", Other, Certain},
		"an older systemd":                              {"Nov 21 21:18:04 host systemd[1]: a.service: main process exited, code=dumped, status=6/ABRT\n", Other, Certain},
		"systemd's status":                              {"[ 1.0] eth0: up\n     Active: failed (Result: core-dump) since Sat 2026-11-21 21:18:04 UTC; 2min ago\n", Unknown, NotKnown},
		"systemctl show, result":                        {"[ 1.0] eth0: up\nResult=core-dump\n", Unknown, NotKnown},
		"systemctl show, code":                          {"[ 1.0] eth0: up\nExecMainCode=3\n", Unknown, NotKnown},
		"systemd's other processes":                     {"[ 1.0] eth0: up\nNov 21 21:18:04 host systemd[1]: a.swap: Swap process exited, code=dumped, status=11/SEGV\n", Unknown, NotKnown},
		"systemd's mount, aborted":                      {"[ 1.0] eth0: up\nNov 21 21:18:04 host systemd[1]: a.mount: Mount process exited, code=dumped, status=6/ABRT\n", Other, Certain},
		"a core in any language":                        {"[ 1.0] eth0: up\n./x.sh: \u884c 1: 7 \u4e2d\u6b62 (core dumped) ./old\n", Unknown, NotKnown},
		"supervisord, a core":                           {"[ 1.0] eth0: up\nINFO exited: web (terminated by SIGABRT (core dumped); not expected)\n", Unknown, NotKnown},
		"systemd's other result":                        {"[ 1.0] eth0: up\nNov 21 21:18:04 host systemd[1]: redis.service: Failed with result 'exit-code'.\n", Unknown, NotKnown},
		"a result and another crash":                    {"[ 1.0] x[7]: segfault at 0 ip 0000000000401000 sp 00007ffe error 4 in x[400000+1000]\nNov 21 21:18:04 host systemd[1]: x.service: Failed with result 'core-dump'.\n", Other, Certain},
		"an older systemd's result":                     {"[ 1.0] eth0: up\nNov 21 21:18:04 host systemd[1]: Unit a.service entered failed state.\n", Unknown, NotKnown},
		"such a result of a unit whose end is known":    {"Nov 21 21:18:04 host systemd[1]: a.service: main process exited, code=exited, status=1/FAILURE\nNov 21 21:18:04 host systemd[1]: Unit a.service entered failed state.\n", calm, ""},
		"mesos":                     {"Command terminated with signal Segmentation fault (core dumped) (pid: 7)\n", Unknown, NotKnown},
		"another signal":            {"Command terminated with signal Terminated (pid: 7)\n", calm, ""},
		"coredumpctl's JSON":        {"[ 1.0] eth0: up\n[{\"pid\":7,\"sig\":11,\"exe\":\"/x\"}]\n", Unknown, NotKnown},
		"Nomad's JSON":              {"[ 1.0] eth0: up\n{\"Type\":\"Terminated\",\"ExitCode\":0,\"Signal\":11}\n", Unknown, NotKnown},
		"the journal's fields":      {"[ 1.0] eth0: up\n{\"UNIT\":\"a.service\",\"EXIT_CODE\":\"dumped\",\"EXIT_STATUS\":\"11\"}\n", Unknown, NotKnown},
		"Prometheus":                {"[ 1.0] eth0: up\nkube_pod_container_status_last_terminated_exitcode{pod=\"x\"} 139\n", Unknown, NotKnown},
		"an event of Kubernetes":    {"[ 1.0] eth0: up\n2m  Warning  BackOff  pod/x  Back-off restarting failed container x\n", Unknown, NotKnown},
		"a list of pods":            {"[ 1.0] eth0: up\nweb  0/1  CrashLoopBackOff  4  2m\n", Unknown, NotKnown},
		"sacct, a status":           {"[ 1.0] eth0: up\n12|FAILED|139:0\n", Unknown, NotKnown},
		"a batch system":            {"[ 1.0] eth0: up\nExit_status=267\n", Unknown, NotKnown},
		"Java":                      {"[ 1.0] eth0: up\njava.io.IOException: error=139\n", Unknown, NotKnown},
		"nextflow":                  {"[ 1.0] eth0: up\nCommand exit status:\n  139\n", Unknown, NotKnown},
		"a line that is too long":   {"[ 1.0] eth0: up\n" + strings.Repeat("x", maxLogLine) + " " + attempted + "\n", Unknown, NotKnown},
		"strace, the program lives": {"--- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0xffffffffff600400} ---\nrt_sigreturn({mask=[]}) = 0\n+++ exited with 0 +++\n", None, Certain},
		"strace, it does not":       {"--- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0xffffffffff600400} ---\n+++ killed by SIGSEGV +++\n", Call, Certain},
		"strace, another lives":     {"[pid 7] --- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0xffffffffff600400} ---\n[pid 8] +++ exited with 0 +++\n", Call, Certain},

		"a filter, vsyscall=native":   {`audit: type=1326 audit(1.2:3): pid=106 comm="a" exe="/x" sig=31 arch=c000003e syscall=201 compat=0 ip=0xffffffffff600409 code=0x0` + "\n", Filtered, Certain},
		"a filter, behind a function": {`audit: type=1326 audit(1.2:3): pid=106 comm="a" exe="/x" sig=31 arch=c000003e syscall=201 compat=0 ip=0xffffffffff600c09 code=0x0` + "\n", Other, Certain},
	} {
		r, err := diagnosedText(t, c.text, Options{HasCommand: noCommand})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.how == "" {
			if len(r.Crashes) != 0 || (r.Understood && r.Unread == 0) != (c.want == calm) {
				t.Errorf("%s: got %d crashes, understood %v, unread %d", name, len(r.Crashes), r.Understood, r.Unread)
			}
			continue
		}
		if len(r.Crashes) != 1 || r.Crashes[0].Kind != c.want || r.Crashes[0].Confidence != c.how {
			t.Errorf("%s: got %d crashes", name, len(r.Crashes))
			for _, c := range r.Crashes {
				t.Logf("%s %s: %s %q", c.Kind, c.Confidence, c.Meaning, c.Lines)
			}
		}
	}
}

// Supervisors, schedulers and CI systems report crashes in their own words: a line of an unknown kind, next to a
// line that rules out a crash, rules nothing out.
func TestOtherWordsClearNothing(t *testing.T) {
	for _, line := range []string{
		"init: web main process (7) killed by SEGV signal", "[   12.3] init: web main process (7) killed by SEGV signal", "[   12.3] init: web main process ended, respawning",
		"2026-11-21 21:18:04,123 INFO gave up: web entered FATAL state, too many start retries too quickly",
		"2026-11-21 21:18:04,123 INFO exited: web (terminated by SIGSEGV; not expected)",
		"web                              FATAL     Exited too quickly (process log may have details)", "web  BACKOFF   Exited too quickly",
		"2026-11-21 21:18:04.1 +0000 UTC container died 0123456789ab (image=redis:2.8, name=web)",
		"Nov 21 21:18:04 host systemd[1]: web.service: Failed with result 'exit-code'.", "Nov 21 21:18:04 host systemd[1]: web.service: Failed with result 'core-dump'.",
		"Nov 21 21:18:04 host systemd[1]: web.service: Scheduled restart job, restart counter is at 5.", "Nov 21 21:18:04 host systemd[1]: web.service: Start request repeated too quickly.",
		"Nov 21 21:18:04 host systemd[1]: Failed to start web.", "Nov 21 21:18:04 host systemd-coredump[9]: Resource limits disable core dumping for process 7 (x).",
		"./run: line 3: 7 Segmentation fault (core dumped) ./web", "/run/service/web: s6-supervise: warning: ./run died by a signal", "@40000000637be5f4 web: unable to read: died",
		"down: /etc/service/web: 1s, normally up, want up", "[UTC Nov 21 21:18:04] error : 'web' process is not running", "PM2 | App [web:0] exited with code [0] via signal [SIGSEGV]",
		"PM2 | App [web:0] starting in -fork mode-", "2m Warning BackOff pod/web Back-off restarting failed container web", "web-0  0/1  Error  4 (20s ago)  2m",
		"Terminated  Exit Code: 139", "2026-11-21T21:18:04Z  Restarting  Task restarting in 15s", "Command terminated with signal Segmentation fault (core dumped) (pid: 7)",
		"stoppedReason: Essential container in task exited", "\\_ web.1 redis:2.8 node-1 Shutdown Failed 3 minutes ago \"task: non-zero exit (139)\"",
		"ERROR: Job failed: exit code 139", "ERROR: script returned exit code 139", "Error: Process completed with exit code 139.", "make: *** [Makefile:3: all] Error 139",
		"abrt-hook-ccpp[9]: Process 7 (x) of user 0 killed by SIGSEGV - dumping core", "abrtd: New problem directory /var/spool/abrt/ccpp-1, processing", "id ccpp-1 reason: x killed by SIGSEGV",
		"Sat 2026-11-21 21:18:04 UTC 7 0 0 SIGSEGV present /usr/bin/x 16.0K", "ProblemType: Crash", "ExecutablePath: /usr/bin/x", "apport: report /var/crash/_usr_bin_x.0.crash already exists",
		"type=ANOM_ABEND msg=audit(1.2:3): auid=0 uid=0 gid=0 ses=1 pid=7 comm=\"x\" exe=\"/x\" sig=11 res=1", "12  web  FAILED  0:11", "12|web|NODE_FAIL|0:0", "slurmstepd: error: *** JOB 12 ON n1 CANCELLED ***",
		"failed 100 : assumedly after job", "Exited with signal termination: 11.", "TERM_UNKNOWN: LSF killed the job", "005 (012.000.000) 11/21 21:18:04 Job terminated. (0) Abnormal termination (signal 11)",
		"worker 7 crashed", "x: Exit 139", "Fehler: Absturz",
	} {
		for name, calm := range map[string]string{
			"of the kernel": "[    1.0] eth0: up", "of an end": "db-1 exited with code 0",
			"of coredumpctl": "           PID: 7 (x)\n        Signal: 11 (SEGV)\n    Executable: /x\n       Message: Process 7 (x) of user 0 dumped core.\n\n                #0  0x0000000000401136 main (/x + 0x1136)",
		} {
			r, err := Text("x", strings.NewReader(calm+"\n"+line+"\n"), Options{HasCommand: noCommand})
			if err != nil {
				t.Errorf("%s: %v", line, err)
				continue
			}
			open := r.Unread > 0
			for _, c := range r.Crashes {
				open = open || c.Kind == Unknown || c.Kind.Vsyscall()
			}
			_, _, end := endOf(line)
			// The end of a process, of one signal, is taken for that of the crash whose place is known.
			same := name == "of coredumpctl" && (end && !strings.Contains(line, "./web") || unitResult().MatchString(line) || strings.Contains(line, "ANOM_ABEND"))
			if !open && !same {
				t.Errorf("%s, beside a calm line %s: cleared, %d crashes", line, name, len(r.Crashes))
			}
		}
	}
}

// Known lines rule out a crash: none of them counts as unread.
func TestKnownLinesClear(t *testing.T) {
	for name, text := range map[string]string{
		"the kernel's log":          "[    0.000000] Linux version 6.1\n[    1.2] systemd[1]: Started Journal Service.\n\n[    1.3] systemd-journald[99]: Received request to flush runtime journal\n",
		"dmesg -x":                  "kern  :info  : [    1.2] eth0: up\ndaemon:info  : [    1.3] systemd[1]: Inserted module 'autofs4'\n",
		"journalctl -k":             "-- Journal begins at Sat 2026-11-21 --\nNov 21 21:18:04 host kernel: eth0: up\n-- Boot 0123 --\nNov 21 21:18:04 host kernel: eth1: up\n",
		"journalctl -o verbose":     "Sat 2026-11-21 21:18:04.000000 UTC [s=a;i=1]\n    _TRANSPORT=kernel\n    MESSAGE=eth0: up\n",
		"a unit":                    "Nov 21 21:18:04 host systemd[1]: Started web.\nNov 21 21:18:05 host systemd[1]: web.service: Main process exited, code=exited, status=1/FAILURE\nNov 21 21:18:05 host systemd[1]: web.service: Failed with result 'exit-code'.\n",
		"upstart":                   "init: web main process (7) terminated with status 1\n",
		"strace":                    "7 execve(\"/bin/x\", [\"x\"], 0x7ffd /* 5 vars */) = 0\n7 12:00:01.5 openat(AT_FDCWD, \"/x\", O_RDONLY) = -1 ENOENT (No such file)\n[pid 8] futex(0x1, FUTEX_WAIT <unfinished ...>\n[pid 8] <... futex resumed>) = 0\n7 +++ exited with 0 +++\n",
		"another crash":             "[ 1.0] x[7]: segfault at 0 ip 0000000000401000 sp 00007ffe error 4 in x[400000+1000]\n[ 1.0] Code: 48 89 c7 e8 0f 6f 26 66 0f 00\n",
		"a debugger":                "GNU gdb 13.1\nReading symbols from ./x...\n[New LWP 7]\nCore was generated by `./x'.\nProgram terminated with signal SIGSEGV, Segmentation fault.\n#0  0x0000000000401136 in main ()\n(gdb) quit\n",
		"systemd-coredump":          "Nov 21 21:18:04 host systemd-coredump[9]: Process 7 (x) of user 0 dumped core.\n\n  Stack trace of thread 7:\n  #0  0x0000000000401136 main (/x + 0x1136)\n  ELF object binary architecture: AMD x86-64\n",
		"ends that are not a crash": "db-1 exited with code 0\nweb-1 exited with code 1\n",
	} {
		r, err := diagnosedText(t, text, Options{HasCommand: noCommand})
		if err != nil || !r.Understood || r.Unread != 0 || slices.ContainsFunc(r.Crashes, func(c *Crash) bool { return c.Kind != Other }) {
			t.Errorf("%s: got %+v, %v", name, r, err)
		}
	}
}

// A description with a state that engines do not have does not have the end.
func TestStatesThatNobodyKnows(t *testing.T) {
	for text, want := range map[string]Kind{
		`{"Name":"web","Status":"FATAL"}`:                                                                    Unknown,
		`[{"ID":"web","Name":"web","Status":"dead","Type":"service"}]`:                                       Unknown,
		`{"Name":"web","Status":"task: non-zero exit (139)"}`:                                                Unknown,
		`[{"Name":"web","ExitCode":0,"State":"failed"}]`:                                                     Unknown,
		`[{"Name":"/web","State":{"Status":"dead","Running":false,"ExitCode":0}}]`:                           Unknown,
		`{"ID":"1","Name":"web","Image":"x","Status":"Up 3 minutes"}`:                                        None,
		`{"ID":"1","Names":"web","Image":"x","Status":"Created"}`:                                            None,
		`{"ID":"1","Names":"web","Image":"x","Status":"Exited (0) 3 minutes ago"}`:                           None,
		`[{"Name":"/web","State":{"Status":"running","Running":true,"ExitCode":0}}]`:                         None,
		`[{"Name":"/web","State":{"Status":"exited","Running":false,"ExitCode":0}}]`:                         None,
		"CONTAINER ID   IMAGE   COMMAND   CREATED   STATUS   NAMES\n012345678901   x   x   x   Lost   web\n": Unknown,
	} {
		r, err := diagnosedText(t, text, Options{HasCommand: noCommand})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if unknown := slices.ContainsFunc(r.Crashes, func(c *Crash) bool { return c.Kind == Unknown }); unknown != (want == Unknown) || r.Containers != 1 {
			t.Errorf("%s: got unknown %v of %d containers, want %s", text, unknown, r.Containers, want)
		}
	}
}

// A JVM handles a SIGSEGV, also one in the page, and ends by SIGABRT: that status rules nothing out for its
// container.
func TestAbortOfJVM(t *testing.T) {
	for _, c := range []struct {
		program string
		words   []string
		has     []string
		want    Kind
	}{
		{"java", nil, nil, Unknown}, {"/usr/lib/jvm/bin/java", nil, nil, Unknown}, {"sh", []string{"-c", "exec java -jar x"}, []string{"java"}, Unknown},
		{"redis-server", nil, []string{"java"}, Other}, {"redis-server", nil, nil, Other}, {"sh", []string{"run.sh"}, nil, Other}, {"sh", []string{"run.sh"}, []string{"java"}, Unknown},
	} {
		e := Exited{Name: "web", Image: "old:1", Program: c.program, Words: c.words, Status: died + sigabrt, NoTime: true, Elsewhere: true,
			Has: func(comm string) bool { return slices.Contains(c.has, comm) }}
		r := Container(e, Options{HasCommand: noCommand})
		if len(r.Crashes) != 1 || r.Crashes[0].Kind != c.want {
			t.Errorf("%+v: got %+v", c, r.Crashes[0])
		}
	}
}

// A line without a word of a crash costs a small part of a line with such a word, which is matched with each
// pattern: the minimum of several rounds of both, as the machine may be busy.
func TestLongLog(t *testing.T) {
	const lines, rounds = 500, 5
	least := func(line string) (d time.Duration) {
		log := strings.Repeat(line+"\n", lines)
		for i := range rounds {
			began := time.Now()
			if _, n, err := Log("x", strings.NewReader(log), Options{}); err != nil || n != lines {
				t.Fatalf("got %d lines, %v", n, err)
			}
			if took := time.Since(began); i == 0 || took < d {
				d = took
			}
		}
		return d
	}
	calm, word := least("[12.345] eth0: link is up, nothing to see in this line"), least("[12.345] eth0: link is up, default gateway is on it")
	const share = 20 // seen: 80 to 200
	if calm*share > word {
		t.Errorf("a calm line took %v, one that every pattern is tried with %v", calm/lines, word/lines)
	}
}

// Log is readLog for tests of lines.
func Log(input string, in io.Reader, o Options) ([]*Crash, int, error) {
	r, err := readLog(input, in, o)
	if err != nil {
		return nil, 0, err
	}
	return r.Crashes, r.Lines, nil
}
