#!/usr/bin/env bats
# bats file_tags=long
# vfix-runtime, killed before any system call that changes something: the cache stays intact, the bundle and the
# root filesystem are as they were or as they should be, and the next start does its work and cleans up.
# tests/oracle/killat.c kills it (SIGKILL at the entry of the call).
# shellcheck disable=SC2154
load helpers
load bundles


# The calls that change files.
changing=(openat write pwrite64 copy_file_range sendfile splice fsync fchmod fchmodat fchown fchownat fsetxattr
	utimensat mkdirat linkat symlinkat renameat renameat2 unlinkat ftruncate flock execve)

setup() {
	requires root fixtures
	setup_runtime
}

# named CONFIG: a config.json without the names of the directories with one start's private copies.
named() { sed -E 's,/private/[^/"]+/,/private/START/,g' "$1"; }

# sums: the checksums of the bundle's files.
sums() {
	(cd "$work/x" && find . -type f ! -name 'config.json' ! -name '.config.json.*' -exec sha256sum {} +)
	named "$work/x/config.json" | sha256sum | sed 's,-$,./config.json,'
}

# state: the relevant state of the bundle, the root and the cache.
state() {
	(cd "$work" && find x cache/v1/files -type f ! -name 'config.json' ! -name '.config.json.*' -exec sha256sum {} + | sort)
	named "$work/x/config.json"
}

# fresh: the original bundle, and an empty cache.
fresh() {
	rm -rf "$work/x" "$cache"
	cp -a "$work/template" "$work/x"
}

# sound: the cache can be listed and has only whole copies.
sound() {
	[ -e "$cache" ] || return 0
	"$VFIX" cache list --cache-dir "$cache" >/dev/null || fail 'the cache cannot be listed'
	[ ! -d "$cache/v1/files" ] || expect 'files that are not copies' \
		"$(find "$cache/v1/files" -type f -exec sha256sum {} + | grep -vf "$work/copies")" ''
}

# whole: each file of the bundle is as it was, or as it should be; the next start removes .vfix*.
whole() {
	expect 'files that are neither as they were nor as they should be' \
		"$(sums | grep -vF .vfix | grep -vxF -f "$work/before" -f "$work/after")" ''
}

# kill_everywhere MINIMUM: kills a start of the bundle x at each changing call, the first, the second, ….
# Without bats' trap, which takes longer than most of its commands.
kill_everywhere() (
	trap - DEBUG
	killed=0
	cp -a "$work/x" "$work/template"
	b=$work/x
	sums >"$work/before"
	start --fail-closed
	sums >"$work/after"
	find "$cache/v1/files" -type f -exec sha256sum {} + | sed 's/^\([^ ]* \).*/^\1/' >"$work/copies"
	state >"$work/want"
	for call in "${changing[@]}"; do
		step=1
		[ "$call" != openat ] || step=3 # most open what is only read
		for ((n = 1; n < 60; n += step)); do
			fresh
			run "$build/killat" "$call" "$n" "$work/vfix-runtime" --vfix-config "$work/runtime.json" --runtime /bin/true --cache-dir "$cache" --fail-closed \
				create --bundle "$b" c1
			[ "$status" != 0 ] || break # it got through with fewer of these
			# A kill of the process that examines the files is a refusal, fail-closed.
			refused=''
			if [[ $status == 1 && $output == *'not started (fail-closed)'* ]]; then
				refused=yes
			else
				expect "status, killed at $call $n: $output" "$status" 137
			fi
			killed=$((killed + 1))
			sound
			[ "$refused" ] || whole
			start --fail-closed
			diff "$work/want" <(state) || fail "after a kill at $call $n the next start does something else"
			expect "left in tmp after a kill at $call $n" "$(ls "$cache/v1/tmp")" ''
		done
	done
	echo "# killed $killed times" >&3
	[ "$killed" -ge "$1" ] || fail "killed $killed times only"
)

@test "runtime: killed anywhere while it mounts copies, and started again" {
	bundle x '.annotations = {"dev.vfix.fallback": "always"}'
	plant usr/lib/libc.so.6
	kill_everywhere 30
}

@test "runtime: killed anywhere while it puts files into a container's own root, and started again" {
	local id
	id=$(printf 'c%.0s' {1..64})
	bundle x ".root.readonly = false | .root.path = \"vfs/dir/$id\""
	mkdir -p "$b/vfs/dir"
	mv "$root" "$b/vfs/dir/$id"
	root=$b/vfs/dir/$id
	plant usr/lib/libc.so.6
	ln "$root/usr/lib/libc.so.6" "$root/etc/second"
	kill_everywhere 30
	# The control: the files are there, and patched.
	cp -a "$work/template/vfs/dir/$id/usr/lib/libc.so.6" "$work/original"
	cp -a "$root/usr/lib/libc.so.6" "$work/copy"
	run_vfix verify "$work/copy" --against "$work/original"
	expect_match verify "$output" '1 changed file'
}

