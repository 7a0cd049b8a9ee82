#!/usr/bin/env bats
# bats file_tags=machine
# hotfix with a docker engine. The engine runs under the seccomp oracle, so each of its containers is killed when
# it calls the vsyscall page.
load helpers

setup_file() {
	load helpers
	start_legacy_docker
}

teardown_file() {
	load helpers
	# Otherwise their bridges remain on this machine.
	if [ -n "${DOCKER_HOST:-}" ]; then
		docker ps --all --quiet | xargs -r docker rm --force --volumes || true
		docker network prune --force || true
	fi
	stop_services
	chattr -R -f -i "$BATS_FILE_TMPDIR" || true # copies, or bats cannot remove them
}

teardown() { chattr -R -f -i "$BATS_TEST_TMPDIR" || true; }

setup() {
	requires docker oracle legacy_image
	copies=$BATS_FILE_TMPDIR/copies
}

# run_printed TEXT COMMAND...: runs a container according to the text, with additional options and a command.
run_printed() {
	local text=$1
	shift
	printf 'printed: %s\n' "$text"
	run bash -c "docker() { /usr/bin/docker \"\$@\"; }; ${text/docker run/docker run --rm --network none} \"\$@\"" - "$@"
}

# fixture_image NAME [PATH]...: an image with the static program static-4k, which checks itself, at each of the
# paths.
fixture_image() {
	local name=$1 root path
	shift
	root=$(mktemp -d "$BATS_TEST_TMPDIR/root.XXXXXX")
	for path in "$@"; do
		mkdir -p "$root/$(dirname "$path")"
		cp "$build/fixtures/static-4k" "$root/$path"
	done
	tar -C "$root" -c . | docker import - "$name" >/dev/null
}

@test "hotfix: --list shows what uses each copy, and new ones stay" {
	local dir=$BATS_FILE_TMPDIR/listed before
	run_vfix hotfix --for docker -o "$dir" redis:legacy
	printed=$output
	run_vfix hotfix --list -o "$dir"
	expect_match head "${lines[0]}" 'SIZE'
	expect 'unused copies' "$(grep -c "$dir/v1/files/[0-9a-f]*  -\$" <<<"$output")" "$(find "$dir/v1/files" -type f | wc -l)"
	# A container that was created and does not run also uses its copies.
	bash -c "docker() { /usr/bin/docker \"\$@\"; }; ${printed/docker run/docker create --name holder --network none} true"
	run_vfix hotfix --list -o "$dir"
	expect 'copies of the container' "$(grep -c '  holder$' <<<"$output")" "$(find "$dir/v1/files" -type f | wc -l)"
	fixture_image other:1 opt/program
	run_vfix hotfix --for docker -o "$dir" other:1
	before=$(find "$dir/v1/files" -type f | wc -l)
	# New copies may be about to be mounted.
	run_vfix hotfix --prune -o "$dir"
	expect 'new copies' "$(find "$dir/v1/files" -type f | wc -l)" "$before"
}

@test "hotfix: what is printed for docker starts the unmodified image, which dies without" {
	run docker run --rm --network none redis:legacy bash -c true
	expect 'status without the hotfix' "$status" "$status_sigsys"
	run_vfix hotfix --for docker -o "$copies" redis:legacy
	run_printed "$output" bash -c 'redis-server --version'
	expect 'status with it' "$status" 0
	expect_match output "$output" 'Redis server v='
}

