#!/usr/bin/env bats
# bats file_tags=long
# vfix-runtime and hostile images: whatever is in a root filesystem, nothing outside of it is opened, mounted or
# changed, nothing blocks, and the container starts. Most tests have a stand-in for the real runtime, which records
# how it is called, and strace shows which files were opened.
# shellcheck disable=SC2154
load helpers
load bundles

has_strace() { has_commands strace jq && strace -qq -o /dev/null true; }

# An overlay with its upper layer on a separate tmpfs.
has_overlay() {
	local dir=$BATS_TEST_TMPDIR/try status=0
	mkdir -p "$dir"
	mount -t tmpfs tmpfs "$dir" || { echo 'no tmpfs can be mounted' && return 1; }
	mkdir "$dir/lower" "$dir/upper" "$dir/work" "$dir/root"
	mount -t overlay -o "lowerdir=$dir/lower,upperdir=$dir/upper,workdir=$dir/work" overlay "$dir/root" 2>/dev/null || status=1
	[ $status != 0 ] || umount "$dir/root"
	umount "$dir"
	[ $status = 0 ] || { echo 'no overlay can be mounted' && return 1; }
}

setup() {
	requires root fixtures strace
	setup_runtime
}

teardown() {
	[ ! -e "$work/running" ] || runc delete --force "vfix-$$-look"
	[ ! -e "$BATS_TEST_TMPDIR/overlays" ] || tac "$BATS_TEST_TMPDIR/overlays" | while read -r dir; do umount --lazy "$dir"; done
}

@test "runtime: what calls the page is mounted over, under each name, and nothing else is [control]" {
	bundle b
	plant usr/lib/libc.so.6
	ln "$root/usr/lib/libc.so.6" "$root/usr/lib/libc-2.13.so"
	ln -s libc.so.6 "$root/usr/lib/libc.so"
	plant usr/lib/lookalikes lookalikes
	echo text >"$root/etc/passwd"
	traced_start
	expect mounts "$(mounted "$b/config.json" | sort)" $'/usr/lib/libc-2.13.so\n/usr/lib/libc.so.6'
	expect log "$log" ''
	# The mounted file is the patched one, with the original's owner, mode and time.
	chown 1234:5678 "$root/usr/lib/libc.so.6"
	chmod 4751 "$root/usr/lib/libc.so.6"
	start
	copy=$(jq -r '.mounts[-1].source' "$b/config.json")
	expect 'owner, mode and time' "$(stat -c '%u:%g %a %Y' "$copy")" "$(stat -c '%u:%g %a %Y' "$root/usr/lib/libc.so.6")"
	cp -a "$copy" "$work/copy"
	run_vfix verify "$work/copy" --against "$root/usr/lib/libc.so.6"
	# And the oracle detects a file that is opened outside.
	echo '1 openat(AT_FDCWD</>, "x", O_RDONLY) = 5</etc/shadow>' >"$work/forged"
	run nothing_outside "$work/forged"
	expect 'the oracle of a forged trace' "$status" 1
}

@test "runtime: symlinked directories and files lead nowhere outside" {
	local n=0 target
	for target in "$work/outside" "../../../../../../../../../..$work/outside" /proc/self/root"$work/outside" /; do
		n=$((n + 1))
		bundle "b$n"
		ln -s "$target" "$root/lib"
		ln -s "$target/libc.so.6" "$root/usr/lib/libc.so.6"
		ln -s "$target" "$root/usr/lib64"
		plant usr/bin/tool
		traced_start
		expect "mounts where lib leads to $target" "$(mounted "$b/config.json")" /usr/bin/tool
		expect log "$log" ''
	done
}

@test "runtime: loops, chains and depths of links and directories end" {
	local i at
	bundle b
	ln -s b "$root/a" && ln -s a "$root/b" && ln -s . "$root/usr/self" && ln -s .. "$root/usr/lib/up"
	for ((i = 0; i < 60; i++)); do ln -s "chain$((i + 1))" "$root/chain$i"; done
	# Deeper than the longest path.
	(
		cd "$root"
		for ((i = 0; i < 50; i++)); do
			at=$(printf 'd%.0s' {1..200})
			mkdir "$at" && cd "$at"
		done
		cp "$build/fixtures/libstubs.so" .
	)
	plant usr/lib/libc.so.6
	# A mount of the engine whose path leads through a loop.
	traced_start
	expect mounts "$(mounted "$b/config.json")" /usr/lib/libc.so.6
	expect_match log "$log" 'file name too long'
	jq '.mounts += [{destination: "/a/x", type: "tmpfs"}]' "$b/config.json" >"$work/c" && cp "$work/c" "$b/config.json"
	start
	expect_match log "$log" 'mount at /a/x'
}

@test "runtime: fifos, devices, sockets and directories named as a library are not opened" {
	bundle b
	mkfifo "$root/usr/lib/libc.so.6"
	mknod "$root/usr/lib/libpthread.so.0" c 5 0
	mknod "$root/usr/lib/libz.so" b 7 0
	mkdir "$root/usr/lib/libdl.so.2"
	python3 -c 'import socket,sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$root/usr/lib/libs.so"
	plant usr/lib/libm.so.6
	traced_start
	expect mounts "$(mounted "$b/config.json")" /usr/lib/libm.so.6
	run grep -E 'libc.so.6>|libpthread|libz|libs.so>' "$work/trace"
	expect 'opened' "$output" ''
	start --fail-closed
}

@test "runtime: 10 GB of holes are not read, and fail-closed says which file" {
	bundle b
	plant usr/lib/libc.so.6
	truncate -s 10G "$root/usr/lib/libc.so.6"
	plant usr/lib/libholes.so
	truncate -s 1G "$root/usr/lib/libholes.so"
	truncate -s 10G "$root/usr/lib/data"
	traced_start
	expect mounts "$(mounted "$b/config.json")" ''
	expect_match log "$log" '/usr/lib/libc.so.6: 10737418240 bytes, not examined'
	expect_match log "$log" '/usr/lib/libholes.so: 1073741824 bytes, not examined: most of them are holes'
	rm -rf "$RECORD"
	run runtime --fail-closed create --bundle "$b" c1
	expect 'status, fail-closed' "$status" 1
	expect_match 'stderr' "$output" '/usr/lib/libc.so.6'
	[ ! -e "$RECORD" ] || fail 'it was started'
	# The control: without these two it starts. A large file that is not a program has no effect.
	rm "$root/usr/lib/libc.so.6" "$root/usr/lib/libholes.so"
	start --fail-closed
}

