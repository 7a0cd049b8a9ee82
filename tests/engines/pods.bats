#!/usr/bin/env bats
# Pods, made by crictl as a kubelet makes them: vfix nri, and vfix-runtime as 'vfix install' configures the engine. The filter that kills calls of the page holds for all of them (tests/engines/enter);
# $ENGINE names the file beside this one that says how that engine is started and spoken to.
load ../helpers
load "$ENGINE"

image=docker.io/library/redis:legacy
export pause=docker.io/local/pause:1
crictl_program=$("$tree/tests/engines/crictl")

setup_file() {
	mkdir -p /etc/cni/net.d
	configure_engine
	pause_image
	# Each pod has a network of its own, in which redis-server has its port.
	echo '{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "pods0", "ipam": {"type": "host-local", "subnet": "10.88.0.0/16"}}]}' \
		>/etc/cni/net.d/10-pods.conflist
	cat >/etc/crictl.yaml <<-END
		runtime-endpoint: $endpoint
		timeout: 30
	END
	start_engine
	echo "# version $engine $(engine_version)" >&3
	import "$BATS_FILE_TMPDIR/pause/image.tar" "$pause"
	import "$legacy_image/redis-legacy.tar" "$image"
}

teardown_file() { stop_services; }

setup() {
	validated=$BATS_FILE_TMPDIR/validated
	rm -rf /etc/vfix /var/lib/vfix/* /opt/vfix
}

teardown() {
	[ -n "${BATS_TEST_COMPLETED-}" ] || { cat "$BATS_FILE_TMPDIR/nri.log" && crictl logs "$id" && crictl inspect "$id" | jq -c .status; } || true
	stop_plugin
	crictl rmp --all --force
	[ ! -e "$validated" ] || { rm "$validated" && no_validator && restart_engine; }
}

crictl() { timeout 120 "$crictl_program" "$@"; }

start_engine() {
	start_service engine "$program"
	await_service engine crictl info
}

restart_engine() {
	end_service engine
	start_engine
}

# end_service NAME: ends it, as systemctl stop does.
end_service() {
	local pid
	pid=$(sed -n "s/ $1\$//p" "$BATS_FILE_TMPDIR/services" | tail -n 1)
	kill "${2:--TERM}" "$pid"
	poll has_ended "$pid"
	sed -i "/^$pid /d" "$BATS_FILE_TMPDIR/services"
}

# pause_image: the sandbox of a pod, which does nothing, and the vfix of the plugin in a pod.
pause_image() {
	local dir=$BATS_FILE_TMPDIR/pause
	mkdir -p "$dir/rootfs"
	cp "$VFIX" "$build/pause" "$dir/rootfs/"
	tar -C "$dir/rootfs" -cf "$dir/layer.tar" vfix pause
	jq -n --arg diff "sha256:$(sha256sum <"$dir/layer.tar" | cut -d ' ' -f 1)" \
		'{architecture: "amd64", os: "linux", config: {Entrypoint: ["/pause"]}, rootfs: {type: "layers", diff_ids: [$diff]}}' >"$dir/config.json"
	jq -n '[{Config: "config.json", RepoTags: [$ENV.pause], Layers: ["layer.tar"]}]' >"$dir/manifest.json"
	tar -C "$dir" -cf "$dir/image.tar" manifest.json config.json layer.tar
}

# plugin OPTION...: starts it and waits until it has registered.
plugin() {
	start_service nri "$VFIX" nri "$@"
	await_service nri grep -q 'connected to ' "$BATS_FILE_TMPDIR/nri.log"
}

stop_plugin() { ! grep -q ' nri$' "$BATS_FILE_TMPDIR/services" || end_service nri "$@"; }

said() { expect_match 'what the plugin says' "$(<"$BATS_FILE_TMPDIR/nri.log")" "$1"; }

# pod NAME [JQ-FILTER-OF-POD [JQ-FILTER-OF-CONTAINER]]: makes a pod with redis-server in it, and starts it; its
# container is $id, and its exit status and output that of crictl start. HANDLER is its runtime handler.
pod() {
	local dir=$BATS_TEST_TMPDIR
	jq -n --arg name "$1" '{metadata: {name: $name, namespace: "legacy", uid: $name, attempt: 1}, labels: {app: $name}, annotations: {},
		log_directory: "/tmp", linux: {cgroup_parent: "/pods", security_context: {namespace_options: {pid: 1}}}}' |
		jq "${2:-.}" >"$dir/pod.json"
	jq -n --arg image "$image" '{metadata: {name: "redis"}, image: {image: $image}, command: ["redis-server", "--save", ""], log_path: "c.log", linux: {security_context: {namespace_options: {pid: 1}}}}' |
		jq "${3:-.}" --args -- "${@:4}" >"$dir/container.json"
	sandbox=$(crictl runp ${HANDLER:+--runtime "$HANDLER"} "$dir/pod.json")
	run crictl create "$sandbox" "$dir/container.json" "$dir/pod.json"
	[ "$status" = 0 ] || return 0
	id=$output
	run crictl start "$id"
}

serves() {
	expect "status of the start: $output" "$status" 0
	poll crictl exec "$id" redis-cli PING
	expect exec "$(crictl exec "$id" bash -c 'redis-cli PING')" PONG
}

exited() { [ "$(crictl inspect "$id" | jq -r .status.state)" = CONTAINER_EXITED ]; }

# dies: its program calls the page.
dies() {
	expect "status of the start: $output" "$status" 0
	poll exited
	expect 'exit status' "$(crictl inspect "$id" | jq .status.exitCode)" "$status_sigsys"
}

policy() { mkdir -p /etc/vfix && echo "$1" >/etc/vfix/vfix.json; }

# starts FILTER: how many lines about starts the filter of jq accepts.
starts() { jq -c "select($1)" /var/lib/vfix/starts.jsonl 2>/dev/null | wc -l; }

@test "CRI: a pod with the unmodified image dies" {
	pod control
	dies
}

@test "CRI: install: pods start patched, and not after uninstall" {
	local file=/etc/containerd/config.toml
	run_vfix install "$engine"
	if [ "$engine" = containerd ]; then # no directory is imported
		cp "$file" "$BATS_TEST_TMPDIR/before"
		grep -v '^systemctl' <<<"$output" >>"$file"
		HANDLER=vfix
	fi
	[ "$engine" = crio ] || restart_engine # which looks for hooks at each start
	pod wrapped
	serves
	pod out '.annotations["dev.vfix.enable"] = "false"'
	dies
	# Both at once: what one has patched the other leaves.
	plugin
	pod both
	serves
	expect 'starts that are recorded as patched' "$(starts '.result == "patched"')" 3
	stop_plugin
	crictl rmp --all --force
	[ "$engine" != containerd ] || cp "$BATS_TEST_TMPDIR/before" "$file"
	run_vfix uninstall
	[ ! -e /usr/local/lib/vfix ] || fail 'programs stay'
	[ "$engine" = crio ] || restart_engine
	HANDLER=
	pod after
	dies
}

@test "NRI: the plugin patches the pod, restarts included; exec works" {
	plugin
	for HANDLER in "${runtimes[@]}"; do
		pod "patched-$HANDLER"
		serves
		said "legacy/patched-$HANDLER/redis (docker.io/library/redis:legacy): hook added"
	done
	HANDLER=
	expect 'starts' "$(starts '.result == "patched" and .door == "hook"')" "${#runtimes[@]}"
	crictl stop --timeout 5 "$id"
	pod again '.metadata.uid = "again"'
	serves
}

@test "NRI: a read-only root, an ordinary user, a limit of memory, users of its own" {
	plugin
	pod readonly . '.linux.security_context.readonly_rootfs = true'
	serves
	pod ordinary . '.working_dir = "/tmp" | .linux.security_context.readonly_rootfs = true | .linux.security_context.run_as_user.value = 1234'
	serves
	# Less than the work of the hook takes: it is the engine's, and not the container's.
	pod small . '.linux.resources.memory_limit_in_bytes = 12582912 | .linux.security_context.readonly_rootfs = true'
	serves
	local users='.linux.security_context.namespace_options.userns_options = {mode: 0, uids: [{host_id: 200000, container_id: 0, length: 65536}], gids: [{host_id: 200000, container_id: 0, length: 65536}]}'
	pod users "$users" "$users"
	serves
}

@test "NRI: the fallback by an annotation of the pod" {
	plugin
	pod fallback '.annotations["dev.vfix.fallback"] = "true"' '.linux.security_context.readonly_rootfs = true'
	serves
	expect_match preload "$(crictl exec "$id" cat /etc/ld.so.preload)" /vfix/x86_64/libvfix.so
	expect_match 'the maps of redis-server' "$(crictl exec "$id" cat /proc/1/maps)" /vfix/x86_64/libvfix.so
}

@test "NRI: a pod opts out; the configuration of the node" {
	plugin
	pod out '.annotations["dev.vfix.enable"] = "false"'
	dies
	said 'legacy/out/redis (docker.io/library/redis:legacy): not patched: annotation dev.vfix.enable=false'
	policy '{"enabled": "opt-in"}'
	pod unasked
	dies
	pod asked '.annotations["dev.vfix.enable"] = "true"'
	serves
	policy '{"required": true}'
	pod patched
	serves
}

@test "NRI: selection by namespace, image, label and annotation" {
	plugin --namespace 'leg*' --namespace '!legacy-not' --image '*/redis:*' --label app=sel* --annotation team
	pod selected '.annotations.team = "a"'
	serves
	pod selected-other '.annotations.team = "a" | .metadata.namespace = "other"'
	dies
	pod selected-not '.annotations.team = "a" | .metadata.namespace = "legacy-not"'
	dies
	pod label '.annotations.team = "a"'
	dies
	pod selected-annotation
	dies
	stop_plugin
	plugin --image '!*redis*'
	pod image
	dies
	stop_plugin
	# The kubelet asks for an image by its ID.
	plugin --image 'library/redis:*'
	pod by-id . ".image = {image: $(crictl inspecti "$image" | jq .status.id), user_specified_image: .image.image}"
	serves
}

