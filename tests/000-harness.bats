#!/usr/bin/env bats
# The test harness itself, on which the other tests rely.
load helpers

# inner_bats: runs the tests on stdin as a bats file with this one's helpers. They begin with "test", as bats would
# treat "@test" as a test of this file.
inner_bats() {
	mkdir -p "$BATS_TEST_TMPDIR/inner"
	cp "$tree/tests/helpers.bash" "$BATS_TEST_TMPDIR/inner/"
	{ echo 'load helpers' && sed 's/^test /@&/'; } >"$BATS_TEST_TMPDIR/inner/inner.bats"
	run bats --formatter tap "$BATS_TEST_TMPDIR/inner/inner.bats"
	echo "$output"
}

@test "requires: an unknown word is a failure, a missing capability a skip with its reason" {
	VFIX_LEGACY_DIR='' inner_bats <<-'END'
		test "unknown" { requires bodkin; }
		test "missing" { requires legacy; false; }
		has_bread() { true; }
		test "there" { requires bread; }
	END
	expect_match tap "$output" 'not ok 1 unknown'
	expect_match tap "$output" "requires: unknown capability 'bodkin'"
	expect_match tap "$output" $'\nok 2 missing # skip requires legacy: VFIX_LEGACY_DIR names no directory'
	expect_match tap "$output" $'\nok 3 there'
}

@test "run_vfix: fails on another exit status than the wanted one" {
	inner_bats <<-'END'
		test "as wanted" { VFIX=false; run_vfix 1 x; VFIX=true; run_vfix x; }
		test "not 0" { VFIX=false; run_vfix x; }
		test "not 3" { VFIX=false; run_vfix 3 x; }
	END
	expect_match tap "$output" $'\nok 1 as wanted'
	expect_match tap "$output" $'\nnot ok 2 not 0'
	expect_match tap "$output" "exit status of vfix: got '1', want '3'"
}

@test "poll: ends with the command, and gives up" {
	inner_bats <<-'END'
		test "third try" {
			tries=$BATS_TEST_TMPDIR/tries
			third() { echo . >>"$tries" && [ "$(wc -l <"$tries")" -ge 3 ]; }
			poll third
			expect tries "$(wc -l <"$tries")" 3
		}
		test "never" { patience=1; poll false; }
	END
	expect 'verdict of the third try' "$(grep '1 third try' <<<"$output")" 'ok 1 third try'
	expect_match tap "$output" 'not ok 2 never'
	expect_match tap "$output" 'not within 1 s: false'
}

# write_results: one Go test and one bats test of each kind.
write_results() {
	results=$BATS_TEST_TMPDIR/results
	mkdir -p "$results"
	cat >"$results/unit.txt" <<-'END'
		# packages: 1
		=== RUN   TestTable
		=== RUN   TestTable/one
		=== RUN   TestTable/two
		    x_test.go:5: VFIX_LEGACY_DIR is not set
		--- PASS: TestTable (0.00s)
		    --- PASS: TestTable/one (0.00s)
		    --- SKIP: TestTable/two (0.00s)
		PASS
	END
	printf 'ok  \texample.dev/x\t0.003s\n' >>"$results/unit.txt"
	printf '# file: 010-a.bats\n1..2\nok 1 a in 2ms\nok 2 b in 3sec # skip requires legacy: VFIX_LEGACY_DIR names no directory\n' >"$results/e2e.txt"
}

summary() {
	run env CI="$1" "$tree/tests/summary" "$results"
	echo "$output"
}

@test "summary: counts passes and allowed skips" {
	write_results
	summary true
	expect status "$status" 0
	expect 'last line' "${lines[-1]}" '2 passed, 0 failed, 2 skipped'
}

@test "summary: a failed test fails, in Go, in bats, in a step" {
	write_results
	printf -- '--- FAIL: TestOther (0.00s)\nFAIL\nFAIL\texample.dev/y\t0.1s\n' >>"$results/unit.txt"
	sed -i 's/^ok 1/not ok 1/' "$results/e2e.txt"
	echo 'fail lint' >"$results/steps.txt"
	summary true
	expect status "$status" 1
	expect 'last line' "${lines[-1]}" '1 passed, 3 failed, 2 skipped'
}