@test "cache: what a start is about to mount stays, however long it takes" {
	bundle b '.annotations["dev.vfix.fallback"] = "always"'
	plant usr/lib/libc.so.6
	plant usr/bin/tool static-2m
	# A runtime that takes two hours, while the cache is cleared.
	cat >"$work/slow" <<-'END'
		#!/bin/sh
		find "$CACHE/v1/files" "$CACHE/v1/index" -exec touch -a -d '2 hours ago' {} +
		"$VFIX" cache clear --cache-dir "$CACHE" >"$RECORD/cleared"
		for f in $(jq -r '.mounts[].source' "$BUNDLE/config.json"); do
			[ "$f" = proc ] || [ "${f##*/}" = tmpfs ] || [ -e "$f" ] || echo "$f" >>"$RECORD/missing"
		done
		# The files that it inherits are open for reading only, and are not directories.
		ls -l /proc/self/fd >"$RECORD/descriptors"
	END
	chmod 755 "$work/slow"
	mkdir -p "$RECORD"
	CACHE=$cache VFIX=$VFIX BUNDLE=$b run "$work/vfix-runtime" --vfix-config "$work/runtime.json" --runtime "$work/slow" \
		--cache-dir "$cache" --fail-closed create --bundle "$b" c1
	expect 'exit status' "$status" 0
	expect 'mounts' "$(mounted "$b/config.json" | sort | tr '\n' ' ')" '/etc/ld.so.preload /usr/bin/tool /usr/lib/libc.so.6 /vfix /vfix/vfix-trace /vfix/x86_64/libvfix.so '
	expect 'gone before they were mounted' "$(cat "$RECORD/missing" 2>/dev/null)" ''
	expect_match 'only the index was cleared' "$(cat "$RECORD/cleared")" '1 entr'
	# After its end, they can be removed completely.
	find "$cache/v1/files" -exec touch -a -d '2 hours ago' {} +
	run_vfix cache clear --cache-dir "$cache"
	expect 'copies afterwards' "$(ls "$cache/v1/files")" ''
	expect 'leases afterwards' "$(ls "$cache/v1/leases")" ''
}

@test "cache: list, size, prune and clear, and what is in use stays" {
	bundle b
	plant usr/lib/libc.so.6
	plant usr/bin/tool static-2m
	run_vfix 1 cache list --cache-dir "$cache"
	expect_match stderr "$stderr" 'hint: vfix-runtime creates it'
	start
	run_vfix cache list --cache-dir "$cache" --format json
	expect entries "$(jq -c '[.entries[].kind] | sort' <<<"$output")" '["copy","copy","index"]'
	run_vfix cache clear --cache-dir "$cache"
	expect 'removed while in use' "$output" '0 entries removed, 0 B'
	# An hour later.
	find "$cache/v1/files" "$cache/v1/index" -type f -exec touch -a -d '1 hour ago' {} +
	touch "$cache/v1/tmp/new-left"
	first=$(find "$cache/v1/files" -type f -printf '%f\n' -quit)
	touch -a -d '2 hours ago' "$cache/v1/files/$first"
	run_vfix cache prune --size 30K --cache-dir "$cache" --format json
	expect 'pruned first' "$(jq -r '.entries[0].name' <<<"$output")" "$first"
	expect 'left in tmp' "$(ls "$cache/v1/tmp")" ''
	run_vfix cache clear --cache-dir "$cache"
	run_vfix cache size --cache-dir "$cache"
	expect_match size "$output" '0 entries, 0 B'
	start
	expect mounts "$(mounted | wc -l)" 2
	# A cache with its own limit keeps it.
	configured '{"cache_size": 60000}'
	local i
	for i in 1 2 3 4; do
		bundle "b$i"
		plant "usr/lib/libc.so.6"
		echo "$i" >>"$root/usr/lib/libc.so.6"
		start
		find "$cache/v1/files" "$cache/v1/index" -type f -exec touch -a -d '1 hour ago' {} +
	done
	expect 'within the bound' "$(($(du -B1 -s "$cache/v1/files" | cut -f 1) <= 60000 + 40000))" 1
	run_vfix 2 cache prune --size many
	run_vfix 2 cache
	run_vfix 2 cache rinse
}
