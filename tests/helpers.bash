# helpers.bash: shared code of the end-to-end tests. A test file begins with `load helpers`.
# shellcheck shell=bash
# Variables are for the test files; output and stderr come from bats; functions are called by name.
# shellcheck disable=SC2034,SC2154,SC2317
bats_require_minimum_version 1.5.0

# bats records the place of each command before it, in case it fails, which takes longer than most commands. The
# line of the test file and of its own functions is sufficient.
bats_debug_trap() {
	[[ $1 == "${BATS_TEST_SOURCE-}" && ${BATS_INTERRUPTED-NOTSET} == NOTSET && ${BATS_TIMED_OUT-NOTSET} == NOTSET ]] || return 0
	BATS_DEBUG_LASTLAST_STACK_TRACE=("${BATS_DEBUG_LAST_STACK_TRACE[@]}")
	BATS_DEBUG_LAST_LINENO=("${BASH_LINENO[@]}")
	BATS_DEBUG_LAST_SOURCE=("${BASH_SOURCE[@]}")
	bats_capture_stack_trace
}

tree=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd)
build=$tree/tests/build
[[ ! -e $build/tools/jq || :$PATH: == *":$build/tools:"* ]] || PATH=$build/tools:$PATH # jq, which sorts the names of objects: see the Makefile
VFIX=${VFIX:-$tree/bin/vfix}
VFIX_RUNTIME=${VFIX_RUNTIME:-$tree/bin/vfix-runtime}
novsyscall=$build/novsyscall
callpage=$build/callpage
# small_image has the same shape and the same call sites, and a twelfth of the bytes. A file that runs little of
# the image has the line legacy_image=$small_image. medium_image has a third of the bytes, with a working
# redis-server.
small_image=$build/legacy-image/small
medium_image=$build/legacy-image/medium
legacy_image=${legacy_image:-$build/legacy-image}
# The kernel's message about a call to a page that it does not serve (vsyscall_64.c).
kernel_line='vsyscall attempted with vsyscall=none'
status_sigsegv=139 # 128 + signal, as a shell shows it
status_sigsys=159
# The time limit for a service to start or end.
patience=240 # seconds: a machine may have much else to do

# run_vfix [STATUS] ARGUMENT...: runs vfix, expects that exit status (0), and leaves its stdout in $output and its
# stderr in $stderr, as bats' run does, with fewer processes.
run_vfix() {
	local want=0
	if [[ ${1-} =~ ^[0-9]+$ ]]; then
		want=$1
		shift
	fi
	local file=$BATS_RUN_TMPDIR/stderr.$BASHPID
	status=0
	output=$("$VFIX" "$@" 2>"$file") || status=$?
	stderr=$(<"$file")
	IFS=$'\n' read -d '' -r -a lines <<<"$output" || true
	IFS=$'\n' read -d '' -r -a stderr_lines <<<"$stderr" || true
	echo "vfix $*"
	echo "status: $status"
	echo "stdout: $output"
	echo "stderr: $stderr"
	expect "exit status of vfix" "$status" "$want"
}

# expect WHAT GOT WANT: fails, with the difference, if the two are not equal.
expect() {
	[ "$2" = "$3" ] || fail "$1: got '$2', want '$3'"
}

# expect_match WHAT TEXT PATTERN: fails if TEXT does not match the shell pattern.
expect_match() {
	# shellcheck disable=SC2053 # a pattern is meant
	[[ $2 == *$3* ]] || fail "$1: '$3' is not in: $2"
}

fail() {
	echo "$*" >&2
	return 1
}

# open_dir FILE...: copies the files into $open, a directory of this test that every user may enter: bats' own
# are for one user, and the directory of this tree may be as well.
open_dir() {
	open=$(mktemp -d "$BATS_RUN_TMPDIR/open.XXXXXX")
	chmod 755 "$open"
	chmod o+x "$BATS_RUN_TMPDIR"
	cp -r "$@" "$open/"
	chmod -R go+rX "$open"
}

# new_words BEFORE AFTER COMMAND...: lines that the command prints about AFTER but not about BEFORE.
new_words() {
	local before=$1 after=$2
	shift 2
	diff <("$@" "$before" 2>&1 | sort) <("$@" "$after" 2>&1 | sort) | sed -n "s|^> ||p"
}