@test "summary: each kind of not having run is a failure" {
	# counted WHAT FAILED: so many failures in the results, beside the two passes.
	counted() {
		summary ''
		expect "$1: status" "$status" 1
		expect "$1: failures" "$(grep -c '^FAILED: ' <<<"$output")" "$2"
		expect_match "$1: last line" "${lines[-1]}" " passed, $2 failed, "
		write_results
	}
	write_results
	printf 'FAIL\texample.dev/z [build failed]\n' >>"$results/unit.txt"
	counted 'a package that does not build' 1
	printf '=== RUN   TestPanic\nFAIL\texample.dev/z\t0.1s\n' >>"$results/unit.txt"
	counted 'a package that breaks off' 1
	sed -i 's,^# packages: 1$,# packages: 12,' "$results/unit.txt"
	counted 'eleven packages without a verdict' 11
	sed -i 's/^1\.\.2/1..14/' "$results/e2e.txt"
	counted 'twelve tests of a plan of fourteen' 12
	sed -i 's/^1\.\.2/1..100/; $d' "$results/e2e.txt"
	counted '99 tests of a plan of a hundred' 99
	printf '# file: 020-b.bats\n# file: 030-c.bats\n1..1\nok 1 c\n' >>"$results/e2e.txt"
	counted 'a file without a plan' 1
	echo '# file: 020-b.bats' >>"$results/e2e.txt"
	counted 'a last file without a plan' 1
	: >"$results/e2e.txt"
	counted 'no end-to-end test' 1
	: >"$results/unit.txt"
	counted 'no Go test' 1
	rm "$results"/*.txt
	counted 'no results' 2
}

@test "summary: a skip that is not listed fails in CI, and only there" {
	write_results
	echo 'ok 3 c # skip requires courage: none' >>"$results/e2e.txt"
	summary true
	expect status "$status" 1
	expect 'last line' "${lines[-1]}" '2 passed, 1 failed, 3 skipped'
	summary ''
	expect status "$status" 0
}

@test "summary: the ten slowest tests, of Go and of bats, the slowest first" {
	write_results
	for n in 1 2 3 4 5 6 7 8 9; do echo "ok $((n + 2)) number $n in $((n * 1000))ms"; done >>"$results/e2e.txt"
	echo '--- PASS: TestSlow (4.50s)' >>"$results/unit.txt"
	summary ''
	expect 'the list' "$(sed -n '/^the slowest/,$p' <<<"$output" | sed '1d;$d')" \
		'     9.0  number 9
     8.0  number 8
     7.0  number 7
     6.0  number 6
     5.0  number 5
     4.5  TestSlow
     4.0  number 4
     3.0  number 3
     3.0  b
     2.0  number 2'
}

# fake_e2e: bats files for tests of run-e2e, in $fakes.
fake_e2e() {
	fakes=$BATS_TEST_TMPDIR/fakes results=$BATS_TEST_TMPDIR/results
	mkdir -p "$fakes"
	printf '@%s\n' 'test "good" { true; }' >"$fakes/good.bats"
	printf '@%s\n' 'test "second time" {' "! mkdir $fakes/seen" '}' | sed '2,$s/@//' >"$fakes/second.bats"
}

@test "run-e2e: what fails gets a second run that counts, and is named" {
	fake_e2e
	run "$tree/tests/run-e2e" "$results" "$fakes/good.bats" "$fakes/second.bats"
	expect status "$status" 0
	expect_match output "$output" "# run again: $fakes/second.bats"
	expect 'first verdict, second verdict' "$(grep -o '^.*ok 1 second time' <<<"$output")" $'not ok 1 second time\nok 1 second time'
	printf -- '--- PASS: TestOne (0.00s)\nok  \tx\t0.1s\n' >"$results/unit.txt"
	summary true
	expect status "$status" 0
	expect_match summary "$output" 'failed at first, its file was run again: second time'
	expect 'last line' "${lines[-1]}" '3 passed, 0 failed, 0 skipped'
}

@test "run-e2e: what fails twice has failed, and many failures get no second run" {
	fake_e2e
	for n in 1 2 3 4; do printf '@%s\n' "test \"bad $n\" { false; }" >"$fakes/bad$n.bats"; done
	run "$tree/tests/run-e2e" "$results" "$fakes/good.bats" "$fakes/bad1.bats"
	expect status "$status" 1
	expect 'verdicts of the bad one' "$(grep -c '^not ok 1 bad 1' <<<"$output")" 2
	printf -- '--- PASS: TestOne (0.00s)\nok  \tx\t0.1s\n' >"$results/unit.txt"
	summary true
	expect 'last line' "${lines[-1]}" '2 passed, 1 failed, 0 skipped'
	run "$tree/tests/run-e2e" "$results" "$fakes"/bad?.bats
	expect 'verdicts of four bad ones' "$(grep -c '^not ok' <<<"$output")" 4
}

@test "run-e2e: a test that leaves a mount behind fails, in each lane, and no other file sees it" {
	requires own_root root
	fake_e2e
	mkdir "$fakes/m" "$fakes/n"
	printf '@%s\n' "test \"mounts\" { mount -t tmpfs tmpfs $fakes/m; }" >"$fakes/apart.bats"
	{ echo '# bats file_tags=machine' && sed "s|$fakes/m|$fakes/n|" "$fakes/apart.bats"; } >"$fakes/machine.bats"
	# shellcheck disable=SC2016 # for the shell in there
	run unshare --mount bash -c '"$@"; cat /proc/self/mountinfo >"$0"' "$BATS_TEST_TMPDIR/mounts" \
		"$tree/tests/run-e2e" "$results" "$fakes/apart.bats" "$fakes/machine.bats"
	echo "$output"
	expect 'verdicts' "$(grep -o '^not ok .*' <<<"$output" | sort -u)" \
		$'not ok 1 apart.bats: leaves the machine as it was\nnot ok 1 machine.bats: leaves the machine as it was'
	expect_match output "$output" "mounted: $fakes/m"
	expect_match output "$output" "mounted: $fakes/n"
	expect 'what is left' "$(grep -o "$fakes/[mn] " "$BATS_TEST_TMPDIR/mounts" | sort -u)" ''
}

@test "run-e2e: a test that leaves a file that cannot be removed fails, and the file is gone" {
	requires root
	fake_e2e
	# shellcheck disable=SC2016 # for the file's shell
	printf '@%s\n' 'test "copies" { echo $BATS_RUN_TMPDIR >'"$fakes/directory"'; touch $BATS_TEST_TMPDIR/copy; chattr +i $BATS_TEST_TMPDIR/copy; }' >"$fakes/copies.bats"
	run "$tree/tests/run-e2e" "$results" "$fakes/copies.bats"
	echo "$output"
	grep -q '^ok 1 copies' <<<"$output" || skip 'requires immutable files: this file system has none'
	expect verdicts "$(grep -o '^not ok .*' <<<"$output" | sort -u)" 'not ok 1 copies.bats: leaves the machine as it was'
	expect_match output "$output" '/copy'
	[ ! -e "$(<"$fakes/directory")" ] || fail 'the directory is there'
}

# noting NAME TAGS: a file whose test records its begin and end, and in between waits until $meet tests have begun.
noting() {
	{
		printf '# bats file_tags=%s\n@%s {\n' "$2" "test \"$1\""
		sed "s|NOTES|$fakes/notes|; s|NAME|$1|" <<-'END'
			echo begin NAME >>NOTES
			for i in $(seq 300); do [ "$(grep -c begin NOTES)" -lt "$meet" ] || break; sleep 0.1; done
			echo end NAME >>NOTES
			}
		END
	} >"$fakes/$1.bats"
}

@test "run-e2e: lanes: side by side, those of the machine one after the other, and alone is alone" {
	fake_e2e
	noting m1 machine
	noting m2 machine,x
	noting a1 alone
	noting f1 none
	noting f2 none
	for lanes in 1 3; do
		: >"$fakes/notes"
		meet=$lanes LANES=$lanes run "$tree/tests/run-e2e" "$results" "$fakes"/{a1,m1,m2,f1,f2}.bats
		expect 'what ran' "$(sort "$fakes/notes")" "$(printf '%s\n' {begin,end}' '{a1,f1,f2,m1,m2})"
		expect 'order of the results' "$(grep -o 'ok 1 ..' "$results/e2e.txt" | tr '\n' ' ')" 'ok 1 a1 ok 1 m1 ok 1 m2 ok 1 f1 ok 1 f2 '
		expect 'the last' "$(tail -n 2 "$fakes/notes" | tr '\n' ' ')" 'begin a1 end a1 '
		expect 'those of the machine' "$(grep ' m' "$fakes/notes" | tr '\n' ' ')" 'begin m1 end m1 begin m2 end m2 '
		side_by_side=$(awk '/^begin/ { if (++now > most) most = now } /^end/ { now-- } END { print most }' "$fakes/notes")
		expect 'at once' "$side_by_side" $lanes
	done
}

@test "run-e2e: what reads the kernel's log or makes networks is tagged" {
	local shared='^[^#]*\b(dmesg|docker network create|doctor .*kernel-log)\b' file tagged=0
	for file in "$tree"/tests/[!0]*.bats "$tree"/tests/0[!0]*.bats "$tree/tests/001-services.bats"; do
		! grep -qE "$shared" "$file" || { grep -q '^# bats file_tags=.*machine' "$file" && tagged=$((tagged + 1)); } || fail "$file"
	done
	[ "$tagged" -ge 1 ]
}

@test "README.md: names each file, and no other" {
	# shellcheck disable=SC2016 # these are marks of Markdown
	expect 'files' "$(grep -oE '`[0-9]{3}-[a-z-]+`' "$tree/tests/README.md" | tr -d '`' | sort)" "$(basename -as .bats "$tree"/tests/*.bats)"
}

@test "install-deps --check: names what is missing and what to run, and installs nothing" {
	mkdir "$BATS_TEST_TMPDIR/bin"
	# shellcheck disable=SC2016 # for the stand-in
	printf '#!/bin/sh\ncase $* in *libc6-i386) exit 1 ;; esac\nprintf "install ok installed"\n' >"$BATS_TEST_TMPDIR/bin/dpkg-query"
	chmod 755 "$BATS_TEST_TMPDIR/bin/dpkg-query"
	PATH=$BATS_TEST_TMPDIR/bin:$PATH run make -C "$tree" --no-print-directory bench
	expect status "$status" 2
	expect_match output "$output" 'not installed: libc6-i386; run tests/install-deps as root'
	run make -C "$tree" --no-print-directory need-deps
	expect 'with everything there' "$status $output" '0 '
}

@test "killat: kills a process as it enters a call, and nothing else" {
	local n
	cd "$BATS_TEST_TMPDIR"
	for n in 1 2 3 4; do
		rm -f a b c
		touch a b c
		run "$build/killat" unlinkat $n rm a b c
		expect "status of a kill at $n" "$status" "$([ $n = 4 ] && echo 0 || echo 137)"
		expect "what is left after $n" "$(find . -name '[abc]' | wc -l)" $((4 - n < 0 ? 0 : 4 - n))
	done
	# A child that is killed is not the program, whose status counts.
	run "$build/killat" unlinkat 1 sh -c 'touch a; rm a; echo "rm: $?"; exit 3'
	expect 'status of the program' "$status" 3
	expect_match 'of its child' "$output" 'rm: 137'
	[ -e a ] || fail 'the call was made'
	run "$build/killat" -e 5 unlinkat 2 sh -c 'touch a b c; rm a; rm b; rm c'
	expect_match 'the second fails' "$output" "rm: cannot remove 'b': Input/output error"
	expect_match 'and says so' "$output" 'killat: failed'
	expect 'left' "$(echo [abc])" b
	rm b
	run "$build/killat" nothing 1 true
	expect 'status of a wrong call' "$status" 125
}

@test "validate: notices each changed byte of a blob, and a wrong size" {
	requires legacy_image
	local layout=$small_image/oci copy=$BATS_TEST_TMPDIR/copy blob
	"$build/validate" "$layout"
	for blob in "$layout"/blobs/sha256/*; do
		rm -rf "$copy"
		cp -r "$layout" "$copy"
		printf '\1' | dd of="$copy/blobs/sha256/${blob##*/}" bs=1 seek=100 conv=notrunc status=none
		run "$build/validate" "$copy"
		expect "status with another ${blob##*/}" "$status" 1
	done
	cp "$blob" "$copy/blobs/sha256/"
	sed -i 's/"size":/&1/' "$copy/index.json"
	run "$build/validate" "$copy"
	expect 'status with another size' "$status" 1
	expect_match 'its reason' "$output" 'got size 1'
}

