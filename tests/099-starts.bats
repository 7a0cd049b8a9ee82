#!/usr/bin/env bats
# Errors that no start may make: say that a container is patched while a program in it calls the page, and with fail_closed
# start such a container at all. Each case is a bundle in which some program calls the page, at a place where a look
# at the root filesystem, or at config.json, does not show it. Each is started with runc under the seccomp oracle:
# by vfix-runtime in runc's place and with vfix-runtime as a hook, with fail_closed and without.
#
# A case prepares $root and $filter (for config.json) and runs $program; $want is "patched" where the program must
# run, and "honest" if it is enough that nothing is said to be patched, and nothing is started with fail_closed.
# shellcheck disable=SC2034,SC2154
load helpers

has_runc() { has_commands runc jq busybox && has_own_root; }

setup_file() {
	legacy_program "$BATS_FILE_TMPDIR/clock"
	musl-gcc -static -O1 -o "$BATS_FILE_TMPDIR/packed" -x c - <<-'END'
		#include <sys/mman.h>
		int main(void)
		{
			static const unsigned char packed[] = {0xac, 0xb7, 0x38, 0x3f, 0xff, 0xfb, 0x9f, 0x00, 0x00, 0x2f, 0xa4, 0x3c};
			unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			for (unsigned i = 0; i < sizeof packed; i++)
				code[i] = packed[i] ^ 0xff;
			return ((long (*)(long))code)(0) < 1577836800;
		}
	END
	printf 'UPX!' | dd of="$BATS_FILE_TMPDIR/packed" bs=1 seek=9 conv=notrunc status=none # no kernel reads that of e_ident
}

setup() {
	requires root oracle runc
	work=$BATS_TEST_TMPDIR
	cache=$work/cache
	id=vfix-starts-$$
	b=$work/b
}

teardown() {
	[ -z "${id-}" ] || runc delete --force "$id" 2>/dev/null || true
	unmount_all
}

# mounted_at DIR: it is unmounted when the case ends.
mounted_at() { echo "$1" >>"$work/mounted"; }

unmount_all() {
	[ ! -e "$work/mounted" ] || tac "$work/mounted" | while read -r dir; do umount --lazy "$dir" || true; done
	[ ! -e "$work/loops" ] || xargs -n 1 losetup --detach <"$work/loops" || true
	[ ! -e "$work/sleeping" ] || xargs kill <"$work/sleeping" || true
	rm -f "$work/mounted" "$work/loops" "$work/sleeping"
}

legacy() { install -D "$BATS_FILE_TMPDIR/clock" "$1"; }

# fresh: an empty root filesystem with a shell, and none of the copies and indexes of earlier cases.
fresh() {
	unmount_all
	rm -rf "$b" "$cache" "$work/host" "$work/files"
	root=$b/rootfs filter=. program=/usr/bin/clock want=patched
	mkdir -p "$root"/{bin,proc,dev,sys,usr/bin,data,tmp} "$work/host"
	cp "$(command -v busybox)" "$root/bin/"
}

# overlay LOWER...: the root, of these layers (the uppermost first) and an upper one, all on a file system of their own.
layers() {
	mkdir -p "$work/layers"
	mount -t tmpfs tmpfs "$work/layers"
	mounted_at "$work/layers"
	for n in "$@"; do mkdir -p "$work/layers/overlay2/$(layer "$n")/diff"; done
	mkdir "$work/layers/upper" "$work/layers/work"
	cp -a "$root/." "$(lower "${@: -1}")"
}
layer() { printf "$1%.0s" {1..64}; }
lower() { echo "$work/layers/overlay2/$(layer "$1")/diff"; }
# overlay OPTIONS LOWER...: mounts them.
overlay() {
	local options=$1 list='' n
	shift
	for n in "$@"; do list+=:$(lower "$n"); done
	mount -t overlay -o "lowerdir=${list#:},upperdir=$work/layers/upper,workdir=$work/layers/work$options" overlay "$root"
	mounted_at "$root"
	filter='.root.readonly = false'
}

