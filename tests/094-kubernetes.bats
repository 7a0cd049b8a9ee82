#!/usr/bin/env bats
# The manifests of deploy/kubernetes: valid, with few rights, and these are enough for the plugin.
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

validate() { "$venv/bin/python" -m kubernetes_validate --strict --no-warn -k "$@"; }

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
		sed 's/hostPath:/hostpath:/' "$manifests/nri.yaml" >"$BATS_TEST_TMPDIR/bad.yaml"
		run validate "$version" "$BATS_TEST_TMPDIR/bad.yaml"
		[ "$status" -ne 0 ] || fail "$version takes a field that does not exist"
	done
}

# rules FILE...: the requirements of a security review.
rules() { "$venv/bin/python" "$tree/tests/kubernetes-rules" "$@"; }

@test "kubernetes: images have a digest, pods have few rights, and Pod Security is as documented" {
	local file=$BATS_TEST_TMPDIR/nri.yaml change line
	run --separate-stderr rules "$manifests"/*.yaml
	expect "broken rules: $stderr" "$status" 0
	# The levels are those of the table in deploy/kubernetes/README.md.
	# shellcheck disable=SC2016 # of sed
	expect 'Pod Security levels' "$output" "$(sed -n 's/^| `\(.*\.yaml\)` |.*| \([a-z]*\) |$/\1 \2/p' "$manifests/README.md" | sort)"
	# The controls: each rule can fail.
	while IFS='|' read -r change line; do
		sed "$change" "$manifests/nri.yaml" >"$file"
		run --separate-stderr rules "$file"
		expect "status after $change" "$status" 1
		expect_match "after $change" "$stderr" "$line"
	done <<-'END'
		s,@sha256:0*,:latest,|no digest
		s,path: /opt/vfix,path: /,|has / of the node
		/readOnly: true/d|may write /var/run/nri
		s,mountPath: /opt/vfix,mountPath: /vfix,|under another path
		s,drop: \[ALL\],&\n              add: [DAC_OVERRIDE],|capabilities is not
		s/allowPrivilegeEscalation: false/privileged: true/|allowPrivilegeEscalation is not False
		s/readOnlyRootFilesystem: true/readOnlyRootFilesystem: false/|readOnlyRootFilesystem is not True
		s/automountServiceAccountToken: false/hostPID: true/|hostPID is set
		s/type: RuntimeDefault/type: Unconfined/|seccompProfile is not
		s/memory: 256Mi/cpu: 1/|no memory limit
	END
	sed 's/runAsNonRoot: true/runAsNonRoot: false/' "$manifests/rebuild-job.yaml" >"$file"
	run rules "$file"
	expect 'level of a Job that may run as root' "${lines[0]}" 'nri.yaml baseline'
}

@test "kubernetes: the image of vfix writes the hook to the node with the rights of nri.yaml" {
	requires docker
	local node=$BATS_TEST_TMPDIR/node options arguments id
	run_vfix layer
	mkdir -p "$node"/{opt/vfix,var/run/nri}
	"$venv/bin/python" - "$manifests/nri.yaml" "$node" >"$BATS_TEST_TMPDIR/words" <<-'END'
		import sys, yaml
		pod = [d for d in yaml.safe_load_all(open(sys.argv[1])) if d["kind"] == "DaemonSet"][0]["spec"]["template"]["spec"]
		c = pod["containers"][0]
		s = c["securityContext"]
		paths = {v["name"]: v["hostPath"]["path"] for v in pod["volumes"]}
		print("--read-only --security-opt=no-new-privileges --user=%d:%d --cap-drop=ALL" % (s["runAsUser"], s["runAsGroup"]),
		      *("--volume=%s%s:%s%s" % (sys.argv[2], paths[m["name"]], m["mountPath"], ":ro" if m.get("readOnly") else "") for m in c["volumeMounts"]))
		print(*c["args"])
	END
	{ read -ra options && read -ra arguments; } <"$BATS_TEST_TMPDIR/words"
	id=$(docker run --detach --network none "${options[@]}" vfix:latest "${arguments[@]}")
	written() { cmp "$VFIX_RUNTIME" "$node/opt/vfix/nri/vfix-runtime"; }
	poll written || fail "$(docker logs "$id" 2>&1)"
	expect 'mode of the hook' "$(stat -c %a "$node/opt/vfix/nri/vfix-runtime")" 755
	docker stop --time 20 "$id" >/dev/null
	expect "status after SIGTERM: $(docker logs "$id" 2>&1)" "$(docker inspect --format '{{.State.ExitCode}}' "$id")" 0
	docker rm "$id" >/dev/null
}