@test "novsyscall: kills what calls the page, and nothing else" {
	requires oracle
	for function in time gettimeofday getcpu; do
		run "$callpage" $function
		expect "status of $function without the filter" "$status" 0
		run "$novsyscall" "$callpage" $function
		expect "status of $function under the filter" "$status" "$status_sigsys"
	done
	run "$novsyscall" "$callpage" none
	expect "status of no call" "$status" 0
}

@test "novsyscall: is inherited, by user nobody too" {
	requires oracle root
	run "$novsyscall" sh -c "sh -c '$callpage time'; exit \$?"
	expect "status of a grandchild" "$status" "$status_sigsys"
	local open
	open_dir "$novsyscall" "$callpage"
	run chroot --userspec=65534:65534 / "$open/callpage" time
	expect "status of nobody's call without the filter" "$status" 0
	run chroot --userspec=65534:65534 / "$open/novsyscall" "$open/callpage" time
	expect "status of nobody's call" "$status" "$status_sigsys"
}

@test "novsyscall: leaves new privileges to root, and its exit status is as env's" {
	requires root
	run "$novsyscall" grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status
	expect "filter" "$output" $'NoNewPrivs:\t0\nSeccomp:\t2'
	run "$novsyscall" sh -c 'exit 42'
	expect "status of the program" "$status" 42
	run -127 "$novsyscall" "$BATS_TEST_TMPDIR/nothing"
	run "$novsyscall" /etc/passwd
	expect "status of a file that is not a program" "$status" 126
	run "$novsyscall"
	expect "status without arguments" "$status" 125
}