# xattr NAME VALUE FILE
xattr() { python3 -c 'import os, sys; os.setxattr(sys.argv[3], sys.argv[1], sys.argv[2].encode())' "$@"; }

bind() { echo ".mounts += [{destination: \"$1\", type: \"bind\", source: \"$2\", options: [\"${3:-bind}\"]}]"; }

case_root() { legacy "$root/usr/bin/clock"; }

# A mount is not vfix's because of what its source is called.
case_forged_bind() {
	legacy "$cache/v1/files/x/clock"
	chmod -R go-w "$cache"
	filter=$(bind /data "$cache/v1/files/x")
	program=/data/clock
}
case_forged_file() {
	legacy "$cache/v1/private/x/1"
	: >"$root/data/clock"
	chmod -R go-w "$cache"
	filter=$(bind /data/clock "$cache/v1/private/x/1")
	program=/data/clock
}
case_forged_tmpfs() {
	legacy "$root/usr/bin/clock"
	filter=".mounts += [{destination: \"/data\", type: \"tmpfs\", source: \"$cache/v1/files/x\"}]"
}

# Overlay shows a directory from another place of the layers.
case_redirect() {
	layers b a
	legacy "$(lower a)/hidden/clock"
	mkdir -p "$(lower b)/usr/shown"
	xattr trusted.overlay.redirect /hidden "$(lower b)/usr/shown"
	mknod "$(lower b)/hidden" c 0 0
	overlay '' b a
	program=/usr/shown/clock
}
case_redirect_on() {
	layers b a
	legacy "$(lower a)/hidden/clock"
	overlay ,redirect_dir=on b a
	mv "$root/hidden" "$root/usr/shown"
	umount "$root"
	overlay '' b a
	program=/usr/shown/clock
}
case_opaque() {
	layers b a
	legacy "$(lower a)/usr/bin/clock"
	legacy "$(lower b)/usr/bin/clock2"
	xattr trusted.overlay.opaque y "$(lower b)/usr/bin"
	overlay '' b a
	program=/usr/bin/clock2
}
case_metacopy() {
	layers b a
	legacy "$(lower a)/usr/bin/clock"
	overlay ,metacopy=on b a
	chmod 711 "$root/usr/bin/clock"
	umount "$root"
	overlay ,metacopy=on b a
}
# A layer that is at its path no longer.
case_stale_layer() {
	layers b a
	legacy "$(lower a)/usr/bin/clock"
	overlay '' b a
	mv "$(lower a)" "$(lower a).old"
	mkdir -p "$(lower a)"
	echo other >"$(lower a)/other"
}

