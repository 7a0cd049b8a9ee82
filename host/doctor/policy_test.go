package doctor

import (
	"errors"
	"testing"

	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/host/starts"
)

func TestPolicy(t *testing.T) {
	for _, row := range []struct {
		source starts.Source
		config policy.Config
		want   Verdict
		words  []string
	}{
		{starts.FromFile, policy.Config{}, OK, []string{"start as they are", "!line 3"}},
		{starts.FromFile, policy.Config{FailClosed: true}, OK, []string{"do not start"}},
		{starts.FromFile, policy.Config{FailClosed: true, Runtime: "/usr/bin/runsc"}, Fail, []string{"runsc"}},
		{starts.Defaults, policy.Config{}, OK, []string{"no /etc/vfix/runtime.json"}},
		{starts.LastGood, policy.Config{}, Warn, []string{"line 3", "correct /etc/vfix/runtime.json"}},
		{starts.ClosedDefault, policy.Config{FailClosed: true}, Fail, []string{"line 3", "do not start"}},
	} {
		p := policy.InForce{Config: row.config, Source: row.source, Path: "/etc/vfix/runtime.json", Err: errors.New("line 3")}
		c := Check{Name: Policy}
		checkPolicy(&examination{Options: Options{Policy: func() policy.InForce { return p }}}, &c)
		if expect(t, c, row.want, row.words...); (c.Do != "") != (row.want != OK) {
			t.Errorf("%s: got the advice %q", row.source, c.Do)
		}
	}
}
