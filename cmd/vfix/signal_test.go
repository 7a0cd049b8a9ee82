// A second signal ends vfix at once.

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
)

// childVariable makes the test binary a vfix whose scan does not end when it is cancelled.
const childVariable = "VFIX_TEST_STUBBORN"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	e := engine{scan: func(ctx context.Context, _ string, _ images.ScanOptions) (*contents.Findings, error) {
		fmt.Println("began")
		<-ctx.Done()
		fmt.Println("cancelled")
		<-make(chan struct{})
		return nil, nil
	}}
	os.Exit(vfix([]string{"scan", "x"}, os.Stdout, os.Stderr, e))
}

// The second ^C ends vfix at once, whatever it is doing.
func TestSecondSignal(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for _, want := range []string{"began", "cancelled"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("got %q, want %q", lines.Text(), want)
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) {
		t.Fatalf("got %v, want an end by SIGINT", err)
	}
	if s := exit.Sys().(syscall.WaitStatus); !s.Signaled() || s.Signal() != syscall.SIGINT {
		t.Errorf("got %v, want an end by SIGINT", exit)
	}
}