# copy_libraries DIRECTORY ROOT: copies this machine's libraries and loaders that the programs of DIRECTORY need into
# ROOT: glibc's, which its loader lists for all names at once, and musl's.
copy_libraries() {
	local needed
	needed=$(readelf -d "$1"/* 2>/dev/null | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p' | sort -u)
	/lib64/ld-linux-x86-64.so.2 --preload "${needed//$'\n'/ }" --list /bin/true 2>/dev/null | grep -o '/[^ ]*' |
		xargs -d '\n' cp -L --parents -t "$2" /lib/ld-musl-x86_64.so.1
}

# poll COMMAND...: tries the command every $interval (0.1) seconds until it succeeds; fails after $patience.
poll() {
	local end=$((SECONDS + patience)) said
	until said=$("$@" 2>&1); do
		[ "$SECONDS" -lt "$end" ] || fail "not within $patience s: $*: $said" || return
		sleep "${interval:-0.1}"
	done
}

# requires CAPABILITY...: skips the test if one is missing. The skip names it, and CI accepts only the skips in
# tests/allowed-skips. An unknown word is a failure.
requires() {
	local word why
	for word in "$@"; do
		declare -F "has_$word" >/dev/null || fail "requires: unknown capability '$word'" || return
		why=$("has_$word") || skip "requires $word: $why"
	done
}

# has_command NAME...: prints one line for each missing command.
has_commands() {
	local name missing=()
	for name in "$@"; do
		command -v "$name" >/dev/null || missing+=("$name")
	done
	[ ${#missing[@]} -eq 0 ] || { echo "not installed: ${missing[*]}" && return 1; }
}

has_root() { [ "$(id -u)" = 0 ] || { echo "not run as root" && return 1; }; }
has_vm() { has_commands qemu-system-x86_64 mkfs.ext4 cpio busybox apt-get dpkg; }
has_oracle() { "$novsyscall" --probe; }
has_docker() { has_root && has_commands dockerd docker containerd runc; }
# In a chroot, docker exec cannot work: it enters the root of the mount namespace.
has_own_root() { mountpoint -q / || { echo "/ is not a mount point, as in a chroot" && return 1; }; }
has_terminal() { script -qec true /dev/null >/dev/null || { echo "no pseudo-terminal: /dev/pts is not mounted" && return 1; }; }
has_registry() { has_commands docker-registry htpasswd; }
has_image_tools() { has_commands skopeo umoci jq; }
has_elf_tools() { has_commands eu-elflint eu-strip strip readelf ldconfig gdb; }
# A kernel may forbid it for ordinary users, or for all.
has_perf() { has_commands perf && { perf record -q -e cpu-clock:u -o /dev/null true 2>/dev/null || { echo "perf record does not work here" && return 1; }; }; }
has_legacy_image() { [ -e "$legacy_image/oci/index.json" ] || { echo "make legacy-image has not been run" && return 1; }; }
has_fixtures() { [ -e "$build/fixtures/libstubs.so" ] || { echo "make fixtures has not been run" && return 1; }; }
has_fallback() { [ -e "$build/fallback/rawsignals" ] || { echo "make fixtures has not been run" && return 1; }; }
has_legacy() { [ -d "${VFIX_LEGACY_DIR:-}" ] || { echo "VFIX_LEGACY_DIR names no directory" && return 1; }; }

# enter_work: changes to $work, an empty directory of the test, as bats writes beside it; without a daemon.
enter_work() {
	work=$BATS_TEST_TMPDIR/work
	mkdir "$work"
	export DOCKER_HOST=unix://$BATS_TEST_TMPDIR/none.sock
	cd "$work" || return
}

# same_files LAYOUT [ROOT]: the merged files of its image x equal those of the legacy image, or of a directory,
# except for the two patched ones. Uses the directory rootfs.
same_files() {
	"$build/validate" "$1"
	umoci raw unpack --image "$1:x" rootfs
	diff -r -q --no-dereference -x libc.so.6 -x clock "${2:-$legacy_image/rootfs}" rootfs
	[ ! -e rootfs/opt/attic/clock ] || fail 'a deleted file came back: the layers are in the wrong order'
	rm -rf rootfs
}

# run_vm ARGUMENT...: tests/vm/run with its results in $vm_out.
run_vm() {
	vm_out=$BATS_TEST_TMPDIR/vm
	"$tree/tests/vm/run" --out "$vm_out" "$@"
}

# expect_vm N STATUS: command N of the last run_vm ended with STATUS.
expect_vm() {
	local stream text
	for stream in stdout stderr kernel; do
		mapfile -t text <"$vm_out/$1.$stream"
		[ ${#text[@]} = 0 ] || printf "command $1: $stream: %s\n" "${text[@]}"
	done
	read -r text <"$vm_out/$1.status"
	expect "status of command $1" "$text" "$2"
}

# get_venv: $venv, a separate Python with pip, for everything from PyPI. It is created once, as this takes longer
# than most downloads. Its programs are run by "$venv/bin/python" -m: their first lines name the clone that made them.
get_venv() {
	export venv=$build/venv
	exec 7>"$venv.lock"
	flock 7
	if [ ! -e "$venv/whole" ]; then
		rm -rf "$venv"
		/usr/bin/python3 -m venv "$venv" && : >"$venv/whole"
	fi
	exec 7>&-
	[ -e "$venv/whole" ] || fail 'no Python environment could be made'
}

# get_package NAME VERSION: a package of PyPI in $venv, fetched once; retries, as PyPI sometimes fails.
get_package() {
	local try
	get_venv
	exec 8>"$venv.lock-$1"
	flock 8
	for try in 1 2 3; do
		[ ! -e "$venv/$1-$2" ] || break
		if "$venv/bin/python" -m pip -q --disable-pip-version-check install "$1==$2" >&2; then : >"$venv/$1-$2"; else sleep "$try"; fi
	done
	exec 8>&-
	[ -e "$venv/$1-$2" ] || fail "pip could not install $1"
}

# kubernetes-validate has the schemas of many releases of Kubernetes.
get_kubernetes_validate() { get_package kubernetes-validate 1.37.0; }

# The emulator of tests/emulate.
get_unicorn() { get_package unicorn 2.1.4; }

# emulated [OPTION...] BEFORE AFTER: runs each patched call site of both files in the emulator.
emulated() { "$venv/bin/python" "$tree/tests/emulate/judge.py" "$@"; }

# A service is one process, started by start_service in setup_file and stopped by stop_services in teardown_file.

# start_service NAME COMMAND...: runs it in the background with its output in $BATS_FILE_TMPDIR/NAME.log.
start_service() {
	local name=$1
	shift
	"$@" </dev/null >"$BATS_FILE_TMPDIR/$name.log" 2>&1 3>&- &
	echo "$! $name" >>"$BATS_FILE_TMPDIR/services"
}

# is_running PID: it exists and is not a zombie.
is_running() {
	local lines
	{ mapfile -t lines <"/proc/$1/status"; } 2>/dev/null && [[ ${lines[*]} == *$'State:\t'[!Z]* ]]
}

has_ended() { ! is_running "$1"; }

# await_service NAME COMMAND...: polls until the command succeeds; fails, with the service's log, if the service
# ends.
await_service() {
	local name=$1 pid
	shift
	pid=$(sed -n "s/ $name\$//p" "$BATS_FILE_TMPDIR/services" | tail -n 1)
	service_state() { has_ended "$pid" || "$@"; }
	if ! poll service_state "$@" || has_ended "$pid"; then
		tail -n 20 "$BATS_FILE_TMPDIR/$name.log" >&2
		fail "$name does not come up"
	fi
}

stop_services() {
	local pid name status=0
	[ -e "$BATS_FILE_TMPDIR/services" ] || return 0
	while read -r pid name; do
		if is_running "$pid"; then
			kill -TERM "$pid"
			poll has_ended "$pid" || { kill -KILL "$pid" && status=1; }
		fi
	done < <(tac "$BATS_FILE_TMPDIR/services")
	! mountpoint -q "$BATS_FILE_TMPDIR/dockerd/root" || umount --recursive --lazy "$BATS_FILE_TMPDIR/dockerd/root"
	return $status
}

# can_overlay DIRECTORY: whether an overlay can be mounted with layers in the directory.
can_overlay() {
	local dir status=0
	dir=$(mktemp -d "$1/overlay.XXXXXX")
	mkdir "$dir/l" "$dir/u" "$dir/w"
	unshare --mount mount -t overlay -o "lowerdir=$dir/l,upperdir=$dir/u,workdir=$dir/w" none "$dir/l" 2>/dev/null || status=$?
	rm -rf "$dir"
	return $status
}

# start_dockerd [WRAPPER...]: a separate docker engine on a unix socket, run by the wrapper ("$novsyscall" forbids
# it and all its containers to call the page). Exports DOCKER_HOST and DOCKER_CONFIG. $dockerd_config may be its
# daemon.json, and $dockerd_storage its storage driver, whose data directory may exist already. Without that,
# layers are overlays if possible, because vfs copies the whole image for each layer and container.
start_dockerd() {
	local dir=$BATS_FILE_TMPDIR/dockerd # short: a socket's name has at most 107 bytes
	mkdir -p "$dir/client" "$dir/root" "$dir/data"
	local storage=${dockerd_storage:-}
	[ -n "$storage" ] || { can_overlay "$dir" && storage=overlay2; } || storage=vfs
	echo "${dockerd_config:-{\}}" >"$dir/daemon.json"
	start_service dockerd "$tree/tests/own-mounts" "$dir/root" "$@" \
		dockerd --config-file "$dir/daemon.json" --host "unix://$dir/s" \
		--data-root "$dir/data" --exec-root "$dir/exec" --pidfile "$dir/pid" \
		--iptables=false --ip6tables=false --bridge=none --storage-driver="$storage"
	export DOCKER_HOST=unix://$dir/s DOCKER_CONFIG=$dir/client
	await_service dockerd docker version
}

# start_legacy_docker [IMAGE]: in setup_file, an engine whose containers may not call the page, with the medium
# image or IMAGE; nothing if this machine cannot run one.
start_legacy_docker() {
	(has_docker && has_oracle && has_legacy_image) >/dev/null || return 0
	start_dockerd "$novsyscall"
	docker load --quiet --input "${1:-$medium_image}/redis-legacy.tar"
}

# docker is Debian's client: the newest clients do not support Debian's engine.
docker() { /usr/bin/docker "$@"; }

# start_registry: a registry on a free port of loopback that requires a name and a password. Exports registry
# (HOST:PORT), registry_user and registry_password.
start_registry() {
	local dir=$BATS_FILE_TMPDIR/registry
	mkdir -p "$dir/data"
	export registry_user=vfix registry_password=not-a-secret registry
	htpasswd -Bbn -C 4 "$registry_user" "$registry_password" >"$dir/htpasswd"
	cat >"$dir/config.yml" <<-END
		version: 0.1
		log: {level: info, formatter: text}
		storage: {filesystem: {rootdirectory: $dir/data}}
		http: {addr: "127.0.0.1:0"}
		auth: {htpasswd: {realm: vfix, path: $dir/htpasswd}}
		compatibility: {schema1: {enabled: true}}
	END
	start_service registry docker-registry serve "$dir/config.yml"
	await_service registry grep -q 'listening on 127' "$BATS_FILE_TMPDIR/registry.log"
	registry=$(sed -n 's/.*listening on \(127[0-9.]*:[0-9]*\).*/\1/p' "$BATS_FILE_TMPDIR/registry.log")
}

# start_legacy_registry [NAME:TAG [OPTION...]]: in setup_file, a registry with the legacy image, legacy:1, copied
# with skopeo's options; nothing if this machine cannot run one.
start_legacy_registry() {
	(has_registry && has_image_tools && has_legacy_image) >/dev/null || return 0
	start_registry
	skopeo copy --quiet "${@:2}" --dest-tls-verify=false --dest-creds "$registry_user:$registry_password" \
		"oci:$legacy_image/oci:legacy" "docker://$registry/${1:-legacy:1}"
}

# login: writes the registry's credentials to docker's file, in $DOCKER_CONFIG.
login() {
	local auth
	auth=$(printf %s "$registry_user:$registry_password" | base64 -w 0)
	export DOCKER_CONFIG=$BATS_TEST_TMPDIR/docker-config
	mkdir -p "$DOCKER_CONFIG"
	printf '{"auths": {"%s": {"auth": "%s"}}}\n' "$registry" "$auth" >"$DOCKER_CONFIG/config.json"
}

# legacy_program FILE [OPTION...]: makes a static program that calls time() in the page, and returns 0 if that is after
# 2019. With -Wl,--build-id it has a PT_NOTE, and so room for a trampoline.
legacy_program() {
	musl-gcc -static -O1 -o "$1" "${@:2}" -x c - <<-'END'
		int main(void)
		{
			long now;
			__asm__ volatile("mov $0xffffffffff600400, %%rax; call *%%rax" : "=a"(now) : "D"(0) : "memory", "rcx", "r11");
			return now < 1577836800;
		}
	END
}

# perl_handler: a program of perl that has a handler of its own for SIGSEGV, asks for the time, and gets the signal.
perl_handler() {
	cat <<-'END'
		$| = 1;
		$SIG{SEGV} = sub { print "caught\n" };
		print time > 1e9 ? "later\n" : "earlier\n";
		kill SEGV => $$;
		print "on\n";
	END
}