@test "NRI: a validator forbids hooks, or requires the plugin" {
	declare -F validator >/dev/null || skip 'has none'
	validate reject_oci_hook_adjustment true
	plugin
	pod forbidden
	[ "$status" != 0 ] || fail 'it starts'
	expect_match 'the error' "$output" 'attempted restricted OCI hook injection'
	no_validator
	validate required_plugins '["vfix"]'
	poll connections 2
	pod required
	serves
	stop_plugin
	pod missing
	[ "$status" != 0 ] || fail 'it starts'
	expect_match 'the error' "$output" 'required plugin'
}

# validate NAME VALUE: the engine has the validator of NRI, with this option, until the test ends.
validate() {
	touch "$validated"
	validator "$@"
	restart_engine
}

# connections N: the plugin has connected so often.
connections() { [ "$(grep -c 'connected to ' "$BATS_FILE_TMPDIR/nri.log")" = "$1" ]; }

@test "NRI: the engine restarts, the plugin is killed: pods keep running" {
	plugin
	pod first
	serves
	restart_engine
	poll connections 2
	serves
	pod second
	serves
	stop_plugin -KILL
	serves
	pod third
	dies
}

@test "NRI: an upgrade: while two plugins run there is one hook, and no start is missed" {
	plugin
	start_service next "$VFIX" nri
	await_service next grep -q 'connected to ' "$BATS_FILE_TMPDIR/next.log"
	pod during
	serves
	expect 'hooks that ran' "$(starts '.door == "hook"')" 1
	stop_plugin
	pod after
	serves
	end_service next
}