@test "runtime: a file that is swapped while it is read is patched as it is, or not at all" {
	bundle b
	plant usr/lib/libc.so.6
	ln -s "$work/outside/libc.so.6" "$root/usr/lib/link"
	plant usr/lib/other static-2m
	mkfifo "$root/usr/lib/fifo"
	cat >"$work/swap.py" <<-'END'
		import ctypes, os, sys
		libc = ctypes.CDLL(None)
		root = os.open(sys.argv[1], os.O_RDONLY)
		while os.getppid() != 1:
		    for name in (b"link", b"other", b"fifo"):
		        libc.renameat2(root, b"libc.so.6", root, name, 2)
	END
	python3 "$work/swap.py" "$root/usr/lib" 3>&- &
	swapper=$!
	local n i path source
	for ((i = 0; i < 12; i++)); do
		rm -rf "$cache"
		traced_start
		jq -r --arg dir "$cache" '.mounts[] | select((.source // "") | startswith($dir)) | [.destination, .source] | @tsv' "$b/config.json" >"$work/list"
		while IFS=$'\t' read -r path source; do
			expect_match 'what is mounted over' "$path" /usr/lib/
			n=$(cmp "$source" "$work/outside/libc.so.6" | wc -l)
			cp "$source" "$work/copy"
			run_vfix scan "$work/copy"
			expect 'differs from the original' "$n" 1
		done <"$work/list"
	done
	kill "$swapper"
	wait "$swapper" || true
}

@test "runtime: what the engine's mounts cover is left alone, through symlinks too" {
	bundle b '.mounts += [{destination: "/data", type: "bind", source: "/srv", options: ["rbind"]},
		{destination: "/opt/../var//run/", type: "tmpfs"}, {destination: "/etc/one.so", type: "bind", source: "/srv/x"}]'
	plant usr/lib/covered.so
	ln -s usr/lib "$root/data"
	plant run/b.so
	mkdir "$root/var"
	ln -s ../run "$root/var/run"
	plant etc/one.so
	plant etc/two.so
	traced_start
	expect mounts "$(mounted "$b/config.json")" /etc/two.so
}

@test "runtime: damaged ELF files are ignored" {
	bundle b
	local i file=$build/fixtures/libstubs.so
	for ((i = 1; i < 20; i++)); do head -c $((i * i * 37)) "$file" >"$root/usr/lib/cut$i"; done
	for i in 16 18 20 32 40 54 56 58 60; do
		cp "$file" "$root/usr/lib/poked$i"
		printf '\xff\xff\xff\xff' | dd of="$root/usr/lib/poked$i" bs=1 seek="$i" conv=notrunc status=none
	done
	plant usr/lib/libc.so.6
	traced_start
	mounted "$b/config.json" | grep -qx /usr/lib/libc.so.6 || fail 'the sound file is not patched'
	run grep -c cut <(mounted "$b/config.json")
	expect 'cut files mounted over' "$output" 0
}

@test "runtime: config.json: anything but a bundle starts as it is, byte for byte, with a line in the log" {
	local text good n=0
	bundle b
	plant usr/lib/libc.so.6
	good=$(cat "$b/config.json")
	for text in '' '{' '[]' 'null' '{"root":{}}' '{"root":{"path":"nowhere"}}' '{"root":{"path":"rootfs"},"root":{"path":"/etc"}}' \
		'{"Root":{"path":"rootfs"}}' '{"root":{"path":"rootfs"},"mounts":{}}' '{"root":{"path":"config.json"}}' \
		$'{"root":{"path":"roo\xfftfs"}}' '{"root":{"path":"rootfs\u0000x"}}' \
		'{"root":{"path":"rootfs"},"annotations":{"dev.vfix.enable":"maybe"}}'; do
		n=$((n + 1))
		printf %s "$text" >"$b/config.json"
		start
		expect "config.json $n" "$(base64 "$b/config.json")" "$(printf %s "$text" | base64)"
		expect 'lines in the log' "$(wc -l <"$work/log")" 1
		rm -rf "$RECORD"
		run runtime --fail-closed --log "$work/log" create --bundle "$b" c1
		expect "status of $text, fail-closed" "$status" 1
		[ ! -e "$RECORD" ] || fail 'it was started'
	done
	rm "$b/config.json"
	mkfifo "$b/config.json"
	start
	expect_match log "$log" 'not a regular file'
	rm "$b/config.json"
	start
	expect_match log "$log" 'no such file'
	# The controls: the good one, and a large one, with all unknown members kept.
	head -c 2000000 /dev/zero | tr '\0' x >"$work/x"
	echo "$good" | jq --rawfile x "$work/x" '.unknown = {big: $x, n: 1e300} | .Mounts2 = 1' >"$b/config.json"
	cp "$b/config.json" "$work/before"
	start
	expect_match log "$log" 'config.json: Mounts2: not known * config.json: unknown: not known'
	expect mounts "$(mounted)" /usr/lib/libc.so.6
	expect 'all else' "$(jq 'del(.mounts)' "$b/config.json" | sha256sum)" "$(jq 'del(.mounts)' "$work/before" | sha256sum)"
}

@test "runtime: a root that is the container's own gets the files in itself, and not through links" {
	local id
	id=$(printf 'c%.0s' {1..64})
	bundle b ".root.readonly = false | .root.path = \"$work/vfs/dir/$id\""
	mkdir -p "$work/vfs/dir"
	mv "$root" "$work/vfs/dir/$id"
	root=$work/vfs/dir/$id
	plant usr/lib/libc.so.6
	chmod 4755 "$root/usr/lib/libc.so.6"
	cp -a "$root/usr/lib/libc.so.6" "$work/original"
	ln "$root/usr/lib/libc.so.6" "$root/etc/second"
	ln -s "$work/outside" "$root/lib"
	ln -s "$work/outside/libc.so.6" "$root/usr/lib/libm.so.6"
	echo left >"$root/usr/lib/.vfix-0123456789abcdef.tmp"
	# A file that could not be examined, and one that would be patched, are not reported: they are removed.
	head -c 4096 "$build/fixtures/libstubs.so" >"$root/usr/lib/.vfix-1123456789abcdef.tmp"
	truncate -s 5G "$root/usr/lib/.vfix-1123456789abcdef.tmp"
	plant usr/lib/.vfix-2123456789abcdef.tmp
	cp "$b/config.json" "$work/before"
	start --fail-closed
	cmp "$b/config.json" "$work/before"
	cp -a "$root/usr/lib/libc.so.6" "$work/copy"
	run_vfix verify "$work/copy" --against "$work/original"
	expect_match verify "$output" '1 changed file'
	expect 'mode and names' "$(stat -c '%a %h' "$root/usr/lib/libc.so.6")" '4755 2'
	expect 'one file' "$(stat -c %i "$root/etc/second")" "$(stat -c %i "$root/usr/lib/libc.so.6")"
	expect 'what is outside' "$(sha256sum "$work/outside/libc.so.6")" "$outside_sum"
	expect 'left over' "$(find "$root" -name '.vfix-*')" ''
	# A second start finds it done.
	sum=$(sha256sum "$root/usr/lib/libc.so.6" && stat -c '%i %Z' "$root/usr/lib/libc.so.6")
	start --fail-closed
	expect 'after a second start' "$(sha256sum "$root/usr/lib/libc.so.6" && stat -c '%i %Z' "$root/usr/lib/libc.so.6")" "$sum"
	# The control: a directory that no engine made is not written to.
	bundle plain '.root.readonly = false'
	plant usr/lib/libc.so.6
	start
	cmp "$root/usr/lib/libc.so.6" "$work/outside/libc.so.6"
	expect mounts "$(mounted)" /usr/lib/libc.so.6
}

