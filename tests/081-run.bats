#!/usr/bin/env bats
# vfix run: programs of each kind, started on a host without the vsyscall page, each in its suitable way; the files
# on disk do not change.
# Variables come from helpers.bash; the shell of the root expands what is in single quotes.
# shellcheck disable=SC2154,SC2016
load helpers


# make_root: the legacy image's root with vfix and the programs, in $root. Without the layer, as a host only has
# vfix.
make_root() {
	root=$BATS_FILE_TMPDIR/root
	[ ! -d "$root" ] || return 0
	cp -a "$legacy_image/rootfs" "$root"
	mkdir -p "$root/opt/fixtures"
	install -m 755 "$VFIX" "$root/usr/local/bin/vfix"
	cp -p "$build"/fallback/{late,late-static,jit,jit-static,go-pie,rawsignals} "$root/usr/local/bin/"
	cp -p "$build"/fixtures/{static-2m,libc-static-4k,no-note-left,golike} "$root/usr/local/bin/"
	chmod u-s "$root/usr/local/bin/clock"
	printf '#!/usr/local/bin/static-2m\n' >"$root/usr/local/bin/script-static"
	printf '#!/bin/bash\necho "$0 $1" && late\n' >"$root/usr/local/bin/script-dynamic"
	printf 'echo no interpreter\n' >"$root/usr/local/bin/script-none"
	chmod 755 "$root"/usr/local/bin/script-*
	sha256sum "$root"/usr/local/bin/* >"$BATS_FILE_TMPDIR/sums"
}

# expect_way N WAY: vfix run --explain reported this way for command N.
expect_way() { expect_match "what vfix says of $1" "$(cat "$vm_out/$1.stderr")" ": $2: "; }

@test "run: without it programs of each kind die" {
	requires root vm legacy_image fallback
	make_root
	run_vm --vsyscall none --root "$root" -- 'bash -c "echo up"' clock static-2m late late-static go-pie script-static script-dynamic
	for n in 1 2 4 5 7 8; do expect_vm $n "$status_sigsegv"; done
	[ "$(cat "$vm_out/6.status")" -ne 0 ] || fail "the Go program runs"
}

@test "run: each kind of program its own way, and the files stay as they are" {
	requires root vm legacy_image fallback
	make_root
	local n
	run_vm --vsyscall none --root "$root" -- \
		'vfix run --explain bash -c "late && jit && echo up"' \
		'vfix run --explain clock' \
		'vfix run --explain static-2m' \
		'vfix run --explain golike' \
		'vfix run --explain late' \
		'vfix run --explain late-static' \
		'vfix run --explain no-note-left' \
		'vfix run --explain go-pie' \
		'vfix run --explain script-static' \
		'vfix run --explain script-dynamic word' \
		'vfix run --explain libc-static-4k' \
		'vfix run --way trace bash -c "clock && late-static && echo up"' \
		'vfix run sh -c "kill -SEGV \$\$"' \
		'vfix run sh -c "exit 42"' \
		'vfix run nothing' \
		'vfix run /etc/passwd' \
		'vfix run script-none' \
		'sh -c "sha256sum /usr/local/bin/*"' \
		'vfix run --way memfd late' \
		'vfix run --way preload clock' \
		'vfix run --explain rawsignals' \
		'vfix run --way preload rawsignals'
	for n in 1 2 3 4 5 6 7 8 9 10 11 12; do expect_vm $n 0; done
	for n in 1 5 10; do expect_way $n preload; done
	for n in 2 3 4 9 11; do expect_way $n memfd; done
	for n in 6 7 8; do expect_way $n trace; done
	expect 'bash' "$(cat "$vm_out/1.stdout")" $'late: ok\njit: ok\nup'
	expect 'the script' "$(cat "$vm_out/10.stdout")" $'/usr/local/bin/script-dynamic word\nlate: ok'
	expect_match 'everything traced' "$(cat "$vm_out/12.stdout")" up
	expect_vm 13 "$status_sigsegv"
	expect_vm 14 42
	expect_vm 15 127
	expect_vm 16 126
	expect_vm 17 126
	for n in 15 16 17; do expect "lines of error of $n" "$(grep -c '^vfix: error: .' "$vm_out/$n.stderr")" 1; done
	expect 'the files' "$(cut -d ' ' -f 1 "$vm_out/18.stdout")" "$(cut -d ' ' -f 1 "$BATS_FILE_TMPDIR/sums")"
	expect_vm 19 125
	expect_vm 20 125
	expect_vm 21 0
	expect_way 21 trace
	expect_vm 22 3 # its own handler, with no preload in front of it
}

@test "run: as an ordinary user on a read-only root; setuid programs run as they are, with a warning" {
	requires root vm legacy_image fallback
	make_root
	local copy=$BATS_TEST_TMPDIR/root
	cp -a "$root" "$copy"
	chmod 4755 "$copy/usr/local/bin/clock"
	chmod 711 "$copy/usr/local/bin/jit-static"
	run_vm --vsyscall none --root "$copy" --user 65534:65534 --read-only -- \
		'vfix run bash -c "late && echo up"' 'vfix run static-2m' 'vfix run --explain clock' 'vfix run --explain jit-static' \
		'vfix run sh -c "ls -ld /tmp/vfix-65534-*"'
	expect_vm 1 0
	expect_vm 2 0
	expect_vm 3 "$status_sigsegv"
	expect_match 'the setuid program' "$(cat "$vm_out/3.stderr")" 'warning: /usr/local/bin/clock: runs as it is, since it is setuid to user 0'
	expect_way 4 'as it is'
	expect_match 'the unreadable program' "$(cat "$vm_out/4.stderr")" 'executed and not read'
	expect_vm 5 0
	expect_match 'the directory' "$(cat "$vm_out/5.stdout")" 'drwxr-xr-x'
}

@test "run: where the kernel serves the page the same programs run" {
	requires root vm legacy_image fallback
	make_root
	run_vm --vsyscall xonly --root "$root" -- 'vfix run bash -c "late && jit"' 'vfix run clock' 'vfix run late-static' 'vfix run go-pie'
	for n in 1 2 3 4; do expect_vm $n 0; done
}

@test "run: argv, environment, directory, limits and signals are the program's" {
	requires fallback
	cd "$BATS_TEST_TMPDIR"
	run_vfix run sh -c 'echo "$0|$1|$PWD"' zero 'a  b'
	expect 'arguments' "$output" "zero|a  b|$BATS_TEST_TMPDIR"
	cp "$build/fixtures/static-2m" odd
	(exec -a name "$VFIX" run ./odd)
	state='grep -E "^(SigBlk|SigCgt)" /proc/self/status; ulimit -Sn; umask; ls /proc/self/fd | wc -l'
	expect 'state' "$("$VFIX" run sh -c "$state")" "$(sh -c "$state")"
	# Static, so that no library interferes: blocked and ignored signals, and Go's own.
	state=(env '--block-signal=SEGV,BUS,PROF,TERM' '--ignore-signal=QUIT,PIPE,CHLD,USR1,SEGV')
	expect 'signals' "$("${state[@]}" "$VFIX" run busybox grep "Sig[BIC]" /proc/self/status)" "$("${state[@]}" busybox grep "Sig[BIC]" /proc/self/status)"
	expect_match 'signals that are blocked' "$("${state[@]}" busybox grep SigBlk /proc/self/status)" 0000000004004440
	expect 'SIGHUP ignored, as by nohup' "$(trap '' HUP && "$VFIX" run sh -c 'kill -HUP $$; echo lives')" lives
	run_vfix 137 run sh -c 'kill -KILL $$'
	run env LD_PRELOAD=/nothing.so "$VFIX" run sh -c 'echo $LD_PRELOAD'
	expect_match 'LD_PRELOAD' "${lines[-1]}" '/nothing.so:/'
}

@test "run: a directory that somebody else made is not used" {
	requires root fallback
	local dir=$BATS_TEST_TMPDIR/tmp name
	mkdir -m 1777 "$dir"
	TMPDIR=$dir run_vfix run --explain "$build/fallback/late"
	expect_match 'the way' "$stderr" "LD_PRELOAD=$dir/vfix-0-"
	name=$(ls "$dir")
	chown -R 65534:65534 "$dir/$name"
	TMPDIR=$dir run_vfix run --explain "$build/fallback/late"
	[[ $stderr != *"LD_PRELOAD=$dir"* ]] || fail "it is used: $stderr"
}

# In a chroot as nobody, without network, as the program is untrusted.
@test "run: a real static MUSCLE of old, from memory [VFIX_LEGACY_DIR]" {
	requires root legacy oracle own_root
	local jail=$BATS_TEST_TMPDIR/jail program
	program=$(find "$VFIX_LEGACY_DIR" -type f -size -8M -exec grep -l --binary-files=text -m 1 'MUSCLE v3' {} + | head -n 1)
	[ -n "$program" ] || skip "VFIX_LEGACY_DIR has no static MUSCLE 3"
	mkdir -p "$jail/proc" "$jail/tmp"
	chmod 1777 "$jail/tmp"
	install -m 755 "$program" "$jail/muscle"
	install -m 755 "$VFIX" "$jail/vfix"
	install -m 755 "$novsyscall" "$jail/novsyscall"
	jailed() {
		timeout "$patience" unshare --net --pid --mount --fork --kill-child sh -c 'mount -t proc proc "$1/proc"; shift; exec "$@"' \
			sh "$jail" chroot --userspec=65534:65534 "$jail" /novsyscall "$@" </dev/null
	}
	run jailed /muscle -version
	expect 'status without vfix' "$status" "$status_sigsys"
	run jailed /vfix run --explain /muscle -version
	expect 'status' "$status" 0
	expect_match 'the way' "$output" '/muscle: memfd: static'
	expect_match 'what it says' "$output" 'MUSCLE v3'
	cmp "$program" "$jail/muscle"
}
