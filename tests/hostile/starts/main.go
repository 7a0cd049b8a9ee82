// Command starts starts hostile bundles, each with runc, or another runtime, under the seccomp oracle: without vfix, with vfix-runtime in
// runc's place, with vfix-runtime as a hook and with the hook that the NRI plugin adds; the last three with fail_closed
// and without. In each bundle some program calls the page, at a place that a look at the root filesystem, or at
// config.json, does not show.
//
//	starts -runtime FILE -nri FILE -oracle FILE -work DIR [-real RUNTIME] GROUP...
//
// The oracle is the program itself: without vfix it must end with status 159. With it, it must run and be recorded as
// patched; if it cannot be patched, no record may say that it is, and with fail_closed the container must not start.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"

	"vfix.dev/vfix/host/nri"
	"vfix.dev/vfix/host/starts"
)

// Exit statuses: of a program that the oracle ended, and of runc if it does not start a container.
const (
	killed  = 159 // 128 + SIGSYS
	refused = 1
)

var (
	wrapper = flag.String("runtime", "", "vfix-runtime")
	plugin  = flag.String("nri", "", "vfix-nri")
	oracle  = flag.String("oracle", "", "novsyscall")
	work    = flag.String("work", "", "an empty `DIR`")
	real    = flag.String("real", "runc", "the runtime")
	only    = flag.String("row", "", "this row alone")
	program = map[string]string{} // by its name: a path
)

// want is the aim of a row with vfix.
type want int

const (
	patched   want = iota // the program runs
	honest                // if it does not, that is on record
	notMade               // runc refuses the container, with vfix as without
	unchanged             // the program runs without vfix: it must with it
)

// row is a hostile bundle.
type row struct {
	group, name string
	want
	make func(b *bundle)
}

var doors = []string{"wrapper", "hook", "NRI"}

func main() {
	log.SetFlags(0)
	flag.Parse()
	if flag.NArg() == 0 && *only == "" || *work == "" {
		log.Fatal("usage: starts -runtime FILE -nri FILE -oracle FILE -work DIR GROUP...")
	}
	compile()
	if !startPlugins() {
		log.Fatal("the NRI plugin is not asked")
	}
	var chosen []row
	for _, r := range rows {
		if slices.Contains(flag.Args(), r.group) && *only == "" || r.name == *only {
			chosen = append(chosen, r)
		}
	}
	next, failed := make(chan row), make(chan string)
	var all sync.WaitGroup
	for range runtime.NumCPU() {
		all.Go(func() {
			for r := range next {
				for _, why := range r.run() {
					failed <- r.group + ": " + r.name + ": " + why
				}
			}
		})
	}
	go func() {
		for _, r := range chosen {
			next <- r
		}
		close(next)
		all.Wait()
		close(failed)
	}()
	n := 0
	for why := range failed {
		fmt.Println(why)
		n++
	}
	fmt.Printf("%d rows, %d failures\n", len(chosen), n)
	if n > 0 || len(chosen) == 0 {
		os.Exit(1)
	}
}

// run starts the bundle each way.
func (r row) run() (failures []string) {
	is := newBundle(r).start("none", false)
	switch control := map[want]int{patched: killed, honest: killed, notMade: refused, unchanged: 0}[r.want]; {
	case is.status != control:
		return []string{fmt.Sprintf("without vfix [control]: status %d, want %d: %s", is.status, control, is.said)}
	}
	for _, door := range doors {
		for _, closed := range []bool{false, true} {
			b := newBundle(r)
			if b.only != "" && b.only != door {
				b.end()
				continue
			}
			is := b.start(door, closed)
			if why := is.wrong(r.want, closed); why != "" {
				failures = append(failures, fmt.Sprintf("%s, fail_closed %v: %s: status %d, recorded as %q: %s: %s", door, closed, why, is.status, is.outcome, is.said, is.reason))
			}
		}
	}
	return failures
}

// result is how a start ended.
type result struct {
	status  int
	outcome starts.Outcome
	reason  string // on record
	said    string
	left    string // mounts of copies on this machine; what a refused start has left in config.json and the cache
}

func (is result) wrong(w want, closed bool) string {
	claimed := is.outcome == starts.Patched || is.outcome == starts.Clean
	switch {
	case is.left != "":
		return "something stays: " + is.left
	case is.status == killed && (claimed || closed):
		return "a program calls the page"
	case (is.outcome == starts.Refused || is.outcome == starts.Partial) && is.reason == "" && is.said == "":
		return "no reason"
	case w == patched && (is.status != 0 || is.outcome != starts.Patched):
		return "not patched"
	case w == honest && closed && is.status != 0 && is.outcome != starts.Refused:
		return "not refused"
	case w == notMade && (is.status != refused || claimed || is.outcome == starts.Partial):
		return "said to have started"
	case w == unchanged && is.status != 0:
		return "does not run any more"
	}
	return ""
}

