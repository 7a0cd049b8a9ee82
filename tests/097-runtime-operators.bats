#!/usr/bin/env bats
# bats file_tags=long
# The output of vfix-runtime for operators of nodes: the record of starts, their summary, counters, a check of the
# installation, and versions side by side.
# Variables come from helpers.bash and bundles.bash.
# shellcheck disable=SC2154
load helpers
load bundles

has_runc() { has_commands runc jq musl-gcc; }
has_podman() { has_root && has_commands podman; }

setup() {
	requires root fixtures
	setup_runtime
	starts=$work/log.d/starts.jsonl
	configure '{}'
}

# configure JQ-OBJECT: the configuration, with the record in a file of the test.
configure() { configured "$(jq -n --arg record "$starts" "{record: \$record} + $1")"; }

last() { tail -n 1 "$starts"; }

# expect_last FILTER VALUE: a part of the last record.
expect_last() { expect "$1" "$(last | jq -r "$1")" "$2"; }

@test "record: one line a start: files with their hashes, what is left and why, the cache, the policy" {
	bundle b
	plant usr/lib/libc.so.6
	start
	expect lines "$(wc -l <"$starts")" 1
	expect mode "$(stat -c %a "$starts")" 640
	expect_last '[.schema, .container, .outcome, .cache_hit, .examined, .sites_left, (.files | length)] | map(tostring) | join(" ")' '1 c1 patched false 1 0 1'
	expect_last '.files[0].path' /usr/lib/libc.so.6
	expect_last '.files[0].before' "$(sha256sum <"$root/usr/lib/libc.so.6" | cut -d ' ' -f 1)"
	expect_last '.files[0].after' "$(sha256sum <"$(jq -r '.mounts[-1].source' "$RECORD/config.json")" | cut -d ' ' -f 1)"
	expect_last '.root' "$root"
	expect_last '.bundle' "$b"
	expect_last '.runtime' "$work/stand-in"
	expect_last '(.confined | index("seccomp")) != null' true
	expect_last '.seconds.total >= .seconds.look + .seconds.patch' true
	start # a file that changed within the last 100 ms is not remembered
	sleep 0.2
	start
	start
	expect_last '[.outcome, .cache_hit, .examined] | map(tostring) | join(" ")' 'patched true 0'
	expect_last .confined null
	# Nothing to do, and left alone.
	bundle clean
	start
	expect_last '.outcome' clean
	bundle off '.annotations = {"dev.vfix.enable": "false", "io.kubernetes.cri.image-name": "redis:2.8.22"}'
	start
	expect_last '[.outcome, .image] | join(" ")' 'disabled redis:2.8.22'
	# Unpatched call sites are reported, whether the container starts or not.
	bundle left
	plant usr/bin/no-note no-note-left
	start
	expect_last '.outcome' partial
	expect_last '.problems[0].path' /usr/bin/no-note
	expect_match reason "$(last | jq -r '.problems[0].reason')" 'call site*left'
	[ "$(last | jq .sites_left)" -gt 0 ] || fail 'no call site is counted'
	run runtime --fail-closed create --bundle "$b" c9
	expect status "$status" 1
	expect_last '[.outcome, .container, .policy.fail_closed] | map(tostring) | join(" ")' 'refused c9 true'
	expect_match reason "$(last | jq -r .reason)" 'not patched: /usr/bin/no-note'
	run_vfix runtime status --record "$starts" --format json --last 2 --vfix-config "$work/runtime.json"
	expect summary "$(jq -c '[.summary.starts, .summary.results.patched, .summary.results.refused, (.starts | length)]' <<<"$output")" '[8,4,1,2]'
	run_vfix runtime status --vfix-config "$work/runtime.json"
	expect_match 'the table' "$output" 'c9 *refused'
	expect_match 'the summary' "$output" '8 since *: 4 patched, 1 clean, 1 partial, 1 refused, 1 disabled'
	run_vfix 1 runtime status --record "$work/nothing"
}

@test "record: what cannot be written is a line in the log, and a wrong value is an error with what to write" {
	bundle b
	plant usr/lib/libc.so.6
	mkdir -p "$work/log.d"
	mkfifo "$starts"
	start
	expect_match log "$log" 'record: *starts.jsonl'
	expect mounts "$(mounted)" /usr/lib/libc.so.6
	rm "$starts"
	echo '{"record": "somewhere"}' >"$work/runtime.json"
	start
	expect_match log "$log" 'record: got *somewhere*, want an absolute path, *journald* or *none'
	configured "{\"record\": \"none\", \"metrics\": \"$work/vfix.txt\"}"
	start
	expect_match log "$log" 'metrics: got *, want an absolute path that ends in .prom'
	echo '{"record": "none", "fail_closed": true, "metrics": 1}' >"$work/runtime.json"
	start
	expect_match log "$log" 'line 1, column *: metrics: got a number (1), want a string: the last good configuration is in force'
	rm -r "$cache/policy" "$root/usr/lib/libc.so.6"
	ln "$work/stand-in" "$work/runc"
	start --runtime "$work/runc"
	expect_match log "$log" 'no earlier configuration is known, so fail_closed is in force'
	plant usr/bin/no-note no-note-left
	run runtime --runtime "$work/runc" create --bundle "$b" c1
	expect 'status without a last good one' "$status" 1
	expect_match 'the reason' "$output" 'no-note: * call sites left'
	rm "$root/usr/bin/no-note"
	rm -f "$starts" # of the last good configuration
	configured '{"record": "none"}'
	start
	expect log "$log" ''
	[ ! -e "$starts" ] || fail 'it was recorded'
}