# make_root: a root filesystem of busybox and callpage.
make_root() {
	root=$BATS_TEST_TMPDIR/root
	mkdir -p "$root/bin"
	cp /bin/busybox "$root/bin/sh"
	cp "$callpage" "$root/bin/"
}

@test "vm: vsyscall=none kills a caller with the kernel's line, and only a caller" {
	requires vm
	make_root
	run_vm --vsyscall none --root "$root" -- 'callpage time' 'callpage gettimeofday' 'callpage getcpu' 'callpage none'
	for n in 1 2 3; do
		expect_vm $n "$status_sigsegv"
		expect_match "kernel log of command $n" "$(cat "$vm_out/$n.kernel")" "$kernel_line"
	done
	expect_vm 4 0
	expect "lines in the kernel's log" "$(grep -c "$kernel_line" "$vm_out/kernel.log")" 3
}

@test "vm: statuses, streams, environment, user and arguments arrive as they are" {
	requires vm
	make_root
	run_vm --vsyscall none --root "$root" --user 12:34 --env 'GREETING=good  day' -- \
		"sh -c 'echo \"\$GREETING\"; echo to stderr >&2; exit 7'" 'nonexistent' "sh -c 'kill -KILL \$\$'" \
		"sh -c 'id -u; id -g; echo \"\$1\"' name '*  \"x'" '/bin' \
		"sh -c 'dd if=/dev/zero bs=1M count=20 2>/dev/null'" "GREETING='a b=c' sh -c 'echo \"\$GREETING\"; echo \"\$1\"' name x=y"
	expect_vm 1 7
	expect stdout "$(cat "$vm_out/1.stdout")" 'good  day'
	expect stderr "$(cat "$vm_out/1.stderr")" 'to stderr'
	expect_vm 2 127
	expect_vm 3 137
	expect_vm 4 0
	expect stdout "$(cat "$vm_out/4.stdout")" $'12\n34\n*  "x'
	expect_vm 5 126
	expect 'variables of one command' "$(cat "$vm_out/7.stdout")" $'a b=c\nx=y'
	expect 'status of the big one' "$(cat "$vm_out/6.status")" 0
	expect 'bytes of output' "$(stat -c %s "$vm_out/6.stdout")" $((20 << 20))
}

