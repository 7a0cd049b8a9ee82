#!/usr/bin/env bats
# bats file_tags=long
# vfix-trace: programs that no preload library reaches run on a kernel without the vsyscall page, at full speed
# from the second call of a site on, and without a visible difference.
#
# On a real kernel with vsyscall=none, and natively with the twin: vfix-trace and the same programs built for a
# page that no kernel maps, with threads that run in parallel.
load helpers

fixtures=$BATS_TEST_DIRNAME/build/fixtures
fallback=$BATS_TEST_DIRNAME/build/fallback
programs=$fallback/twin
tracer=$BATS_TEST_DIRNAME/../shim/build/vfix-trace
twin=$BATS_TEST_DIRNAME/build/vfix-trace-twin

# vm_root: vfix-trace, a busybox, and the programs in /bin; the fixtures in /fixtures.
vm_root() {
	local root=$BATS_FILE_TMPDIR/root
	if [ ! -e "$root" ]; then
		mkdir -p "$root.tmp/bin"
		cp "$tracer" "$callpage" /bin/busybox "$root.tmp/bin"
		find "$fallback" -maxdepth 1 -name 'trace-*' -exec cp -t "$root.tmp/bin" {} +
		ln -s busybox "$root.tmp/bin/sh"
		install -m 4755 "$fallback/trace-filter" "$root.tmp/bin/trace-setuid"
		cp -a "$fixtures" "$root.tmp/fixtures"
		copy_libraries "$fixtures" "$root.tmp"
		mv "$root.tmp" "$root"
	fi
	echo "$root"
}

# boot MODE [OPTION...]: runs each "STATUS COMMAND" line of stdin there, and checks the statuses.
boot() {
	local mode=$1 n=0 want command list=$BATS_TEST_TMPDIR/list
	shift
	grep -v '^#' >"$list"
	sed 's/^[0-9]* //' "$list" >"$list.commands"
	run_vm --vsyscall "$mode" --root "$(vm_root)" --commands "$list.commands" --cpus 2 "$@"
	while read -r want command; do
		n=$((n + 1))
		expect "status of $command: $(head -c 2000 "$vm_out/$n.stdout" "$vm_out/$n.stderr")" \
			"$(cat "$vm_out/$n.status")" "$want"
	done <"$list"
}

# number PATTERN: the number of the first command of the last boot that matches.
number() {
	grep -nF -- "$1" "$BATS_TEST_TMPDIR/list" | head -n 1 | cut -d : -f 1
}

# stderr_of PATTERN: the stderr of that command.
stderr_of() { cat "$vm_out/$(number "$1").stderr"; }
stdout_of() { cat "$vm_out/$(number "$1").stdout"; }

# Programs that work under vfix-trace and, the positive control, crash or report an error without it.
readonly working='callpage time
callpage gettimeofday
callpage getcpu
trace-crash bad-pointer
trace-crash bad-pointer-healed
trace-crash read-only
trace-crash null
trace-crash own-fault
trace-crash blocked
trace-crash read-from-file
trace-crash ignored
trace-crash sent
trace-crash own-trap
trace-crash red-zone
trace-children leaf
trace-children forks
/bin/trace-children vforks
/bin/trace-children spawns
trace-children clones
/bin/trace-children thread-exec
trace-children leaderless
trace-children untraced
trace-threads 4 1000
trace-go
trace-jobs signals /bin/trace-jobs wait
trace-jobs stops /bin/trace-jobs wait
trace-filter mmap-kill
trace-filter other-kill
trace-setuid is-root
trace-filter nobody /bin/trace-setuid is-root
trace-i386 /bin/callpage time
trace-waits
trace-place
trace-rights setuid
trace-rights seteuid before
sh -c "callpage time && callpage getcpu | cat && (callpage time)"
sh -c "trap : USR1; callpage time; kill -USR1 \$\$; callpage time"
busybox unshare -p -f /bin/callpage time'

@test "trace: what dies without the page runs, threads, children, signals and all" {
	requires root vm
	local each='0 /bin/vfix-trace '
	boot none <<<"$each${working//$'\n'/$'\n'$each}"
}

@test "trace: the same dies without vfix-trace" {
	requires root vm
	local command n=0
	echo "$working" >"$BATS_TEST_TMPDIR/working"
	run_vm --vsyscall none --root "$(vm_root)" --commands "$BATS_TEST_TMPDIR/working" --cpus 2
	while read -r command; do
		n=$((n + 1))
		[ "$(cat "$vm_out/$n.status")" != 0 ] || fail "works without the page: $command"
	done <<<"$working"
}

