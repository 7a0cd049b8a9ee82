#!/usr/bin/env bats
# bats file_tags=long
# vfix-runtime in front of runc and crun, on a real kernel that does not map the vsyscall page: the unmodified
# legacy image crashes under the runtime alone and runs through vfix-runtime.
#
# One machine runs all of it; each test checks its own commands. Its root has the runtimes, vfix, and bundles that
# share the legacy image's root filesystem.
load helpers

has_runtimes() { has_commands runc crun jq gcc; }

# The commands of the boot, by name, each a script: see make_scripts.
names=()

# number NAME: the number of that command of the boot.
number() {
	local n
	for n in "${!names[@]}"; do
		[ "${names[n]}" != "$1" ] || { echo $((n + 1)) && return; }
	done
	fail "no command $1"
}

# output_of NAME [STREAM]
output_of() { cat "$vm_out/$(number "$1").${2:-stdout}"; }

# expect_status NAME STATUS
expect_status() { expect_vm "$(number "$1")" "$2"; }

expect_killed() {
	expect_status "$1" "$status_sigsegv"
	expect_match "kernel log of $1" "$(output_of "$1" kernel)" "$kernel_line"
}

expect_unharmed() {
	expect_status "$1" 0
	run grep "$kernel_line" "$vm_out/$(number "$1").kernel"
	expect 'complaints of the kernel' "$output" ''
}

# bundle NAME ROOT FILTER: a bundle of that root filesystem with runc's own defaults, bash as its process, and the
# changes of the jq filter.
bundle() {
	mkdir -p "$machine/bundles/$1"
	jq --arg root "$2" '.process.terminal = false | .process.args = ["bash", "-c", "echo up"] | .root = {path: $root, readonly: false}
		| '"$3" "$BATS_FILE_TMPDIR/config.json" >"$machine/bundles/$1/config.json"
}

