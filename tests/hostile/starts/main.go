// Command starts starts hostile bundles, each with runc, or another runtime, under the seccomp oracle: without vfix, with vfix-runtime in
// runc's place, with vfix-runtime as a hook and with the hook that the NRI plugin adds; the last three with fail_closed
// and without. In each bundle some program calls the page, at a place that a look at the root filesystem, or at
// config.json, does not show.
//
//	starts -programs DIR
//	starts -programs DIR -runtime FILE -nri FILE -oracle FILE -killat FILE -work DIR [-real RUNTIME] GROUP...
//
// The first form compiles the programs of the bundles, the second starts the bundles. The plugin's hook is the hook with other
// paths, which is looked at for each bundle: if it is, the bundle has been started with it already.
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
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"

	"vfix.dev/vfix/host/nri"
	"vfix.dev/vfix/host/starts"
)

// Exit statuses: of a program that calls the page, and of runc if it does not start a container.
var killed = 128 + int(syscall.SIGSYS) // by the oracle

const refused = 1

var (
	programs = flag.String("programs", "", "where the programs of the bundles are")
	wrapper  = flag.String("runtime", "", "vfix-runtime")
	plugin   = flag.String("nri", "", "vfix-nri")
	killat   = flag.String("killat", "", "the program that kills at a system call")
	oracle   = flag.String("oracle", "", "novsyscall; empty on a machine without the page")
	work     = flag.String("work", "", "an empty `DIR`")
	real     = flag.String("real", "runc", "the runtime")
	only     = flag.String("row", "", "this row alone")
)

// want is the aim of a row with vfix.
type want int

const (
	patched   want = iota // the program runs
	honest                // if it does not, that is on record
	partly                // the program runs, and it is on record that something is missing; with fail_closed it does not start
	notMade               // runc refuses the container, with vfix as without
	unchanged             // the program runs without vfix: it must with it
)

// row is a hostile bundle.
type row struct {
	group, name string
	want
	make func(b *bundle)
}

// story is a test that does not fit into a row.
type story struct {
	group, name string
	run         func() (failures []string)
}