@test "trace: the fixtures run, findings included; sites of each kind are healed" {
	requires root vm
	local name healed
	boot none --env VFIX_LOG=1 < <(awk -F '\t' '!/^#/ {
		status = $2 == "wrong" ? 1 : $2 == "deep" ? 139 : 0
		print status " /bin/vfix-trace /fixtures/" $1 }' "$fixtures/programs.txt")
	for name in static-2m golike direct libc-static-pie use-stubs; do
		grep -qE "^vfix-trace: /fixtures/[^ ]*\+0x[0-9a-f]+: (time|gettimeofday|getcpu): healed( before it was called)?$" <<<"$(stderr_of "$name")" ||
			fail "$name: no site was healed: $(stderr_of "$name")"
	done
	healed=$(stderr_of /static-2m | grep -c healed)
	[ "$healed" -ge 15 ] || fail "sites healed in static-2m: $healed"
	expect_match "what cannot be healed" "$(stderr_of finding-word)" 'emulated: '
}

@test "trace: the fixtures run without a vDSO, and with VFIX_HEAL=0" {
	requires root vm
	local mode some='static-2m|golike|direct|libc-static-4k|use-novdso|finding-[a-z]*'
	for mode in '--append vdso=0' '--env VFIX_HEAL=0'; do
		# shellcheck disable=SC2086 # two words
		boot none --cpus 1 $mode --env VFIX_LOG=1 < <(awk -F '\t' '!/^#/ && $2 ~ /runs|dies/ { print "0 /bin/vfix-trace /fixtures/" $1 }' "$fixtures/programs.txt" | grep -E "/($some)\$")
		run grep -h healed "$vm_out"/*.stderr
		expect "sites healed with $mode" "$output" ''
	done
}

@test "trace: statuses, errors, true crashes, process 1" {
	requires root vm
	local signal deaths=''
	for signal in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 24 25 31 34 64; do
		deaths+="$((128 + signal)) /bin/vfix-trace trace-die $signal"$'\n'
		deaths+="$((128 + signal)) busybox unshare -p -f /bin/vfix-trace trace-die $signal"$'\n'
	done
	boot none <<-END
		${deaths%?}
		0 /bin/vfix-trace busybox true
		7 /bin/vfix-trace sh -c "exit 7"
		127 /bin/vfix-trace no-such-program
		127 /bin/vfix-trace /no/such/program
		126 /bin/vfix-trace /fixtures
		2 /bin/vfix-trace
		2 /bin/vfix-trace --nonsense true
		0 /bin/vfix-trace --help
		139 /bin/vfix-trace trace-crash misaligned
		139 /bin/vfix-trace trace-crash fourth
		139 /bin/vfix-trace trace-crash crash
		0 busybox unshare -p -f sh -c "mount -t proc proc /proc; exec vfix-trace trace-orphans"
		1 busybox unshare -p -f sh -c "mount -t proc proc /proc; vfix-trace trace-orphans & wait \$!; exit 1"
		0 trace-jobs signals /bin/vfix-trace /bin/trace-jobs wait
		0 trace-jobs terminal-stops /bin/vfix-trace /bin/trace-jobs wait
		1 trace-filter nobody /bin/vfix-trace /bin/trace-setuid is-root
	END
	expect_match "process 1" "$(stdout_of 'unshare -p -f /bin/vfix-trace trace-die 15')" 'parent 1'
	expect_match "not process 1" "$(stdout_of '/bin/vfix-trace trace-die 15')" 'parent 0'
	expect "not found" "$(stderr_of no-such-program)" 'vfix-trace: error: no-such-program: not found in PATH'
	expect_match "not executable" "$(stderr_of 'vfix-trace /fixtures')" 'vfix-trace: error: /fixtures: Permission denied'
	expect_match "a wrong option" "$(stderr_of --nonsense)" 'vfix-trace: hint: vfix-trace --help'
	expect_match "help" "$(stdout_of --help)" 'CAP_SYS_PTRACE'
}

@test "trace: where ptrace is forbidden it says what allows it" {
	requires root vm
	boot none <<-'END'
		126 trace-filter ptrace-errno /bin/vfix-trace /bin/callpage time
		126 trace-filter ptrace-kill /bin/vfix-trace /bin/callpage time
		0 sh -c "echo 1 >/proc/sys/kernel/yama/ptrace_scope; exec trace-filter nobody /bin/vfix-trace /bin/callpage time"
		126 sh -c "echo 2 >/proc/sys/kernel/yama/ptrace_scope; exec trace-filter nobody /bin/vfix-trace /bin/callpage time"
		0 vfix-trace callpage time
		126 sh -c "echo 3 >/proc/sys/kernel/yama/ptrace_scope; exec vfix-trace callpage time"
	END
	for n in 1 2; do
		expect_match "a seccomp filter" "$(cat "$vm_out/$n.stderr")" 'vfix-trace: error: ptrace is forbidden here: '
		expect_match "a seccomp filter" "$(cat "$vm_out/$n.stderr")" '--cap-add SYS_PTRACE'
		expect_match "a seccomp filter" "$(cat "$vm_out/$n.stderr")" '--security-opt seccomp='
	done
	expect_match "yama 2" "$(cat "$vm_out/4.stderr")" 'kernel.yama.ptrace_scope=1'
	expect_match "yama 3" "$(cat "$vm_out/6.stderr")" 'kernel.yama.ptrace_scope is 3'
}

@test "trace: where the page is served it simply becomes the command" {
	requires root vm
	local mode
	for mode in xonly emulate; do
		boot "$mode" --cpus 1 <<-'END'
			0 sh -c 'echo $$ >/tmp/pid; exec vfix-trace sh -c "read pid </tmp/pid; [ \$\$ = \$pid ]"'
			1 sh -c 'echo $$ >/tmp/pid; exec vfix-trace --always sh -c "read pid </tmp/pid; [ \$\$ = \$pid ]"'
			0 vfix-trace busybox grep TracerPid:.0 /proc/self/status
			0 vfix-trace --always busybox grep TracerPid:.[1-9] /proc/self/status
			0 trace-filter no-children /bin/vfix-trace busybox grep TracerPid:.0 /proc/self/status
			0 vfix-trace callpage time
			0 vfix-trace --always callpage time
			0 vfix-trace --always /fixtures/static-2m
		END
	done
}

# A twin of everything below runs natively.

# under ARGUMENT...: vfix-trace's twin; its streams in $output and $stderr.
under() { run --separate-stderr -- timeout "$patience" "$twin" "$@"; }

@test "trace: threads heal 64 sites under load, natively" {
	VFIX_LOG=1 under "$programs/trace-threads" 8 100000
	expect "output ($stderr)" "$output" ok
	expect status "$status" 0
	local sites
	sites=$(grep -F healed <<<"$stderr" | sed 's/: healed.*//' | sort -u | grep -c trace-threads)
	[ "$sites" -ge 64 ] || fail "sites healed: $sites"
	run "$programs/trace-threads" 8 100
	expect "status without vfix-trace" "$status" "$status_sigsegv"
}