# on_layers N: a writable bundle on the two layers of $work/layers, as with docker's overlay2; its upper layer is
# $upper.
on_layers() {
	local store=$work/layers/overlay2
	bundle "$1" '.root.readonly = false'
	upper=$work/layers/$1
	mkdir "$upper" "$upper.work"
	mount -t overlay -o "lowerdir=$store/$(printf 'b%.0s' {1..64})/diff:$store/$(printf 'a%.0s' {1..64})/diff,upperdir=$upper,workdir=$upper.work" overlay "$root"
	echo "$root" >>"$work/overlays"
}

@test "runtime: an overlay's layers are read once, and what its upper layer hides or was cut off is seen" {
	requires overlay
	local store=$work/layers/overlay2 a b_ one
	mkdir "$work/layers"
	mount -t tmpfs tmpfs "$work/layers"
	echo "$work/layers" >>"$work/overlays"
	a=$store/$(printf 'a%.0s' {1..64})/diff
	b_=$store/$(printf 'b%.0s' {1..64})/diff
	root=$a
	plant usr/lib/libc.so.6
	plant usr/lib/hidden.so
	plant usr/lib/replaced.so
	ln "$a/usr/lib/libc.so.6" "$a/usr/lib/second"
	root=$b_
	plant usr/bin/tool static-2m
	plant usr/lib/replaced.so lookalikes
	mknod "$b_/usr/lib/hidden.so" c 0 0
	on_layers one
	cp "$b/config.json" "$work/before"
	start --fail-closed
	cmp "$b/config.json" "$work/before"
	expect 'in the upper layer' "$(cd "$upper" && find . -type f | sort | tr '\n' ' ')" './usr/bin/tool ./usr/lib/libc.so.6 ./usr/lib/second '
	expect 'names of one file' "$(stat -c %h "$upper/usr/lib/second")" 2
	one=$(cat "$upper/usr/lib/libc.so.6" "$upper/usr/bin/tool" | sha256sum)
	# Another container on the same layers: nothing is scanned again.
	on_layers two
	reads=''
	for dir in "$cache" "$work/another-cache"; do # the second is the control
		run strace -f --seccomp-bpf -qq -y -s 0 -e trace=pread64 -e signal=none -o "$work/trace" "$work/vfix-runtime" --vfix-config "$work/runtime.json" \
			--runtime /bin/true --cache-dir "$dir" --fail-closed create --bundle "$b" c1
		expect status "$status" 0
		reads+=" $(($(grep -c -e "<$root/" -e "<$work/layers/" -e '</usr/lib/[^/]*>' "$work/trace" || true) > 0))"
	done
	expect 'whether the layers are read' "$reads" ' 0 1'
	expect 'the same files' "$(cat "$upper/usr/lib/libc.so.6" "$upper/usr/bin/tool" | sha256sum)" "$one"
	# A power failure may truncate a copy: it has vfix's mark, of another boot.
	umount "$root"
	truncate -s 0 "$upper/usr/lib/libc.so.6"
	touch -r "$a/usr/lib/libc.so.6" "$upper/usr/lib/libc.so.6"
	another_boot "$upper/usr/lib/libc.so.6"
	echo 'changed by the container' >"$upper/usr/bin/tool"
	mount -t overlay -o "lowerdir=$b_:$a,upperdir=$upper,workdir=$upper.work" overlay "$root"
	start --fail-closed
	expect 'restored' "$(sha256sum <"$upper/usr/lib/libc.so.6")" "$(sha256sum <"$work/layers/one/usr/lib/libc.so.6")"
	expect 'left alone' "$(cat "$root/usr/bin/tool")" 'changed by the container'
	# Read-only, it is mounted over; the layer remains empty.
	on_layers three
	jq '.root.readonly = true' "$b/config.json" >"$work/c" && cp "$work/c" "$b/config.json"
	start --fail-closed
	expect mounts "$(mounted | sort | tr '\n' ' ')" '/usr/bin/tool /usr/lib/libc.so.6 /usr/lib/second '
	expect 'in the upper layer' "$(find "$upper" -type f)" ''
}

# another_boot FILE: makes its mark one of an earlier boot.
another_boot() {
	python3 -c 'import os, sys
mark = os.getxattr(sys.argv[1], "trusted.vfix.copy").split()
os.setxattr(sys.argv[1], "trusted.vfix.copy", b"00000000-0000-0000-0000-000000000000 " + mark[1])' "$1"
}

