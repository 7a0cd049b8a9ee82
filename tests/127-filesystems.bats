#!/usr/bin/env bats
# bats file_tags=long
# The bundles of tests/hostile/starts for a machine of their own: its kernel has 9p, NFS and directories whose names fold;
# other tests would meet interpreters of binfmt_misc; and Debian's criu restores checkpoints on Debian's kernel. Each is
# started as in 099-starts, without the page.
#
# One machine runs all of them, as boots take longest; another has what only newer kernels have. Where the runtime makes
# no difference it is crun, which an emulated processor starts in a quarter of runc's time.
# shellcheck disable=SC2016,SC2154
load helpers

runs=('crun 9p' 'crun nfs' 'crun casefold' 'runc casefold-refused' 'crun binfmt' 'crun binfmt-machine' 'runc restore' 'runc restore-volume')

has_programs() { has_commands runc crun criu mkfs.ext4 chattr losetup musl-gcc; }

make_machine() {
	local program
	mkdir -p "$machine"/{bin,usr/bin,lib64,etc,run,var/lib,sys,proc,dev,tmp,mnt,srv} "$BATS_FILE_TMPDIR/programs" "$BATS_FILE_TMPDIR/share"
	cp /bin/busybox "$machine/bin/"
	for program in sh mount mkdir cat ls cp mv rm ln chmod chown truncate touch dd blockdev sed sleep mknod grep; do
		ln -s busybox "$machine/bin/$program"
	done
	for program in runc crun criu tar gzip mkfs.ext4 chattr losetup; do
		cp -L "$(command -v $program)" "$BATS_FILE_TMPDIR/programs/"
	done
	cp "$BATS_FILE_TMPDIR"/programs/* "$VFIX_RUNTIME" "${VFIX%/*}/vfix-nri" "$machine/usr/bin/"
	copy_libraries "$BATS_FILE_TMPDIR/programs" "$machine"
	go -C "$tree" build -o "$machine/usr/bin/starts" ./tests/hostile/starts
	"$machine/usr/bin/starts" -programs "$machine/programs"
	rm "$machine/programs/busybox"
	cp /bin/busybox "$machine/programs/"
	printf '%s\n' 'mount -t cgroup2 none /sys/fs/cgroup; mkdir /tmp/work; exec starts -programs /programs -runtime /usr/bin/vfix-runtime -nri /usr/bin/vfix-nri -work /tmp/work -real "$@"' >"$machine/start"
}

# boot OUT COMMAND...
boot() {
	"$tree/tests/vm/run" --kernel amd64 --share "$BATS_FILE_TMPDIR/share" --out "$1" --own-root --vsyscall none --root "$machine" -- "${@:2}"
}

setup_file() {
	load helpers
	export machine=$BATS_FILE_TMPDIR/machine vm_out=$BATS_FILE_TMPDIR/vm
	if (has_root && has_vm && has_programs) >/dev/null; then
		make_machine
		boot "$vm_out" "${runs[@]/#/sh /start }"
		VFIX_VM_SUITE=sid boot "$vm_out-newest" "sh /start crun casefold-layers"
		rm -rf "$machine"
	fi
}

setup() { requires root vm programs; }

# holds GROUP
holds() {
	local n=0
	while [ "${runs[n]#* }" != "$1" ]; do
		n=$((n + 1))
		[ "$n" -lt ${#runs[@]} ] || fail "no machine runs $1"
	done
	expect_vm $((n + 1)) 0
}

@test "filesystems: 9p shows others other files, as a volume and as a root" { holds 9p; }
@test "filesystems: NFS, and changes on its server that the client has not seen" { holds nfs; }
@test "filesystems: names that fold" { holds casefold; holds casefold-refused; }
@test "filesystems: names that fold, in memory and below an overlay" { vm_out+=-newest && expect_vm 1 0; }
@test "filesystems: interpreters of binfmt_misc" { holds binfmt; }
@test "filesystems: interpreters of binfmt_misc that the kernel keeps open" { holds binfmt-machine; }
@test "restore: the memory of a checkpoint is not examined" { holds restore; holds restore-volume; }