@test "trace: processes and threads that are killed, stop and end at any moment" {
	local storm left own=$BATS_TEST_TMPDIR/tracer
	cp "$twin" "$own"
	for storm in 'kill 30' 'stop 300' 'threads 3000' 'vforks 100'; do
		# shellcheck disable=SC2086 # two words
		run timeout --kill-after 5 "$patience" "$own" "$programs/trace-storm" $storm
		left=$(pgrep -f "^$own " || true)
		[ -z "$left" ] || xargs kill -KILL <<<"$left"
		expect "status of $storm ($output)" "$status" 0
		expect "tracers left of $storm" "$left" ''
	done
	VFIX_HEAL=0 under "$programs/trace-storm" turns 21
	expect "status of turns ($stderr)" "$status" 0
}

@test "trace: a call site costs once, or not at all" {
	local before after
	before=$(VFIX_HEAL=0 VFIX_LOG=1 "$twin" "$programs/trace-children" leaf 2>&1 | grep -c emulated)
	after=$(VFIX_LOG=1 "$twin" "$programs/trace-children" leaf 2>&1)
	expect "sites that faulted" "$(grep -c ': healed$' <<<"$after")" 0
	expect "sites that did not" "$(grep -c ': healed before it was called' <<<"$after")" "$(grep -c . <<<"$after")"
	after=$(VFIX_LOG=1 "$twin" "$programs/trace-rights" leaf 2>&1)
	expect "sites that faulted once, each called three times" "$(grep -c ': healed$' <<<"$after")" 4
	after=$(VFIX_LOG=1 "$twin" "$programs/trace-children" leaderless 2>&1 | grep -c ': healed$')
	expect "sites healed where the first thread has ended" "$after" 1
}

