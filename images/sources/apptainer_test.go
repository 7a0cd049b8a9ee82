package sources_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/jsonobject"
	"vfix.dev/vfix/tests/imagetest"
)

// sh runs a script, and returns its output without the last line break.
func sh(t *testing.T, script string, env []string, args ...string) string {
	t.Helper()
	c := exec.Command("/bin/sh", append([]string{imagetest.Write(t, t.TempDir()+"/script", []byte(script))}, args...)...)
	c.Env = env
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s\n%s", err, out, script)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// The runscript executes entrypoint and command as an engine does; arguments take the place of the command, and a shell evaluates
// them unless the caller says otherwise.
func TestRunscript(t *testing.T) {
	print := []string{"/usr/bin/printf", "[%s]"}
	odd := []string{`a b`, `'`, `"`, `\`, "`x`", `$HOME`, `*`, ``}
	const oddOut = "[a b]['][\"][\\][`x`][$HOME][*][]"
	for _, c := range []struct {
		name            string
		entrypoint, cmd []string
		args            []string
		want, unvalued  string // with an eval, and without
	}{
		{"entrypoint and command", print, odd, nil, oddOut, oddOut},
		{"entrypoint alone", append(append([]string{}, print...), odd...), nil, nil, oddOut, oddOut},
		{"command alone", nil, append(append([]string{}, print...), odd...), nil, oddOut, oddOut},
		{"arguments", print, odd, []string{"x y", "$((1+1))"}, "[x y][2]", "[x y][$((1+1))]"},
		{"arguments behind the entrypoint", append(append([]string{}, print...), "first"), odd, []string{"x"}, "[first][x]", "[first][x]"},
		{"arguments for a command", nil, []string{"/bin/false"}, append(append([]string{}, print...), "x"), "[x]", "[x]"},
	} {
		script := sources.Runscript(v1.Config{Entrypoint: c.entrypoint, Cmd: c.cmd})
		if got := sh(t, script, nil, c.args...); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
		if got := sh(t, script, []string{"SINGULARITY_NO_EVAL=1"}, c.args...); got != c.unvalued {
			t.Errorf("%s, without eval: got %s, want %s", c.name, got, c.unvalued)
		}
	}
}

// The config's environment is set, except for what the caller has set and names that a shell cannot set; PATH in any case.
func TestImageEnv(t *testing.T) {
	script := sources.ImageEnv(v1.Config{Env: []string{"PATH=/a:/b", "A=1 $x '", "B=2", "C", "no-name=3", "1=4", "_x9=5"}})
	if !strings.HasPrefix(script, "#!/bin/sh\n") {
		t.Errorf("got %s", script)
	}
	got := sh(t, script+`/usr/bin/printf '%s|' "$PATH" "$A" "$B" "$C" "$_x9"; /usr/bin/env | /usr/bin/sort | /bin/grep -c -e '^A=' -e '^C='`, []string{"PATH=/usr/bin:/bin", "B=of the caller"})
	if want := "/a:/b|1 $x '|of the caller||5|2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Files that are added to what an image has.
func TestApptainerFiles(t *testing.T) {
	const usual = ".exec .run .shell .test environment singularity etc/hosts etc/resolv.conf " +
		".singularity.d/actions/exec .singularity.d/actions/run .singularity.d/actions/shell .singularity.d/actions/start .singularity.d/actions/test " +
		".singularity.d/env/10-docker2singularity.sh .singularity.d/env/90-environment.sh .singularity.d/env/99-base.sh .singularity.d/env/99-runtimevars.sh " +
		".singularity.d/runscript .singularity.d/startscript .singularity.d/Singularity .singularity.d/labels.json"
	const dirs = ".singularity.d/ .singularity.d/actions/ .singularity.d/env/ .singularity.d/libs/ dev/ etc/ home/ proc/ root/ sys/ tmp/ var/ var/tmp/ "
	runscript := imagetest.FileM(".singularity.d/runscript", []byte("#!/bin/sh\n"))
	without := func(all string, names ...string) string {
		for _, n := range names {
			all = strings.Replace(" "+all+" ", " "+n+" ", " ", 1)
		}
		return strings.Join(strings.Fields(all), " ")
	}
	own := v1.Config{Entrypoint: []string{"/.singularity.d/runscript"}}
	for _, c := range []struct {
		name    string
		members []imagetest.TestMember
		config  v1.Config
		want    string // "" for an error
		kept    bool   // those of an image that Apptainer made
	}{
		{"nothing", nil, v1.Config{}, dirs + usual, false},
		{"directories", []imagetest.TestMember{imagetest.DirM("dev"), imagetest.DirM("var"), imagetest.DirM("etc")}, v1.Config{}, without(dirs+usual, "dev/", "var/", "etc/"), false},
		{"files in their place", []imagetest.TestMember{imagetest.FileM("var", nil), imagetest.FileM("etc", nil)}, v1.Config{}, without(dirs+usual, "var/", "var/tmp/", "etc/", "etc/hosts", "etc/resolv.conf"), false},
		{"hosts", []imagetest.TestMember{imagetest.FileM("etc/hosts", nil)}, v1.Config{}, without(dirs+usual, "etc/", "etc/hosts"), false},
		{"a file of a link's name", []imagetest.TestMember{imagetest.FileM("environment", nil)}, v1.Config{}, without(dirs+usual, "environment"), false},
		{"a symlink of a link's name", []imagetest.TestMember{imagetest.SymM("environment", "elsewhere")}, v1.Config{}, dirs + usual, false},
		{"the link itself", []imagetest.TestMember{imagetest.SymM("environment", ".singularity.d/env/90-environment.sh")}, v1.Config{}, without(dirs+usual, "environment"), false},
		{"of Apptainer", []imagetest.TestMember{runscript, imagetest.SymM("environment", "elsewhere")}, own,
			without(dirs+usual, ".singularity.d/", "environment", ".singularity.d/runscript", ".singularity.d/env/10-docker2singularity.sh", ".singularity.d/Singularity", ".singularity.d/labels.json"), true},
		{"of Apptainer, without a command", []imagetest.TestMember{runscript}, v1.Config{},
			without(dirs+usual, ".singularity.d/", ".singularity.d/runscript", ".singularity.d/env/10-docker2singularity.sh", ".singularity.d/Singularity", ".singularity.d/labels.json"), true},
		{"of Apptainer, with another entrypoint", []imagetest.TestMember{runscript}, v1.Config{Entrypoint: []string{"/x"}}, without(dirs+usual, ".singularity.d/"), false},
		{"the entrypoint of Apptainer alone", nil, own, dirs + usual, false},
		{"a file", []imagetest.TestMember{imagetest.FileM(".singularity.d", nil)}, v1.Config{}, "", false},
	} {
		tree, err := imagetest.TestSession(t).Image(t.Context(), imagetest.Stack(t, c.members))
		if err != nil {
			t.Fatal(err)
		}
		like := contents.Meta{UID: 3, GID: 4, Mtime: time.Unix(5, 0)}
		extras, metadata, err := sources.ApptainerFiles(tree, &v1.ConfigFile{Config: c.config}, like)
		if err != nil || c.want == "" {
			if (err == nil) != (c.want != "") {
				t.Errorf("%s: got %v", c.name, err)
			}
			continue
		}
		var names []string
		for _, e := range extras {
			names = append(names, e.Name)
			mode := uint32(0o755)
			switch {
			case e.Link != "":
				mode = 0o777
			case strings.HasPrefix(e.Name, "etc/") && e.Name != "etc/", strings.HasSuffix(e.Name, "/Singularity"), strings.HasSuffix(e.Name, "/labels.json"):
				mode = 0o644
			}
			if e.Like.Mode != mode || e.Like.UID != 3 || e.Like.GID != 4 || !e.Like.Mtime.Equal(like.Mtime) {
				t.Errorf("%s: %s: got %+v", c.name, e.Name, e.Like)
			}
			if len(e.Body) == 0 == strings.HasPrefix(e.Name, ".singularity.d/") && !strings.HasSuffix(e.Name, "/") {
				t.Errorf("%s: %s: got %q", c.name, e.Name, e.Body)
			}
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: got\n%s, want\n%s", c.name, got, c.want)
		}
		want := fmt.Sprintf(`{"data":{"attributes":{"deffile":"definition","environment":{"/.singularity.d/env/10-docker2singularity.sh":"#!/bin/sh","/.singularity.d/env/90-environment.sh":"#!/bin/sh"},"labels":{"a":"b"},"runscript":%s,"startscript":"#!/bin/sh"}},"type":"container"}`,
			imagetest.Must[[]byte](t)(jsonobject.Encode(strings.TrimSuffix(sources.Runscript(c.config), "\n"))))
		if c.kept {
			want = ""
		}
		if string(metadata) != want {
			t.Errorf("%s: got metadata\n%s, want\n%s", c.name, metadata, want)
		}
	}
}
