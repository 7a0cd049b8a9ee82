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

teardown() { chattr -R -f -i work || true; } # hotfix's copies

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
	"${faults[@]}" 'root|work/out' "$VFIX" patch -q -o work/out root/usr/lib/libstubs.so
}

@test "rebuild: each call fails once, to a directory" {
	"${faults[@]}" 'base\.tar|work/out|libstubs|text' "$VFIX" rebuild -q oci-archive:base.tar -o dir:work/out
}

@test "scan: each call fails once" {
	"${faults[@]}" 'base\.tar|libstubs' "$VFIX" scan -q --format json oci-archive:base.tar
}

@test "hotfix: each call fails once" {
	"${faults[@]}" 'base\.tar|/work\b|libstubs' -kind hotfix "$VFIX" hotfix --quiet --for docker -o work/copies oci-archive:base.tar
}

@test "install: each call fails once, and uninstall leaves the machine as it was" {
	head -c 100000 "$VFIX" >small # as the program, which is copied each time
	mkdir -p before/usr/{bin,sbin} before/etc/docker before/usr/local/bin before/var/lib
	install -m 755 /dev/null before/usr/sbin/dockerd
	install -m 755 /dev/null before/usr/bin/runc
	echo '{"labels": ["a=b"]}' >before/etc/docker/daemon.json
	"${faults[@]}" 'work|vfix' -kind install "$VFIX" install docker --root work --program small
}

@test "start: each call fails once, and the record says what happened" {
	requires runtime
	mkdir -p before/rootfs
	legacy_program before/rootfs/clock
	ln -s "$(command -v busybox)" true
	(cd before && runc spec)
	jq '.process.args = ["/clock"] | .root.readonly = true' before/config.json >config.json
	mv config.json before/
	echo "{\"record\": \"$PWD/starts.jsonl\", \"cache_dir\": \"$PWD/cache\", \"fail_closed\": true, \"trusted_hooks\": \"$PWD/true\"}" >runtime.json
	chmod 600 runtime.json
	"${faults[@]}" 'work|cache|clock|runtime' -kind start "$VFIX_RUNTIME" --vfix-config runtime.json --runtime "$PWD/true" create --bundle work id
}
has_runtime() { has_commands runc jq busybox && [ -x "$VFIX_RUNTIME" ]; }
