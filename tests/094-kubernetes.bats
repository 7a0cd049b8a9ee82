#!/usr/bin/env bats
# bats file_tags=machine
# The manifests of deploy/kubernetes: valid, and the installer image does on a root folder
# what the DaemonSet has it do on a node.
# Variables come from helpers.bash.
# shellcheck disable=SC2154
load helpers

setup_file() {
	load helpers
	export manifests=$tree/deploy/kubernetes
	get_kubernetes_validate
	if (has_docker) >/dev/null; then
		start_dockerd
	fi
}

teardown_file() {
	load helpers
	stop_services
}

validate() { "$venv/bin/kubernetes-validate" --strict --no-warn -k "$@"; }

@test "kubernetes: the manifests are valid for 1.25 and for 1.37" {
	local version file
	for version in 1.25.0 1.29.0 1.37.0; do
		for file in "$manifests"/*.yaml; do
			# What it asks for came with 1.29: backoffLimitPerIndex, and the action FailIndex.
			case $version:${file##*/} in 1.25.0:rebuild-job.yaml) continue ;; esac
			run validate "$version" "$file"
			echo "$output"
			expect "$version, ${file##*/}" "$status" 0
		done
		# The control: a misspelt field is seen.
		sed 's/hostPath:/hostpath:/' "$manifests/daemonset.yaml" >"$BATS_TEST_TMPDIR/bad.yaml"
		run validate "$version" "$BATS_TEST_TMPDIR/bad.yaml"
		[ "$status" -ne 0 ] || fail "$version takes a field that there is not"
	done
}

@test "kubernetes: the RuntimeClass is the one that install prints, and the pod names it" {
	run_vfix install containerd --force --dry-run --format json --root "$BATS_TEST_TMPDIR"
	printf '%s' "$output" | jq -r .runtime_class | sed '/^$/d' >"$BATS_TEST_TMPDIR/printed"
	diff "$BATS_TEST_TMPDIR/printed" <(grep -v '^#' "$manifests/runtimeclass.yaml")
	grep -qx '  runtimeClassName: vfix' "$manifests/pod.yaml"
}

# run_manifest FILE: runs the installer image as the container of a manifest, on $root.
run_manifest() {
	local options arguments
	"$venv/bin/python" - "$manifests/$1" >"$BATS_TEST_TMPDIR/words" <<-'END'
		import sys, yaml
		c = yaml.safe_load(open(sys.argv[1]))["spec"]["template"]["spec"]["containers"][0]
		s = c["securityContext"]
		assert s["readOnlyRootFilesystem"] and not s["allowPrivilegeEscalation"] and "privileged" not in s
		print("--read-only --security-opt=no-new-privileges --user=%d:%d" % (s["runAsUser"], s["runAsGroup"]),
		      *("--cap-drop=" + x for x in s["capabilities"]["drop"]), *("--cap-add=" + x for x in s["capabilities"]["add"]))
		print(*c["args"])
	END
	{ read -ra options && read -ra arguments; } <"$BATS_TEST_TMPDIR/words"
	docker run --detach --network none "${options[@]}" --volume "$root:/host" vfix:latest "${arguments[@]}"
}

@test "kubernetes: the installer image installs and uninstalls with what the manifests allow it" {
	requires docker
	local root=$BATS_TEST_TMPDIR/node id before
	mkdir -p "$root/var/lib"
	install -D -m 755 /dev/null "$root/usr/bin/containerd"
	install -D -m 600 <(printf 'version = 2\n') "$root/etc/containerd/config.toml"
	chown 1234:1234 "$root/etc/containerd/config.toml"
	listing() { (cd "$root" && find . -printf '%p %M %U:%G %l\n' | sort && sha256sum etc/containerd/config.toml); }
	before=$(listing)
	run_vfix layer
	id=$(run_manifest daemonset.yaml)
	said() { docker logs "$id" 2>&1 | grep -q "$1"; }
	poll said 'waiting for a signal'
	docker logs "$id"
	docker stop --time 20 "$id" >/dev/null
	expect 'status after SIGTERM' "$(docker inspect --format '{{.State.ExitCode}}' "$id")" 0
	cmp "$VFIX" "$root/usr/local/bin/vfix"
	grep -q runtimes.vfix "$root/etc/containerd/config.toml"
	expect 'owner of the configuration' "$(stat -c '%u:%g %a' "$root/etc/containerd/config.toml")" '1234:1234 600'
	id=$(run_manifest uninstall.yaml)
	poll said 'waiting for a signal'
	docker stop --time 20 "$id" >/dev/null
	expect 'the node' "$(listing)" "$before"
}
