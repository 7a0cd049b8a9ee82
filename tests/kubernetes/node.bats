#!/usr/bin/env bats
# A node of Kubernetes, from the cluster's first start to the last line of deploy/kubernetes/README.md. Each test is a step
# of one story and needs those before it. The files are those of deploy/kubernetes. Each process that calls the vsyscall page is killed, by SIGSYS.
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

# follow SECTION [SED]: runs the commands in that section of deploy/kubernetes/README.md, after the changes that a
# reader makes to them.
follow() {
	local commands
	commands=$(awk -v section="## $1" '
		/^## / { inside = $0 == section }
		/^```/ { open = !open; next }
		inside && open' "$work/deploy/kubernetes/README.md" | sed "s,^image=registry.example/,image=$registry/,; ${2-}")
	[ -n "$commands" ] || fail "deploy/kubernetes/README.md: no commands in '$1'"
	say <<<"$commands"
	PATH=$(dirname "$VFIX"):$PATH timeout $((3 * patience)) bash -euo pipefail -c "cd $work/deploy/kubernetes; $commands"
}

# get NAME JSONPATH: what the API server says of a pod.
get() { kubectl get pod "$1" -o jsonpath="$2"; }
pod_is() { [ "$(get "$1" "$2")" = "$3" ]; }
container='.status.containerStatuses[0]'
# pod_of APP: the name of its pod that is not being deleted.
pod_of() { kubectl get pods -l "app=$1" -o json | jq -r '[.items[] | select(.metadata.deletionTimestamp == null)][0].metadata.name'; }

# example NAME [SED]: a pod with the unmodified legacy image.
example() {
	sed "${2-}" <<-END
		apiVersion: v1
		kind: Pod
		metadata:
		  name: $1
		  annotations: {dev.vfix.enable: "true"}
		spec:
		  containers:
		    - name: redis
		      image: $registry/redis:legacy
	END
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

@test "the node is Ready" {
	kubectl wait --for condition=Ready --timeout "${patience}s" node/node
	kubectl get node node -o jsonpath='{.status.nodeInfo}' |
		jq -r '"kubelet \(.kubeletVersion), \(.containerRuntimeVersion), Linux \(.kernelVersion)"' | say
	stat -f -c 'control groups: %T' /sys/fs/cgroup | say
	poll kubectl get serviceaccount default
	kubectl create deployment bystander --image "$registry/pause:1"
	kubectl rollout status --timeout "${patience}s" deployment/bystander
}

@test "an unmodified legacy image crash-loops" {
	example plain | kubectl apply -f -
	dies plain
	kubectl delete pod plain
}

@test "with the plugin, pods answer, and others have not noticed" {
	local pod id
	pod=$(pod_of bystander)
	id=$(get "$pod" "{$container.containerID}")
	follow Install
	example legacy-redis | kubectl apply -f -
	answers legacy-redis
	kubectl get pods -o wide | say
	expect "the bystander's container" "$(get "$pod" "{$container.containerID} {$container.restartCount}")" "$id 0"
	expect 'mentions of vfix in the configuration of containerd' "$(grep -rl vfix /etc/containerd || true)" ''
}

@test "exec, logs and the record of starts" {
	expect 'status of exec' "$(kubectl exec legacy-redis -- bash -c 'clock && exit 7' 2>/dev/null || echo $?)" 7
	expect_match 'its log' "$(kubectl logs legacy-redis)" 'Ready to accept connections'
	kubectl -n vfix logs -l app.kubernetes.io/name=vfix-nri --prefix | tee "$work/log" | say
	expect_match "the plugin's log" "$(<"$work/log")" "default/legacy-redis/redis ($registry/redis:legacy): hook added"
	expect 'the record' "$(jq -r 'select(.result == "patched").door' /var/lib/vfix/starts.jsonl | sort -u)" hook
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
	example out 's/"true"/"false"/' | kubectl apply -f -
	dies out
	kubectl delete pod out
}

@test "upgrade: the running pods keep running, and later ones use the new version" {
	local pod before
	pod=$(pod_of served)
	before=$(id "$pod")
	cmp "$VFIX_RUNTIME" /opt/vfix/nri/vfix-runtime
	PATH=$build/kubernetes/next:$PATH VFIX=$build/kubernetes/next/vfix follow Upgrade
	cmp "$build/kubernetes/next/vfix-runtime" /opt/vfix/nri/vfix-runtime
	expect 'container of a pod that runs' "$(id "$pod")" "$before"
	answers "$pod"
	kubectl delete pod --timeout "${patience}s" legacy-redis
	example legacy-redis | kubectl apply -f -
	answers legacy-redis
}

@test "drain: the pods go and come back" {
	local pod
	pod=$(pod_of served)
	kubectl drain node --ignore-daemonsets --force --timeout "${patience}s" | say
	# shellcheck disable=SC2317 # poll calls it
	gone() { ! kubectl get pod "$pod" && ! kubectl get pod legacy-redis; }
	poll gone
	kubectl -n vfix rollout status --timeout "${patience}s" daemonset/vfix-nri
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
	mkdir -p /root/reports /root/.docker
	echo '{"auths": {}}' >/root/.docker/config.json
	kubectl apply -f - <<-END
		apiVersion: v1
		kind: PersistentVolume
		metadata: {name: reports}
		spec:
		  capacity: {storage: 1Gi}
		  accessModes: [ReadWriteMany]
		  local: {path: /root/reports}
		  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node]}]}]}}
	END
	cd "$work/deploy/kubernetes"
	"$VFIX" list "docker://$registry/redis" | tee images.txt
	expect 'images in the list' "$(wc -l <images.txt)" 4
	sed -n '1,/apply -f/s/^#   //p' rebuild-job.yaml | sed '$d' >"$work/prepare"
	say <"$work/prepare"
	bash -euo pipefail "$work/prepare"
	PATH=$(dirname "$VFIX"):$PATH
	sed -i "s,registry.example/vfix@sha256:0*,$registry/vfix@$(vfix layer -o "docker://$registry/vfix" | sed 's/.*@//'),
		s,docker://registry.example,docker://$registry,; s/completions: 8/completions: 3/; s,)/8$,)/3," rebuild-job.yaml
	kubectl apply -f rebuild-job.yaml
	kubectl -n vfix-rebuild wait --for condition=Complete --timeout "${patience}s" job/rebuild || {
		kubectl -n vfix-rebuild logs --tail 20 -l job-name=rebuild --prefix && false
	}
	expect 'rebuilt images' "$(skopeo list-tags "docker://$registry/redis" | jq -r '.Tags[]' | grep -c -- -vfix)" 4
	kubectl -n vfix-rebuild get pods | say
}

@test "containerd restarts, and the plugin connects again" {
	example legacy-redis | kubectl apply -f - # the drain has removed it
	answers legacy-redis
	end_service containerd
	start_containerd
	answers legacy-redis
	example second | kubectl apply -f -
	answers second
}

@test "removed from the node: rebuilt images and running pods need nothing, others die" {
	follow 'Remove it from one node' 's/NODE/node/'
	gone() { [ -z "$(kubectl -n vfix get pods -o name)" ]; }
	poll gone
	answers legacy-redis
	example after | kubectl apply -f -
	dies after
	example rebuilt 's,redis:legacy,redis:third-vfix,' | kubectl apply -f -
	answers rebuilt
	follow 'Remove it from all nodes'
	kubectl delete pod after legacy-redis second rebuilt
	expect 'what stays' "$(find /etc /opt /usr /var/lib -xdev -name '*vfix*' -not -path '*/containerd/*' -not -path '*/kubelet/*' | sort | tr '\n' ' ')" \
		'/opt/vfix /opt/vfix/nri/vfix-runtime /var/lib/vfix '
}
