#!/usr/bin/env bats
# Images from file to file: docker archives, OCI layouts and archives, root filesystems. Other tools read every result,
# and a result exists whole or not at all.
load helpers

legacy_image=$small_image

setup() {
	requires image_tools legacy_image
	enter_work
	archive=docker-archive:$legacy_image/redis-legacy.tar
	layout=oci:$legacy_image/oci:legacy
}

# digest_of IMAGE: the digest of its manifest, as skopeo computes it.
digest_of() { skopeo inspect --format '{{.Digest}}' "$1"; }

# listing DIRECTORY: each file with its mode, owner, links, time and, except for the two patched files, its content.
listing() {
	(
		cd "$1" || exit
		find . -mindepth 1 -printf '%p %y %m %U:%G %n %T@ %l\n' | sort
		find . -type f ! -name libc.so.6 ! -name clock -exec sha256sum {} + | sort
	)
}

@test "rebuild: each format to each other, with the same layers; the input is not changed" {
	sums() { find "$legacy_image/oci" "$legacy_image/redis-legacy.tar" -type f -exec sha256sum {} + | sort; }
	before=$(sums)
	for from in "$archive" "$layout"; do
		run_vfix rebuild "$from" -o oci:out:x
		expect reference "$output" oci:out:x
		run_vfix rebuild "$from" -o oci-archive:out.tar:x
		run_vfix rebuild "$from" -o docker-archive:docker.tar:redis:fixed
		same_files out
		expect 'digest in an archive' "$(digest_of oci-archive:out.tar:x)" "$(digest_of oci:out:x)"
		diff_ids() { skopeo inspect --config "$1" | jq -c .rootfs.diff_ids; }
		expect 'diff IDs' "$(diff_ids docker-archive:docker.tar:redis:fixed)" "$(diff_ids oci:out:x)"
		run_vfix rebuild oci-archive:out.tar -o oci:again:x
		expect_match again "$stderr" 'nothing to do'
		expect 'digest with nothing to do' "$(digest_of oci:again:x)" "$(digest_of oci:out:x)"
		run_vfix verify docker.tar --against "$from"
		rm -r out out.tar docker.tar again
	done
	expect input "$(sums)" "$before"
}

@test "rebuild: the merged files are the base's, except for the patched ones" {
	requires root
	run_vfix rebuild "$layout" -o oci:out:x
	run_vfix rebuild "$layout" -o dir:root
	umoci raw unpack --image out:x umoci
	listing "$legacy_image/rootfs" >before
	for after in umoci root; do
		diff before <(listing $after)
		for file in usr/lib/x86_64-linux-gnu/libc.so.6 usr/local/bin/clock; do
			run cmp "$legacy_image/rootfs/$file" "$after/$file"
			expect "difference of $file" "$status" 1
		done
		[ $after/opt/legacy/libc.so.6 -ef $after/usr/lib/x86_64-linux-gnu/libc.so.6 ] || fail 'the hard link is broken'
	done
	blob=$(skopeo inspect --raw oci:out:x | jq -r '.layers[-1].digest | sub(":"; "/")')
	expect 'files of the layer' "$(tar -tzf "out/blobs/$blob" | grep -v '/$' | sort | tr '\n' ' ')" \
		'opt/legacy/libc.so.6 usr/lib/x86_64-linux-gnu/libc.so.6 usr/local/bin/clock '
}

@test "rebuild: a damaged layer and a truncated archive are errors, and leave nothing" {
	cp -r "$legacy_image/oci" lying
	blob=$(skopeo inspect --raw oci:lying:legacy | jq -r '.layers[0].digest | sub(":"; "/")')
	printf '\1' | dd of="lying/blobs/$blob" bs=1 seek=100000 conv=notrunc status=none
	head -c 2000000 "$legacy_image/redis-legacy.tar" >short.tar
	for from in oci:lying:legacy docker-archive:short.tar; do
		for dest in oci:out:x oci-archive:out.tar dir:out; do
			run_vfix 1 rebuild "$from" -o "$dest"
			expect stdout "$output" ''
			expect files "$(ls -A)" $'lying\nshort.tar'
		done
	done
}

@test "scan and rebuild: an archive through a pipe, as in a file" {
	saved=$legacy_image/redis-legacy.tar
	run_vfix 3 scan --format json "$archive"
	jq '.results[0].files' <<<"$output" >in-file
	for how in cat 'gzip -1' 'zstd -q'; do
		$how <"$saved" | "$VFIX" scan --format json - | jq '.results[0].files' >piped
		diff in-file piped
	done
	mkfifo fifo
	cat "$saved" >fifo &
	run_vfix 3 scan ./fifo
	run_vfix 1 scan - </dev/null
	expect_match error "$stderr" 'stdin: empty'
}

@test "rebuild: a root filesystem, as a directory and a tarball, is an image of one layer" {
	requires root
	mkdir small
	tar -c -C "$legacy_image/rootfs" --exclude './usr/*bin/*' --exclude './usr/lib/x86_64-linux-gnu/[!l]*' --exclude '*/lib[!c]*.so*' . | tar -x -C small
	tar --sort=name --numeric-owner -cf small.tar -C small .
	for from in small small.tar; do
		rm -rf out unpacked
		run_vfix rebuild $from -o oci:out:x
		"$build/validate" out
		umoci raw unpack --image out:x unpacked
		diff <(listing small) <(listing unpacked)
	done
	mkdir -p hidden/etc
	touch hidden/etc/.wh.passwd
	run_vfix 1 rebuild hidden -o oci:never:x
	expect_match stderr "$stderr" 'etc/.wh.passwd'
}

@test "rebuild: a full disk is an error, and leaves nothing on it" {
	requires root
	mkdir small root
	for dest in oci:small/out:x oci-archive:small/out.tar docker-archive:small/out.tar:x:1 dir:small/out; do
		# shellcheck disable=SC2016 # for the other shell
		run "$tree/tests/own-mounts" "$PWD/root" sh -c 'mount -t tmpfs -o size=1m none small && "$1" rebuild "$2" -o "$3" 2>err; echo "status $?"; ls -A small' sh "$VFIX" "$layout" "$dest"
		expect "$dest" "$output" 'status 1'
		expect_match stderr "$(cat err)" 'no space left'
	done
}

@test "rebuild: killed at any moment, the destination has the old result or the whole new one" {
	run_vfix rebuild "$layout" -o oci:first:old
	for call in fsync renameat; do
		for n in 1 3 5; do
			rm -rf out && cp -r first out
			run "$build/killat" "$call" "$n" "$VFIX" rebuild --fallback always "$layout" -o oci:out:new
			[ "$status" = 137 ] || continue
			killed=1
			"$build/validate" out
			run_vfix scan oci:out:old
			rm -rf out .vfix-*
			run "$build/killat" "$call" "$n" "$VFIX" rebuild "$layout" -o oci:out:new
			[ ! -e out ] || "$build/validate" out
			rm -rf out .vfix-*
		done
	done
	expect 'killed' "${killed:-}" 1
}

@test "rebuild: several at once into one layout, and all images are in it" {
	for tag in a b c; do
		"$VFIX" rebuild "$layout" -o "oci:out:$tag" >"$tag.out" 2>&1 3>&- &
		pids[${#pids[@]}]=$!
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || fail "$(cat ./*.out)"
	done
	expect tags "$(jq -r '.manifests[].annotations["org.opencontainers.image.ref.name"] // empty' out/index.json | sort | tr '\n' ' ')" 'a b c '
	"$build/validate" out
}