@test "vm: the root is not changed, writable by default, and not with --read-only" {
	requires vm
	make_root
	before=$(cd "$root" && find . -printf '%p %T@ %C@\n' | sort)
	run_vm --vsyscall none --root "$root" -- "sh -c 'echo x >/file'" "sh -c 'cat /file; ls /tmp; echo y >/tmp/y'" "sh -c 'ls /tmp'"
	expect_vm 1 0
	expect_vm 2 0
	expect 'the file, and an empty /tmp' "$(cat "$vm_out/2.stdout")" x
	expect '/tmp of the next command' "$(cat "$vm_out/3.stdout")" ''
	run_vm --vsyscall none --root "$root" --read-only -- "sh -c 'echo x >/file'" "sh -c 'echo x >/tmp/file && cat /tmp/file'"
	expect_vm 1 1
	expect_match stderr "$(cat "$vm_out/1.stderr")" 'Read-only file system'
	expect_vm 2 0
	expect 'the root' "$(cd "$root" && find . -printf '%p %T@ %C@\n' | sort)" "$before"
}

@test "vm: machines that go on from one saved state have the time of day, and random numbers of their own" {
	requires vm
	make_root
	run_vm --vsyscall none --root "$root" -- "sh -c 'cat /proc/sys/kernel/random/uuid; date +%s'"
	mapfile -t first <"$vm_out/1.stdout"
	before=$(date +%s)
	run_vm --vsyscall none --root "$root" -- "sh -c 'cat /proc/sys/kernel/random/uuid; date +%s'"
	mapfile -t second <"$vm_out/1.stdout"
	[ "${first[0]}" != "${second[0]}" ] || fail "twice the same random number: ${first[0]}"
	[ "${second[1]}" -ge "$before" ] || fail "the second machine's time of day is of before its start: ${second[1]}, $before"
	age=$(($(date +%s) - second[1]))
	[ "$age" -ge 0 ] && [ "$age" -lt 600 ] || fail "the second machine's time of day is $age s ago"
	# A machine that booted has the kernel's first lines on its console.
	expect 'machines that booted' "$(grep -c 'vm: waits for commands' "$vm_out/console.log")" 0
}

@test "vm: a machine that breaks off is an error, and leaves nothing in the temporary directory" {
	requires vm
	make_root
	mkdir "$BATS_TEST_TMPDIR/tmp"
	# sysrq b reboots at once, which ends qemu.
	TMPDIR=$BATS_TEST_TMPDIR/tmp run run_vm --vsyscall none --root "$root" -- "sh -c 'echo b >/proc/sysrq-trigger; sleep 60'"
	echo "$output"
	expect status "$status" 1
	expect_match message "$output" 'without the results of 1 commands'
	expect 'left behind' "$(ls "$BATS_TEST_TMPDIR/tmp")" ''
}
