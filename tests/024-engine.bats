#!/usr/bin/env bats
# The formats that vfix writes and reads, in one ordinary engine with its own seccomp profile: the fallback, the
# preload library, the drop-in layer in a docker build, the engine's tarballs.
# shellcheck disable=SC2154
load helpers

legacy_image=$medium_image

setup_file() {
	load helpers
	if (has_docker && has_legacy_image) >/dev/null; then
		start_dockerd
		docker load --quiet --input "$legacy_image/redis-legacy.tar"
		docker load --quiet --input "$small_image/redis-legacy.tar" # small:legacy
	fi
}

teardown_file() {
	load helpers
	stop_services
}

has_squashfs() { has_commands mksquashfs; }
has_siftool() { [ -x "$build/siftool" ] || { echo "make siftool has not been run" && return 1; }; }

setup() {
	requires docker image_tools legacy_image
	mkdir "$BATS_TEST_TMPDIR/work"
	cd "$BATS_TEST_TMPDIR/work" || return
}

@test "fallback: in an engine, by docker run, docker exec and docker stop" {
	requires own_root fallback
	printf 'FROM redis:legacy\nCOPY late late-static /usr/local/bin/\n' >Dockerfile
	cp "$build/fallback/late" "$build/fallback/late-static" .
	DOCKER_BUILDKIT=0 docker build -t late:base .
	run_vfix rebuild --fallback auto late:base -o docker-daemon:late:auto
	expect_match stderr "$stderr" 'covered by the fallback (libvfix.so, vfix-trace)'
	run docker run --rm --network none late:auto late-static
	expect 'docker run' "$status ${lines[-1]}" '0 late: ok'
	# Under ptrace, with the engine's own seccomp profile, as process 1.
	run docker run --rm --network none --entrypoint /vfix/vfix-trace late:auto --always bash -c 'late && late-static && exit 42'
	expect 'under ptrace' "$status $output" $'42 late: ok\nlate: ok'
	run docker run -d --network none --name redis --entrypoint /vfix/vfix-trace late:auto --always redis-server --save ''
	poll docker exec redis redis-cli PING
	run docker exec redis late
	expect 'docker exec' "$status $output" '0 late: ok'
	docker stop --time "$patience" redis
	expect 'status of what was stopped' "$(docker inspect --format '{{.State.ExitCode}}' redis)" 0
}

@test "preload: the default seccomp profile of a container lets it heal" {
	run docker run --rm --network none --read-only -v "$build/fallback:/fallback:ro" -e VFIX_LOG=1 --entrypoint sh small:legacy \
		-c 'LD_PRELOAD=/fallback/libvfix-twin.so exec /fallback/survive-twin process-plain'
	echo "$output"
	expect status "$status" 0
	expect_match log "$output" 'survive-twin+0x'
	expect_match log "$output" 'time: healed'
}

@test "layer: docker build with FROM, COPY --from and RUN" {
	run_vfix layer
	expect stdout "$output" vfix:latest
	# The unchanged example, without the step that downloads upgrades.
	grep -v '^RUN if command' "$tree/images/base/Dockerfile" >"$BATS_TEST_TMPDIR/Dockerfile"
	echo "RUN clock && bash -c 'echo \$(</etc/ld.so.preload) /vfix/x86_64/*'" >>"$BATS_TEST_TMPDIR/Dockerfile"
	DOCKER_BUILDKIT=0 docker build --network none --build-arg BASE=small:legacy -t layered "$BATS_TEST_TMPDIR"
	docker run --rm --network none --entrypoint bash layered -c 'mapfile -t lines </proc/self/maps; printf "%s\n" "${lines[@]}"' >maps
	expect 'loaded into bash' "$(grep -o '/vfix.*libvfix.so' maps | sort -u)" /vfix/x86_64/libvfix.so
	run docker run --rm --network none vfix version
	expect 'status of the image itself' "$status" 0
	run_vfix verify docker-daemon:layered
}

