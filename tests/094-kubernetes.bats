#!/usr/bin/env bats
# The manifests of deploy/kubernetes: valid, and the installer image does on a root directory what the DaemonSet
# makes it do on a node.
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
			# The fields that it uses exist since 1.29: backoffLimitPerIndex, and the action FailIndex.
			case $version:${file##*/} in 1.25.0:rebuild-job.yaml) continue ;; esac
			run validate "$version" "$file"
			echo "$output"
			expect "$version, ${file##*/}" "$status" 0
		done
		# The control: a misspelled field is detected.
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

# rules FILE...: the requirements of a security review.
rules() { "$venv/bin/python" "$tree/tests/kubernetes-rules" "$@"; }

@test "kubernetes: an image is named by its digest, what runs on has nothing of its node, and Pod Security is as documented" {
	local file line
	run --separate-stderr rules "$manifests"/*.yaml
	expect "broken rules: $stderr" "$status" 0
	# The levels are those of the table in deploy/kubernetes/README.md.
	# shellcheck disable=SC2016 # of sed
	expect 'Pod Security levels' "$output" "$(sed -n 's/^| `\(.*\.yaml\)` |.*| \([a-z]*\) |$/\1 \2/p' "$manifests/README.md" | sort)"
	# The controls: each rule can fail.
	file=$BATS_TEST_TMPDIR/daemonset.yaml
	while IFS='|' read -r change line; do
		sed "$change" "$manifests/daemonset.yaml" >"$file"
		run --separate-stderr rules "$file"
		expect "status after $change" "$status" 1
		expect_match "after $change" "$stderr" "$line"
	done <<-'END'
		s,@sha256:0*,:latest,|no digest
		s,path: /opt/vfix,path: /,|may write / of the node
		s,path: /usr/bin,path: /etc/shadow,|may read /etc/shadow
		/mountPath: .host.usr.bin/{n;d}|may write /usr/bin
		s,drop: \[ALL\],&\n              add: [DAC_OVERRIDE],|has capabilities
		s/allowPrivilegeEscalation: false/privileged: true/|allowPrivilegeEscalation is not False
		s/readOnlyRootFilesystem: true/readOnlyRootFilesystem: false/|readOnlyRootFilesystem is not True
		s/runAsNonRoot: true/runAsNonRoot: false/|runs on with mounts or as root
		s/automountServiceAccountToken: false/hostPID: true/|hostPID is set
		s/type: RuntimeDefault/type: Unconfined/|no seccomp profile
	END
	while IFS='|' read -r manifest change line; do
		sed "$change" "$manifests/$manifest" >"$file"
		run --separate-stderr rules "$file"
		expect "status after $change" "$status" 1
		expect_match "after $change" "$stderr" "$line"
	done <<-'END'
		nri.yaml|s,mountPath: /opt/vfix,mountPath: /vfix,|under another path
		nri.yaml|s,args: .nri,args: [pause,|runs on with mounts or as root
		nri.yaml|s,automountServiceAccountToken: false,hostPID: true,|hostPID is set
		nri.yaml|s,path: /var/log/vfix,path: /var/log,|may read /var/log
		nri-audit.yaml|s,SYS_PTRACE,SYS_ADMIN,|has capabilities
		nri-audit.yaml|/readOnly: true/d|may write /var/run/nri
		nri-audit.yaml|s/--audit/--label=x/|hostPID is set
	END
	sed 's/runAsNonRoot: true/runAsNonRoot: false/' "$manifests/rebuild-job.yaml" >"$file"
	run rules "$file"
	expect 'level of a Job that may run as root' "${lines[0]}" 'daemonset.yaml baseline'
}

# run_manifest FILE INDEX: runs the installer image as a container of a manifest, its init container (0) or the one
# that continues (1), with its rights and mounts there, on $node in place of /.
run_manifest() {
	local options arguments
	"$venv/bin/python" - "$manifests/$1" "$2" "$node" >"$BATS_TEST_TMPDIR/words" <<-'END'
		import sys, yaml
		pod = yaml.safe_load(open(sys.argv[1]))["spec"]["template"]["spec"]
		c = (pod["initContainers"] + pod["containers"])[int(sys.argv[2])]
		s = c["securityContext"]
		assert s["readOnlyRootFilesystem"] and not s["allowPrivilegeEscalation"] and "privileged" not in s
		paths = {v["name"]: v["hostPath"]["path"] for v in pod["volumes"]}
		print("--read-only --security-opt=no-new-privileges --user=%d:%d" % (s["runAsUser"], s["runAsGroup"]),
		      *("--cap-drop=" + x for x in s["capabilities"]["drop"]), *("--cap-add=" + x for x in s["capabilities"].get("add", [])),
		      *("--volume=%s%s:%s%s" % (sys.argv[3], paths[m["name"]], m["mountPath"], ":ro" if m.get("readOnly") else "") for m in c.get("volumeMounts", [])))
		print(*c["args"])
	END
	{ read -ra options && read -ra arguments; } <"$BATS_TEST_TMPDIR/words"
	docker run --network none "${run_options[@]}" "${options[@]}" vfix:latest "${arguments[@]}"
}

# listing: the contents of $node, without the directories that hostPath and mounts create.
listing() { (cd "$node" && find . ! -type d -printf '%p %M %U:%G %l\n' | sort && sha256sum etc/containerd/config.toml); }

@test "kubernetes: the installer image installs and uninstalls with what the manifests allow it" {
	requires docker
	local node=$BATS_TEST_TMPDIR/node run_options=(--rm) id before task
	install -D -m 755 /dev/null "$node/usr/bin/containerd"
	install -D -m 600 <(printf 'version = 2\n') "$node/etc/containerd/config.toml"
	mkdir -p "$node"/{var/lib,usr/local/bin,opt}
	echo kept >"$node/usr/local/bin/mine"
	before=$(listing)
	run_vfix layer
	run_manifest daemonset.yaml 0
	cmp "$VFIX" "$node/opt/vfix/bin/vfix"
	cmp "$VFIX_RUNTIME" "$node/opt/vfix/bin/vfix-runtime"
	expect_match 'the configuration' "$(<"$node/etc/containerd/config.toml")" "BinaryName = '/opt/vfix/bin/vfix-runtime'"
	expect 'owner and mode of the configuration' "$(stat -c '%u:%g %a' "$node/etc/containerd/config.toml")" '0:0 600'
	# Again, as when a pod is restarted: nothing changes.
	before_again=$(listing)
	run_manifest daemonset.yaml 0
	expect 'the node after a second run' "$(listing)" "$before_again"
	# The container that continues: no mounts, no rights, and it ends on request.
	run_options=(--detach)
	for manifest in daemonset.yaml uninstall.yaml; do
		id=$(run_manifest "$manifest" 1)
		running() { [ "$(docker inspect --format '{{.State.Running}}' "$id")" = true ]; }
		poll running
		expect 'its mounts' "$(docker inspect --format '{{.Mounts}}' "$id")" '[]'
		sleep 0.5
		docker stop --time 20 "$id" >/dev/null
		expect 'status after SIGTERM' "$(docker inspect --format '{{.State.ExitCode}}' "$id")" 0
		docker rm "$id" >/dev/null
	done
	run_options=(--rm)
	# A container that runs needs the runtime.
	task=$node/run/containerd/io.containerd.runtime.v2.task/k8s.io/abc
	mkdir -p "$task"
	printf /opt/vfix/bin/vfix-runtime >"$task/runtime"
	run run_manifest uninstall.yaml 0
	expect "status while a container runs: $output" "$status" 1
	expect_match 'what is said' "$output" 'k8s.io/abc'
	rm -r "$node/run"
	# A policy is removed together with the configuration that it comes from.
	install -D -m 600 /dev/null "$node/var/lib/vfix/policy/$(printf /etc/vfix/runtime.json | sha256sum | head -c 16).json"
	run_manifest uninstall.yaml 0
	expect 'the node' "$(listing)" "$before"
}

@test "kubernetes: a configuration that is not root's stays as it is, with an error" {
	requires docker
	local node=$BATS_TEST_TMPDIR/node run_options=(--rm) owner before
	install -D -m 755 /dev/null "$node/usr/bin/containerd"
	mkdir -p "$node"/{var/lib,usr/local/bin,opt}
	run_vfix layer
	for owner in 1234:0 0:1234; do
		install -D -m 640 <(printf 'version = 2\n') "$node/etc/containerd/config.toml"
		chown "$owner" "$node/etc/containerd/config.toml"
		before=$(listing)
		run run_manifest daemonset.yaml 0
		expect "status with the owner $owner" "$status" 1
		expect_match 'what is said' "$output" etc/containerd
		expect "the node, with the owner $owner" "$(listing)" "$before"
	done
}

# adapted N: the manifests after the Nth paragraph of seds in docs/kubernetes.md.
# shellcheck disable=SC2016 # of sed
adapted() {
	rm -rf "$BATS_TEST_TMPDIR/adapted"
	cp -r "$tree/deploy/kubernetes" "$BATS_TEST_TMPDIR/adapted"
	sed -n '/^The files are for containerd/,/^If containerd/p' "$tree/docs/kubernetes.md" | sed -n '/^```/,/^```/{/^```/d;p}' |
		awk -v RS= "NR == $1" >"$BATS_TEST_TMPDIR/seds"
	[ -s "$BATS_TEST_TMPDIR/seds" ] || fail "docs/kubernetes.md has no paragraph $1"
	(cd "$BATS_TEST_TMPDIR/adapted" && bash "$BATS_TEST_TMPDIR/seds")
}

@test "kubernetes: the lines of docs/kubernetes.md adapt the manifests to CRI-O, k3s and k0s" {
	requires docker
	local manifests=$BATS_TEST_TMPDIR/adapted run_options=(--rm) node number engine config
	run_vfix layer
	while read -r number engine config; do
		adapted "$number"
		node=$BATS_TEST_TMPDIR/$engine
		mkdir -p "$node"/{var/lib,usr/bin,usr/local/bin,opt,proc}
		case $engine in
		crio) install -D -m 755 /dev/null "$node/usr/bin/crio" && mkdir -p "$node/etc/crio" ;;
		k3s) install -D -m 644 <(printf 'version = 3\nimports = ["/var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.d/*.toml"]\n') \
			"$node/var/lib/rancher/k3s/agent/etc/containerd/config.toml" ;;
		k0s) mkdir -p "$node/etc/k0s" "$node/var/lib/k0s/bin" ;;
		esac
		run_manifest daemonset.yaml 0
		expect_match "$engine" "$(<"$node/$config")" /opt/vfix/bin/vfix-runtime
		run_manifest uninstall.yaml 0
		expect "$engine: left after uninstall" "$(find "$node" -name '*vfix*' ! -type d)" ''
		[ ! -e "$node/$config" ] || fail "$engine: $config is left"
	done <<-'END'
		1 crio etc/crio/crio.conf.d/99-vfix.conf
		2 k3s var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.d/99-vfix.toml
		3 k0s etc/k0s/containerd.d/vfix.toml
	END
}