# Files that a mount brings: a volume, one that is only read, a program alone, a tree of mounts, one behind a symlink.
case_volume() {
	legacy "$work/host/clock"
	filter=$(bind /data "$work/host")
	program=/data/clock
}
case_readonly_volume() {
	legacy "$work/host/clock"
	filter=".mounts += [{destination: \"/data\", type: \"bind\", source: \"$work/host\", options: [\"bind\", \"ro\"]}]"
	program=/data/clock
}
case_one_file() {
	legacy "$work/host/clock"
	: >"$root/data/clock"
	filter=$(bind /data/clock "$work/host/clock")
	program=/data/clock
}
case_recursive_volume() {
	mkdir -p "$work/host/below"
	mount -t tmpfs tmpfs "$work/host/below"
	mounted_at "$work/host/below"
	legacy "$work/host/below/clock"
	filter=$(bind /data "$work/host" rbind)
	program=/data/below/clock
}
case_nested_volumes() {
	legacy "$work/host/two/clock"
	mkdir "$work/host/one" "$work/host/one/below"
	filter="$(bind /data "$work/host/one") | $(bind /data/below "$work/host/two")"
	program=/data/below/clock
}
case_covered_volume() {
	legacy "$work/host/two/clock"
	mkdir "$work/host/one"
	filter="$(bind /data "$work/host/one") | $(bind /data "$work/host/two")"
	program=/data/clock
}
# The runtime follows the symlink in the volume: the second mount is at /usr/bin.
case_symlink_in_volume() {
	legacy "$work/host/two/clock"
	mkdir "$work/host/one"
	ln -s /usr/bin "$work/host/one/below"
	filter="$(bind /data "$work/host/one") | $(bind /data/below "$work/host/two")"
}
case_mount_below_root() {
	mount -t tmpfs tmpfs "$root/data"
	mounted_at "$root/data"
	legacy "$root/data/clock"
	program=/data/clock
}
# Mounts that the machine shares with the container: one over a file of the volume would also be made here.
case_shared_volume() {
	mount -t tmpfs tmpfs "$work/host"
	mounted_at "$work/host"
	mount --make-shared "$work/host"
	legacy "$work/host/clock"
	filter="$(bind /data "$work/host" rbind) | .mounts[-1].options += [\"rshared\"] | .linux.rootfsPropagation = \"rshared\""
	program=/data/clock want=honest
}
case_receiving_volume() {
	case_shared_volume
	filter="$(bind /data "$work/host" rbind) | .mounts[-1].options += [\"rslave\"]" want=patched
}
case_tmpcopyup() {
	legacy "$root/usr/bin/clock"
	filter='.mounts += [{destination: "/usr/bin", type: "tmpfs", source: "tmpfs", options: ["tmpcopyup"]}]'
}
case_tmpcopyup_of_own_root() {
	layers a
	legacy "$(lower a)/usr/bin/clock"
	overlay '' a
	filter+=' | .mounts += [{destination: "/usr/bin", type: "tmpfs", source: "tmpfs", options: ["tmpcopyup"]}]'
}
case_overlay_volume() {
	legacy "$work/host/a/clock"
	mkdir "$work/host/b"
	filter=".mounts += [{destination: \"/data\", type: \"overlay\", source: \"overlay\", options: [\"lowerdir=$work/host/b:$work/host/a\"]}]"
	program=/data/clock
}
case_users() {
	legacy "$work/host/clock"
	chmod -R go+rX "$work/host" && chown -R 100000:100000 "$root"
	chmod go+x "$BATS_RUN_TMPDIR"{,/test} "$work"
	filter="$(bind /data "$work/host") | .linux.namespaces += [{type: \"user\"}] | .linux.uidMappings = [{containerID: 0, hostID: 100000, size: 65536}] | .linux.gidMappings = .linux.uidMappings"
	program=/data/clock
}

# A hook mounts before vfix's own has looked, or after it.
mounter() {
	legacy "$work/host/clock"
	cat >"$work/mounter" <<-END
		#!/bin/sh
		exec >/dev/null 2>&1
		[ "\$1" = inside ] || inside="nsenter -t \$(sed 's/.*"pid": *\\([0-9]*\\).*/\\1/') -m"
		exec \${inside-} mount --bind $work/host $b/rootfs/data
	END
	chmod 755 "$work/mounter"
	program=/data/clock
}
hooked() { filter=".hooks = {$1: [{path: \"$work/mounter\", args: [\"mounter\", \"$2\"], env: [\"PATH=$PATH\"]}]}"; }
case_prestart_hook() { mounter && hooked prestart outside; }
case_earlier_hook() { mounter && hooked createRuntime outside; }
case_later_hook() {
	mounter && hooked createContainer inside
	want=honest
}