# plugin_pod PATH...: the plugin as a container with the rights of deploy/kubernetes/nri.yaml, which has these paths of
# the node; its ID is $plugin_id.
plugin_pod() {
	mkdir -p "$@"
	# shellcheck disable=SC2016 # jq's own variables
	pod plugin '{metadata, log_directory, linux}' '
		.metadata.name = "nri" | .image.image = $ENV.pause | .command = ["/vfix", "nri"]
		| .mounts = [$ARGS.positional[] | {host_path: ., container_path: ., readonly: (. != "/opt/vfix")}]
		| .linux.security_context += {readonly_rootfs: true, no_new_privs: true, run_as_user: {value: 0}, seccomp: {profile_type: 0},
			capabilities: {drop_capabilities: ["ALL"]}}' "$@"
	expect "status of the plugin's start: $output" "$status" 0
	plugin_id=$id
}

@test "NRI: the plugin in a pod, with the rights of nri.yaml; without the directory it refuses" {
	plugin_pod /var/run/nri /opt/vfix
	poll sh -c "'$crictl_program' logs $plugin_id 2>&1 | grep 'connected to '"
	pod patched
	serves
	crictl rmp --all --force
	plugin_pod /var/run/nri
	id=$plugin_id
	poll exited
	expect_match 'what it says' "$(crictl logs "$plugin_id" 2>&1)" "/opt/vfix/nri: in this container's own filesystem, where the engine finds no hook"
	pod after
	dies
}
