// Command faults makes each system call of a verb fail once, with EIO, in a directory "work" that is recreated each
// time, and reports violations of this rule: the verb fails with a message that names the object, or succeeds in spite
// of the error, and leaves no partial output.
//
//	faults -killat FILE -object PATTERN [-kind KIND] COMMAND...
//
// It works in the current directory. If it has a directory "before", work starts as a copy of it. killat makes the
// calls fail (tests/oracle).
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

var (
	killat = flag.String("killat", "", "the `FILE` of that program")
	object = flag.String("object", "", "a `PATTERN`: what the messages name, if it is not a directory that all this is in")
	name   = flag.String("kind", "", "the verb, if it has results of a kind of its own: install, start")
)

// calls are those that fail.
var calls = strings.Fields(`openat openat2 read pread64 write pwrite64 fstat newfstatat getdents64 fsync fchmod fchown renameat unlinkat
	mkdirat ftruncate flock utimensat linkat copy_file_range readlinkat close fsetxattr flistxattr fgetxattr execve`)

// The first calls of a program are mostly those of its own start; of the later ones some are tested.
const (
	first = 12
	step  = 9
	most  = 200
)

const eio = "5"

func main() {
	log.SetFlags(0)
	flag.Parse()
	kind := kinds[*name]
	if kind == nil || flag.NArg() == 0 {
		log.Fatal("usage: faults -killat FILE -object PATTERN [-kind install|start] COMMAND...")
	}
	t := test{kind: kind, command: flag.Args(), names: names(*object)}
	t.all()
	fmt.Printf("%d calls failed once, %d times that was an error\n", t.made, t.failed)
	for _, line := range t.wrong {
		fmt.Println(line)
	}
	if t.made <= 30 || t.failed <= 10 {
		log.Fatal("not tested")
	}
	if len(t.wrong) > 0 {
		os.Exit(1)
	}
}

// names are the names of which a message must contain one: the object, or a directory above it.
func names(object string) *regexp.Regexp {
	here, err := os.Getwd()
	check(err)
	above := []string{object, "/tmp/vfix-", "stdout"}
	for ; here != "/"; here = filepath.Dir(here) {
		above = append(above, regexp.QuoteMeta(here)+": ")
	}
	return regexp.MustCompile(strings.Join(above, "|"))
}

// ended is how the command did.
type ended struct {
	status     int
	said, errs string
}

type test struct {
	kind
	command      []string
	names        *regexp.Regexp
	before, want state // of work
	right        ended
	made, failed int
	wrong        []string
}

func (t *test) bad(format string, args ...any) {
	t.wrong = append(t.wrong, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " | "))
}

var (
	failed   = regexp.MustCompile(`(?m)^killat: failed.*$`)
	runtimes = regexp.MustCompile(`(?m)^runtime: (netpoll|epoll)`) // Go's runtime cannot do without its own pipes
	crash    = regexp.MustCompile(`(?m)^(panic|goroutine |fatal error)|internal error|bug in vfix`)
)

func (t *test) all() {
	t.prepare()
	t.before = t.state()
	t.right = run(t.command...)
	if t.right.status != 0 && t.right.status != 3 {
		log.Fatalf("the control: %s", t.right.errs)
	}
	t.want = t.state()
	for _, call := range calls {
		if t.leaves(call) {
			continue
		}
		for n := 1; n < most; {
			t.prepare()
			is := run(append([]string{*killat, "-e", eio, call, strconv.Itoa(n)}, t.command...)...)
			if !failed.MatchString(is.errs) {
				break
			}
			if !runtimes.MatchString(is.errs) {
				t.made++
				t.look(fmt.Sprintf("%s %d", call, n), is)
			}
			if n < first {
				n++
			} else {
				n += step
			}
		}
	}
}

// look says what is wrong with how a run with a fault ended.
func (t *test) look(fault string, is ended) {
	now := t.state()
	left := now.differs(t.want)
	if is.status == t.right.status {
		if is.said != t.right.said {
			t.bad("%s: status %d, and prints %s, want %s", fault, is.status, is.said, t.right.said)
		}
		// Files that cannot be removed stay, and the next run removes them.
		if left != "" && !t.starts() && !strings.HasPrefix(fault, "unlinkat ") {
			t.bad("%s: status %d, and there is %s", fault, is.status, left)
		}
		t.undone(t, fault, is)
		return
	}
	t.failed++
	const incomplete = 4 // with the files that could not be read
	if is.status != 1 && is.status != incomplete {
		t.bad("%s: status %d: %s", fault, is.status, is.errs)
	}
	if !t.names.MatchString(failed.ReplaceAllString(is.errs, "")) {
		t.bad("%s: names nothing: %s", fault, is.errs)
	}
	if crash.MatchString(is.errs) {
		t.bad("%s: %s", fault, is.errs)
	}
	if is.status != incomplete && left != "" {
		may := maps.Clone(t.before)
		for path, content := range t.want {
			if now[path] == content && t.step(path) {
				may[path] = content
			}
		}
		if left := now.differs(may); left != "" {
			t.bad("%s: %s: left %s", fault, is.errs, left)
		}
	}
	t.undone(t, fault, is)
}

func run(args ...string) ended {
	var out, errs bytes.Buffer
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		exit := new(exec.ExitError)
		if !errors.As(err, &exit) {
			check(err)
		}
	}
	return ended{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