# A file that seems to be covered is not, for the runtime mounts elsewhere.
case_uncovered() {
	legacy "$root/usr/bin/clock"
	ln -s /usr/bin/clock "$root/data/link"
	filter=".mounts += [{destination: \"/data\", type: \"tmpfs\", source: \"tmpfs\"}] | $(bind /data/link /etc/hostname)"
}
case_covered() {
	legacy "$root/usr/bin/clock"
	legacy "$root/opt/clock"
	filter='.mounts += [{destination: "/usr", type: "mqueue", source: "mqueue"}]'
	program=/opt/clock
}
# The runtime puts something over the root when all hooks have ended.
case_readonly_paths() {
	legacy "$root/usr/bin/clock"
	filter='.linux.readonlyPaths += ["/usr", "/usr/bin/clock"] | .linux.maskedPaths += ["/tmp"]'
}
case_block_device() {
	truncate -s 16M "$work/disk"
	mkdir -p "$work/files"
	legacy "$work/files/clock"
	mkfs.ext4 -q -d "$work/files" "$work/disk"
	local loop
	loop=$(losetup --find --show "$work/disk")
	echo "$loop" >>"$work/loops"
	filter=".mounts += [{destination: \"/data\", type: \"ext4\", source: \"$loop\"}]"
	program=/data/clock
}
case_own_root_again() {
	legacy "$root/usr/bin/clock"
	filter=$(bind /data "$root/usr")
	program=/data/bin/clock
}
case_dots() {
	legacy "$root/usr/bin/clock"
	filter='.root.path = "../b/./rootfs"'
	program=clock
}
# Another mount namespace, in which something else is at the root's path.
case_joined() {
	legacy "$work/host/usr/bin/clock"
	cp -a "$root/." "$work/host/"
	unshare -m sh -c "mount --bind '$work/host' '$root' && exec sleep 600" 3>&- &
	echo $! >>"$work/sleeping"
	until grep -q " $root " "/proc/$!/mountinfo"; do sleep 0.01; done
	filter="(.linux.namespaces[] | select(.type == \"mount\")).path = \"/proc/$!/ns/mnt\""
	want=honest
}
# Programs whose code cannot be seen: packed, or with a header that says what cannot be. The kernel runs both.
case_packed() {
	cp "$BATS_FILE_TMPDIR/packed" "$root/usr/bin/clock"
	want=honest
}
case_damaged() {
	legacy "$root/usr/bin/clock"
	python3 - "$root/usr/bin/clock" <<-'END'
		import struct, sys
		f = open(sys.argv[1], "r+b")
		b = bytearray(f.read())
		at, n = struct.unpack_from("<Q", b, 32)[0], struct.unpack_from("<H", b, 56)[0]
		stack = next(i for i in range(n) if struct.unpack_from("<I", b, at + 56 * i)[0] == 0x6474e551)
		# A segment beyond the end of the file, which nobody reads.
		struct.pack_into("<IIQQQQQQ", b, at + 56 * stack, 1, 4, 1 << 20, 1 << 30, 1 << 30, 4096, 4096, 4096)
		f.seek(0)
		f.write(b)
	END
	want=honest
}

# The root is a folder in an overlay that is not the container's: a machine's own.
case_root_in_overlay() {
	layers a
	overlay '' a
	mkdir "$root/inner"
	cp -a "$root"/{bin,proc,dev,sys,usr,data,tmp} "$root/inner/"
	legacy "$root/inner/usr/bin/clock"
	filter='.root = {path: "rootfs/inner", readonly: false}'
}

# start DOOR CLOSED: leaves the status, the outcome on record, and what was said.
start() {
	echo "{\"record\": \"$work/starts.jsonl\", \"cache_dir\": \"$cache\", \"fail_closed\": $2, \"limits\": ${limits:-{\}}}" >"$work/runtime.json"
	: >"$work/starts.jsonl"
	(cd "$b" && rm -f config.json && runc spec)
	jq --arg program "$program" '.process.terminal = false | .process.args = [$program] | del(.linux.resources) | .root.readonly = true' "$b/config.json" |
		jq "$filter" >"$work/config.json"
	case $1 in
	none) cp "$work/config.json" "$b/" && run "$novsyscall" runc run --bundle "$b" "$id" ;;
	wrapper) cp "$work/config.json" "$b/" && run "$novsyscall" "$VFIX_RUNTIME" --vfix-config "$work/runtime.json" --runtime "$(command -v runc)" run --bundle "$b" "$id" ;;
	hook | killed)
		local hook=$VFIX_RUNTIME
		[ "$1" = hook ] || hook=$work/killed
		jq --arg hook "$hook" --arg config "$work/runtime.json" '.hooks.createRuntime += [{path: $hook, args: ["vfix-runtime", "--vfix-config", $config, "hook"]}]' \
			"$work/config.json" >"$b/config.json"
		run "$novsyscall" runc run --bundle "$b" "$id"
		;;
	esac
	recorded=$(jq -r .outcome "$work/starts.jsonl" | tail -n 1)
	echo "$1, fail_closed $2: status $status, recorded as $recorded: $output: $(cat "$work/starts.jsonl")"
}

