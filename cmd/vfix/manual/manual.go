// Package manual makes man pages from the commands and the texts of vfix help. Their date is
// SOURCE_DATE_EPOCH. Only the program that installs them needs it; vfix is built without.
package manual

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

const manual = "vfix manual"

// pageDate is SOURCE_DATE_EPOCH (https://reproducible-builds.org/specs/source-date-epoch/).
func pageDate() time.Time {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		panic("SOURCE_DATE_EPOCH: " + err.Error())
	}
	return time.Unix(seconds, 0).UTC()
}

// seeTopic is how help texts refer to a topic or a verb.
var seeTopic = regexp.MustCompile(`'vfix help ([a-z-]+)'`)

// Command is the page of a command in section 1: what cobra makes of it, with the exit statuses before
// the examples and, at the end, the topics that its help refers to.
func Command(cmd *cobra.Command, help, status, version string, topics []string) ([]byte, error) {
	cmd.DisableAutoGenTag, cmd.DisableFlagsInUseLine = true, true
	refer := seeTopic.FindAllStringSubmatch(help, -1)
	if !cmd.HasParent() {
		cmd.Use = "vfix VERB [options] ..."
	}
	cmd.Long = toMarkdown(cmd.Long)
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	var b bytes.Buffer
	date := pageDate()
	header := doc.GenManHeader{Title: strings.ToUpper(name), Section: "1", Date: &date, Source: "vfix " + version, Manual: manual}
	if err := doc.GenMan(cmd, &header, &b); err != nil {
		return nil, err
	}
	page := b.String()
	if status != "" {
		at := len(page)
		for _, section := range []string{"\n.SH SEE ALSO", "\n.SH EXAMPLE"} {
			if i := strings.Index(page, section); i >= 0 {
				at = i + 1
			}
		}
		page = page[:at] + ".SH EXIT STATUS\n" + verbatim(status) + page[at:]
	}
	for _, m := range refer {
		if reference := "\\fBvfix-" + m[1] + "(7)\\fP"; slices.Contains(topics, m[1]) && !strings.Contains(page, reference) {
			page = strings.TrimRight(page, "\n") + ", " + reference + "\n"
		}
	}
	return []byte(page), nil
}

// Topic is the page of a text of vfix help in section 7.
func Topic(name, short, text, version string) []byte {
	head := fmt.Sprintf("%% \"VFIX-%s\" \"7\" \"%s\" \"vfix %s\" \"%s\"\n# NAME\nvfix-%s \\- %s\n\n",
		strings.ToUpper(name), pageDate().Format("Jan 2006"), version, manual, name, short)
	return append(md2man.Render([]byte(head)), ".SH DESCRIPTION\n"+verbatim(text)...)
}

// toMarkdown makes Markdown of a help text: what is indented there is code.
func toMarkdown(text string) string {
	var b strings.Builder
	code := false
	for line := range strings.Lines(strings.Trim(text, "\n") + "\n") {
		indented := strings.HasPrefix(line, "  ")
		if indented != code && strings.TrimSpace(line) != "" {
			b.WriteString(map[bool]string{true: "\n```\n", false: "```\n\n"}[indented])
			code = indented
		}
		if !code {
			line = special.ReplaceAllString(line, `\$0`)
		}
		b.WriteString(line)
	}
	if code {
		b.WriteString("```\n")
	}
	return b.String()
}

// special are the characters that Markdown would take for its own.
var special = regexp.MustCompile("[\\\\`*_<>#\\[\\]]")

// ellipsis says what stands for … where the output is ASCII, for which groff knows nothing.
const ellipsis = ".fchar \\[u2026] ...\n"

// verbatim is text in roff, line by line as it is.
func verbatim(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "^", `\(ha`, "~", `\(ti`, "`", `\(ga`).Replace(strings.Trim(text, "\n"))
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return ellipsis + ".nf\n" + strings.Join(lines, "\n") + "\n.fi\n"
}
