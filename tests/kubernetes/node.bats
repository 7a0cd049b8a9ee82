#!/usr/bin/env bats
# A node of Kubernetes, from the cluster's first start to the last line of docs/kubernetes.md. Each test
# is a step of one story and needs those before it. The commands are those of that page, and the files
# those of deploy/kubernetes. Each process that calls the vsyscall page is killed, by SIGSYS.
load ../helpers
load ../engines/pods
load cluster

setup_file() {
	load ../helpers
	load ../engines/pods
	load cluster
	export work=/root/work
	mkdir -p "$work/deploy"
	cp -r "$tree/deploy/kubernetes" "$work/deploy/"
	start_cluster || { print_logs && false; }
}

teardown_file() { stop_services; }

teardown() { [ -n "${BATS_TEST_COMPLETED-}" ] || print_logs; }

say() { sed 's/^/#   /' >&3; }

# follow SECTION N [SED]: runs the Nth paragraph of commands in that section of the page, after the
# changes that a reader makes to it.
follow() {
	local commands
	commands=$(awk -v section="## $1" -v want="$2" '
		/^## / { inside = $0 == section }
		/^```/ { if (inside && !open) n++; open = !open; next }
		inside && open && n == want' "$tree/docs/kubernetes.md" | sed "${3-}")
	[ -n "$commands" ] || fail "docs/kubernetes.md: no commands $2 in '$1'"
	say <<<"$commands"
	PATH=$(dirname "$VFIX"):$PATH timeout $((3 * patience)) bash -euo pipefail -c "$commands"
}

nri='Patch pods without a RuntimeClass: NRI' # a section of the page

# get NAME JSONPATH: what the API server says of a pod.
get() { kubectl get pod "$1" -o jsonpath="$2"; }
pod_is() { [ "$(get "$1" "$2")" = "$3" ]; }
container='.status.containerStatuses[0]'
# pod_of APP: the name of its pod that is not being deleted.
pod_of() { kubectl get pods -l "app=$1" -o json | jq -r '[.items[] | select(.metadata.deletionTimestamp == null)][0].metadata.name'; }

# example NAME [SED]: the example of deploy/kubernetes under another name, with the tests' image.
example() {
	sed "s,name: legacy-redis,name: $1,; s,image: redis:2.8.22,image: $registry/redis:legacy,; ${2-}" "$tree/deploy/kubernetes/pod.yaml"
}

# answers POD: it becomes ready, and its redis-server answers.
answers() {
	kubectl wait --for condition=Ready --timeout "${patience}s" "pod/$1"
	poll kubectl exec "$1" -- redis-cli PING
	expect "$1" "$(kubectl exec "$1" -- bash -c 'redis-cli PING')" PONG
}

# events POD TEXT: the text is in one of its events.
events() { kubectl get events --field-selector "involvedObject.name=$1" -o jsonpath='{range .items[*]}{.message}{"\n"}{end}' | grep -F "$2"; }

# dies POD: its container is killed each time it starts.
dies() {
	poll pod_is "$1" "{$container.lastState.terminated.exitCode}" "$status_sigsys"
	poll events "$1" 'Back-off restarting failed container'
	expect 'exit status of its container' "$(get "$1" "{$container.lastState.terminated.exitCode}")" "$status_sigsys"
	kubectl get pod "$1" | say
}

# machine: the files of the node, without those that Kubernetes itself writes.
machine() {
	find /etc /usr /opt /var/lib /root/work -xdev \
		\( -path '/var/lib/vfix' -o -path '/var/lib/kubelet' -o -path '/var/lib/containerd' -o -path '/var/lib/cni' -o -path /root/work \) -prune -o \
		! -type d -printf '%p %M %U:%G %T@ %s %l\n' -a -type f -path '/etc/*' -exec sha256sum {} \; | sort
}

@test "the node is Ready" {
	kubectl wait --for condition=Ready --timeout "${patience}s" node/node
	kubectl get node node -o jsonpath='{.status.nodeInfo}' |
		jq -r '"kubelet \(.kubeletVersion), \(.containerRuntimeVersion), Linux \(.kernelVersion)"' | say
	stat -f -c 'control groups: %T' /sys/fs/cgroup | say
	poll kubectl get serviceaccount default
	kubectl create deployment bystander --image "$registry/pause:1"
	kubectl rollout status --timeout "${patience}s" deployment/bystander
	machine >"$work/before"
}

@test "an unmodified legacy image crash-loops" {
	example plain '/runtimeClassName/d' | kubectl apply -f -
	dies plain
	kubectl delete pod plain
}

@test "the DaemonSet installs vfix" {
	cd "$work"
	follow 'Install on every node' 1 "s,^image=registry.example/,image=$registry/,"
	kubectl -n vfix logs ds/vfix-install -c install | tee "$work/log"
	expect_match 'what the installer says to do' "$(<"$work/log")" 'systemctl restart containerd'
	say <"$work/log"
	run ! diff "$work/before" <(machine) # the control for uninstall
}

@test "after containerd's restart, pods with the RuntimeClass answer, and others have not noticed" {
	local pod id
	pod=$(pod_of bystander)
	id=$(get "$pod" "{$container.containerID}")
	example legacy-redis | kubectl apply -f -
	poll events legacy-redis 'no runtime for "vfix" is configured'
	end_service containerd
	start_containerd
	answers legacy-redis
	kubectl get pods -o wide | say
	expect "the bystander's container" "$(get "$pod" "{$container.containerID} {$container.restartCount}")" "$id 0"
}

@test "exec, logs and the record of starts" {
	expect 'status of exec' "$(kubectl exec legacy-redis -- bash -c 'clock && exit 7' 2>/dev/null || echo $?)" 7
	expect_match 'its log' "$(kubectl logs legacy-redis)" 'Ready to accept connections'
	expect_match 'output of a program' "$(kubectl exec legacy-redis -- callrate 20)" gettimeofday
	run /opt/vfix/bin/vfix runtime status
	expect_match 'the record' "$output" patched
	say <<<"$output"
}

# id POD: its container's, in containerd's words.
id() { get "$1" "{$container.containerID}" | sed 's,containerd://,,'; }

# restarted POD N: its container has been restarted N times, and answers.
restarted() {
	poll pod_is "$1" "{$container.restartCount}" "$2"
	answers "$1"
}

@test "probes; a container that is killed or hangs is restarted" {
	local pod
	kubectl apply -f - <<-END
		apiVersion: apps/v1
		kind: Deployment
		metadata: {name: served}
		spec:
		  selector: {matchLabels: {app: served}}
		  template:
		    metadata: {labels: {app: served}}
		    spec:
		      runtimeClassName: vfix
		      terminationGracePeriodSeconds: 3
		      containers:
		        - name: redis
		          image: $registry/redis:legacy
		          args: [redis-server, --protected-mode, "no"]
		          startupProbe: {exec: {command: [bash, -c, redis-cli PING]}, periodSeconds: 1, timeoutSeconds: 20, failureThreshold: 100}
		          readinessProbe: {tcpSocket: {port: 6379}, periodSeconds: 2, timeoutSeconds: 20}
		          livenessProbe: {exec: {command: [redis-cli, PING]}, periodSeconds: 5, timeoutSeconds: 20, failureThreshold: 2}
	END
	kubectl rollout status --timeout "${patience}s" deployment/served
	pod=$(pod_of served)
	answers "$pod"
	ctr --namespace k8s.io task kill --signal KILL "$(id "$pod")"
	restarted "$pod" 1
	ctr --namespace k8s.io task kill --signal STOP "$(id "$pod")"
	restarted "$pod" 2
	kubectl get pod "$pod" | say
}

@test "a pod that opts out is left as it is" {
	example out 's,dev.vfix.enable: "true",dev.vfix.enable: "false",' | kubectl apply -f -
	dies out
	kubectl delete pod out
}

# apply_args SED: the DaemonSet with other arguments.
apply_args() {
	sed -i "/args: \[install/$1" "$work/deploy/kubernetes/daemonset.yaml"
	grep 'args: \[install' "$work/deploy/kubernetes/daemonset.yaml" | say
	kubectl apply -f "$work/deploy/kubernetes/daemonset.yaml"
	kubectl -n vfix rollout status --timeout "${patience}s" daemonset/vfix-install
}

@test "with --fail-closed, pods that opt out or cannot be patched are refused" {
	local pod
	push_image unpatchable:1 "$build/fixtures/finding-push"
	unpatchable() { example "$1" "s,$registry/redis:legacy,$registry/unpatchable:1,"; }
	unpatchable open | kubectl apply -f -
	dies open # the control: it is started
	kubectl delete pod open
	apply_args 's/\]/, --fail-closed]/'
	example out 's,dev.vfix.enable: "true",dev.vfix.enable: "false",' | kubectl apply -f -
	unpatchable closed | kubectl apply -f -
	for pod in out closed; do
		poll events "$pod" fail-closed
		events "$pod" fail-closed | head -n 1 | say
		# The kubelet calls one that was never started terminated as well, with status 128.
		[[ $(get "$pod" "{$container.lastState.terminated.reason}{$container.state.running}") =~ ^(StartError)?$ ]] ||
			fail "a container of $pod ran"
	done
	answers legacy-redis
	kubectl delete pod out closed
	apply_args 's/, --fail-closed//'
	example out 's,dev.vfix.enable: "true",dev.vfix.enable: "false",' | kubectl apply -f -
	dies out
	kubectl delete pod out
}

@test "upgrade: the running pods keep running, and later ones use the new version" {
	local pod before
	pod=$(pod_of served)
	before=$(id "$pod")
	expect_match 'version before' "$(/opt/vfix/bin/vfix version)" "$("$VFIX" version)"
	cd "$work/deploy/kubernetes"
	VFIX=$build/kubernetes/next/vfix follow Upgrading 1 "s,^image=registry.example/,image=$registry/,"
	expect 'version after' "$(/opt/vfix/bin/vfix version)" "$("$build/kubernetes/next/vfix" version)"
	cmp "$build/kubernetes/next/vfix-runtime" /opt/vfix/bin/vfix-runtime
	expect 'container of a pod that runs' "$(id "$pod")" "$before"
	answers "$pod"
	kubectl delete pod --timeout "${patience}s" legacy-redis
	example legacy-redis | kubectl apply -f -
	answers legacy-redis
	/opt/vfix/bin/vfix version | say
}

@test "drain: the pods go and come back" {
	local pod
	pod=$(pod_of served)
	kubectl drain node --ignore-daemonsets --force --timeout "${patience}s" | say
	gone() { ! kubectl get pod "$pod" && ! kubectl get pod legacy-redis; }
	poll gone
	kubectl -n vfix rollout status --timeout "${patience}s" daemonset/vfix-install
	kubectl uncordon node
	kubectl rollout status --timeout "${patience}s" deployment/served
	answers "$(pod_of served)"
}

@test "the Job rebuilds the images of a registry, part by part" {
	local tag
	for tag in second third fourth; do
		skopeo copy --quiet "docker://$registry/redis:legacy" "docker://$registry/redis:$tag"
	done
	# Provided by the cluster: a volume, and the login of a user.
	mkdir -p /root/state /root/.docker
	echo '{"auths": {}}' >/root/.docker/config.json
	kubectl apply -f - <<-END
		apiVersion: v1
		kind: PersistentVolume
		metadata: {name: state}
		spec:
		  capacity: {storage: 1Gi}
		  accessModes: [ReadWriteMany]
		  local: {path: /root/state}
		  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node]}]}]}}
	END
	cd "$work/deploy/kubernetes"
	"$VFIX" list "docker://$registry/redis" | tee images.txt
	expect 'images in the list' "$(wc -l <images.txt)" 4
	sed -n '1,/apply -f/s/^#   //p' rebuild-job.yaml | sed '$d' >"$work/prepare"
	say <"$work/prepare"
	bash -euo pipefail "$work/prepare"
	follow 'Rebuild a registry on many nodes' 1 "s,^registry=registry.example,registry=$registry,; s/20/3/"
	kubectl -n vfix-rebuild wait --for condition=Complete --timeout "${patience}s" job/rebuild || {
		kubectl -n vfix-rebuild logs --tail 20 -l job-name=rebuild --prefix && false
	}
	follow 'Rebuild a registry on many nodes' 2 s/index=3/index=0/ | tee "$work/log"
	say <"$work/log"
	cat /root/state/report-*.csv
	expect 'images in the reports' "$(cat /root/state/report-*.csv | grep -c ',done,')" 4
	kubectl -n vfix-rebuild get pods | say
}

@test "a rebuilt image needs no RuntimeClass" {
	example rebuilt "/runtimeClassName/d; s,redis:legacy,redis:third-vfix," | kubectl apply -f -
	answers rebuilt
}

@test "uninstall waits for the pods that need the runtime, and leaves the node as it was" {
	local pod removing
	cd "$work/deploy/kubernetes"
	pod=$(pod_of served)
	follow 'Removing it' 1 >"$work/log" 2>&1 &
	removing=$!
	names_it() { kubectl -n vfix logs ds/vfix-uninstall -c uninstall | grep "$(id "$pod")"; }
	poll names_it
	kubectl -n vfix logs ds/vfix-uninstall -c uninstall | say
	answers "$pod"
	kubectl delete deployment served
	wait "$removing" || { cat "$work/log" && false; }
	say <"$work/log"
	machine >"$work/after"
	diff "$work/before" "$work/after"
}

@test "after the last restart of containerd nothing is left of vfix, and rebuilt images run" {
	local before
	before=$(id rebuilt)
	end_service containerd
	start_containerd
	poll kubectl exec rebuilt -- redis-cli PING
	expect 'container of the rebuilt image' "$(id rebuilt) $(get rebuilt "{$container.restartCount}")" "$before 0"
	run ! grep -rl vfix /etc/containerd
	run kubectl apply -f <(example late)
	echo "$output"
	expect_match 'answer to a pod with the RuntimeClass' "$output" 'RuntimeClass "vfix" not found'
	# These stay, as docs/nodes.md and docs/kubernetes.md say: cache, record, empty directories.
	expect 'left' "$(find /etc /opt /usr /var/lib/vfix* -name '*vfix*' -not -path '*/kubernetes/*' | sort | tr '\n' ' ')" \
		'/etc/vfix /opt/vfix /var/lib/vfix /var/lib/vfix-install '
	expect 'files left in them' "$(find /etc/vfix /opt/vfix /var/lib/vfix-install ! -type d)" ''
}

@test "NRI: the audit names the images that need vfix, and changes nothing" {
	cd "$work"
	follow "$nri" 1 "s,^image=registry.example/,image=$registry/,; /apply/,\$d"
	cd deploy/kubernetes
	example asleep '/runtimeClassName/d; /image:/a\      command: [sleep, infinity]' | kubectl apply -f -
	kubectl wait --for condition=Ready --timeout "${patience}s" pod/asleep
	follow "$nri" 2
	audited() { follow "$nri" 3 3>/dev/null; }
	poll audited
	follow "$nri" 3 | tee "$work/log"
	expect_match 'the audit' "$(<"$work/log")" "$registry/redis:legacy: would be patched"
	say <"$work/log"
	kubectl delete pod --now asleep
	example audited /runtimeClassName/d | kubectl apply -f -
	dies audited
	kubectl delete pod audited
	kubectl delete -f nri-audit.yaml
}

@test "NRI: the plugin patches pods that name no RuntimeClass, and containerd is not restarted" {
	cd "$work"
	follow "$nri" 1 "s,^image=registry.example/,image=$registry/,"
	example hooked /runtimeClassName/d | kubectl apply -f -
	answers hooked
	expect 'status of exec' "$(kubectl exec hooked -- bash -c 'clock && exit 7' 2>/dev/null || echo $?)" 7
	ctr --namespace k8s.io task kill --signal KILL "$(id hooked)"
	restarted hooked 1
	example out '/runtimeClassName/d; s,dev.vfix.enable: "true",dev.vfix.enable: "false",' | kubectl apply -f -
	dies out
	kubectl delete pod out
	kubectl -n vfix logs -l app.kubernetes.io/name=vfix-nri --prefix | say
	expect 'mentions of vfix in the configuration of containerd' "$(grep -rl vfix /etc/containerd || true)" ''
}

@test "NRI: a policy of fail_closed, and removal" {
	cd "$work/deploy/kubernetes"
	follow "$nri" 5 's/"opt_in"/"fail_closed"/'
	example out '/runtimeClassName/d; s,dev.vfix.enable: "true",dev.vfix.enable: "false",' >"$work/out.yaml"
	# The kubelet takes a while to write the policy; until then the pod is started, and killed.
	opts_out_in_vain() { kubectl delete --ignore-not-found --now -f "$work/out.yaml" && kubectl apply -f "$work/out.yaml" && sleep 5 && events out fail-closed; }
	poll opts_out_in_vain
	events out fail-closed | head -n 1 | say
	kubectl delete --now pod out
	follow "$nri" 7
	answers hooked
	example after /runtimeClassName/d | kubectl apply -f -
	dies after
	kubectl delete pod after hooked
}