// start starts the bundle through a door, and ends its use.
func (b *bundle) start(door string, closed bool) (is result) {
	defer b.end()
	config := filepath.Join(b.dir, "runtime.json")
	record := filepath.Join(b.dir, "starts.jsonl")
	set := map[string]any{"record": record, "cache_dir": b.cache, "fail_closed": closed}
	for key, value := range b.config {
		set[key] = value
	}
	write(config, set)
	spec := b.spec
	runtime := *real
	if b.via != "" {
		runtime = b.via
	}
	args := []string{runtime}
	switch door {
	case "wrapper":
		path, _ := exec.LookPath(runtime)
		args = []string{*wrapper, "--vfix-config", config, "--runtime", path}
	case "hook":
		b.hook("createRuntime", *wrapper, "vfix-runtime", "--vfix-config", config, "hook")
	case "NRI":
		annotations, _ := spec["annotations"].(map[string]any)
		h, err := plugins[closed].hook(b.id, annotations)
		if err != nil {
			return result{status: refused, outcome: starts.Refused, said: err.Error()}
		}
		if h == nil {
			return result{status: killed, outcome: starts.Disabled, said: "no hook"}
		}
		h.Args[slices.Index(h.Args, "--vfix-config")+1] = config // for the record and the cache of this start
		b.hook("createRuntime", h.Path, h.Args...)
	}
	text, err := json.Marshal(spec)
	check(err)
	if b.text != nil {
		text = b.text(text)
	}
	check(os.WriteFile(filepath.Join(b.dir, "config.json"), text, 0o600))
	if b.ready != nil {
		b.ready()
	}
	run := b.args
	if run == nil {
		run = []string{"run", "--bundle", b.dir, b.id}
	}
	is.status, is.said = command(b, append(args, run...)...)
	if b.exec != nil && is.status == 0 {
		is.status, is.said = command(b, append([]string{*real, "exec", b.id}, b.exec...)...)
	}
	if all, err := starts.Read(record, 1); err == nil && len(all.Last) == 1 {
		is.outcome, is.reason = all.Last[0].Outcome, all.Last[0].Why()
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	check(err)
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, b.cache) {
			is.left += line
		}
	}
	if is.outcome == starts.Refused {
		now, err := os.ReadFile(filepath.Join(b.dir, "config.json"))
		check(err)
		copies, _ := filepath.Glob(b.cache + "/v1/private/*/*")
		if len(copies) > 0 || bytes.Count(now, []byte(b.cache)) > bytes.Count(text, []byte(b.cache)) {
			is.left += fmt.Sprintf("%q in %s", copies, now)
		}
	}
	return is
}

// command runs a program under the oracle, in the bundle.
func command(b *bundle, args ...string) (status int, said string) {
	const patience = time.Minute
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	cmd := exec.CommandContext(ctx, *oracle, args...)
	var out bytes.Buffer
	if b.stdin != nil {
		cmd.Stdin = b.stdin
	}
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles, cmd.WaitDelay = b.dir, &out, &out, b.files, time.Second
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		exit := new(exec.ExitError)
		if !errors.As(err, &exit) {
			return -1, err.Error()
		}
	}
	return cmd.ProcessState.ExitCode(), strings.TrimSpace(out.String())
}

// engine is one whose NRI plugin is vfix's.
type engine struct{ *adaptation.Adaptation }

// plugins are by fail_closed.
var plugins = map[bool]engine{}

// startPlugins reports whether both plugins answer. They end with this program.
func startPlugins() bool {
	for _, closed := range []bool{false, true} {
		dir := filepath.Join(*work, fmt.Sprint("nri-", closed))
		check(os.MkdirAll(dir, 0o755))
		write(filepath.Join(dir, "policy.json"), map[string]any{"fail_closed": closed})
		o := nri.Options{Socket: filepath.Join(dir, "s"), Dir: filepath.Join(dir, "hook"), Config: filepath.Join(dir, "policy.json"), Program: 3}
		a, err := adaptation.New("containerd", "1.0.0",
			func(ctx context.Context, sync adaptation.SyncCB) error { _, err := sync(ctx, nil, nil); return err },
			func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) { return nil, nil },
			adaptation.WithSocketPath(o.Socket), adaptation.WithPluginPath(filepath.Join(dir, "none")))
		check(err)
		check(a.Start())
		plugins[closed] = engine{a}
		text, err := json.Marshal(o)
		check(err)
		hook, err := os.Open(*wrapper)
		check(err)
		cmd := exec.Command(*plugin, string(text))
		cmd.Args[0] = "vfix-nri"
		cmd.ExtraFiles = []*os.File{hook}
		cmd.SysProcAttr = endWithParent()
		check(cmd.Start())
		const patience, pause = 30 * time.Second, 20 * time.Millisecond
		for end := time.Now().Add(patience); ; time.Sleep(pause) {
			if h, err := plugins[closed].hook("probe", nil); err == nil && h != nil {
				break
			}
			if time.Now().After(end) {
				return false
			}
		}
	}
	return true
}

// hook is the one that the plugin adds to a container; nil for none.
func (e engine) hook(id string, annotations map[string]any) (*api.Hook, error) {
	c := &api.Container{Id: id, Name: "c", Annotations: map[string]string{"io.kubernetes.cri.image-name": "legacy:1"}}
	for name, value := range annotations {
		c.Annotations[name] = fmt.Sprint(value)
	}
	r, err := e.CreateContainer(context.Background(), &api.CreateContainerRequest{Pod: &api.PodSandbox{Namespace: "ns", Name: "pod"}, Container: c})
	if hooks := r.GetAdjust().GetHooks().GetCreateRuntime(); err == nil && len(hooks) > 0 {
		return hooks[0], nil
	}
	return nil, err
}

func write(path string, value any) {
	text, err := json.Marshal(value)
	check(err)
	check(os.WriteFile(path, text, 0o600))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
