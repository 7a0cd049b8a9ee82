#!/usr/bin/env bats
# bats file_tags=long
# Each system call of a verb fails once, with EIO: the verb fails with a message that names the object, or succeeds
# correctly nevertheless, and leaves no partial file. tests/faults injects the errors and checks the results.
# shellcheck disable=SC2154
load helpers

setup_file() { "${GO:-go}" -C "$BATS_TEST_DIRNAME/.." build -o "$BATS_FILE_TMPDIR/faults" ./tests/faults; }

setup() {
	requires root fixtures image_tools
	export DOCKER_HOST=unix://$BATS_TEST_TMPDIR/none.sock
	cd "$BATS_TEST_TMPDIR" || return
	mkdir -p root/usr/lib root/etc
	cp "$build/fixtures/libstubs.so" root/usr/lib/libstubs.so
	echo text >root/etc/text
	tar -C root --sort=name --owner=0 --group=0 -cf layer.tar .
	umoci init --layout base
	umoci new --image base:x
	umoci raw add-layer --image base:x layer.tar
	skopeo copy --quiet oci:base:x oci-archive:base.tar:x
	faults=("$BATS_FILE_TMPDIR/faults" -killat "$build/killat" -object)
}

teardown() {
	if mountpoint -q root; then umount root; fi
	if mountpoint -q /etc/vfix; then umount /etc/vfix; fi
}

@test "rebuild: each call fails once, to an archive" {
	"${faults[@]}" 'base\.tar|work/out\.tar|libstubs' "$VFIX" rebuild -q oci-archive:base.tar -o oci-archive:work/out.tar
}

@test "rebuild: each call fails once, to a layout" {
	"${faults[@]}" 'base\.tar|work/out|libstubs' "$VFIX" rebuild -q oci-archive:base.tar -o oci:work/out:x
}

@test "patch -i: each call fails once" {
	cp -r root before
	"${faults[@]}" 'work|libstubs' "$VFIX" patch -q -i work
}

@test "patch: each call fails once, to a file" {
	"${faults[@]}" 'root|work' "$VFIX" patch -q -o work/out root/usr/lib/libstubs.so
}

@test "rebuild: each call fails once, to a directory" {
	"${faults[@]}" 'base\.tar|work/out|libstubs|text' "$VFIX" rebuild -q oci-archive:base.tar -o dir:work/out
}

@test "scan: each call fails once" {
	"${faults[@]}" 'base\.tar|libstubs' "$VFIX" scan -q --format json oci-archive:base.tar
}

@test "install: each call fails once, and uninstall leaves the machine as it was" {
	mkdir -p before/usr/{bin,sbin} before/etc/docker
	install -m 755 /dev/null before/usr/sbin/dockerd
	install -m 755 /dev/null before/usr/bin/runc
	echo '{"labels": ["a=b"]}' >before/etc/docker/daemon.json
	"${faults[@]}" 'work|vfix' -kind install "$VFIX" install docker --root work
}

@test "start: each call fails once, and the record says what happened" {
	requires own_root
	mkdir -p before lower/lib /etc/vfix
	cp "$build/fixtures/libstubs.so" lower/lib/libc.so.6
	jq -n --arg root "$PWD/root" '{root: {path: $root}}' >before/config.json
	mount -t tmpfs -o mode=755 none /etc/vfix
	jq -n --arg here "$PWD" '{state: ($here + "/state"), runtime: ($here + "/bin/runc"), required: true}' >/etc/vfix/vfix.json
	rm -r root
	mkdir bin
	musl-gcc -static -o bin/runc -x c - <<<'int main(void) { return 0; }' # in PATH: the configuration may not be read
	PATH=$PWD/bin:$PATH "${faults[@]}" 'work|root|state|/etc/vfix|/runc|confined process|: /(lib)?: |libc' \
		-kind start "$VFIX_RUNTIME" --log /dev/stderr create --bundle "$PWD/work" id
}