@test "metrics: 40 starts at once are 40 in the counters and in the record" {
	local n
	configure "{metrics: \"$work/vfix.prom\"}"
	for n in {1..40}; do
		bundle "b$n"
		plant usr/lib/libc.so.6
		runtime --log "$work/log$n" create --bundle "$b" "c$n" &
	done
	wait
	expect record "$(jq -r .container "$starts" | sort -u | wc -l)" 40
	expect counter "$(grep -x 'vfix_runtime_starts_total{result="patched"} .*' "$work/vfix.prom")" 'vfix_runtime_starts_total{result="patched"} 40'
	expect files "$(grep -x 'vfix_runtime_patched_files_total .*' "$work/vfix.prom")" 'vfix_runtime_patched_files_total 40'
	expect histogram "$(grep -x 'vfix_runtime_start_seconds_count .*' "$work/vfix.prom")" 'vfix_runtime_start_seconds_count 40'
	expect 'what is left' "$(find "$work" -maxdepth 1 -name '.vfix*')" ''
	expect logs "$(cat "$work"/log[0-9]* 2>/dev/null)" ''
}

@test "upgrade: two versions side by side, with one layout of the cache or with two, and back again" {
	local other=$work/vfix-other source
	(cd "$tree" && CGO_ENABLED=0 ${GO:-go} build -trimpath -buildvcs=false -ldflags '-X main.version=9.9.9' -o "$other" ./cmd/vfix)
	bundle b
	plant usr/lib/libc.so.6
	sleep 0.2 # a file that changed within the last 100 ms is not remembered
	start
	source=$(jq -r '.mounts[-1].source' "$RECORD/config.json")
	expect_match 'layout' "$source" "$cache/v1/private/"
	# Another version makes its own copies, beside ours.
	ln -sf "$other" "$work/vfix-runtime"
	start --fail-closed
	expect_last '[.vfix, .cache_hit] | map(tostring) | join(" ")' '9.9.9 false'
	ln -sf "$VFIX_RUNTIME" "$work/vfix-runtime"
	start --fail-closed
	expect_last '.cache_hit' true
	expect copies "$(find "$cache/v1/files" -type f | wc -l)" 2
	# The files of a later layout remain.
	mkdir -m 700 "$cache/v9" "$cache/v9/private" "$cache/v9/private/x"
	echo later >"$cache/v9/private/x/1"
	run_vfix cache size --cache-dir "$cache"
	expect_match 'other layouts' "$stderr" 'layout v9'
	run_vfix cache clear --cache-dir "$cache" --format json
	expect 'layouts left' "$(jq -r '.other_layouts[].name' <<<"$output")" v9
	[ -e "$cache/v9/private/x/1" ] || fail 'what a later version keeps was removed'
}

# older DIR: a vfix of another version, with that version's vfix-runtime in it.
older() {
	local program=cmd/vfix/embedded/programs/vfix-runtime.gz
	mkdir "$1"
	(
		cd "$tree" || exit
		CGO_ENABLED=0 ${GO:-go} build -trimpath -buildvcs=false -ldflags '-s -w -X main.version=9.9.8' -o "$1/vfix-runtime" ./cmd/vfix-runtime
		{ head -n 1 "$program" && gzip -1 -n <"$1/vfix-runtime"; } >"$1/program"
		jq -n --arg from "$tree/$program" --arg to "$1/program" '{Replace: {($from): $to}}' >"$1/overlay"
		CGO_ENABLED=0 ${GO:-go} build -trimpath -buildvcs=false -overlay "$1/overlay" -ldflags '-X main.version=9.9.8' -o "$1/vfix" ./cmd/vfix
	)
}

