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
	install -m 755 "$VFIX" "$root/usr/local/bin/vfix"
	cp -p "$build"/fallback/{late,late-static,jit,go-pie,rawsignals} "$build/fixtures/golike" "$root/usr/local/bin/"
	chmod u-s "$root/usr/local/bin/clock"
	printf '#!/usr/local/bin/golike\n' >"$root/usr/local/bin/script-static"
	printf '#!/bin/bash\necho "$0 $1" && late\n' >"$root/usr/local/bin/script-dynamic"
	printf 'echo no interpreter\n' >"$root/usr/local/bin/script-none"
	chmod 755 "$root"/usr/local/bin/script-*
	sha256sum "$root"/usr/local/bin/* >"$BATS_FILE_TMPDIR/sums"
}

# expect_way N WAY: vfix run --explain reported this way for command N.
expect_way() { expect_match "what vfix says of $1" "$(cat "$vm_out/$1.stderr")" ": $2: "; }

@test "run: each kind of program, what a shell starts, and the files stay as they are" {
	requires root vm legacy_image fallback
	make_root
	local n
	run_vm --vsyscall none --root "$root" -- \
		'vfix run --explain bash -c "late && jit && late-static && clock && golike && echo up"' \
		'vfix run --explain clock' \
		'vfix run --explain golike' \
		'vfix run --explain late-static' \
		'vfix run --explain go-pie' \
		'vfix run --explain script-static' \
		'vfix run --explain rawsignals' \
		'vfix run --explain script-dynamic word' \
		'vfix run --way trace bash -c "clock && late-static && echo up"' \
		'vfix run sh -c "kill -SEGV \$\$"' \
		'vfix run sh -c "exit 42"' \
		'vfix run nothing' \
		'vfix run /etc/passwd' \
		'vfix run script-none' \
		'vfix run --way preload clock' \
		'sh -c "sha256sum /usr/local/bin/*"' \
		'bash -c late' late-static clock golike
	for n in 1 2 3 4 5 6 7 8 9; do expect_vm $n 0; done
	for n in 1 8; do expect_way $n preload; done
	for n in 2 3 4 5 6 7; do expect_way $n trace; done
	expect_match 'bash' "$(cat "$vm_out/1.stdout")" up
	expect 'the script' "$(cat "$vm_out/8.stdout")" $'/usr/local/bin/script-dynamic word\nlate: ok'
	expect_match 'everything traced' "$(cat "$vm_out/9.stdout")" up
	expect_vm 10 "$status_sigsegv"
	expect_vm 11 42
	expect_vm 12 127
	expect_vm 13 126
	expect_vm 14 126
	expect_vm 15 125
	for n in 12 13 14; do expect "lines of error of $n" "$(grep -c '^vfix: error: .' "$vm_out/$n.stderr")" 1; done
	expect 'the files' "$(cut -d ' ' -f 1 "$vm_out/16.stdout")" "$(cut -d ' ' -f 1 "$BATS_FILE_TMPDIR/sums")"
	# Without vfix they crash.
	for n in 17 18 19 20; do expect_vm $n "$status_sigsegv"; done
}

@test "run: as an ordinary user on a read-only root; setuid programs run unchanged, with a warning" {
	requires root vm legacy_image fallback
	make_root
	local copy=$BATS_TEST_TMPDIR/root
	cp -a "$root" "$copy"
	chmod 4755 "$copy/usr/local/bin/clock"
	chmod 711 "$copy/usr/local/bin/late-static"
	run_vm --vsyscall none --root "$copy" --user 65534:65534 --read-only -- \
		'vfix run bash -c "late && golike && echo up"' 'vfix run golike' 'vfix run --explain clock' 'vfix run --explain late-static' \
		'vfix run bash -c clock'
	expect_vm 1 0
	expect_vm 2 0
	expect_vm 3 "$status_sigsegv"
	expect_match 'the setuid program' "$(cat "$vm_out/3.stderr")" 'warning: /usr/local/bin/clock: is setuid to user 0, so it runs unchanged'
	expect_way 4 'as it is'
	expect_vm 5 "$status_sigsegv"
}

@test "run: where the kernel serves the page the same programs run" {
	requires root vm legacy_image fallback
	make_root
	run_vm --vsyscall xonly --root "$root" -- 'vfix run bash -c "late && jit && clock"' 'vfix run late-static' 'vfix run go-pie'
	for n in 1 2 3; do expect_vm $n 0; done
}

@test "run: argv, environment, directory, limits and status are the program's" {
	requires fallback
	cd "$BATS_TEST_TMPDIR"
	run_vfix run sh -c 'echo "$0|$1|$PWD"' zero 'a  b'
	expect 'arguments' "$output" "zero|a  b|$BATS_TEST_TMPDIR"
	state='ulimit -Sn; umask; ls /proc/self/fd | wc -l'
	expect 'state' "$("$VFIX" run sh -c "$state")" "$(sh -c "$state")"
	expect 'SIGHUP ignored, as by nohup' "$(trap '' HUP && "$VFIX" run sh -c 'kill -HUP $$; echo lives')" lives
	run_vfix 137 run sh -c 'kill -KILL $$'
	run env LD_PRELOAD=/nothing.so "$VFIX" run sh -c 'echo $LD_PRELOAD'
	expect_match 'LD_PRELOAD' "${lines[-1]}" '/nothing.so:/'
}
