package ociruntime

import (
	"os"
	"testing"
	"time"

	examiner "vfix.dev/vfix/host/oldexaminer"
	"vfix.dev/vfix/host/policy"
)

// The confined process is this program, called by another name.
func TestMain(m *testing.M) {
	if os.Args[0] == examiner.Name {
		os.Exit(examiner.Main())
	}
	os.Exit(m.Run())
}

func examinerOf(t *testing.T) *examiner.Pool {
	t.Helper()
	return &examiner.Pool{Memory: policy.DefaultMemoryBytes, Until: time.Now().Add(time.Minute)}
}