# make_machine: the root of the machine.
make_machine() {
	local program
	mkdir -p "$machine"/{bin,usr/bin,usr/sbin,lib64,etc,run,var/lib,sys,proc,dev,tmp,bundles,volume,upper,originals} "$BATS_FILE_TMPDIR/spec"
	cp /bin/busybox "$machine/bin/"
	for program in sh mount mkdir cat grep sed sleep ls stat cp rm mv ln seq cmp find; do
		ln -s busybox "$machine/bin/$program"
	done
	mkdir "$BATS_FILE_TMPDIR/programs"
	cp "$(command -v runc)" "$(command -v crun)" "$BATS_FILE_TMPDIR/programs/"
	cp "$BATS_FILE_TMPDIR"/programs/* "$VFIX" "$VFIX_RUNTIME" "$machine/usr/bin/"
	copy_libraries "$BATS_FILE_TMPDIR/programs" "$machine"
	cp -a "$legacy_image/rootfs" "$machine/legacy"
	gcc -O1 -o "$machine/volume/callpage" "$tree/tests/oracle/callpage.c" # a dynamic program
	cp "$machine/volume/callpage" "$machine/legacy/opt/legacy/libc.so.6" "$machine/originals/"
	# The container turns these two into files that vfix does not know.
	mkdir "$machine/parts"
	head -c 2 "$machine/originals/libc.so.6" >"$machine/parts/1"
	tail -c +3 "$machine/originals/libc.so.6" >"$machine/parts/2"
	# The files that bash and coreutils need, owned by the root of a user namespace.
	mkdir -p "$machine"/small/{proc,dev,sys,tmp}
	(cd "$machine/legacy" && tar -c bin lib lib64 usr/lib64 usr/bin/{bash,stat,id} etc/passwd \
		usr/lib/x86_64-linux-gnu/{ld-linux-x86-64.so.2,libc.so.6,libpcre2-8.so.0*,libselinux.so.1,libtinfo.so.6*}) | tar -x -C "$machine/small"
	chown -R --no-dereference 100000:100000 "$machine/small"
	(cd "$BATS_FILE_TMPDIR/spec" && runc spec)
	mv "$BATS_FILE_TMPDIR/spec/config.json" "$BATS_FILE_TMPDIR/config.json"
}

# make_bundles: the tests describe their purposes.
make_bundles() {
	local volume='.mounts += [{destination: "/mnt", type: "bind", source: "/volume", options: ["rbind", "rw"]}]'
	bundle bash-alone /legacy .
	bundle bash /legacy .
	bundle redis /legacy '.process.args = ["redis-server", "--save", "", "--daemonize", "no"] | .process.cwd = "/tmp"'
	bundle read-only /legacy '.root.readonly = true | .process.args = ["bash", "-c", "echo up; echo >/file"]'
	bundle opt-out /legacy '.annotations = {"dev.vfix.enable": "false"}'
	# dpkg replaces a file by renaming another one over it.
	# shellcheck disable=SC2016 # the bash of the container expands it
	bundle overlay /bundles/overlay/rootfs '.mounts += [{destination: "/mnt", type: "bind", source: "/parts", options: ["bind", "ro"]}]
		| .process.args = ["bash", "-c", "libc=$(realpath /lib/x86_64-linux-gnu/libc.so.6); cat /mnt/1 /mnt/2 >$libc.dpkg-new && chmod 755 $libc.dpkg-new && mv -f $libc.dpkg-new $libc && stat -c %u:%g:%a $libc"]'
	bundle userns /small '.linux.namespaces += [{type: "user"}] | .linux.uidMappings = [{containerID: 0, hostID: 100000, size: 65536}]
		| .linux.gidMappings = .linux.uidMappings | .process.args = ["bash", "-c", "stat -c %u:%g:%a /lib/x86_64-linux-gnu/libc.so.6; id -u"]'
	bundle volume /legacy "$volume"' | .process.args = ["/mnt/callpage", "time"]'
	bundle volume-fallback /legacy "$volume"' | .process.args = ["/mnt/callpage", "time"] | .annotations = {"dev.vfix.fallback": "always"}'
}

# script NAME: makes stdin the next command of the boot, with the functions that several of them use.
script() {
	names+=("$1")
	{
		cat <<-'END'
			mount -t cgroup2 none /sys/fs/cgroup
			bundle() { cd /bundles/$1; }
			# serve ID RUN EXEC: starts redis-server, asks it twice, and ends it.
			serve() {
				$2 >/tmp/log 2>&1 &
				for n in $(seq 40); do
					! $3 $1 redis-cli PING 2>/tmp/error || break
					sleep 1
				done
				$3 $1 bash -c 'redis-cli PING; echo exec' || cat /tmp/log /tmp/error
			}
			set -e
		END
		cat
	} >"$machine/scripts/$1"
}

# make_scripts writes the scripts for the machine. vfix-runtime finds runc itself; crun is named. Where the runtime makes no
# difference it is crun, which an emulated processor starts in a quarter of runc's time.
make_scripts() {
	mkdir "$machine/scripts"
	script runc-alone <<<'bundle bash-alone; exec runc run alone'
	script runc-bash <<<'bundle bash; exec vfix-runtime run bash'
	script runc-redis <<<'bundle redis; serve redis "vfix-runtime run redis" "vfix-runtime exec"'
	script runc-lifecycle <<<'bundle bash; vfix-runtime create l; vfix-runtime state l | grep status; vfix-runtime start l
		until vfix-runtime state l | grep -q stopped; do sleep 0.1; done; vfix-runtime delete l; ! vfix-runtime state l'
	script crun-alone <<<'bundle bash-alone; exec crun run crun-alone'
	script crun-bash <<<'bundle bash; exec vfix-runtime --runtime crun run crun-bash'
	script crun-config <<<'bundle bash; mv config.json /tmp/spec.json; exec vfix-runtime --runtime crun run --config /tmp/spec.json crun-config'
	script crun-redis <<<'bundle redis; serve crun-redis "vfix runtime --runtime crun run crun-redis" "vfix runtime --runtime crun exec"'
	script read-only <<<'bundle read-only; exec vfix-runtime --runtime crun run read-only'
	script opt-out <<<'bundle opt-out; exec vfix-runtime --runtime crun run opt-out'
	# shellcheck disable=SC2016 # for the shell of the machine
	script overlay <<<'mkdir -p /bundles/overlay/rootfs; mount -t tmpfs none /upper; mkdir /upper/u /upper/w
		mount -t overlay -o lowerdir=/legacy,upperdir=/upper/u,workdir=/upper/w none /bundles/overlay/rootfs
		bundle overlay; vfix-runtime run first; echo "status $?"
		for name in usr/lib/x86_64-linux-gnu opt/legacy; do
			cmp -s /originals/libc.so.6 /upper/u/$name/libc.so.6 && echo "$name: the original"
		done
		exec vfix-runtime run second'
	script userns <<<'bundle userns; exec vfix-runtime --runtime crun run userns'
	script volume-alone <<<'bundle volume; exec vfix-runtime --runtime crun run volume'
	script volume-fallback <<<'bundle volume-fallback; exec vfix-runtime --runtime crun run fallback'
	script untouched <<<'cmp /legacy/opt/legacy/libc.so.6 /originals/libc.so.6; cmp /volume/callpage /originals/callpage; vfix cache list'
}

setup_file() {
	load helpers
	export machine=$BATS_FILE_TMPDIR/machine vm_out=$BATS_FILE_TMPDIR/vm
	if (has_root && has_vm && has_runtimes && has_legacy_image) >/dev/null; then
		make_machine
		make_bundles
		make_scripts
		echo "${names[@]}" >"$BATS_FILE_TMPDIR/names"
		"$tree/tests/vm/run" --out "$vm_out" --own-root --vsyscall none --root "$machine" -- "${names[@]/#/sh /scripts/}"
		rm -rf "$machine"
	fi
}

setup() {
	requires root vm runtimes legacy_image
	read -ra names <"$BATS_FILE_TMPDIR/names"
}

@test "vfix-runtime: runc alone kills bash of the legacy image, and the kernel says why" {
	expect_killed runc-alone
}

@test "vfix-runtime: through it bash runs, redis-server answers PING, and exec works" {
	expect_unharmed runc-bash
	expect stdout "$(output_of runc-bash)" up
	expect_unharmed runc-redis
	expect stdout "$(output_of runc-redis)" $'PONG\nPONG\nexec'
}

@test "vfix-runtime: create, state, start, delete and list are runc's" {
	expect_unharmed runc-lifecycle
	expect_match stdout "$(output_of runc-lifecycle)" '"status": "created"'
	expect_match stdout "$(output_of runc-lifecycle)" up
}

@test "vfix-runtime: the same with crun" {
	expect_killed crun-alone
	expect_unharmed crun-bash
	expect stdout "$(output_of crun-bash)" up
	expect_unharmed crun-config
	expect stdout "$(output_of crun-config)" up
	expect_unharmed crun-redis
	expect stdout "$(output_of crun-redis)" $'PONG\nPONG\nexec'
}

@test "vfix-runtime: a read-only root stays one" {
	expect_status read-only 1
	expect stdout "$(output_of read-only)" up
	expect_match stderr "$(output_of read-only stderr)" 'Read-only file system'
}

@test "vfix-runtime: dev.vfix.enable=false leaves a container as it is" {
	expect_killed opt-out
}

@test "vfix-runtime: in a writable overlay libc can be replaced, and a second start patches it again" {
	expect_unharmed overlay
	# The container put the original there, which runs again: it was patched again.
	expect stdout "$(output_of overlay)" $'0:0:755\nstatus 0\nusr/lib/x86_64-linux-gnu: the original\n0:0:755'
}

@test "vfix-runtime: in a user namespace files have the owner that they had" {
	expect_unharmed userns
	expect stdout "$(output_of userns)" $'0:0:755\n0'
}

@test "vfix-runtime: what a volume brings is patched, with the fallback as well" {
	expect_unharmed volume-alone
	expect_unharmed volume-fallback
}

@test "vfix-runtime: the root filesystem and the volume are as they were" {
	expect_unharmed untouched
}