# holds CASE: the case, each way.
holds() {
	local door closed
	fresh
	"case_$1"
	start none false
	expect "$1: status without vfix [control]" "$status" "$status_sigsys"
	for door in wrapper hook; do
		for closed in false true; do
			fresh
			"case_$1"
			start "$door" "$closed"
			if [ "$want" = patched ]; then
				expect "$1, $door, fail_closed $closed: status" "$status" 0
				expect "$1, $door, fail_closed $closed: record" "$recorded" "${outcome:-patched}"
				# Nothing of it stays on this machine.
				expect "$1, $door: mounts of copies that stay" "$(grep -c "$cache" /proc/self/mountinfo)" 0
				continue
			fi
			expect "$1, $door: mounts that stay" "$(grep -c "$cache" /proc/self/mountinfo)" 0
			[[ $status = 0 || $closed = true && $recorded = refused || $closed = false && $status = "$status_sigsys" && $recorded != patched && $recorded != clean ]] ||
				fail "$1, $door, fail_closed $closed: recorded as $recorded"
		done
	done
}

@test "starts: what is in the root is patched [control]" { holds root; }
@test "starts: a mount whose source has the name of a copy" {
	holds forged_bind
	holds forged_file
	holds forged_tmpfs
}
@test "starts: overlays that show a layer's files at another place" {
	holds redirect
	holds redirect_on
	holds opaque
	holds metacopy
}
@test "starts: a layer that was moved away after it was mounted" { holds stale_layer; }
@test "starts: programs of volumes" {
	local c
	for c in volume readonly_volume one_file recursive_volume nested_volumes covered_volume symlink_in_volume mount_below_root \
		shared_volume receiving_volume overlay_volume users; do
		holds "$c"
	done
	expect 'the volume itself [control]' "$(find "$work/host" -type f -size 0)" ''
}
@test "starts: a root in the machine's own overlay is not written to" {
	holds root_in_overlay
	cmp "$root/inner/usr/bin/clock" "$BATS_FILE_TMPDIR/clock"
}
@test "starts: programs that the runtime copies into a file system in memory" {
	holds tmpcopyup
	holds tmpcopyup_of_own_root
}

@test "starts: what other hooks mount" {
	holds prestart_hook
	holds earlier_hook
	holds later_hook
}
@test "starts: what mounts cover, and what the runtime does behind the hooks" {
	local c
	for c in uncovered covered readonly_paths block_device own_root_again dots joined; do holds "$c"; done
}
@test "starts: programs that cannot be examined" {
	holds packed
	holds damaged
}

# The fallback, where an image or the engine is in its way: no such container fails to start for it, none is said to
# have it, and nothing is made in a volume.
@test "starts: the fallback and symlinks at its place, or a volume" {
	local closed way
	for way in '/proc' '..' 'volume'; do
		for closed in false true; do
			fresh
			legacy "$root/usr/bin/clock"
			case $way in
			volume) mkdir "$root/etc" && filter=$(bind /etc "$work/host") ;;
			*) ln -s "$way" "$root/vfix" ;;
			esac
			filter+=' | .annotations = {"dev.vfix.fallback": "always"}'
			start wrapper "$closed"
			if [ "$closed" = true ]; then
				expect "$way, fail_closed" "$status $recorded" '1 refused'
			else
				expect "$way" "$status $recorded" '0 partial'
			fi
			expect_match 'the reason' "$(cat "$work/starts.jsonl")" 'fallback'
			expect 'files in the volume' "$(find "$work/host" -type f)" ''
		done
	done
}