@test "runtime: a file that a layer or the container replaced does not come back, whatever its time and size are" {
	requires overlay
	local store=$work/layers/overlay2 a b_ f
	mkdir "$work/layers"
	mount -t tmpfs tmpfs "$work/layers"
	echo "$work/layers" >>"$work/overlays"
	a=$store/$(printf 'a%.0s' {1..64})/diff
	b_=$store/$(printf 'b%.0s' {1..64})/diff
	root=$a
	for f in layer upper written control; do
		plant "usr/bin/$f" static-2m
	done
	chmod 4755 "$a"/usr/bin/*
	find "$a" -exec touch -d @0 {} +
	# The image's next layer, with clamped times.
	mkdir -p "$b_/usr/bin"
	printf '#!/bin/sh\necho disabled\n' >"$b_/usr/bin/layer"
	find "$b_" -exec touch -d @0 {} +
	on_layers one
	printf '#!/bin/sh\necho disabled\n' >"$root/usr/bin/upper"
	touch -d @0 "$root/usr/bin/upper"
	start
	expect 'replaced by a layer' "$(tail -1 "$root/usr/bin/layer")" 'echo disabled'
	expect 'replaced in the container' "$(tail -1 "$root/usr/bin/upper")" 'echo disabled'
	# Files from vfix to which the container then wrote; the control was truncated.
	for f in written control; do
		another_boot "$upper/usr/bin/$f"
	done
	printf '#!/bin/sh\necho disabled\n' >"$root/usr/bin/written"
	truncate -s 4096 "$root/usr/bin/control"
	touch -d @0 "$root/usr/bin/written" "$root/usr/bin/control"
	start
	expect 'written to by the container' "$(tail -1 "$root/usr/bin/written")" 'echo disabled'
	[ "$(stat -c %s "$root/usr/bin/control")" -gt 4096 ] || fail 'the file that a power failure cut off was not restored'
	# In the same boot there was no power failure.
	truncate -s 4096 "$root/usr/bin/control"
	touch -d @0 "$root/usr/bin/control"
	start
	expect 'cut off in this boot' "$(stat -c %s "$root/usr/bin/control")" 4096
}

# mounts_of NAME: mounts the sources of config.json for libc and /vfix in $work/NAME, as a runtime does, but
# without the read-only flag: a process with CAP_SYS_ADMIN in its own user namespace can remove that from the
# mounts of its container.
mounts_of() {
	local name
	mkdir -p "$work/$1"
	for name in usr/lib/libc.so.6 vfix/x86_64/libvfix.so; do
		: >"$work/$1/$(basename "$name")"
		mount --bind "$(jq -r --arg at "/$name" '.mounts[] | select(.destination == $at) | .source' "$b/config.json")" "$work/$1/$(basename "$name")"
		echo "$work/$1/$(basename "$name")" >>"$work/overlays"
	done
}

@test "runtime: what one container writes to a copy, no other one sees" {
	local n f
	for n in one two; do
		bundle "bundle-$n" '.annotations["dev.vfix.fallback"] = "always"'
		plant usr/lib/libc.so.6
		start --fail-closed
		mounts_of "$n"
	done
	cp -a "$work/two/libc.so.6" "$work/sound"
	cp -a "$work/two/libvfix.so" "$work/libvfix.so"
	printf evil | dd of="$work/one/libc.so.6" conv=notrunc status=none
	printf evil | dd of="$work/one/libvfix.so" conv=notrunc status=none
	expect 'the attack works on its own copy [control]' "$(head -c 4 "$work/one/libc.so.6") $(head -c 4 "$work/one/libvfix.so")" 'evil evil'
	cmp "$work/two/libc.so.6" "$work/sound"
	cmp "$work/two/libvfix.so" "$work/libvfix.so"
	# Nor does one that starts later.
	start --fail-closed
	mounts_of three
	cmp "$work/three/libc.so.6" "$work/sound"
	cmp "$work/three/libvfix.so" "$work/libvfix.so"
	expect 'left of starts that ended' "$(find "$cache/v1/private" -mindepth 1 -maxdepth 1 | wc -l)" 1
	# A changed copy in the cache is made again, whatever its size is.
	for f in "$cache"/v1/files/*; do
		printf evil | dd of="$f" conv=notrunc status=none
	done
	start --fail-closed
	mounts_of four
	cmp "$work/four/libc.so.6" "$work/sound"
	cmp "$work/four/libvfix.so" "$work/libvfix.so"
	expect 'owner, mode and time' "$(stat -c '%u:%g %a %Y' "$work/four/libc.so.6")" "$(stat -c '%u:%g %a %Y' "$root/usr/lib/libc.so.6")"
}

has_runc() { has_commands runc busybox && has_own_root; }

# admin look|write [RUNTIME-COMMAND...]: a container of the bundle $b, of the real runtime, whose process has
# CAP_SYS_ADMIN and prints the starts of its copies of libc and libvfix.so. With write it first removes their
# read-only flag and writes to them.
# shellcheck disable=SC2016 # the shell of the container expands it
admin() {
	local what=$1 words='cat="/bin/busybox head -c 4"; $cat /usr/lib/libc.so.6; $cat /vfix/x86_64/libvfix.so'
	shift
	[ "$what" = look ] || words='b=/bin/busybox; for f in /usr/lib/libc.so.6 /vfix/x86_64/libvfix.so; do
			$b mount -o remount,bind,rw $f && $b printf evil | $b dd of=$f conv=notrunc 2>/dev/null || exit
		done; '$words
	jq --arg words "$words" '.process.args = ["/bin/busybox", "sh", "-c", $words]' "$work/admin.json" >"$b/config.json"
	"$work/vfix-runtime" --vfix-config "$work/runtime.json" --cache-dir "$cache" --fail-closed "$@" --bundle "$b" "vfix-$$-$what"
}

@test "runtime: CAP_SYS_ADMIN remounts a copy and writes to it, and no other container runs that" {
	requires runc
	local users='.linux.namespaces += [{type: "user"}] | .linux.uidMappings = [{containerID: 0, hostID: 100000, size: 65536}] | .linux.gidMappings = .linux.uidMappings'
	local owner filter sound=$'\x7fELF\x7fELF' id=vfix-$$-look
	chmod go+x "$BATS_RUN_TMPDIR"{,/test} "$work"
	while read -r owner filter; do
		rm -rf "$cache"
		bundle "own-$owner"
		plant usr/lib/libc.so.6
		mkdir -p "$root"/{bin,proc,dev,sys}
		cp "$(command -v busybox)" "$root/bin/"
		chown -R "$owner:$owner" "$root"
		(cd "$b" && rm config.json && runc spec)
		jq '.process.terminal = false | .root.readonly = true | .annotations["dev.vfix.fallback"] = "always"
			| .process.capabilities[] = ["CAP_SYS_ADMIN", "CAP_DAC_OVERRIDE"] | '"$filter" "$b/config.json" >"$work/admin.json"
		admin look create >"$work/running" 2>&1 3>&- </dev/null # its mounts are made now
		expect "the attack works on its own copies [control], as $owner" "$(admin write run)" evilevil
		runc start "$id"
		stopped() { [ "$(runc state "$id" | jq -r .status)" = stopped ]; }
		poll stopped
		runc delete "$id"
		expect "a container that was there before, as $owner" "$(cat "$work/running")" "$sound"
		expect "the next container, as $owner" "$(admin look run)" "$sound"
	done <<-END
		0 .
		100000 $users
	END
}

@test "runtime: files of holes become copies of holes" {
	local n
	bundle b
	for n in 1 2 3; do
		plant "usr/lib/lib$n.so"
		chown "$n" "$root/usr/lib/lib$n.so"
		truncate -s 100M "$root/usr/lib/lib$n.so"
	done
	expect 'an image of holes [control]' "$(($(du -B1 -s "$root" | cut -f 1) < 1 << 20))" 1
	start
	expect mounts "$(mounted | wc -l)" 3
	expect 'bytes of the copies' "$(du -B1M -s "$cache" | cut -f 1)" 1
	# Also in the root itself.
	n=$(printf 'e%.0s' {1..64})
	bundle own ".root.readonly = false | .root.path = \"$work/vfs/dir/$n\""
	mkdir -p "$work/vfs/dir/$n/usr/lib"
	root=$work/vfs/dir/$n
	plant usr/lib/lib.so
	truncate -s 100M "$root/usr/lib/lib.so"
	cp "$root/usr/lib/lib.so" "$work/original.so"
	start
	! cmp -s "$root/usr/lib/lib.so" "$work/original.so" || fail 'it was not patched'
	expect 'bytes of the root' "$(du -B1M -s "$root" | cut -f 1)" 1
}

@test "runtime: the cache is listed once a start, however many copies there are" {
	local n
	bundle b
	for n in {1..30}; do
		plant "usr/lib/lib$n.so"
		chown "$n" "$root/usr/lib/lib$n.so"
	done
	run strace -f --seccomp-bpf -qq -s 200 -e trace=openat -e signal=none -o "$work/trace" "$work/vfix-runtime" --vfix-config "$work/runtime.json" \
		--runtime /bin/true --cache-dir "$cache" --fail-closed create --bundle "$b" c1
	expect "status: $output" "$status" 0
	expect mounts "$(mounted "$b/config.json" | wc -l)" 30
	expect 'how often it is listed' "$(grep -c "\"$cache/v1/files\".* = [0-9]" "$work/trace")" 1
}

@test "runtime: what a start may take is bounded: names, bytes, time, memory, each with a line" {
	local limit line
	bundle b
	plant usr/lib/libc.so.6
	plant usr/bin/tool static-2m
	while IFS='|' read -r limit line; do
		rm -rf "$cache"
		configured "{\"limits\": $limit}"
		start
		expect_match "$limit" "$log" "$line"
		refuses "$line"
	done <<-'END'
		{"names": 3}|more than 3 files and directories
		{"copy_bytes": 1000}|more than 1000 bytes of copies
		{"seconds": 0.000001}|longer than
		{"memory_bytes": 1000}|more than 1000 bytes of memory
	END
	# The lines above are sufficient; errors are reported.
	configured '{"limits": {"names": 1000, "copy_bytes": 10000000, "seconds": 100, "memory_bytes": 1000000000}}'
	start --fail-closed
	expect log "$log" ''
	expect mounts "$(mounted | wc -l)" 2
	echo '{"limits": {"names": -1}}' >"$work/runtime.json"
	start
	expect_match 'a limit below 0' "$log" 'limits.names: got -1'
}

@test "runtime: files are examined by a process that opens nothing; one that ends it is named, and kept from starting" {
	bundle b
	plant usr/lib/libc.so.6
	plant usr/bin/tool static-2m
	cp "$b/config.json" "$work/config.json"
	run strace -f -qq -o "$work/trace" -e trace=all -e signal=none "$work/vfix-runtime" --vfix-config "$work/runtime.json" \
		--runtime /bin/true --cache-dir "$cache" --fail-closed create --bundle "$b" c1
	expect "status: $output" "$status" 0
	expect mounts "$(mounted "$b/config.json" | wc -l)" 2
	# From the filter on: the confined process is the one that installed it, with all its threads.
	awk '
	/CLONE_THREAD/ { cloning[$1] = 1 }
	/ = [0-9]+$/ && cloning[$1] { process[$NF] = $1 in process ? process[$1] : $1; delete cloning[$1] }
	{ of = $1 in process ? process[$1] : $1 }
	/seccomp\(SECCOMP_SET_MODE_FILTER/ && !confined { confined = of }
	of == confined' "$work/trace" >"$work/confined"
	[ "$(grep -c 'pread64(' "$work/confined")" -gt 10 ] || fail 'control: it does not read the files'
	expect 'what it opens' "$(grep -E '(open|openat|openat2|creat|socket|execve|connect)\(' "$work/confined")" ''
	# The rest of vfix-runtime reads only a file's head, and the bytes that it hashes and copies.
	rm -rf "$cache"
	cp "$work/config.json" "$b/config.json"
	# A fault of the examining process: only it calls seccomp(2).
	start_with_fault() {
		run strace -f -qq -o /dev/null -e trace=seccomp -e signal=none -e 'inject=seccomp:signal=SEGV' "$work/vfix-runtime" \
			--vfix-config "$work/runtime.json" --runtime "$work/stand-in" --cache-dir "$cache" "$@" --log "$work/log" create --bundle "$b" c1
	}
	rm -rf "$RECORD"
	start_with_fault
	expect "open: status: $output" "$status" 0
	expect_match log "$(cat "$work/log")" 'no confined process to examine it: the confined process ended: '
	[ -e "$RECORD/starts" ] || fail 'the runtime was not started'
	expect mounts "$(mounted)" ''
	rm -rf "$RECORD" "$work/log"
	start_with_fault --fail-closed
	expect "closed: status: $output" "$status" 1
	[ ! -e "$RECORD/starts" ] || fail 'the runtime was started'
	expect_match log "$(cat "$work/log")" 'fail-closed*usr/'
	# A failure for lack of memory is also a line.
	configured '{"limits": {"seconds": 0.000001}}'
	start
	expect_match log "$log" 'limits.seconds'
}

@test "runtime: each rootless user has a cache of his own" {
	requires own_root # a user namespace
	bundle b
	plant usr/lib/libc.so.6
	mkdir -m 700 "$work/home"
	configured '{}'
	chmod -R a+rX "$work"
	run env -u XDG_DATA_HOME HOME="$work/home" unshare --user --map-root-user "$work/vfix-runtime" --vfix-config "$work/runtime.json" \
		--runtime /bin/true --fail-closed create --bundle "$b" c1
	expect "status: $output" "$status" 0
	cache=$work/home/.local/share/vfix
	expect mounts "$(mounted "$b/config.json")" /usr/lib/libc.so.6
}

# add_word FILE: adds an address of the page to its data, whose use is not known.
add_word() {
	python3 - "$1" <<-'END'
		import struct, sys
		b = bytearray(open(sys.argv[1], "rb").read())
		phoff, phentsize, phnum = struct.unpack_from("<Q14xHH", b, 32)
		for i in range(phnum):
		    kind, flags, off, vaddr, _, size = struct.unpack_from("<IIQQQQ", b, phoff + i * phentsize)
		    if kind != 1 or not flags & 2:
		        continue
		    at = next((at for at in range(off, off + size - 7) if (vaddr + at - off) % 8 == 0 and not any(b[at:at + 8])), None)
		    if at is not None:
		        struct.pack_into("<Q", b, at, 0xffffffffff600400)
		        open(sys.argv[1], "wb").write(b)
		        sys.exit(0)
		sys.exit("no place for a word")
	END
}

# refuses WHAT [OPTION...]: fail-closed keeps the container from starting, and reports WHAT.
refuses() {
	local what=$1
	shift
	: >"$work/log"
	rm -rf "$RECORD"
	run runtime --fail-closed "$@" --log "$work/log" create --bundle "$b" c1
	expect 'exit status' "$status" 1
	expect_match 'what is said' "$output" "$what"
	[ ! -e "$RECORD/starts" ] || fail 'the runtime was started'
}

@test "runtime: call sites that are left are named, and fail-closed keeps the container from starting" {
	bundle none
	plant usr/bin/word finding-word
	start
	expect_match 'none of its sites can be patched' "$log" 'not patched: /usr/bin/word: 1 call site left'
	start
	expect_match 'known by the index' "$log" 'not patched: /usr/bin/word: 1 call site left'
	refuses 'not patched: /usr/bin/word: 1 call site left, at vaddr 0x4050e0: the address is in data'
	bundle some
	plant usr/bin/tool static-2m
	start --fail-closed
	add_word "$root/usr/bin/tool"
	start
	expect mounts "$(mounted)" /usr/bin/tool
	expect_match 'one of its sites cannot be patched' "$log" '/usr/bin/tool: 1 call site left'
	refuses '/usr/bin/tool: 1 call site left'
	# Mounts of the engine over it do not count.
	jq '.mounts += [{destination: "/usr/bin/tool", type: "bind", source: "/etc/passwd"}]' "$b/config.json" >"$work/c"
	cp "$work/c" "$b/config.json"
	start --fail-closed
	expect log "$log" ''
}

@test "runtime: a start that fail-closed refuses leaves config.json without mounts of vfix" {
	bundle b '.annotations = {"dev.vfix.fallback": "always"}'
	plant usr/lib/libc.so.6
	plant usr/bin/word finding-word
	# The control: without fail-closed, both the copy and the fallback are mounted.
	start
	expect_match mounts "$(mounted)" '/usr/lib/libc.so.6'
	expect_match mounts "$(mounted)" '/vfix/x86_64/libvfix.so'
	refuses 'not patched: /usr/bin/word'
	expect 'mounts after a start that had some' "$(mounted "$b/config.json")" ''
	refuses 'not patched: /usr/bin/word'
	expect mounts "$(mounted "$b/config.json")" ''
	expect 'copies that nobody mounts' "$(find "$cache/v1/private" -type f)" ''
}

@test "runtime: a copy is written by a process that has seen no other file" {
	requires strace
	local pid
	bundle b
	plant usr/bin/tool static-2m
	plant usr/lib/libc.so.6
	plant usr/lib/other.so libstubs-hash.so
	run strace -f --seccomp-bpf -qq -o "$work/trace" -e trace=execve,recvmsg -e signal=none "$work/vfix-runtime" --vfix-config "$work/runtime.json" \
		--runtime /bin/true --cache-dir "$cache" create --bundle "$b" c1
	expect "status: $output" "$status" 0
	expect mounts "$(mounted "$b/config.json" | wc -l)" "$(grep -c 'cmsg_data=\[[0-9]*, [0-9]*\]' "$work/trace")"
	# A process with one file and one to write to got no other file; the control is the process that examined all
	# of them.
	grep -o '^[0-9]* .*recvmsg.*cmsg_data=\[[0-9, ]*\]\|^[0-9]* <... recvmsg resumed>.*cmsg_data=\[[0-9, ]*\]' "$work/trace" >"$work/files"
	[ "$(cut -d ' ' -f 1 "$work/files" | sort | uniq -c | awk '$1 > 1' | wc -l)" -ge 1 ] || fail 'control: nobody got two files'
	while read -r pid _; do
		expect "files that $pid got" "$(grep -c "^$pid " "$work/files")" 1
	done <<<"$(grep 'cmsg_data=\[[0-9]*, [0-9]*\]' "$work/files")"
}

@test "runtime: a layer whose files' metadata changed is examined again" {
	requires overlay
	local store=$work/layers/overlay2 a b_ how f
	mkdir "$work/layers"
	mount -t tmpfs tmpfs "$work/layers"
	echo "$work/layers" >>"$work/overlays"
	a=$store/$(printf 'a%.0s' {1..64})/diff
	b_=$store/$(printf 'b%.0s' {1..64})/diff
	mkdir -p "$b_"
	root=$a
	plant usr/lib/libc.so.6
	plant usr/bin/word finding-word
	on_layers one
	start
	expect 'at first' "$(find "$upper" -name 'libc*')" "$upper/usr/lib/libc.so.6"
	for how in chmod link chown; do
		for f in "$a/usr/lib/libc.so.6" "$a/usr/bin/word"; do
			case $how in
			chmod) chmod 700 "$f" && chmod 755 "$f" ;;
			link) ln "$f" "$a/backup" && rm "$a/backup" ;;
			chown) chown 1:1 "$f" && chown 0:0 "$f" ;;
			esac
		done
		on_layers "$how"
		start
		expect "$how" "$(find "$upper" -name 'libc*')" "$upper/usr/lib/libc.so.6"
		expect_match "$how" "$log" 'usr/bin/word: 1 call site left'
		refuses 'usr/bin/word: 1 call site left'
	done
}

@test "runtime: an image's own ld.so.preload is kept, and leads nowhere outside" {
	local n=0 preload
	printf 'secret' >"$work/outside/preload"
	for preload in none file link fifo huge; do
		n=$((n + 1))
		bundle "b$n" '.annotations = {"dev.vfix.fallback": "always"}'
		case $preload in
		file) printf '# own\n/lib/own.so' >"$root/etc/ld.so.preload" ;;
		link) ln -s "$work/outside/preload" "$root/etc/ld.so.preload" ;;
		fifo) mkfifo "$root/etc/ld.so.preload" ;;
		huge) truncate -s 1G "$root/etc/ld.so.preload" ;;
		esac
		traced_start
		case $preload in
		none | file | link)
			expect "log for $preload" "$log" ''
			source=$(jq -r '.mounts[] | select(.destination | endswith("preload")) | .source' "$b/config.json")
			expect_match 'ld.so.preload' "$(cat "$source")" /vfix/x86_64/libvfix.so
			expect 'of outside' "$(grep -c secret "$source")" 0
			;;
		*) expect_match "log for $preload" "$log" fallback ;;
		esac
		[ $preload != file ] || expect 'ld.so.preload' "$(cat "$source")" $'# own\n/lib/own.so\n/vfix/x86_64/libvfix.so'
	done
}

@test "runtime: what the cache's directory must not be" {
	bundle b
	plant usr/lib/libc.so.6
	mkdir "$cache"
	chmod 777 "$cache"
	start
	expect_match log "$log" 'alone can write to'
	expect mounts "$(mounted)" ''
	chmod 700 "$cache"
	mkdir -m 700 "$cache/v1"
	ln -s /etc "$cache/v1/files"
	start
	expect_match log "$log" 'own'
	rm -rf "$cache"
	echo text >"$cache"
	start
	rm "$cache"
	# Mounts added by an earlier start are removed if nothing can be added: their files may be gone.
	start
	expect 'mounts of an earlier start' "$(mounted)" /usr/lib/libc.so.6
	rm -rf "$cache"
	mkdir -m 777 "$cache"
	start
	expect_match log "$log" 'alone can write to'
	expect 'mounts without a cache' "$(mounted)" ''
	rm -rf "$cache"
	# Damage in the cache is fixed: a truncated copy, an invalid index.
	start
	expect mounts "$(mounted)" /usr/lib/libc.so.6
	truncate -s 100 "$cache"/v1/files/*
	for i in "$cache"/v1/index/*; do echo damage >"$i"; done
	start
	expect mounts "$(mounted)" /usr/lib/libc.so.6
	cp -a "$cache"/v1/files/* "$work/copy"
	run_vfix verify "$work/copy" --against "$root/usr/lib/libc.so.6"
}

@test "runtime: every other command goes through byte for byte" {
	local args
	bundle b
	plant usr/lib/libc.so.6
	cp "$b/config.json" "$work/before"
	for args in 'state c1' '--root /x --systemd-cgroup delete --force c1' 'exec -t c1 create --bundle b' \
		'--version' 'kill c1 KILL' '--log-format json list -q' $'exec c1 sh -c echo\xff"$x"' 'features' ''; do
		rm -rf "$RECORD"
		IFS=' ' read -r -a words <<<"$args"
		runtime "${words[@]}"
		printf '%s\0' "${words[@]}" >"$work/want"
		cmp "$work/want" "$RECORD/argv" || [ -z "$args" ]
	done
	cmp "$b/config.json" "$work/before"
	[ ! -e "$cache" ] || fail 'the cache was made'
	# The control: create's arguments are also passed on, and ours are not.
	start
	tr '\0' ' ' <"$RECORD/argv" >"$work/argv"
	expect argv "$(cat "$work/argv")" "--log $work/log create --bundle $b c1 "
}

@test "runtime: a runtime that leads back to vfix is an error, no loop" {
	bundle b
	ln -s "$work/vfix-runtime" "$work/runc"
	printf '#!/bin/sh\nexec %s --vfix-config %s --runtime %s "$@"\n' "$work/vfix-runtime" "$work/runtime.json" "$work/script" >"$work/script"
	chmod 755 "$work/script"
	for r in "$work/runc" "$work/script" "$work/nowhere" "$work"; do
		run timeout "$patience" "$work/vfix-runtime" --vfix-config "$work/runtime.json" --cache-dir "$cache" --runtime "$r" create --bundle "$b" c1
		expect "status with $r" "$status" 1
		expect_match stderr "$output" "$r"
	done
	run env PATH="$work" "$work/vfix-runtime" --vfix-config "$work/runtime.json" --runtime runc --version
	expect 'a name that is found further on' "$status" "$(command -v /usr/sbin/runc >/dev/null && echo 0 || echo 1)"
}

@test "runtime: annotations and the configuration decide about a container" {
	while IFS='|' read -r config annotations want; do
		rm -rf "$work/b"
		configured "$config"
		bundle b ".annotations = $annotations"
		plant usr/lib/libc.so.6
		start
		expect "mounts with $config, $annotations" "$(mounted | tr '\n' ' ')" "$want"
	done <<-'END'
		{}|{}|/usr/lib/libc.so.6 
		{}|{"dev.vfix.enable": "true"}|/usr/lib/libc.so.6 
		{}|{"dev.vfix.enable": "false"}|
		{}|{"dev.vfix.enable": "false", "dev.vfix.fallback": "always"}|
		{"opt_in": true}|{}|
		{"opt_in": true}|{"dev.vfix.enable": "true"}|/usr/lib/libc.so.6 
		{"fallback": true}|{}|/usr/lib/libc.so.6 /vfix /vfix/x86_64/libvfix.so /vfix/vfix-trace /etc/ld.so.preload 
		{"fallback": true}|{"dev.vfix.fallback": "never"}|/usr/lib/libc.so.6 
		{}|{"dev.vfix.fallback": "always"}|/usr/lib/libc.so.6 /vfix /vfix/x86_64/libvfix.so /vfix/vfix-trace /etc/ld.so.preload 
	END
	# The node's policy takes precedence: the pod's author cannot disable fail-closed.
	bundle b '.annotations = {"dev.vfix.enable": "false"}'
	plant usr/lib/libc.so.6
	configured '{"fail_closed": true}'
	refuses 'annotation dev.vfix.enable=false: not allowed with fail-closed'
	configured '{"fail_closed": true, "allow_disable": true}'
	start
	expect mounts "$(mounted)" ''
	# Opting out removes the additions of an earlier start.
	bundle optout
	plant usr/lib/libc.so.6
	configured '{}'
	start
	jq '.annotations["dev.vfix.enable"] = "false"' "$b/config.json" >"$work/c" && cp "$work/c" "$b/config.json"
	start
	expect 'mounts' "$(jq -c '[.mounts[].destination]' "$b/config.json")" '["/proc"]'
}

# jvm: $work/libjvm.so, which reads /proc/cgroups like a JDK.
jvm() {
	gcc -O1 -shared -fPIC -Wl,-soname,libjvm.so -o "$work/libjvm.so" -x c - <<-'END'
		#include <stdio.h>
		FILE *mounts(void) { return fopen("/proc/self/mountinfo", "r"); }
		FILE *cgroups(void) { return fopen("/proc/cgroups", "r"); }
	END
}

# plant_jvm: puts it into the root.
plant_jvm() {
	mkdir -p "$root/opt/lib/server"
	cp "$work/libjvm.so" "$root/opt/lib/server/"
}

# source_of FILE: the source of the mount over it.
source_of() { jq -r --arg at "$1" '.mounts[] | select(.destination == $at) | .source' "$RECORD/config.json"; }

@test "runtime: dev.vfix.fix fixes a JDK and mounts the file that it reads" {
	local library=/opt/lib/server/libjvm.so both='/opt/lib/server/libjvm.so /vfix/cgroups '
	jvm
	while IFS='|' read -r config annotations want; do
		rm -rf "$work/b"
		configured "$config"
		bundle b ".annotations = $annotations"
		plant_jvm
		start
		expect "mounts with $config, $annotations" "$(mounted | tr '\n' ' ')" "$want"
	done <<-END
		{}|{}|
		{}|{"dev.vfix.fix": "java-cgroups"}|$both
		{}|{"dev.vfix.fix": "none"}|
		{"fix": "java-cgroups"}|{}|$both
		{"fix": "java-cgroups"}|{"dev.vfix.fix": "none"}|
		{"fix": "java-cgroups"}|{"dev.vfix.enable": "false"}|
		{"fix": "java-cgroups", "opt_in": true}|{"dev.vfix.fix": "java-cgroups"}|
		{"fix": "java-cgroups", "fallback": true}|{}|$library /vfix /vfix/x86_64/libvfix.so /vfix/vfix-trace /etc/ld.so.preload /vfix/cgroups 
	END
	# The mounted files equal those of rebuild.
	mkdir -p "$work/base"
	cp "$work/libjvm.so" "$work/base/"
	run_vfix rebuild --fix java-cgroups "dir:$work/base" -o "dir:$work/rebuilt" --provenance none
	cmp "$(source_of $library)" "$work/rebuilt/libjvm.so"
	cmp "$(source_of /vfix/cgroups)" "$work/rebuilt/vfix/cgroups"
	expect 'mode and owner' "$(stat -c '%a %u:%g' "$(source_of /vfix/cgroups)")" '644 0:0'
	expect options "$(jq -c '.mounts[] | select(.destination == "/vfix/cgroups") | .options' "$RECORD/config.json")" '["bind","ro","nodev","nosuid","rprivate"]'
	# The node's policy takes precedence, and an unknown word is an error.
	bundle policy '.annotations = {"dev.vfix.fix": "none"}'
	plant_jvm
	configured '{"fail_closed": true, "fix": "java-cgroups"}'
	refuses 'annotation dev.vfix.fix=none: not allowed with fail-closed'
	configured '{"fail_closed": true, "fix": "java-cgroups", "allow_disable": true}'
	start
	expect mounts "$(mounted)" ''
	jq '.annotations = {"dev.vfix.fix": "java"}' "$b/config.json" >"$work/c" && cp "$work/c" "$b/config.json"
	refuses 'annotation dev.vfix.fix: got "java", want java-cgroups, or none'
	echo '{"fix": "java"}' >"$work/runtime.json"
	bundle wrong
	start
	expect_match log "$log" 'fix: got *java*, want java-cgroups*the last good configuration is in force'
}

@test "runtime: copies and indexes with a fix are not those without; what cannot be fixed is named" {
	jvm
	bundle plain
	plant_jvm
	plant usr/lib/libc.so.6
	sleep 0.2 # so that the index has the files
	start
	expect plain "$(mounted)" /usr/lib/libc.so.6
	configured '{"fix": "java-cgroups"}'
	start
	expect fixed "$(mounted | sort | tr '\n' ' ')" '/opt/lib/server/libjvm.so /usr/lib/libc.so.6 /vfix/cgroups '
	configured '{}'
	start
	expect 'plain again' "$(mounted)" /usr/lib/libc.so.6
	# Patched for its call sites without the fix, and with it.
	gcc -O1 -shared -fPIC -Wl,-soname,libjvm.so -o "$work/libjvm.so" -x c - <<-'END'
		#include <stdio.h>
		FILE *mounts(void) { return fopen("/proc/self/mountinfo", "r"); }
		FILE *cgroups(void) { return fopen("/proc/cgroups", "r"); }
		long now(void) { long t; __asm__("mov $0xffffffffff600400, %%rax; call *%%rax" : "=a"(t) : "D"(0) : "memory", "rcx", "r11"); return t; }
	END
	plant_jvm
	start
	cp "$(source_of /opt/lib/server/libjvm.so)" "$work/without"
	configured '{"fix": "java-cgroups"}'
	start
	run cmp "$work/without" "$(source_of /opt/lib/server/libjvm.so)"
	expect 'status of cmp' "$status" 1
	# The image also belongs to another user.
	mkdir "$root/vfix"
	echo mine >"$root/vfix/cgroups"
	start
	expect_match theirs "$log" 'not patched: java-cgroups: /vfix/cgroups: the image has such a file, and it is not vfix'
	expect mounts "$(mounted | sort | tr '\n' ' ')" '/opt/lib/server/libjvm.so /usr/lib/libc.so.6 '
	cmp "$work/without" "$(source_of /opt/lib/server/libjvm.so)"
	: >"$root/vfix/cgroups" # as an earlier mount leaves it
	start
	expect log "$log" ''
	bundle covered '.mounts += [{destination: "/vfix", type: "tmpfs", source: "tmpfs"}]'
	plant_jvm
	start
	expect_match covered "$log" 'java-cgroups: the engine mounts something at /vfix/cgroups'
	expect mounts "$(mounted)" /opt/lib/server/libjvm.so
	# With the name twice, there is no fix, and fail-closed reports this.
	gcc -O1 -shared -fPIC -Wl,-soname,libjvm.so -o "$work/libjvm.so" -x c - <<-'END'
		#include <stdio.h>
		FILE *one(void) { return fopen("/proc/cgroups", "r"); }
		FILE *two(void) { return fopen("/proc/cgroups", "w"); }
	END
	bundle twice
	plant_jvm
	configured '{"fail_closed": true, "fix": "java-cgroups"}'
	refuses '/opt/lib/server/libjvm.so: not fixed ?java-cgroups?: * instructions refer to'
}

@test "runtime: a fixed JDK in a container's own root keeps its file at the next start" {
	local id
	id=$(printf 'd%.0s' {1..64})
	jvm
	bundle b ".root.readonly = false | .root.path = \"$work/vfs/dir/$id\" | .annotations = {\"dev.vfix.fix\": \"java-cgroups\"}"
	mkdir -p "$work/vfs/dir"
	mv "$root" "$work/vfs/dir/$id"
	root=$work/vfs/dir/$id
	plant_jvm
	start --fail-closed
	expect 'first start' "$(mounted)" /vfix/cgroups
	run_vfix scan --fix java-cgroups --format json "$root/opt/lib/server/libjvm.so"
	expect 'the file is fixed' "$(jq -c '[.results[].files[].fix]' <<<"$output")" '[]'
	run cmp "$work/libjvm.so" "$root/opt/lib/server/libjvm.so"
	expect 'status of cmp' "$status" 1
	for _ in 1 2; do
		sleep 0.2
		start --fail-closed
		expect 'next start' "$(mounted)" /vfix/cgroups
	done
}

@test "runtime: 50 creates at once read and patch each file once" {
	local i on
	mapfile -t on < <(processors)
	bundle b0
	plant usr/lib/libc.so.6
	plant usr/bin/tool static-2m
	for ((i = 0; i < 50; i++)); do
		mkdir "$work/c$i"
		jq --arg r "$root" '.root.path = $r' "$b/config.json" >"$work/c$i/config.json"
	done
	pids=()
	# Each on one processor, with its strace: on two, they take thirty times as long.
	for ((i = 0; i < 50; i++)); do
		taskset -c "${on[i % ${#on[@]}]}" strace -f --seccomp-bpf -y -qq -s 300 -e trace=pread64,renameat,rename,renameat2 -e signal=none -o "$work/trace$i" \
			"$work/vfix-runtime" --vfix-config "$work/runtime.json" --runtime /bin/true --cache-dir "$cache" --log "$work/log$i" \
			create --bundle "$work/c$i" "c$i" 3>&- &
		pids+=($!)
	done
	for i in "${pids[@]}"; do wait "$i"; done
	for ((i = 0; i < 50; i++)); do
		expect "mounts of $i" "$(mounted "$work/c$i/config.json" | sort | tr '\n' ' ')" '/usr/bin/tool /usr/lib/libc.so.6 '
		[ ! -s "$work/log$i" ] || fail "$(cat "$work/log$i")"
	done
	# One has scanned, and one, perhaps another, has written each copy.
	for file in usr/bin/tool usr/lib/libc.so.6; do
		expect "starts that read $file" "$(($(grep -l "pread64.*<\($root\)\?/$file>" "$work"/trace* | wc -l) <= 2))" 1
		grep -q "pread64.*<\($root\)\?/$file>" "$work"/trace* || fail 'the trace shows nothing'
	done
	# strace may write a call and its result in two lines.
	expect 'copies written' "$(grep -h "rename.*\"$cache/v1/files/" "$work"/trace* | grep -vc ' = -1 ')" "$(find "$cache/v1/files" -type f | wc -l)"
	expect 'left in tmp' "$(ls "$cache/v1/tmp")" ''
}

@test "runtime: the caller's ignored and blocked signals and its parent's end reach the real runtime, as without vfix" {
	bundle b
	cat >"$work/show" <<-'END'
		#!/usr/bin/python3
		import ctypes, sys
		lines = [l.strip() for l in open("/proc/self/status") if l[:6] in ("SigBlk", "SigIgn", "NoNewP")]
		death = ctypes.c_int()
		ctypes.CDLL(None).prctl(2, ctypes.byref(death))
		print(lines, death.value)
	END
	cat >"$work/caller.py" <<-'END'
		import ctypes, os, signal, sys
		for s in (signal.SIGTERM, signal.SIGCHLD, signal.SIGINT, signal.SIGUSR1):
		    signal.signal(s, signal.SIG_IGN)
		signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGHUP, signal.SIGSEGV})
		ctypes.CDLL(None).prctl(1, 10)
		os.execv(sys.argv[1], sys.argv[1:])
	END
	chmod 755 "$work/show"
	plant usr/lib/libc.so.6
	configured "{\"trusted_hooks\": \"$work/show\"}"
	local want
	want=$(python3 "$work/caller.py" "$work/show")
	# HUP and QUIT may already be ignored, as under nohup.
	local ignored=${want#*SigIgn:??}
	ignored=$((16#${ignored%%[!0-9a-f]*} & 0x15202))
	expect 'the control' "$ignored ${want##* }" "$((0x15202)) 10"
	for command in "create --bundle $b c1" "state c1"; do
		# shellcheck disable=SC2086 # words
		run python3 "$work/caller.py" "$work/vfix-runtime" --vfix-config "$work/runtime.json" --cache-dir "$cache" --runtime "$work/show" $command
		expect "$command" "$output" "$want"
	done
}
