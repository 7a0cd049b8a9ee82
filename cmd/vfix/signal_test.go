// Signals: two at once are one, a second one later ends vfix at once.

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
)

// childVariable makes the test binary a vfix whose scan does this when it is cancelled.
const childVariable = "VFIX_TEST_CANCELLED"

func TestMain(m *testing.M) {
	what := os.Getenv(childVariable)
	if what == "" {
		os.Exit(m.Run())
	}
	e := engine{scan: func(ctx context.Context, _ string, _ images.ScanOptions) (*contents.Findings, error) {
		fmt.Println("began")
		<-ctx.Done()
		fmt.Println("cancelled")
		if what == "hang" {
			<-make(chan struct{})
		}
		time.Sleep(oneSignal / 2) // a clean-up takes time
		fmt.Println("cleaned")
		return nil, ctx.Err()
	}}
	os.Exit(vfix(untilSignal(), []string{"scan", "x"}, os.Stdout, os.Stderr, e))
}

// startChild starts such a vfix and waits until its scan has begun.
func startChild(t *testing.T, what string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childVariable+"="+what)
	cmd.Stderr = new(bytes.Buffer)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() || lines.Text() != "began" {
		t.Fatalf("got %q, want began", lines.Text())
	}
	return cmd, lines
}

// endOf sends signals to such a vfix and returns its exit status and its output.
func endOf(t *testing.T, cmd *exec.Cmd, lines *bufio.Scanner, signals ...os.Signal) (status int, stdout []string, stderr string) {
	t.Helper()
	for _, s := range signals {
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	for lines.Scan() {
		stdout = append(stdout, lines.Text())
	}
	_ = cmd.Wait() // the status says it
	return cmd.ProcessState.ExitCode(), stdout, cmd.Stderr.(*bytes.Buffer).String()
}

// A signal cancels the work, which cleans up; its status wins over the error that the work then returns.
func TestSignal(t *testing.T) {
	for sig, want := range map[syscall.Signal]int{syscall.SIGHUP: 129, syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		// Asked for here, so that a parent which ignores it, as nohup does, changes nothing.
		received := make(chan os.Signal, 1)
		signal.Notify(received, sig)
		defer signal.Stop(received)
		cmd, lines := startChild(t, "clean")
		status, stdout, stderr := endOf(t, cmd, lines, sig)
		if status != want || !slices.Equal(stdout, []string{"cancelled", "cleaned"}) || strings.Count(stderr, "\n") != 2 {
			t.Errorf("%v: got status %d, stdout %q, stderr %q", sig, status, stdout, stderr)
		}
	}
}

// A signal that the parent ignores, as nohup does, stays ignored: the next one counts.
func TestSignalIgnored(t *testing.T) {
	signal.Ignore(syscall.SIGHUP)
	cmd, lines := startChild(t, "clean")
	signal.Reset(syscall.SIGHUP)
	if status, _, stderr := endOf(t, cmd, lines, syscall.SIGHUP, syscall.SIGTERM); status != 143 {
		t.Errorf("got status %d, stderr %q, want the status of SIGTERM", status, stderr)
	}
}

// A second ^C ends vfix at once, whatever it is doing.
func TestSecondSignal(t *testing.T) {
	sig := syscall.SIGINT
	if signal.Ignored(sig) { // in the background of a script
		sig = syscall.SIGTERM
	}
	cmd, _ := startChild(t, "hang")
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		_ = cmd.Process.Signal(sig) // an error says that it has ended
		select {
		case err := <-ended:
			var exit *exec.ExitError
			if !errors.As(err, &exit) {
				t.Fatalf("got %v, want an end by %v", err, sig)
			}
			if s := exit.Sys().(syscall.WaitStatus); !s.Signaled() || s.Signal() != sig {
				t.Errorf("got %v, want an end by %v", exit, sig)
			}
			return
		case <-time.After(oneSignal / 4):
		}
	}
}

// Two signals at once are one: vfix cleans up, as it does for timeout(1). Where the second one
// comes late, vfix has cleaned up and is gone.
func TestSignalTwice(t *testing.T) {
	cmd, lines := startChild(t, "clean")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var got []string
	for lines.Scan() {
		got = append(got, lines.Text())
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	var exit *exec.ExitError
	err := cmd.Wait()
	// A signal that comes when it has cleaned up and is about to exit ends it as the kernel does.
	late := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGTERM && slices.Contains(got, "cleaned")
	if !errors.As(err, &exit) || exit.ExitCode() != statusSignal+int(syscall.SIGTERM) && !late {
		t.Errorf("got %v, want an exit after the first signal", err)
	}
	if !slices.Equal(got, []string{"cancelled", "cleaned"}) {
		t.Errorf("got %q, want it to clean up", got)
	}
}
