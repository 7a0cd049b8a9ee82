# bundles.bash: OCI bundles, and a stand-in for runc, for the tests of vfix-runtime. Test files load it after
# helpers.
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154,SC2317

# A stand-in for a real runtime records its call in the directory $RECORD: its arguments, each ended by a NUL, and
# its config.json.
stand_in() {
	cat >"$1" <<-'END'
		#!/bin/sh
		mkdir -p "$RECORD"
		printf '%s\0' "$@" >"$RECORD/argv"
		bundle=.
		while [ $# -gt 0 ]; do
			[ "$1" != --bundle ] || bundle=$2
			shift
		done
		[ ! -f "$bundle/config.json" ] || cp "$bundle/config.json" "$RECORD/config.json"
		echo started >>"$RECORD/starts"
	END
	chmod 755 "$1"
}

# setup_runtime: $work with the stand-in and a link named vfix-runtime; an empty cache.
setup_runtime() {
	work=$BATS_TEST_TMPDIR
	cache=$work/cache
	RECORD=$work/record
	export RECORD
	stand_in "$work/stand-in"
	ln -s "$VFIX_RUNTIME" "$work/vfix-runtime"
	configured '{}'
	mkdir "$work/outside"
	cp "$build/fixtures/libstubs.so" "$work/outside/libc.so.6"
	outside_sum=$(sha256sum "$work/outside/libc.so.6")
}

# configured JSON: the configuration; it also sets that the stand-ins for a runtime add no mounts.
configured() { jq --arg trusted "$work/stand-in,$work/slow,/bin/true" '{trusted_hooks: $trusted} + .' <<<"$1" >"$work/runtime.json"; }

# bundle NAME [JQ-FILTER]: $b and $root, an empty root filesystem with usr/lib, and a config.json changed by the
# filter.
bundle() {
	b=$work/$1
	root=$b/rootfs
	mkdir -p "$root/usr/lib" "$root/etc"
	jq -n '{ociVersion: "1.0.2", root: {path: "rootfs", readonly: true}, process: {args: ["true"]},
		mounts: [{destination: "/proc", type: "proc", source: "proc"}], linux: {namespaces: [{type: "mount"}]}} | '"${2:-.}" >"$b/config.json"
}

# runtime ARGUMENT...: runs vfix-runtime with the stand-in.
runtime() {
	"$work/vfix-runtime" --vfix-config "$work/runtime.json" --runtime "$work/stand-in" --cache-dir "$cache" "$@"
}

# start [OPTION...]: creates a container of the bundle, checks that the stand-in was started, and
# leaves the log in $log.
start() {
	: >"$work/log"
	rm -rf "$RECORD"
	run runtime "$@" --log "$work/log" create --bundle "$b" c1
	log=$(<"$work/log")
	echo "vfix-runtime: status $status: $output: $log"
	expect 'exit status' "$status" 0
	expect 'what is printed' "$output" ''
	[ -e "$RECORD/starts" ] || fail 'the runtime was not started'
}

# mounted [CONFIG]: the files that vfix has mounted over, one per line.
mounted() { jq -r --arg dir "$cache/" '.mounts[]? | select((.source // "") | startswith($dir)) | .destination' "${1:-$RECORD/config.json}"; }

# nothing_outside LOG: fails if a log of strace -y shows that a file was opened that is not the root's, the
# bundle's, vfix's own, or the kernel's. Opened paths are those that the kernel returned (= 5</path>).
nothing_outside() {
	local opened name
	opened=$(sed -nE '/open(at|at2)?(\(| resumed>)/s/.* = [0-9]*<(.*)>$/\1/p' "$1" | sort -u)
	[ -n "$opened" ] || fail 'the trace shows nothing'
	opened=$(grep -v -x -e "$b\(/.*\)\?" -e "$cache\(/.*\)\?" -e "$work/\(log\|runtime.json\|record\(/.*\)\?\)" \
		-e '/proc/.*' -e '/sys/.*' -e '/dev/null' -e '/var/log/vfix/starts.jsonl' <<<"$opened" || true)
	# In a mount of its own, paths begin at the root.
	opened=$(while read -r name; do [ -e "$root$(printf %b "${name//\\\"/\"}")" ] || echo "$name"; done <<<"$opened")
	expect 'opened outside of the root' "$opened" ''
}

# processors: the numbers of the processors of this process; a container may have only a few of the machine's.
processors() {
	local range
	for range in $(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status | tr , ' '); do
		seq "${range%-*}" "${range#*-}"
	done
}

# traced_start [OPTION...]: start, with the oracle. strace and its program alternate: one processor halves the
# cost.
traced_start() {
	: >"$work/log"
	rm -rf "$RECORD"
	run taskset -c "$(processors | head -n 1)" strace -f --seccomp-bpf -y -qq -s 0 -e trace=open,openat,openat2 -e signal=none -o "$work/trace" \
		"$work/vfix-runtime" --vfix-config "$work/runtime.json" --runtime /bin/true --cache-dir "$cache" "$@" \
		--log "$work/log" create --bundle "$b" c1
	log=$(<"$work/log")
	echo "vfix-runtime: status $status: $output: $log"
	# After the last execve it is the stand-in's.
	sed -i '/\/etc\/ld.so.cache\|\/lib.*\/libc.so.6>$/d' "$work/trace"
	nothing_outside "$work/trace"
	expect 'what is outside' "$(sha256sum "$work/outside/libc.so.6")" "$outside_sum"
}

# plant NAME [FIXTURE]: a file with call sites in the root.
plant() {
	install -D "$build/fixtures/${2:-libstubs.so}" "$root/$1"
}