@test "upgrade: vfix install over an older version while 200 containers start and stop; and back again" {
	requires runc own_root oracle
	local node=$work/node batch i ways=() failed
	older "$work/older"
	mkdir -p "$node"/{etc/vfix,var/lib}
	install -D -m 755 /dev/null "$node/usr/bin/podman"
	install -D -m 755 /dev/null "$node/usr/bin/runc"
	configure "{cache_dir: \"$cache\"}"
	cp "$work/runtime.json" "$node/etc/vfix/"
	installs() { "$1" install podman --root "$node" --runtime runc --fail-closed 2>&1 | grep 'files changed'; }
	installs "$work/older/vfix"
	mkdir -p "$work/rootfs"/{proc,dev,sys}
	legacy_program "$work/rootfs/clock"
	for ((i = 0; i < 10; i++)); do
		mkdir "$work/b$i"
		(cd "$work/b$i" && runc spec)
		jq --arg root "$work/rootfs" '.process.terminal = false | .process.args = ["/clock"] | .root.path = $root | del(.linux.resources)' \
			"$work/b$i/config.json" >"$work/config.json"
		mv "$work/config.json" "$work/b$i/"
	done
	container() {
		local state=0
		"$novsyscall" "$node/usr/local/bin/vfix-runtime" --vfix-config "$node/etc/vfix/runtime.json" --runtime "$(command -v runc)" \
			run --bundle "$work/b$2" "vfix-$$-$1-$2" >>"$work/said" 2>&1 3>&- || state=$?
		echo "$state" >>"$work/states"
	}
	# The control: the program's behavior without vfix.
	run "$novsyscall" runc run --bundle "$work/b0" "vfix-$$-control"
	expect 'status without vfix' "$status" "$status_sigsys"
	for ((batch = 0; batch < 20; batch++)); do
		ways=()
		for ((i = 0; i < 10; i++)); do
			container "$batch" "$i" &
			ways+=($!)
		done
		case $batch in
		5 | 15) installs "$VFIX" ;;
		10) installs "$work/older/vfix" ;;
		esac
		wait "${ways[@]}"
	done
	failed=$(sort "$work/states" | uniq -c)
	expect "how they ended: $(cat "$work/said")" "$(xargs <<<"$failed")" '200 0'
	expect outcomes "$(jq -r .outcome "$starts" | sort | uniq -c | xargs)" '200 not started 200 patched'
	expect versions "$(jq -r .vfix "$starts" | sort -u | wc -l)" 2
	expect 'one copy of each version' "$(find "$cache/v1/files" -type f | wc -l)" 2
	expect 'what is half done' "$(ls "$cache/v1/tmp"; find "$node" -name '*.vfix*')" ''
	expect 'mounts that stay' "$(grep -c "$work" /proc/self/mountinfo)" 0
}

@test "install --check: a container starts through what is installed, without a network, and nothing is left" {
	requires podman own_root
	# The machine's own directories, with changes that only this test sees.
	cat >"$work/in-overlays" <<-'END'
		set -e
		mount --make-rprivate /
		for dir in /etc /usr/local/bin /var/lib /var/log; do
			mkdir -p "$WORK/over$dir/upper" "$WORK/over$dir/work"
			mount -t overlay overlay -o "lowerdir=$dir,upperdir=$WORK/over$dir/upper,workdir=$WORK/over$dir/work" "$dir"
		done
		mount -t tmpfs tmpfs /run # containers of other tests are in the machine's
		rm -rf /var/lib/vfix /var/lib/vfix-install /etc/vfix
		"$VFIX" install podman --runtime runc >/dev/null 2>&1
		"$@"
	END
	check_in() { rm -rf "$work/over"; WORK=$work VFIX=$VFIX run --separate-stderr unshare --mount --net bash "$work/in-overlays" "$@"; }
	# Temporary files are in a separate directory: the machine's has those of concurrent programs.
	# shellcheck disable=SC2016 # for the inner shell
	check_in sh -c 'export TMPDIR=$WORK/tmp; mkdir -p "$TMPDIR"; left() { find /var /etc /run "$TMPDIR" -xdev | sort; }
		left >"$WORK/before"; vfix install --check --format json; status=$?; left >"$WORK/after"; exit $status'
	expect "status: $output$stderr" "$status" 0
	expect 'the check' "$(jq -c '[.installed, .program, .engines[0].engine, .engines[0].names_runtime, .start.ok, .problems]' <<<"$output")" \
		'[true,"/usr/local/bin/vfix-runtime","podman",true,true,[]]'
	expect version "$(jq -r .version <<<"$output")" "$("$VFIX" version --format json | jq -r .version)"
	expect 'what is left' "$(comm -13 "$work/before" "$work/after" | grep -i vfix || true)" ''
	# The control: a runtime that does not patch. The program reports it, or the page does not exist.
	check_in sh -c 'ln -sf /usr/sbin/runc /usr/local/bin/vfix-runtime; vfix install --check'
	expect "status: $output$stderr" "$status" 3
	expect_match 'what is wrong' "$stderr" 'vfix-runtime: changed since'
	check_in sh -c 'mkdir -p /etc/vfix; echo "{\"runtime\": \"/bin/false\"}" >/etc/vfix/runtime.json; vfix install --check'
	expect "status: $output$stderr" "$status" 3
	expect_match 'what is wrong' "$stderr" 'start of a container: '
	check_in sh -c 'rm -rf /var/lib/vfix-install; vfix install --check'
	expect 'status with nothing installed' "$status" 3
	expect_match 'what is wrong' "$stderr" 'not installed'
}
