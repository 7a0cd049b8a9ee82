#!/usr/bin/env bats
# bats file_tags=alone
# vfix bench: every way is measured or reported with the reason, on hosts with and without the page; within an
# image; and redis before and after. Speed itself is not judged here, except for factors of a hundred.
# Variables come from helpers.bash.
# shellcheck disable=SC2154
load helpers

image=oci:$legacy_image/oci

# figure FUNCTION MODE FIELD: from the JSON in $output.
figure() { jq -r --arg f "$1" --arg m "$2" ".figures[] | select(.function == \$f and .mode == \$m) | .$3" <<<"$output"; }

# faster MODE OTHER [TIMES]: for all functions, at least four times: on a processor with fast traps, gettimeofday() of
# the page takes about ten times as long as the vDSO's.
faster() {
	local function
	for function in time gettimeofday getcpu; do
		jq -e -n "$(figure $function "$1" value) * ${3:-4} < $(figure $function "$2" value)" >/dev/null ||
			fail "$function: $1 takes $(figure $function "$1" value) ns, $2 $(figure $function "$2" value)"
	done
}

@test "bench: all ways of a host that serves the page, the page many times the vDSO" {
	requires oracle
	run_vfix bench --rounds 3 --format json
	expect 'what is not here' "$(jq -r '.figures[] | select(.absent != "") | .mode + " " + .function' <<<"$output")" ''
	faster vdso page
	faster patched page
	faster fallback page
}

@test "bench: a table that fits 80 columns, and a chart" {
	run_vfix bench --rounds 1 --plot "$BATS_TEST_TMPDIR/x.svg"
	[[ ${lines[0]} =~ ^'NS PER CALL  TIME '.*'TO VDSO' ]] || fail "$output"
	((${#lines[0]} <= 80)) || fail "$output"
	grep -q '>fallback<' "$BATS_TEST_TMPDIR/x.svg"
	expect 'files beside it' "$(find "$BATS_TEST_TMPDIR" -name '*x.svg*' | wc -l)" 1
	run_vfix 2 bench --plot "$BATS_TEST_TMPDIR/x.pdf"
}

@test "bench: by an ordinary user" {
	requires root
	local open
	open_dir "$VFIX"
	TMPDIR='' run --separate-stderr setpriv --reuid=65534 --regid=65534 --clear-groups \
		"$open/vfix" bench --rounds 1 --format json
	expect "status; stderr: $stderr" "$status" 0
	[ "$(figure time vdso value)" != 0 ]
}

@test "bench: under a filter that kills callers of the page, that is said" {
	requires oracle
	run -0 --separate-stderr "$novsyscall" "$VFIX" bench --rounds 1 --format json
	expect reason "$(figure time page absent)" 'SIGSYS (a seccomp filter)'
	expect 'patched' "$(figure time patched absent)" ''
}

@test "bench: in an image, before and after; under the filter only the rebuilt one runs" {
	requires root oracle legacy_image
	export TMPDIR=$BATS_TEST_TMPDIR/tmp
	mkdir "$TMPDIR"
	run_vfix bench --rounds 3 --format json "$image"
	faster image-rebuilt image 1.5 # the test image's libc has no initializer that vfix can use: a system call remains
	expect 'temporary directories' "$(ls -A "$TMPDIR")" ''
	run -0 --separate-stderr "$novsyscall" "$VFIX" bench --rounds 1 --format json "$image"
	expect original "$(figure time image absent)" 'SIGSYS (a seccomp filter)'
	expect rebuilt "$(figure time image-rebuilt absent)" ''
}

@test "bench: an image without a glibc, or without redis, is reported" {
	requires root
	mkdir -p "$BATS_TEST_TMPDIR/root/etc"
	run_vfix bench --rounds 1 --format json "dir:$BATS_TEST_TMPDIR/root"
	expect_match reason "$(figure time image absent)" 'the image has no glibc'
	run_vfix 1 bench --redis "dir:$BATS_TEST_TMPDIR/root"
	expect_match stderr "$stderr" 'the image has no /usr/local/bin/redis-server'
}

@test "bench: redis of the legacy image, original and rebuilt side by side" {
	requires root oracle legacy_image
	export TMPDIR=$BATS_TEST_TMPDIR/tmp
	mkdir -p "$TMPDIR/control"
	# inside: the processes whose root is in $TMPDIR.
	inside() { find /proc/[0-9]* -maxdepth 1 -name root -lname "$TMPDIR/*" 2>/dev/null | wc -l; }
	cp /bin/busybox "$TMPDIR/control"
	chroot "$TMPDIR/control" /busybox sleep 600 3>&- &
	seen() { [ "$(inside)" = 1 ]; }
	poll seen
	kill $!
	wait $! || true
	run_vfix bench --redis --rounds 1 "$image"
	for line in 'PER SECOND +SET .* GET ' 'image +[0-9]' 'image-rebuilt +[0-9]'; do
		[[ $output =~ $line ]] || fail "no line '$line' in $output"
	done
	run -0 --separate-stderr "$novsyscall" "$VFIX" bench --redis --rounds 1 --format json "$image"
	jq -e '[.figures[] | select(.mode == "image") | .absent | test("redis-server ended: SIGSYS")] == [true, true]' <<<"$output"
	jq -e '[.figures[] | select(.mode == "image-rebuilt") | .value > 0] == [true, true]' <<<"$output"
	expect 'processes left' "$(inside)" 0
}

@test "bench: kernels without the page, or without a vDSO" {
	requires root vm
	local root=$BATS_TEST_TMPDIR/root
	mkdir -p "$root/bin"
	cp "$VFIX" "$root/bin/vfix"
	copy_libraries "$build/matrix" "$root" # glibc, among others
	run_vm --vsyscall none --root "$root" -- '/bin/vfix bench --rounds 1 --format json'
	expect_vm 1 0
	output=$(cat "$vm_out/1.stdout")
	expect page "$(figure time page absent)" 'this kernel does not serve the vsyscall page: a call is SIGSEGV'
	expect 'patched, fallback' "$(figure time patched absent)$(figure time fallback absent)" ''
	run_vm --vsyscall emulate --append vdso=0 --root "$root" -- '/bin/vfix bench --rounds 1 --format json'
	expect_vm 1 0
	output=$(cat "$vm_out/1.stdout")
	expect vdso "$(figure time vdso absent)" 'it has no such function'
	expect page "$(figure time page absent)" ''
	expect ratio "$(figure time syscall ratio)" 0
}
