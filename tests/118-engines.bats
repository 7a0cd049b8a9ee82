#!/usr/bin/env bats
# bats file_tags=long
# How engines treat unusual layers, and vfix's layers for them: umoci, containerd with and without overlay mounts,
# docker with overlay2 and vfs.
load helpers

# Containers without the right to mount, and unusual kernels, have none.
has_overlay() {
	local dir=$BATS_TEST_TMPDIR/probe
	mkdir -p "$dir/a" "$dir/b" "$dir/on"
	mount -t overlay overlay -o "lowerdir=$dir/a:$dir/b" "$dir/on" 2>/dev/null || { echo "no overlay can be mounted here" && return 1; }
	umount "$dir/on"
}

setup_file() {
	(cd "$tree" && "${GO:-go}" test -c -vet=off -ldflags='-s -w' -tags engines -o "$BATS_FILE_TMPDIR/images.test" ./images)
}

setup() {
	requires root image_tools overlay docker
	cd "$tree/images" || return
}

# go_test TEST: runs a Go test that uses the engines.
go_test() {
	run "$BATS_FILE_TMPDIR/images.test" -test.timeout 30m -test.v -test.run "^$1\$"
	echo "$output"
	expect "status of $1" "$status" 0
	expect_match "what $1 says" "$output" "--- PASS: $1 "
}

@test "rebuild: every engine takes what is made of tricky layers, and shows it patched" {
	requires own_root # for docker's overlays
	go_test TestTrickyLayers
	for engine in umoci 'containerd, overlayfs' 'containerd, native' 'docker, overlay2' 'docker, vfs'; do
		expect_match engines "$output" "$engine:lib/a.so"
	done
}

@test "rebuild: 50 images of random layers" {
	go_test TestRandomLayers
}
