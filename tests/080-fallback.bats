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
	for p; do cp "$build"/*/"$p" "$dir/usr/local/bin/"; done
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
	base left no-note-left
	base dynamic late
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

# What cannot be judged changes no entrypoint, so auto adds nothing for it.
@test "fallback: never and auto add nothing for calls that are made at run time, and these crash" {
	local mode
	for mode in never auto; do
		rebuild 4 late $mode
		expect 'added' "$(jq -c .fallback.added <<<"$output")" '[]'
		expect 'entrypoint' "$(started late-$mode)" /usr/local/bin/docker-entrypoint.sh
	done
	unpack late-auto
	[ ! -e "$root/vfix" ] || fail "/vfix is there"
	run_vm --vsyscall none --root "$root" -- 'bash -c "echo up"' late late-static jit
	expect_vm 1 0
	for n in 2 3 4; do expect_vm $n "$status_sigsegv"; done
}

@test "fallback: auto traces a static program whose call sites cannot be patched" {
	rebuild 0 left auto
	expect 'entrypoint' "$(started left-auto)" '/vfix/vfix-trace /usr/local/bin/docker-entrypoint.sh'
}

@test "fallback: always serves dynamic and static programs, and what a shell starts" {
	local n
	rebuild 0 late always
	expect 'added' "$(jq -c .fallback.added <<<"$output")" '["etc/ld.so.preload","vfix/vfix-trace","vfix/x86_64/libvfix.so"]'
	expect 'entrypoint' "$(started late-always)" '/vfix/vfix-trace /usr/local/bin/docker-entrypoint.sh'
	unpack late-always
	expect 'ld.so.preload' "$(cat "$root/etc/ld.so.preload")" \
		$'# of the base\n/usr/lib/x86_64-linux-gnu/libdl.so.2\n/vfix/x86_64/libvfix.so'
	expect 'its owner and mode' "$(stat -c %u:%g:%a "$root/etc/ld.so.preload")" 0:4:640
	run_vm --vsyscall none --root "$root" -- \
		"$(started late-always) late" "$(started late-always) late-static" "$(started late-always) jit" \
		"$(started late-always) rawsignals" "$(started late-always) redis-server --version" \
		late jit 'bash -c late-static' late-static rawsignals
	for n in 1 2 3 4 5; do
		expect_vm $n 0
		expect "stderr of $n" "$(cat "$vm_out/$n.stderr")" ''
	done
	# Programs started by docker exec are preloaded, and not traced; a shell's static programs are.
	for n in 6 7 8; do expect_vm $n 0; done
	expect_vm 9 "$status_sigsegv"
	expect_vm 10 3 # its own handler
}

@test "fallback: the result is the same each time, verifies, and is rebuilt to itself" {
	local digest
	rebuild 0 late always
	digest=$(jq -r .digest <<<"$output")
	run_vfix 0 rebuild --fallback always --format json "oci:$oci:late" -o "oci:$BATS_TEST_TMPDIR/again:x"
	expect 'digest, again' "$(jq -r .digest <<<"$output")" "$digest"
	run_vfix 0 rebuild --fallback auto --format json "oci:$oci:left" -o "oci:$oci:left-auto"
	run_vfix verify "oci:$oci:left-auto" --against "oci:$oci:left" --format json
	expect_match 'added' "$(jq -c .added <<<"$output")" 'vfix/vfix-trace'
	run_vfix rebuild --fallback auto --format json "oci:$oci:left-auto" -o "oci:$BATS_TEST_TMPDIR/to-itself:y"
	expect 'unchanged' "$(jq -c .unchanged <<<"$output")" true
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
	rebuild 0 i386 always
	unpack i386-always
	expect 'ld.so.preload' "$(tail -n 1 "$root/etc/ld.so.preload")" /vfix/\$PLATFORM/libvfix.so
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
