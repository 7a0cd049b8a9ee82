#!/usr/bin/env bats
# bats file_tags=long
# rebuild --fallback: sites that vfix left, and code that is made later, run in the derived image on a kernel with
# vsyscall=none. The legacy image gets a layer with programs whose call sites remain (late) or do not exist before
# they run (jit), each dynamic and static.
# Variables come from helpers.bash.
# shellcheck disable=SC2154
load helpers

legacy_image=$medium_image

has_loader32() {
	if [ ! -e /lib/ld-linux.so.2 ] || [ ! -e "$build/fallback/i386" ]; then
		echo "libc6-i386 is not installed, or make fixtures has not been run" && return 1
	fi
}

# base TAG PROGRAM...: an image, in $oci, from the legacy one and programs in /usr/local/bin.
base() {
	local tag=$1 dir=$BATS_FILE_TMPDIR/$1
	shift
	mkdir -p "$dir/usr/local/bin"
	for p; do cp "$build/fallback/$p" "$dir/usr/local/bin/"; done
	if [ "$tag" = late ]; then
		mkdir "$dir/etc"
		printf '# of the base\n/usr/lib/x86_64-linux-gnu/libdl.so.2' >"$dir/etc/ld.so.preload"
		chmod 640 "$dir/etc/ld.so.preload"
		chown 0:4 "$dir/etc/ld.so.preload"
	fi
	tar -c -f "$dir.tar" --numeric-owner --owner=+0 --mtime=@1700000000 -C "$dir" usr
	[ ! -e "$dir/etc" ] || tar -r -f "$dir.tar" --numeric-owner --mtime=@1700000000 -C "$dir" etc
	umoci raw add-layer --image "$oci:legacy" --tag "$tag" "$dir.tar"
}

setup_file() {
	load helpers
	export oci=$BATS_FILE_TMPDIR/oci
	(has_root && has_vm && has_image_tools && has_legacy_image && has_fallback) >/dev/null || return 0
	cp -a "$legacy_image/oci" "$oci"
	base late late late-static rawsignals jit
	base dynamic late
	base jit jit jit-static
}

setup() { requires root vm image_tools legacy_image fallback; }

# rebuild STATUS TAG MODE: rebuilds an image of $oci to TAG-MODE in it, with JSON.
rebuild() { run_vfix "$1" rebuild --fallback "$3" --format json "oci:$oci:$2" -o "oci:$oci:$2-$3"; }

# unpack TAG: unpacks the root filesystem of an image into $root.
unpack() {
	root=$BATS_TEST_TMPDIR/$1
	umoci raw unpack --image "$oci:$1" "$root"
}

# started TAG: the entrypoint of an image, as words.
started() { skopeo inspect --config "oci:$oci:$1" | jq -r '.config.Entrypoint | join(" ")'; }

@test "fallback: never adds nothing, and what was left dies" {
	rebuild 3 late never
	expect 'added' "$(jq -c .fallback.added <<<"$output")" '[]'
	expect 'entrypoint' "$(started late-never)" /usr/local/bin/docker-entrypoint.sh
	unpack late-never
	[ ! -e "$root/vfix" ] || fail "/vfix is there"
	run_vm --vsyscall none --root "$root" -- 'bash -c "echo up"' late late-static jit
	expect_vm 1 0
	for n in 2 3 4; do expect_vm $n "$status_sigsegv"; done
}

@test "fallback: auto, where call sites stay in dynamic and static programs" {
	run_vfix rebuild --dry-run "oci:$oci:late"
	expect_match stderr "$stderr" '3 live or unknown call sites left, covered by the fallback (libvfix.so, vfix-trace)'
	expect_match stderr "$stderr" 'the fallback would be added: etc/ld.so.preload, vfix/vfix-trace, vfix/x86_64/libvfix.so'
	rebuild 0 late auto
	expect_match stderr "$stderr" 'a preload does not reach usr/local/bin/late-static: a static program'
	expect_match stderr "$stderr" 'a preload does not reach usr/local/bin/rawsignals: it sets up signals by system calls'
	expect 'covered' "$(jq -c '[.result.files[] | select(.covered != "") | [.path, .covered]]' <<<"$output")" \
		'[["usr/local/bin/late","libvfix.so"],["usr/local/bin/late-static","vfix-trace"],["usr/local/bin/rawsignals","vfix-trace"]]'
	expect 'entrypoint' "$(started late-auto)" '/vfix/vfix-trace /usr/local/bin/docker-entrypoint.sh'
	unpack late-auto
	expect 'ld.so.preload' "$(cat "$root/etc/ld.so.preload")" \
		$'# of the base\n/usr/lib/x86_64-linux-gnu/libdl.so.2\n/vfix/x86_64/libvfix.so'
	expect 'its owner and mode' "$(stat -c %u:%g:%a "$root/etc/ld.so.preload")" 0:4:640
	run_vm --vsyscall none --root "$root" -- \
		"$(started late-auto) late" "$(started late-auto) late-static" "$(started late-auto) redis-server --version" \
		late jit late-static rawsignals "$(started late-auto) rawsignals" 'bash -c late-static'
	for n in 1 2 3 8; do
		expect_vm $n 0
		expect "stderr of $n" "$(cat "$vm_out/$n.stderr")" ''
	done
	expect_match 'the image itself' "$(cat "$vm_out/3.stdout")" 'Redis server v='
	# Programs started by docker exec are preloaded and not traced. Those that a shell starts in turn are covered if they have a call site.
	expect_vm 4 0
	expect_vm 5 0
	expect_vm 6 "$status_sigsegv"
	expect_vm 7 3 # its own handler
	# Neither part has an effect if the kernel serves the page.
	run_vm --vsyscall xonly --root "$root" -- "$(started late-auto) late-static" late jit
	for n in 1 2 3; do expect_vm $n 0; done
}