@test "starts: a volume beyond the limits is said to be, and the root is patched" {
	local closed
	for closed in false true; do
		fresh
		legacy "$root/usr/bin/clock"
		legacy "$work/host/clock"
		mkdir -p "$work"/host/{1..60}
		filter=$(bind /data "$work/host")
		limits='{"names": 50}'
		start wrapper "$closed"
		if [ "$closed" = true ]; then
			expect 'fail_closed' "$status $recorded" '1 refused'
		else
			expect 'open' "$status $recorded" '0 partial'
		fi
		expect_match 'the reason' "$(cat "$work/starts.jsonl")" 'limits.names'
	done
}

# The runtime refuses a container after vfix has done its part: before the hooks, between them, and when it looks for the program.
@test "starts: a container that the runtime does not make is recorded as not started" {
	local way refused
	for way in direct volume; do
		while read -r refused; do
			fresh
			legacy "$root/usr/bin/clock"
			legacy "$work/host/clock"
			[ "$way" = direct ] || filter=$(bind /data "$work/host")
			filter+=" | $refused"
			start wrapper false
			[ "$status" != 0 ] && [ "$status" != "$status_sigsys" ] || fail "$refused: status $status"
			expect "$way, $refused" "$recorded" 'not started'
			expect 'patched files on record' "$(jq -s '[.[].files[]] | length' "$work/starts.jsonl")" 0
			run_vfix runtime status --record "$work/starts.jsonl" --format json --vfix-config "$work/runtime.json"
			expect summary "$(jq -c '[.summary.starts, .summary.results["not started"], .summary.results.patched, (.starts | length)]' <<<"$output")" '[1,1,0,1]'
		done <<-'END'
			.process.rlimits += [{type: "RLIMIT_NONE", soft: 1, hard: 1}]
			.process.args = ["/usr/bin/none"]
			.process.cwd = "/usr/bin/clock"
			.hooks.createContainer = [{path: "/bin/false"}]
			.mounts += [{destination: "/tmp/x", type: "bind", source: "/none", options: ["bind"]}]
		END
		# The same bundle starts when its fault is gone, and is recorded once.
		start wrapper false
		program=/usr/bin/clock filter=.
		start wrapper false
		expect "$way: status and record" "$status $recorded" '0 patched'
		run_vfix runtime status --record "$work/starts.jsonl" --format json --vfix-config "$work/runtime.json"
		expect summary "$(jq -c '[.summary.starts, .summary.results["not started"], .summary.results.patched, (.starts | length)]' <<<"$output")" '[1,0,1,1]'
		expect 'what stays in the bundle' "$(find "$b" -name '.vfix*')" ''
	done
}

# A hook that is killed: the container does not start, and nothing is left that harms the next start.
@test "starts: a hook that is killed anywhere" {
	local call n killed=0
	for call in unshare setns mount open_tree move_mount mount_setattr fsmount renameat unlinkat flock; do
		for n in 1 2 3; do
			fresh
			legacy "$root/usr/bin/clock"
			legacy "$work/host/clock"
			filter="$(bind /data "$work/host") | .annotations = {\"dev.vfix.fallback\": \"always\"}"
			program=/data/clock
			printf '#!/bin/sh\nexec %s %s %s %s "$@"\n' "$build/killat" "$call" "$n" "$VFIX_RUNTIME" >"$work/killed"
			chmod 755 "$work/killed"
			start "killed" true
			[ "$status" != 0 ] || break
			expect "killed at $call $n" "$status" 1
			killed=$((killed + 1))
			expect 'mounts that stay' "$(grep -c "$cache" /proc/self/mountinfo)" 0
			expect 'files in the volume' "$(find "$work/host" -type f)" "$work/host/clock"
			start hook true
			expect "the next start, after a kill at $call $n" "$status $recorded" '0 patched'
			expect 'left in tmp' "$(ls "$cache/v1/tmp")" ''
		done
	done
	echo "# killed $killed times" >&3
	[ "$killed" -ge 10 ] || fail "killed $killed times only"
}