func main() {
	log.SetFlags(0)
	flag.Parse()
	if flag.NArg() == 0 && *only == "" {
		compile(*programs)
		return
	}
	if *oracle == "" {
		killed = 128 + int(syscall.SIGSEGV)
	}
	if *work == "" {
		log.Fatal("usage: starts -programs DIR -runtime FILE -nri FILE -oracle FILE -work DIR GROUP...")
	}
	if !startPlugins() {
		log.Fatal("the NRI plugin is not asked")
	}
	all := stories
	for i, r := range slices.Concat(rows, filesystems, machine) {
		all = append(all, story{r.group, r.name, func() []string { return r.run(i%2 == 0) }})
	}
	var chosen []story
	for _, s := range all {
		if slices.Contains(flag.Args(), s.group) && *only == "" || s.name == *only {
			chosen = append(chosen, s)
		}
	}
	next, failed := make(chan story), make(chan string)
	var running sync.WaitGroup
	for range runtime.NumCPU() {
		running.Go(func() {
			for s := range next {
				for _, why := range s.run() {
					failed <- s.group + ": " + s.name + ": " + why
				}
			}
		})
	}
	go func() {
		for _, s := range chosen {
			next <- s
		}
		close(next)
		running.Wait()
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

// run starts the bundle each way. A row that is patched is started in two ways, by turns: with fail_closed by one door and
// without by the other. Neither does less, and they differ only if something cannot be done.
func (r row) run(turn bool) (failures []string) {
	first := newBundle(r)
	is := first.start("none", false)
	switch control := map[want]int{patched: killed, honest: killed, partly: killed, notMade: refused, unchanged: 0}[r.want]; {
	case is.status != control:
		return []string{fmt.Sprintf("without vfix [control]: status %d, want %d: %s", is.status, control, is.said)}
	}
	for _, closed := range []bool{false, true} {
		try := func(door string) *bundle {
			b := newBundle(r)
			if b.only != "" && b.only != door {
				b.end()
				return b
			}
			is := b.start(door, closed)
			if why := is.wrong(r.want, closed); why != "" {
				failures = append(failures, fmt.Sprintf("%s, fail_closed %v: %s: status %d, recorded as %q: %s: %s", door, closed, why, is.status, is.outcome, is.said, is.reason))
			}
			return b
		}
		all := r.want != patched || r.group == "root" || first.only != ""
		if all || closed == turn {
			try("wrapper")
		}
		if all || closed != turn {
			if b := try("hook"); r.group == "root" || !plugins[closed].addsUsual(b) {
				try("NRI")
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
	record  *starts.Status
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
	case w == partly && (closed && (is.status != refused || is.outcome != starts.Refused) || !closed && (is.status != 0 || is.outcome != starts.Partial)):
		return "not said to be incomplete"
	case w == notMade && (is.status != refused || claimed || is.outcome == starts.Partial):
		return "said to have started"
	case w == unchanged && is.status != 0:
		return "does not run any more"
	}
	return ""
}

// start starts the bundle through a door, and ends its use.
func (b *bundle) start(door string, closed bool) result {
	defer b.end()
	return b.launch(door, closed)
}

// launch starts it through a door.
func (b *bundle) launch(door string, closed bool) (is result) {
	config := filepath.Join(b.dir, "runtime.json")
	record := filepath.Join(b.dir, "starts.jsonl")
	_ = os.Remove(record) // of an earlier start
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
	case "created": // and started, as engines do
		args = []string{"sh", "-c", created, "sh", *wrapper, "--vfix-config", config, "--runtime", must(exec.LookPath(runtime)), "--root", b.state()}
		b.args = []string{b.dir, b.id}
	case "killed":
		b.hook("createRuntime", b.dir+"/killed", "vfix-runtime", "--vfix-config", config, "hook")
	case "hook":
		b.hook("createRuntime", *wrapper, "vfix-runtime", "--vfix-config", config, "hook")
	case "NRI":
		h, err := plugins[closed].hook(b)
		if err != nil {
			return result{status: refused, outcome: starts.Refused, said: err.Error()}
		}
		if h == nil {
			return result{status: killed, outcome: starts.Disabled, said: "no hook"}
		}
		h.Args[slices.Index(h.Args, "--vfix-config")+1] = config // for the record and the cache of this start
		b.hook("createRuntime", h.Path, h.Args...)
	}
	text := encode(spec)
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
	var err error
	if is.record, err = starts.Read(record, 1); err == nil && len(is.record.Last) == 1 {
		is.outcome, is.reason = is.record.Last[0].Outcome, is.record.Last[0].Why()
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
	if b.after != nil {
		is.left += b.after(is)
	}
	return is
}

// command runs a program under the oracle, in the bundle.
func command(b *bundle, args ...string) (status int, said string) {
	const patience = 3 * time.Minute
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if *oracle != "" {
		args = append([]string{*oracle}, args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var out bytes.Buffer
	if b.stdin != nil {
		cmd.Stdin = b.stdin
	}
	cmd.Env = b.environ
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles, cmd.WaitDelay = b.dir, &out, &out, b.files, time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an automounter does nothing for those of its group
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		exit := new(exec.ExitError)
		if !errors.As(err, &exit) {
			return -1, err.Error()
		}
	}
	log, _ := os.ReadFile(b.dir + "/log/restore.log") // of criu
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "Error") {
			out.WriteString("\n" + line)
		}
	}
	return cmd.ProcessState.ExitCode(), strings.TrimSpace(out.String())
}

// engine is one whose NRI plugin is vfix's, with the directory of its hook.
type engine struct {
	*adaptation.Adaptation
	dir string
}

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
		plugins[closed] = engine{a, o.Dir}
		text, err := json.Marshal(o)
		check(err)
		hook, err := os.Open(*wrapper)
		check(err)
		cmd := exec.Command(*plugin, string(text))
		cmd.Args[0] = "vfix-nri"
		cmd.ExtraFiles = []*os.File{hook}
		cmd.SysProcAttr = endWithParent()
		check(cmd.Start())
		usual, err := os.ReadFile(*wrapper)
		check(err)
		const patience, pause = 3 * time.Minute, 20 * time.Millisecond
		for end := time.Now().Add(patience); ; time.Sleep(pause) {
			if h, err := plugins[closed].hook(&bundle{id: "probe"}); err == nil && h != nil {
				program, err := os.ReadFile(h.Path)
				check(err)
				if !bytes.Equal(program, usual) {
					return false
				}
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
func (e engine) hook(b *bundle) (*api.Hook, error) {
	annotations, _ := b.spec["annotations"].(map[string]any)
	c := &api.Container{Id: b.id, Name: "c", Annotations: map[string]string{"io.kubernetes.cri.image-name": "legacy:1"}}
	for name, value := range annotations {
		c.Annotations[name] = fmt.Sprint(value)
	}
	r, err := e.CreateContainer(context.Background(), &api.CreateContainerRequest{Pod: &api.PodSandbox{Namespace: "ns", Name: "pod"}, Container: c})
	if hooks := r.GetAdjust().GetHooks().GetCreateRuntime(); err == nil && len(hooks) > 0 {
		return hooks[0], nil
	}
	return nil, err
}

// addsUsual reports whether the plugin adds the hook of the door "hook": the same program, called in the same way.
func (e engine) addsUsual(b *bundle) bool {
	h, err := e.hook(b)
	if err != nil || h == nil || h.Path != filepath.Join(e.dir, "vfix-runtime") {
		return false
	}
	usual := regexp.MustCompile(`^vfix-runtime --vfix-config \S+ --policy-source \S+ hook$`)
	return usual.MatchString(strings.Join(h.Args, " "))
}

func write(path string, value any) { check(os.WriteFile(path, encode(value), 0o600)) }

func encode(value any) []byte {
	text, err := json.Marshal(value)
	check(err)
	return text
}

func decode(text []byte) (spec map[string]any) {
	check(json.Unmarshal(text, &spec))
	return spec
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