@test "trace: every case, natively" {
	local words
	while read -r words; do
		# shellcheck disable=SC2086 # words of a command line
		under $programs/${words#/bin/}
		expect "status of $words: $output $stderr" "$status" 0
	done <<<"$(grep -E '^(/bin/)?trace-c|-kill$' <<<"$working")"
}

@test "trace: without CAP_SYS_PTRACE, a program that gives up rights is served all the same" {
	requires root
	local without=(setpriv --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace) rights=$BATS_TEST_TMPDIR/rights name before sites
	chmod 755 "$BATS_RUN_TMPDIR" "${BATS_TEST_TMPDIR%/*/*}" "${BATS_TEST_TMPDIR%/*}" "$BATS_TEST_TMPDIR"
	install -m 755 "$programs/trace-rights" "$rights"
	for name in setuid seteuid dumpable exec; do
		for before in '' before; do
			# shellcheck disable=SC2086 # no word, or one
			run "${without[@]}" timeout "$patience" "$twin" "$rights" $name $before
			expect "status of $name $before: $output" "$status" 0
		done
		run "$rights" $name
		expect "status of $name without vfix-trace" "$status" "$status_sigsegv"
	done
	# A program of another user, as under gosu and su-exec, is also healed.
	sites=$(VFIX_LOG=1 "${without[@]}" "$twin" "$rights" exec 2>&1 | grep -c ': healed$')
	expect "sites healed" "$sites" 4
}

@test "trace: a signal to all of them comes to the command once, as it was sent" {
	requires root
	local dir=$BATS_TEST_TMPDIR supervisor command tracing order
	for order in 'supervisor command tracing' 'tracing command supervisor' 'command tracing supervisor' supervisor command; do
		rm -f "$dir/up"
		"$twin" "$programs/trace-jobs" count $$ >"$dir/up" 3>&- &
		supervisor=$!
		poll grep -q up "$dir/up"
		command=$(pgrep -P "$supervisor" trace-jobs)
		tracing=$(sed -n 's/^TracerPid:[[:space:]]*//p' "/proc/$command/status")
		# The shell's own kill: one sender, like a service manager.
		for name in $order; do kill -TERM "${!name}"; done
		status=0
		wait "$supervisor" || status=$?
		expect "signals, sent to $order" "$status" 1
	done
	# A signal to each of them that is not for it.
	"$twin" "$programs/trace-jobs" wait >"$dir/up2" 3>&- &
	supervisor=$!
	poll grep -q up "$dir/up2"
	command=$(pgrep -P "$supervisor" trace-jobs)
	tracing=$(sed -n 's/^TracerPid:[[:space:]]*//p' "/proc/$command/status")
	for name in HUP INT QUIT USR1 USR2 PIPE ALRM TERM CHLD; do kill -s "$name" "$tracing"; done
	is_running "$command" && is_running "$tracing" || fail "a signal to the tracer ended it, or the command"
	kill -INT "$supervisor"
	status=0
	wait "$supervisor" || status=$?
	expect "status" "$status" 2
}

@test "trace: addresses that programs count on stay free, and sleeping threads asleep" {
	under "$programs/trace-place"
	expect "status ($output)" "$status" 0
	under "$programs/trace-waits"
	expect "status ($stderr)" "$status" 0
	VFIX_LOG=1 under "$programs/trace-waits"
	expect_match "sites healed meanwhile" "$stderr" ': healed'
	# If the threads have to stop, their calls are made again.
	VFIX_LOG=1 run --separate-stderr -- timeout "$patience" "$programs/trace-filter" no-membarrier "$twin" "$programs/trace-waits"
	expect "status without membarrier ($stderr)" "$status" 0
	expect_match "sites healed without membarrier" "$stderr" ': healed'
	run timeout "$patience" "$programs/trace-filter" no-membarrier "$twin" "$programs/trace-threads" 8 1000
	expect "threads without membarrier" "$output" ok
}

@test "trace: what runs on in the background is served, and nothing waits for it" {
	local dir=$BATS_TEST_TMPDIR
	mkfifo "$dir/go"
	# The pipe ends with the command, although the background program and the tracer continue.
	# shellcheck disable=SC2016 # the inner shell expands it
	run --separate-stderr -- timeout "$patience" bash -c '"$0" sh -c "
		{ read x <$2/go; $1/trace-children forks && echo >$2/done; } >$2/log 2>&1 </dev/null &
		echo started" | cat' "$twin" "$programs" "$dir"
	expect "status of the command" "$status" 0
	expect "its output" "$output" started
	[ ! -e "$dir/done" ] || fail "the background program did not wait"
	echo >"$dir/go"
	poll test -e "$dir/done"
}

@test "trace: it ends with its supervisor, and the command outlives its tracer" {
	local dir=$BATS_TEST_TMPDIR supervisor command tracing
	"$twin" "$programs/trace-jobs" wait >"$dir/up" 3>&- &
	supervisor=$!
	poll grep -q up "$dir/up"
	command=$(pgrep -P "$supervisor" trace-jobs)
	kill -KILL "$supervisor"
	poll has_ended "$command"

	"$twin" "$programs/trace-jobs" wait >"$dir/up2" 3>&- &
	supervisor=$!
	poll grep -q up "$dir/up2"
	command=$(pgrep -P "$supervisor" trace-jobs)
	tracing=$(sed -n 's/^TracerPid:[[:space:]]*//p' "/proc/$command/status")
	kill -KILL "$tracing"
	poll grep -q '^TracerPid:.0$' "/proc/$command/status"
	is_running "$command" || fail "the command did not outlive its tracer"
	kill -TERM "$supervisor" # healed already: its handler calls the page
	run wait "$supervisor"
	poll has_ended "$command"
}

@test "trace: it leaves no process behind" {
	requires root own_root
	# Process 1 there waits only for its own child, as in many containers.
	local apart=(unshare --pid --fork --kill-child --mount-proc timeout "$patience" bash -c)
	# shellcheck disable=SC2016 # the inner shell expands it
	run "${apart[@]}" '
		for i in 1 2 3 4 5; do "$0" "$1/trace-children" leaf; "$0" sh -c "exit 3"; done
		ps -e -o stat= | grep Z' "$twin" "$programs"
	expect 'zombies' "$output" ''
	# shellcheck disable=SC2016
	run "${apart[@]}" '(until [ "$(ps -o ppid= -p $BASHPID)" -eq 1 ]; do :; done &)
		until ps -e -o stat= | grep Z; do :; done'
	expect_match 'zombies of what does leave one' "$output" Z
}

@test "trace: a crash dumps the program's core, and vfix-trace none" {
	requires root
	[[ $(cat /proc/sys/kernel/core_pattern) != '|'* ]] || skip "cores go to a program here"
	local dir=$BATS_TEST_TMPDIR
	mkdir "$dir/cores"
	run bash -c 'cd "$1" && ulimit -c unlimited && "$2" "$3" crash' bash "$dir/cores" "$twin" "$programs/trace-crash"
	expect status "$status" "$status_sigsegv"
	expect "cores" "$(find "$dir/cores" -type f | wc -l)" 1
	run gdb -batch -ex 'info registers rip' "$programs/trace-crash" "$(find "$dir/cores" -type f)"
	expect_match 'place of the crash' "$output" 'crash'
}

@test "trace: strace of it, and strace and gdb in it, end cleanly" {
	has_commands strace gdb >/dev/null || skip "requires strace and gdb"
	run timeout "$patience" strace -o /dev/null "$twin" "$programs/trace-children" leaf
	expect "status under strace" "$status" 0
	run timeout "$patience" strace -f -o /dev/null "$twin" "$programs/trace-children" leaf
	expect "status under strace -f" "$status" 126
	expect_match "what it says" "$output" 'is being traced itself'
	under strace -o /dev/null true
	[ "$status" -ne 0 ] && [ "$status" -lt 124 ] || fail "strace in it: status $status: $output $stderr"
	under gdb -batch -ex run "$programs/trace-children"
	[ "$status" -lt 124 ] || fail "gdb in it: status $status: $output $stderr"
}

@test "trace: a real static program of old [VFIX_LEGACY_DIR]" {
	requires root vm legacy
	local root=$BATS_TEST_TMPDIR/root muscle
	muscle=$(find "$VFIX_LEGACY_DIR" -type f -name muscle | head -n 1)
	[ -n "$muscle" ] || skip "VFIX_LEGACY_DIR has no MUSCLE"
	mkdir -p "$root/bin"
	cp "$muscle" "$tracer" "$root/bin"
	printf '>a\nMKTAYIAKQRQISFVKSHFSRQ\n>b\nMKTAYIAKQRQISFVKSHFSR\n>c\nMKTAYIARQISFVKSHFSRQ\n' >"$root/in.fa"
	run_vm --vsyscall none --root "$root" --user 65534:65534 -- 'muscle -in /in.fa' 'vfix-trace muscle -in /in.fa'
	expect_vm 1 "$status_sigsegv"
	expect_vm 2 0
	expect_match "its alignment" "$(cat "$vm_out/2.stdout")" '>a'
}
