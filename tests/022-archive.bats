#!/usr/bin/env bats
# rebuild from file to file: docker archives, OCI layouts and archives; other tools must read every written image.
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

# check_layout DIRECTORY: the three readers accept it, and the unpacked root is in $rootfs.
check_layout() {
	"$build/validate" "$1"
	skopeo inspect "oci:$1:x" >/dev/null
	rootfs=$work/rootfs
	rm -rf "$rootfs"
	umoci raw unpack --image "$1:x" "$rootfs"
}

# listing DIRECTORY: each file with its mode, owner, links, time and, except for the two patched files, its content.
listing() {
	(
		cd "$1" || exit
		find . -printf '%p %y %m %U:%G %n %T@ %l\n' | sort
		find . -type f ! -name libc.so.6 ! -name clock -exec sha256sum {} + | sort
	)
}

@test "rebuild: from a docker archive to a layout, which other tools read" {
	run_vfix rebuild "$archive" -o oci:out:x
	expect reference "$output" oci:out:x
	check_layout out
	config() { skopeo inspect --config "$1" | jq '.config | del(.Labels)'; }
	expect configuration "$(config oci:out:x)" "$(config "$layout")"
}

@test "rebuild: the merged files are the base's, except for the patched ones" {
	requires root
	run_vfix rebuild "$layout" -o oci:out:x
	check_layout out
	listing "$legacy_image/rootfs" >before
	listing "$rootfs" >after
	diff before after
	for file in usr/lib/x86_64-linux-gnu/libc.so.6 usr/local/bin/clock; do
		run cmp "$legacy_image/rootfs/$file" "$rootfs/$file"
		expect "difference of $file" "$status" 1
	done
	expect 'mode of a setuid program' "$(stat -c %a "$rootfs/usr/local/bin/clock")" 4755
	[ "$rootfs/opt/legacy/libc.so.6" -ef "$rootfs/usr/lib/x86_64-linux-gnu/libc.so.6" ] || fail 'the hard link is broken'
	[ ! -e "$rootfs/opt/attic/clock" ] || fail 'a deleted file came back'
	[ ! -e "$rootfs/opt/emptied/clock" ] || fail 'a file of an emptied directory came back'
}

@test "rebuild: the added layer holds the patched files alone" {
	run_vfix rebuild "$layout" -o oci:out:x
	blob=$(skopeo inspect --raw oci:out:x | jq -r '.layers[-1].digest | sub(":"; "/")')
	expect files "$(tar -tzf "out/blobs/$blob" | grep -v '/$' | sort | tr '\n' ' ')" \
		'opt/legacy/libc.so.6 usr/lib/x86_64-linux-gnu/libc.so.6 usr/local/bin/clock '
}

@test "rebuild: twice gives the same digest" {
	run_vfix rebuild "$archive" -o oci:one:x
	run_vfix rebuild "$archive" -o oci:two:x
	expect digest "$(digest_of oci:two:x)" "$(digest_of oci:one:x)"
}

@test "rebuild: of the result changes nothing" {
	run_vfix rebuild "$archive" -o oci:out:x
	before=$(find out -type f -exec sha256sum {} + | sort)
	run_vfix rebuild oci:out:x -o oci:again:x
	expect "reference, the copy's" "$output" oci:again:x
	expect_match stderr "$stderr" 'nothing to do'
	expect digest "$(digest_of oci:again:x)" "$(digest_of oci:out:x)"
	expect 'the source' "$(find out -type f -exec sha256sum {} + | sort)" "$before"
	DOCKER_HOST='' run_vfix rebuild oci:out:x --dry-run
	expect 'reference of a base that stays' "$output" oci:out:x
}

@test "rebuild: to an OCI archive and from one" {
	run_vfix rebuild "$layout" -o oci-archive:out.tar:x
	expect digest "$(digest_of oci-archive:out.tar:x)" "$(run_vfix rebuild "$layout" -o oci:out:x >/dev/null && digest_of oci:out:x)"
	mkdir unpacked
	tar -xf out.tar -C unpacked
	check_layout unpacked
	skopeo copy --quiet "$layout" oci-archive:base.tar:legacy
	run_vfix rebuild oci-archive:base.tar:legacy -o oci:other:x
	check_layout other
}

@test "rebuild: to a docker archive, which skopeo reads" {
	run_vfix rebuild "$archive" -o docker-archive:out.tar:redis:fixed
	skopeo copy --quiet docker-archive:out.tar:redis:fixed oci:out:x
	check_layout out
	run_vfix scan "oci:out:x"
}

@test "rebuild: the input is not changed" {
	sums() { find "$legacy_image/oci" "$legacy_image/redis-legacy.tar" -type f -exec sha256sum {} + | sort; }
	before=$(sums)
	run_vfix rebuild "$layout" -o oci:one:x
	run_vfix rebuild "$archive" -o oci:two:x
	expect input "$(sums)" "$before"
}

@test "rebuild: a layer that lies about its digest is an error, and leaves nothing" {
	cp -r "$legacy_image/oci" lying
	blob=$(skopeo inspect --raw oci:lying:legacy | jq -r '.layers[0].digest | sub(":"; "/")')
	diff_id=$(skopeo inspect --config oci:lying:legacy | jq -r '.rootfs.diff_ids[0]')
	printf '\1' | dd of="lying/blobs/$blob" bs=1 seek=100000 conv=notrunc status=none
	before=$(ls -A)
	run_vfix 1 rebuild oci:lying:legacy -o oci:out:x
	expect stdout "$output" ''
	expect_match stderr "$stderr" "layer ${diff_id:0:19}"
	expect files "$(ls -A)" "$before"
}

@test "rebuild: a truncated archive is an error, and leaves nothing" {
	head -c 2000000 "$legacy_image/redis-legacy.tar" >short.tar
	run_vfix 1 rebuild docker-archive:short.tar -o oci:out:x
	expect stdout "$output" ''
	expect_match stderr "$stderr" short.tar
	expect files "$(ls -A)" short.tar
}

@test "scan, rebuild and verify: an archive through a pipe, as in a file" {
	saved=$legacy_image/redis-legacy.tar
	run_vfix 3 scan --format json "$archive"
	jq '.results[0].files' <<<"$output" >in-file
	pipe() { "$@" <"$saved" | "$VFIX" scan --format json "$from" | jq '.results[0].files' >piped; }
	for from in - /dev/stdin docker-archive:-; do
		pipe cat
		diff in-file piped
	done
	from=-
	pipe gzip -1
	diff in-file piped
	pipe zstd -q
	diff in-file piped
	mkfifo fifo
	cat "$saved" >fifo &
	run_vfix 3 scan ./fifo
	skopeo copy -q "$layout" oci-archive:saved.oci:x
	run_vfix rebuild - -o oci:out:x <saved.oci
	run_vfix rebuild oci-archive:saved.oci -o oci:same:x
	expect 'digest of the result' "$(digest_of oci:out:x)" "$(digest_of oci:same:x)"
	run_vfix verify oci:out:x --against - <saved.oci
	run_vfix 1 scan - </dev/null
	expect_match error "$stderr" 'stdin: empty'
}