@test "fallback: auto leaves the entrypoint alone where a preload reaches everything" {
	rebuild 0 dynamic auto
	expect 'added' "$(jq -c .fallback.added <<<"$output")" '["etc/ld.so.preload","vfix/x86_64/libvfix.so"]'
	expect 'entrypoint' "$(started dynamic-auto)" /usr/local/bin/docker-entrypoint.sh
	unpack dynamic-auto
	run_vm --vsyscall none --root "$root" --user 65534:65534 --read-only -- late 'bash -c "late && late"'
	expect_vm 1 0
	expect_vm 2 0
}

@test "fallback: always serves code that comes later; auto sees none and adds nothing" {
	rebuild 0 jit auto
	expect 'added' "$(jq -c .fallback.added <<<"$output")" '[]'
	unpack jit-auto
	run_vm --vsyscall none --root "$root" -- jit jit-static 'bash -c "echo up"'
	expect_vm 1 "$status_sigsegv"
	expect_vm 2 "$status_sigsegv"
	expect_vm 3 0
	rebuild 0 jit always
	expect 'added' "$(jq -c .fallback.added <<<"$output")" '["etc/ld.so.preload","vfix/vfix-trace","vfix/x86_64/libvfix.so"]'
	unpack jit-always
	run_vm --vsyscall none --root "$root" -- "$(started jit-always) jit" "$(started jit-always) jit-static" jit
	for n in 1 2 3; do expect_vm $n 0; done
}

@test "fallback: the result is the same each time, verifies, and is rebuilt to itself" {
	local digest mode
	for mode in auto always; do
		rebuild 0 late "$mode"
		digest=$(jq -r .digest <<<"$output")
		run_vfix rebuild --fallback "$mode" --format json "oci:$oci:late" -o "oci:$BATS_TEST_TMPDIR/$mode:x"
		expect 'digest, again' "$(jq -r .digest <<<"$output")" "$digest"
		run_vfix scan "oci:$oci:late-$mode"
		expect_match 'what scan says of it' "$output" '3 live or unknown call sites left, covered by the fallback'
		run_vfix verify "oci:$oci:late-$mode" --against "oci:$oci:late" --format json
		expect 'added' "$(jq -c .added <<<"$output")" '["etc/ld.so.preload","vfix/vfix-trace","vfix/x86_64/libvfix.so"]'
		run_vfix rebuild --fallback "$mode" --format json "oci:$oci:late-$mode" -o "oci:$BATS_TEST_TMPDIR/$mode:y"
		expect 'unchanged' "$(jq -c '[.unchanged, .digest]' <<<"$output")" "[true,\"$digest\"]"
	done
	# The control: verify reports a library with one more byte.
	unpack late-auto
	printf x >>"$root/vfix/x86_64/libvfix.so"
	tar -c -f "$BATS_TEST_TMPDIR/forged.tar" --numeric-owner --mtime=@0 -C "$root" vfix/x86_64/libvfix.so
	umoci raw add-layer --image "$oci:late-auto" --tag forged "$BATS_TEST_TMPDIR/forged.tar"
	run_vfix 3 verify "oci:$oci:forged" --against "oci:$oci:late"
	expect_match stdout "$output" 'vfix/x86_64/libvfix.so: got * bytes, want *'
}

@test "fallback: a 32-bit program starts without a word from its loader" {
	requires loader32
	local dir=$BATS_TEST_TMPDIR/i386
	mkdir -p "$dir/usr/lib" "$dir/usr/lib32" "$dir/usr/local/bin"
	cp -L /lib/ld-linux.so.2 "$dir/usr/lib/"
	cp -L /lib32/libc.so.6 /lib32/libresolv.so.2 "$dir/usr/lib32/"
	cp "$build/fallback/i386" "$dir/usr/local/bin/"
	for package in busybox busybox-static; do
		"$tree/tests/foreign-package" i386 "$package" "$build/packages/$package-i386"
		cp "$build/packages/$package-i386/bin/busybox" "$dir/usr/local/bin/$package"
	done
	tar -c -f "$dir.tar" --numeric-owner --mtime=@1700000000 -C "$dir" usr
	umoci raw add-layer --image "$oci:dynamic" --tag i386 "$dir.tar"
	rebuild 0 i386 auto
	unpack i386-auto
	expect 'ld.so.preload' "$(cat "$root/etc/ld.so.preload")" /vfix/\$PLATFORM/libvfix.so
	run_vm --vsyscall none --root "$root" -- '/lib/ld-linux.so.2 --library-path /usr/lib32 /usr/local/bin/i386' i386 late \
		'/lib/ld-linux.so.2 --library-path /usr/lib32 /usr/local/bin/busybox sh -c "date +%Y | grep ^20"' \
		'busybox-static sh -c "date +%Y | grep ^20"'
	for n in 1 2 3 4 5; do
		expect_vm $n 0
		expect "stderr of $n" "$(cat "$vm_out/$n.stderr")" ''
	done
	# The control: with a path only for 64-bit programs, the loader prints an error.
	echo /vfix/x86_64/libvfix.so >"$root/etc/ld.so.preload"
	run chroot "$root" /usr/local/bin/i386
	expect_match 'the loader' "$output" 'wrong ELF class'
}