# expect_fixed SOURCE BASE: verify proves only the fix, of one file.
expect_fixed() {
	run_vfix verify "$1" --against "$2" --format json
	expect "$1: fixed" "$(jq -c '[[.fixed[] | [.path, .fix]], .problems]' <<<"$output")" '[[["opt/lib/libjvm.so","java-cgroups"]],[]]'
}

@test "fix: java-cgroups in an engine, a SIF, an archive, a tarball, a directory and a list" {
	requires squashfs siftool
	local what command
	mkdir -p root/opt/lib root/bin
	gcc -O1 -shared -fPIC -Wl,-soname,libjvm.so -o root/opt/lib/libjvm.so -x c - <<-'END'
		#include <stdio.h>
		FILE *mounts(void) { return fopen("/proc/self/mountinfo", "r"); }
		FILE *cgroups(void) { return fopen("/proc/cgroups", "r"); }
	END
	cp /bin/busybox root/bin/
	tar -C root -cf root.tar .
	docker import --change 'CMD ["/bin/busybox"]' root.tar jdk:1
	mksquashfs root root.squashfs -noappend -quiet -no-progress
	"$build/siftool" new base.sif
	"$build/siftool" add --datatype 4 --partfs 1 --parttype 2 --partarch 2 --groupid 1 base.sif root.squashfs
	run_vfix convert jdk:1 -o oci-archive:base.tar
	# The command that scan prints works, whatever the source is.
	for what in jdk:1 sif:base.sif oci-archive:base.tar root.tar root; do
		run_vfix scan --fix java-cgroups "$what"
		expect_match "$what" "$output" '1 file can be fixed (java-cgroups)'
		[[ $output != *'A call site is'* ]] || fail "$what: words of a table that is not there"
		command=$(sed -n 's/^  to fix java-cgroups: vfix //p' <<<"$output")
		case $what in
		sif:*) command+=' -o sif:fixed.sif' ;;
		oci-archive:*) command+=' -o oci-archive:fixed.tar' ;;
		esac
		rm -rf COPY
		# shellcheck disable=SC2086 # words
		run_vfix $command
		case $what in
		jdk:1)
			expect_fixed jdk:1-vfix jdk:1
			expect 'in a container' "$(docker run --rm --network none jdk:1-vfix /bin/busybox wc -l /vfix/cgroups)" '6 /vfix/cgroups'
			expect history "$(docker history --format '{{.Comment}}' jdk:1-vfix | head -n 1)" 'memory limit of the JDK fixed'
			run_vfix rebuild --fix java-cgroups jdk:1-vfix
			expect_match again "$stderr" 'nothing to do: no call site to patch, and no file that --fix changes'
			;;
		sif:*) expect_fixed sif:fixed.sif sif:base.sif ;;
		oci-archive:*) expect_fixed oci-archive:fixed.tar oci-archive:base.tar ;;
		*) expect_fixed dir:COPY "$what" ;;
		esac
	done
	run_vfix scan --fix java-cgroups root/opt/lib/libjvm.so
	expect_match 'a file alone' "$output" 'vfix rebuild --fix java-cgroups dir:ROOT -o dir:COPY'
	printf '%s\n' 'jdk:1 oci:out:1' 'sif:base.sif oci:out:2' 'small:legacy oci:out:3' >list
	run_vfix 3 scan --fix java-cgroups --from-file list --state scans
	expect_match 'scan of a list' "$output" 'jdk:1 *unaffected *0  - (1 file to fix)'
	run_vfix 3 scan --from-file list --state scans
	expect_match 'without --fix' "$output" 'jdk:1 *unaffected *(1 hazard: java-cgroups)'
	run_vfix rebuild --fix java-cgroups --from-file list --state rebuilds
	expect_match 'rebuild of a list' "$output" 'sif:base.sif *done *0  oci:out:2 (1 file fixed)'
	expect_fixed oci:out:1 jdk:1
	run_vfix rebuild --fix java-cgroups --from-file list --state rebuilds --format json
	expect 'again' "$(jq -c '[.images[0].before, (.images[] | .fixed)]' <<<"$output")" '[true,1,1,0]'
}