@test "hotfix: redis-server answers PING; owner, mode and time of the files are the image's" {
	run_vfix hotfix --for docker -o "$copies" redis:legacy
	printed=$output
	# shellcheck disable=SC2016 # for the shell in the container
	run_printed "$printed" sh -c 'redis-server --save "" & for i in $(seq 300); do redis-cli PING 2>/dev/null && exit; [ -e /proc/$!/exe ] || break; sleep 0.1; done; wait $!'
	expect status "$status" 0
	expect_match output "$output" PONG
	mapfile -t targets < <("$VFIX" hotfix --format json --progress quiet -o "$copies" redis:legacy | jq -r '.mounts[].target')
	[ ${#targets[@]} -gt 1 ] || fail "only the mounts ${targets[*]}"
	id=$(docker create redis:legacy)
	mkdir "$BATS_TEST_TMPDIR/root"
	docker export "$id" | tar -C "$BATS_TEST_TMPDIR/root" -xp --same-owner "${targets[@]#/}"
	docker rm "$id"
	originals=$(cd "$BATS_TEST_TMPDIR/root" && for t in "${targets[@]}"; do stat -c '/%n %u:%g %a %Y' "${t#/}"; done)
	run_printed "$printed" stat -c '%n %u:%g %a %Y' "${targets[@]}"
	expect 'owner, mode and time' "${output#*$'\n'}" "$originals" # behind what the entrypoint says
}

@test "hotfix: names with spaces, quotes, colons, commas, dollar signs and control characters" {
	names=('opt/with space' 'opt/com,ma' 'opt/col:on' 'opt/dou"ble' "opt/it's" "opt/\$HOME" $'opt/new\nline' $'opt/esc\e[31m' 'opt/back\slash' 'opt/ümläut')
	fixture_image odd "${names[@]}"
	run_vfix hotfix --for docker -o "$copies" odd
	[[ $output != *$'\e'* ]] || fail 'an escape sequence on stdout'
	printed=$output
	for name in "${names[@]}"; do
		run docker run --rm --network none odd "/$name"
		expect "status of $name without the hotfix" "$status" "$status_sigsys"
		run_printed "$printed" "/$name"
		expect "status of $name" "$status" 0
	done
}

@test "hotfix: --fix java-cgroups mounts the JDK's library and the file that it reads" {
	local root=$BATS_TEST_TMPDIR/root
	mkdir -p "$root/opt/lib"
	gcc -O1 -shared -fPIC -Wl,-soname,libjvm.so -o "$root/opt/lib/libjvm.so" -x c - <<-'END'
		#include <stdio.h>
		FILE *mounts(void) { return fopen("/proc/self/mountinfo", "r"); }
		FILE *cgroups(void) { return fopen("/proc/cgroups", "r"); }
	END
	cp /bin/busybox "$root/"
	tar -C "$root" -c . | docker import - jdk >/dev/null
	run_vfix hotfix -o "$copies" jdk
	expect 'without it' "$output" ''
	run_vfix rebuild --fix java-cgroups "dir:$root" -o "dir:$BATS_TEST_TMPDIR/rebuilt" --provenance none
	run_vfix hotfix --fix java-cgroups --for docker -o "$copies" jdk
	run_printed "$output" /busybox sha256sum /opt/lib/libjvm.so /vfix/cgroups
	expect 'what the container sees' "$output" "$(cd "$BATS_TEST_TMPDIR/rebuilt" && sha256sum opt/lib/libjvm.so vfix/cgroups | sed 's,  ,  /,')"
	docker create --name jdk --network none jdk /busybox cat /vfix/cgroups
	run_vfix scan --fix java-cgroups container:jdk
	expect_match 'what to type' "$output" 'vfix hotfix --fix java-cgroups container:jdk'
	run_vfix hotfix --fix java-cgroups --apply -o "$copies" jdk
	run docker start --attach jdk
	expect 'the recreated container' "$output" "$(cat "$BATS_TEST_TMPDIR/rebuilt/vfix/cgroups")"
	run_vfix hotfix --fix java-cgroups --apply -o "$copies" jdk
	expect_match again "$stderr" 'it already has these mounts'
	docker rm --force jdk jdk-vfix-old
	# A mount of the container over the directory hides the file.
	docker create --name covered --network none --tmpfs /vfix jdk /busybox true
	run_vfix 1 hotfix --fix java-cgroups -o "$copies" covered
	expect_match covered "$stderr" '/vfix/cgroups: the container has a mount there'
	docker rm covered
}

@test "hotfix: all four forms; JSON holds the same" {
	run_vfix hotfix -o "$copies" redis:legacy
	for want in 'docker run' 'podman run' 'read_only: true' 'hostPath:'; do
		expect_match stdout "$output" "$want"
	done
	run_vfix hotfix --for kubernetes -o "$copies" redis:legacy
	text=$output
	run_vfix hotfix --for kubernetes -o "$copies" --format json redis:legacy
	expect 'the text in JSON' "$(jq -r .options.kubernetes <<<"$output")" "$text"
	mapfile -t sources < <(jq -er '.mounts[].source' <<<"$output")
	[ ${#sources[@]} -gt 0 ] || fail 'no mounts'
	for source in "${sources[@]}"; do
		[ -f "$source" ] || fail "no copy at $source"
	done
}

@test "hotfix: an image without call sites is nothing to do, and makes no directory" {
	mkdir "$BATS_TEST_TMPDIR/root"
	echo text >"$BATS_TEST_TMPDIR/root/file"
	tar -C "$BATS_TEST_TMPDIR/root" -c . | docker import - plain >/dev/null
	run_vfix hotfix -o "$BATS_TEST_TMPDIR/none" plain
	expect stdout "$output" ''
	[ ! -e "$BATS_TEST_TMPDIR/none" ] || fail 'the directory was made'
}

@test "hotfix --apply: a volume at a symlink covers what it leads to, and gets no file" {
	local root=$BATS_TEST_TMPDIR/root volume=$BATS_TEST_TMPDIR/volume
	mkdir -p "$root/opt/bin" "$volume"
	cp "$build/fixtures/static-4k" "$root/opt/bin/clock"
	cp "$build/fixtures/static-4k" "$root/other"
	ln -s opt/bin "$root/link"
	tar -C "$root" -c . | docker import - linked >/dev/null
	docker create --name linked --network none --volume "$volume:/link" linked /other
	run_vfix hotfix --apply --format json -o "$copies" linked
	expect 'what is covered' "$(jq -c .covered_by <<<"$output")" '["/link"]'
	expect mounts "$(jq -c '[.mounts[].target]' <<<"$output")" '["/other"]'
	docker start --attach linked
	expect 'files in the volume' "$(ls "$volume")" ''
	docker rm linked linked-vfix-old
}

@test "hotfix: what a container has in its own layer is patched too" {
	mkdir "$BATS_TEST_TMPDIR/root"
	cp /bin/busybox "$BATS_TEST_TMPDIR/root/"
	tar -C "$BATS_TEST_TMPDIR/root" -c . | docker import - modern >/dev/null
	run_vfix hotfix -o "$copies" modern
	expect 'stdout for the image' "$output" ''
	docker create --name own --network none modern /added
	docker cp "$build/fixtures/static-4k" own:/added
	run_vfix hotfix --format json -o "$copies" own
	expect targets "$(jq -r '.mounts[].target' <<<"$output")" /added
	docker rm own
}

# described CONTAINER: the engine's description of it, without the parts that belong only to one container, and
# without the mounts of a hotfix.
described() {
	docker inspect "$1" | jq --arg copies "$copies" '.[0] | {Config, HostConfig, Mounts, Networks: .NetworkSettings.Networks}
		| del(.Config.Image, .Config.Volumes)
		| .Mounts |= (map(select(.Source | startswith($copies) | not) | del(.Mode)) | sort_by(.Destination))
		| .HostConfig.Mounts = null
		| .Networks |= map_values(.Aliases -= [.Aliases[]? | select(test("^[0-9a-f]{12}$"))] | walk(if . == {} or . == [] then null else . end) | del(.NetworkID))'
}

@test "hotfix --apply: a stopped container is recreated as it was, and runs; and back again" {
	docker network create --driver bridge --internal front
	docker network create --driver bridge --internal back
	docker volume create named
	id=$(docker create --name db --network front --network-alias cache --hostname dbhost --label 'a=b c' --env X=1 \
		--volume named:/named --volume /anon --mount type=volume,target=/more --volume "$BATS_TEST_TMPDIR:/host:ro" --tmpfs /scratch \
		--restart on-failure:3 --memory 200m --cap-drop NET_RAW --ulimit nofile=1000 --workdir /tmp --user 0 --publish 127.0.0.1::6379 \
		--log-opt max-size=1m --shm-size 32m --sysctl net.ipv4.ip_forward=0 --entrypoint sh \
		redis:legacy -c 'redis-server --version && cat /anon/data /more/data /own && date')
	docker network connect --alias second back db
	for directory in /anon /more /; do
		echo "in $directory" | tee "$BATS_TEST_TMPDIR/data" >/dev/null
		docker cp "$BATS_TEST_TMPDIR/data" "db:$directory/data"
	done
	docker cp "$BATS_TEST_TMPDIR/data" db:/own
	# Attached, docker may report the status of one of its restarts, or of none.
	docker start db
	died() { [ "$(docker inspect --format '{{.State.Status}} {{.State.ExitCode}}' db)" = "exited $status_sigsys" ]; }
	poll died
	docker stop db # it is started again and again
	described db >"$BATS_TEST_TMPDIR/before"

	run_vfix hotfix --apply -o "$copies" db
	expect stdout "$output" db
	said=$stderr
	described db >"$BATS_TEST_TMPDIR/after"
	diff -u "$BATS_TEST_TMPDIR/before" "$BATS_TEST_TMPDIR/after"
	[ "$(docker inspect --format '{{.Id}}' db)" != "$id" ] || fail 'the container is the old one'
	expect 'the old one' "$(docker inspect --format '{{.Id}}' db-vfix-old)" "$id"
	run docker start --attach db
	expect 'status after' "$status" 0
	expect_match output "$output" 'Redis server v='
	expect_match output "$output" 'in /anon'
	expect_match output "$output" 'in /more'

	run_vfix hotfix --apply -o "$copies" db
	expect_match 'a second time' "$stderr" 'nothing to do'
	back=$(sed -n 's/^vfix: to restore the old container: //p' <<<"$said")
	bash -c "docker() { /usr/bin/docker \"\$@\"; }; $back"
	expect 'the old one, back' "$(docker inspect --format '{{.Id}}' db)" "$id"
	described db | diff -u "$BATS_TEST_TMPDIR/before" -
	expect containers "$(docker ps --all --format '{{.Names}}' | grep -vx holder)" db # of another test
	docker rm --volumes db
}

@test "hotfix --apply: a running container is refused, and goes on" {
	mkdir "$BATS_TEST_TMPDIR/root"
	cp /bin/busybox "$build/fixtures/static-4k" "$BATS_TEST_TMPDIR/root/"
	tar -C "$BATS_TEST_TMPDIR/root" -c . | docker import - sleeper >/dev/null
	docker run --detach --name runs --network none --init=false sleeper /busybox sleep 1000
	run_vfix 1 hotfix --apply -o "$copies" runs
	expect stdout "$output" ''
	expect_match stderr "$stderr" 'it is running'
	expect_match stderr "$stderr" 'docker stop runs && vfix hotfix --apply runs && docker start runs'
	expect state "$(docker inspect --format '{{.State.Status}} {{.Name}}' runs)" 'running /runs'
	docker rm --force runs
}

@test "hotfix --apply: where the engine refuses, the container is as it was" {
	fixture_image refuse static-4k
	docker create --name refuse --network none refuse /static-4k
	before=$(docker ps --all --no-trunc --format '{{.ID}} {{.Names}}')
	mkdir "$BATS_TEST_TMPDIR/root" "$BATS_TEST_TMPDIR/hidden"
	# A directory that exists for vfix but not for the engine.
	# shellcheck disable=SC2016 # for the shell in there
	run "$tree/tests/own-mounts" "$BATS_TEST_TMPDIR/root" bash -c 'mount -t tmpfs none "$1" && "$2" hotfix --apply -o "$1/copies" refuse' - \
		"$BATS_TEST_TMPDIR/hidden" "$VFIX"
	echo "$output"
	expect status "$status" 1
	expect_match output "$output" 'bind source path does not exist'
	expect containers "$(docker ps --all --no-trunc --format '{{.ID}} {{.Names}}')" "$before"
	docker rm refuse
}

prunes_one() { "$VFIX" hotfix --prune -o "$1" 2>&1 | grep 'removed 1 file'; }

@test "hotfix: a container with CAP_SYS_ADMIN does not change what another one runs" {
	local root=$BATS_TEST_TMPDIR/root source plain=$BATS_TEST_TMPDIR/plain
	mkdir -p "$root/bin" "$root/lib"
	cp "$(command -v busybox)" "$root/bin/sh"
	cp "$build/fixtures/libstubs.so" "$root/lib/libc.so"
	tar -C "$root" -c . | docker import - shell >/dev/null
	run_vfix hotfix --format json -o "$copies" shell
	source=$(jq -r '.mounts[0].source' <<<"$output")
	cp -a "$source" "$plain"
	attack() {
		# shellcheck disable=SC2016 # for the container's shell
		run docker run --rm --network none --cap-add SYS_ADMIN --security-opt apparmor=unconfined -v "$1:/lib/libc.so:ro" shell \
			/bin/sh -c 'mount -o remount,bind,rw /lib/libc.so && printf evil | dd of=/lib/libc.so conv=notrunc'
	}
	attack "$plain"
	expect "how an unprotected copy begins then [control]: $output" "$(head -c 4 "$plain")" evil
	attack "$source"
	expect "how the copy begins then: $output" "$(head -c 4 "$source" | od -An -c | tr -d ' ')" '177ELF'
}

@test "completion: local images and containers are offered" {
	docker create --name some-container redis:legacy true
	run_vfix __complete scan redis
	expect_match images "$output" redis:legacy
	run_vfix __complete scan container:some
	expect_match containers "$output" container:some-container
	run_vfix __complete hotfix some
	expect_match containers "$output" some-container
	run_vfix __complete rebuild container:some
	[[ $output != *container:some-container* ]] || fail 'rebuild takes no container'
	# The form in which bash requests them, as a colon begins a separate word.
	expect 'words that bash offers' "$(bash -c '
		. /usr/share/bash-completion/bash_completion
		. <("$1" completion bash)
		PATH=$(dirname "$1"):$PATH
		COMP_LINE="vfix scan redis:" COMP_POINT=${#COMP_LINE} COMP_WORDS=(vfix scan redis :) COMP_CWORD=3 COMP_TYPE=9
		__start_vfix && echo "${COMPREPLY[*]}"' bash "$VFIX" 2>/dev/null)" legacy
	docker rm some-container
}

# The copies and the container are those of the first test; the others use a part of the minute.
@test "hotfix: --prune removes copies that nothing uses, a minute after they were made" {
	local dir=$BATS_FILE_TMPDIR/listed before
	before=$(find "$dir/v1/files" -type f | wc -l)
	patience=100 interval=2 poll prunes_one "$dir"
	expect 'copies that stay' "$(find "$dir/v1/files" -type f | wc -l)" $((before - 1))
	run_vfix hotfix --list -o "$dir"
	expect 'copies in use' "$(grep -c '  holder$' <<<"$output")" $((before - 1))
	docker start --attach holder || fail 'the container lost its copies'
	docker rm holder
	run_vfix hotfix --prune -o "$dir"
	expect 'copies that stay' "$(find "$dir/v1/files" -type f)" ''
}
