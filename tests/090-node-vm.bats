#!/usr/bin/env bats
# bats file_tags=long
# vfix-runtime in front of runc and crun, and as their hook, on a real kernel that does not map the vsyscall page: the
# unmodified legacy image crashes under the runtime alone and runs with vfix. One machine runs all of it.
# Variables come from helpers.bash.
# shellcheck disable=SC2154
load helpers

legacy_image=$small_image

has_runtimes() { has_commands runc crun jq; }

# Each is a runtime and a way: alone, wrapped or hooked.
starts=('runc alone' 'runc wrapped' 'runc hooked' 'crun alone' 'crun wrapped' 'crun hooked')

# make_machine: the root of the machine; /start RUNTIME WAY runs a container.
make_machine() {
	local program
	mkdir -p "$machine"/{bin,usr/bin,lib64,etc/vfix,run,var/lib,sys,proc,dev,tmp} "$BATS_FILE_TMPDIR/programs" "$BATS_FILE_TMPDIR/spec"
	cp /bin/busybox "$machine/bin/"
	for program in sh mount mkdir cat cp chmod; do
		ln -s busybox "$machine/bin/$program"
	done
	cp "$(command -v runc)" "$(command -v crun)" "$BATS_FILE_TMPDIR/programs/"
	cp "$BATS_FILE_TMPDIR"/programs/* "$VFIX_RUNTIME" "$machine/usr/bin/"
	copy_libraries "$BATS_FILE_TMPDIR/programs" "$machine"
	cp -a "$legacy_image/rootfs" "$machine/legacy"
	(cd "$BATS_FILE_TMPDIR/spec" && runc spec)
	jq '.process.terminal = false | .process.args = ["bash", "-c", "echo up"] | .root.readonly = true | del(.linux.resources)' \
		"$BATS_FILE_TMPDIR/spec/config.json" >"$machine/plain.json"
	jq '.hooks.createRuntime = [{path: "/usr/bin/vfix-runtime", args: ["vfix-runtime", "hook"], timeout: 30}]' \
		"$machine/plain.json" >"$machine/hooked.json"
	cat >"$machine/start" <<-'END'
		mount -t cgroup2 none /sys/fs/cgroup
		mount -t tmpfs none /run
		mount -t tmpfs -o mode=700 none /var/lib
		mkdir -p /run/b/rootfs /run/u /run/w
		mount -t overlay -o lowerdir=/legacy,upperdir=/run/u,workdir=/run/w none /run/b/rootfs
		cp /plain.json /run/b/config.json
		case $2 in
		alone) program=$1 ;;
		wrapped) program=vfix-runtime; echo "{\"runtime\": \"/usr/bin/$1\"}" >/etc/vfix/vfix.json ;;
		hooked) program=$1; cp /hooked.json /run/b/config.json ;;
		esac
		$program run --bundle /run/b c1
		status=$?
		cat /var/lib/vfix/starts.jsonl
		exit $status
	END
}

setup_file() {
	load helpers
	export machine=$BATS_FILE_TMPDIR/machine vm_out=$BATS_FILE_TMPDIR/vm
	if (has_root && has_vm && has_runtimes && has_legacy_image) >/dev/null; then
		make_machine
		"$tree/tests/vm/run" --vsyscall none --own-root --root "$machine" --out "$vm_out" -- "${starts[@]/#/sh /start }"
	fi
}

setup() { requires root vm runtimes legacy_image; }

# started N: the container of start N ran, and the record has its door.
started() {
	local door=runtime
	[[ ${starts[$1 - 1]} != *hooked ]] || door=hook
	expect_vm "$1" 0
	expect_match output "$(cat "$vm_out/$1.stdout")" up
	expect 'the record' "$(tail -n 1 "$vm_out/$1.stdout" | jq -r '.door + " " + .result')" "$door patched"
	run grep "$kernel_line" "$vm_out/$1.kernel"
	expect "the kernel's complaints" "$output" ''
}

# crashed N
crashed() {
	expect_vm "$1" "$status_sigsegv"
	expect_match "the kernel's log" "$(cat "$vm_out/$1.kernel")" "$kernel_line"
}

@test "vfix-runtime: runc, wrapped and with the hook [VM]" { crashed 1 && started 2 && started 3; }
@test "vfix-runtime: crun, wrapped and with the hook [VM]" { crashed 4 && started 5 && started 6; }
