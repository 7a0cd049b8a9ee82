package manual

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func golden(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Readers of man pages complain about tabs and long lines in text, about dates that are not ISO's, and about requests
// of one of them alone.
func TestPages(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	root := &cobra.Command{Use: "vfix", Short: "x"}
	cmd := &cobra.Command{
		Use: "scan [options] SOURCE", Short: "look…", Run: func(*cobra.Command, []string) {},
		Long: "One 'word' - and " + strings.Repeat("more words ", 20) + "end. See 'vfix help sources' or 'vfix help none'.\n\n.see 'vfix help sources'\n\n'vfix x'\n\n  .code\n  as it is", Example: "  vfix scan x",
	}
	cmd.Flags().BoolP("quiet", "q", false, "print `nothing` "+strings.Repeat("at all ", 20))
	cmd.Flags().String("format", "table", "in this `FORMAT`")
	cmd.Flags().Bool("secret", false, "x")
	_ = cmd.Flags().MarkHidden("secret")
	root.AddCommand(cmd, &cobra.Command{Use: "pause", Hidden: true, Run: func(*cobra.Command, []string) {}})
	page := string(Command(cmd, cmd.Long, "  0  done", "1.0", []string{"sources"}))
	for _, want := range []string{
		`.TH VFIX\-SCAN 1 2023-11-14 "vfix 1.0" "vfix manual"`, `vfix\-scan \- look...`, "\n.B vfix scan [options] SOURCE\n",
		`\fB\-q\fR, \fB\-\-quiet\fR` + "\n", `\fB\-\-format\fR=\fIFORMAT\fR` + "\n", ".nf\n  .code\n  as it is\n.fi\n",
		".BR vfix (1),\n.BR vfix\\-sources (7)\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	for _, no := range []string{"\t", "=false", "secret", "none (7)", "…"} {
		if strings.Contains(page, no) {
			t.Errorf("%q in\n%s", no, page)
		}
	}
	for line := range strings.Lines(page) {
		if len(line) > 80 {
			t.Errorf("%d bytes: %s", len(line), line)
		}
	}
	all := string(Command(root, "", "", "1.0", nil))
	const whole = "testdata/pages.txt"
	if got := page + all + string(Topic("sources", "what to read…", "One.\n\n  two", "1.0")); golden(t, whole) != got {
		t.Errorf("got\n%s\nwant %s", got, whole)
	}
	if strings.Contains(all, "pause") || !strings.Contains(all, "scan (1)") {
		t.Errorf("got %s", all)
	}
}
